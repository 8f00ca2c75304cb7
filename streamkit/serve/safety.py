"""Who may ask: nobody from a web page of elsewhere, and where there is a token only who has it. What browsers may do with answers."""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address

from starlette.datastructures import Headers

from streamkit.connectors.request_origin import is_from_elsewhere
from streamkit.errors import ConfigError
from streamkit.serve.refusals import RefusedError, check_change

LOOPBACK = "127.0.0.1"
COOKIE = "streamkit_token"
TOKEN_LENGTH_MIN = 16
ANSWER_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Safety:
    """
    At which host it listens, and the digest of the token, if there is one.

    With a token any name may stand in `Host`: a page of elsewhere, under a name of its own, has neither the header nor the cookie.
    Only a server that `allows_changes` changes anything.
    """

    host: str = LOOPBACK
    digest: bytes | None = None
    allows_changes: bool = False

    @classmethod
    def of(cls, host: str, token_file: str | None, *, allows_changes: bool = False) -> Safety:
        """The safety of a server at a host; ConfigError for one that others can reach without a token, and for a file without a good one."""
        if token_file is None:
            if not is_loopback(host):
                raise ConfigError(
                    f"--host {host} can be reached by others, and no token was given; expected --token-file FILE, which holds a secret of "
                    f"{TOKEN_LENGTH_MIN} characters or more, or --host {LOOPBACK}"
                )
            return cls(host, None, allows_changes)
        return cls(host, _digest(_token_of(token_file)), allows_changes)

    def check(self, headers: Headers, *, is_open: bool) -> None:
        """RefusedError for a request that may not be answered; `is_open`: what is asked for, everybody may know."""
        hosts = {self.host} if self.digest is None else {self.host, *_named_host(headers)}
        if is_from_elsewhere(headers, hosts, has_pages=True):
            raise RefusedError(
                403,
                "Forbidden",
                "the Host or Origin of the request is another one than this server's",
                "use an IP address or localhost in the URL; pages of other servers are refused",
            )
        if self.digest is not None and not is_open and not any(self._is_token(text) for text in _tokens(headers)):
            raise RefusedError(
                401,
                "Unauthorized",
                "this server needs its token",
                "send the header Authorization: Bearer TOKEN; the token is in the file of --token-file",
                {"WWW-Authenticate": "Bearer"},
            )

    def check_change(self) -> None:
        """RefusedError unless changes are allowed."""
        check_change(allows_changes=self.allows_changes)

    def _is_token(self, text: str) -> bool:
        """Whether it is the token, in a time that does not tell how much of it is right."""
        return self.digest is not None and hmac.compare_digest(_digest(text), self.digest)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _token_of(path: str) -> str:
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token file {path!r} cannot be read: {error}") from error
    if len(token) < TOKEN_LENGTH_MIN or not token.isascii() or any(char.isspace() or not char.isprintable() for char in token):
        raise ConfigError(
            f"the token file {path!r} has no good token: expected one word of {TOKEN_LENGTH_MIN} characters or more in ASCII, as from: "
            "openssl rand -hex 32"
        )
    return token


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _tokens(headers: Headers) -> list[str]:
    """What the request has as a token: in its header, also as the password of whatever name, as clients of ksqlDB send it; in its cookie."""
    scheme, _, text = headers.get("Authorization", "").partition(" ")
    found = [text.strip()] if scheme.lower() == "bearer" else []
    if scheme.lower() == "basic":
        with suppress(ValueError):  # it is no base 64
            found = [b64decode(text.strip(), validate=True).decode("utf-8", "surrogateescape").partition(":")[2]]
    try:
        cookie = SimpleCookie(headers.get("Cookie", "")).get(COOKIE)
    except CookieError:
        cookie = None
    return found if cookie is None else [*found, cookie.value]


def _named_host(headers: Headers) -> set[str]:
    name = headers.get("Host", "")
    return {name.rpartition(":")[0] if name.rpartition(":")[2].isdigit() else name}
