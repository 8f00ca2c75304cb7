"""
Where a log with its catalog on a server is: one URL, which is all that a program, a setting or an option needs.

    postgresql://user@host:5432/database?schema=orders&storage=/shared/orders

`schema` (`streamkit` unless given) holds the tables, so that several logs can share a database. `storage` is the directory
of the slabs on a file system that all hosts share; a host that mounts it elsewhere leaves it out of the URL and sets
`STREAMKIT_LOG_STORAGE`. Whatever else the URL says is libpq's: `sslmode`, `service`, `passfile`, several hosts …
A password is best kept in `~/.pgpass` or `PGPASSWORD`; one in the URL is used and never shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode

from streamkit.errors import ConfigError
from streamkit.log.database.location import absolute_folder

SCHEMES = ("postgresql", "postgres")  # libpq's
SCHEMA = "streamkit"
_SECRETS = ("password", "sslpassword")
_HOST = r"(\[[^\]@/]*\]|[^:/@,\[\]]*)(:\d+)?"
_SERVER = re.compile(rf"[a-z]+://([^@/]*@)?{_HOST}(,{_HOST})*(/[^/@]*)?")
_OPTION = re.compile(r"[a-z_]+")
_SCHEMA = re.compile(r"(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True)
class Address:
    """A log's URL, taken apart. `server` is libpq's part of it with its password, if there is one; `text` is all but that."""

    server: str = field(repr=False)
    schema: str
    storage: str
    text: str

    @property
    def has_password(self) -> bool:
        """Whether the URL has a password, which `text` leaves out."""
        return _without_secrets(self.server) != self.server


def is_address(location: str) -> bool:
    """Whether a location is a URL of a catalog on a server."""
    return location.partition("://")[0] in SCHEMES and "://" in location


def parse_address(url: str, storage: str = "") -> Address:
    """Take a URL apart; `storage` counts where it names none. ConfigError, which does not repeat the URL, if that cannot be."""
    base, _, query = url.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    if not _SERVER.fullmatch(base) or not all(_OPTION.fullmatch(name) for name, _ in options):
        raise ConfigError(
            "the URL of the catalog cannot be read: expected postgresql://user@host:port/database?schema=name&storage=/directory; "
            "in a password / ? # @ : % must be percent-encoded"
        )
    own = {name: value for name, value in options if name in ("schema", "storage")}
    server = _with_options(base, [(name, value) for name, value in options if name not in own])
    schema, root = own.get("schema", SCHEMA), _directory(own.get("storage") or storage)
    if not _SCHEMA.fullmatch(schema):
        raise ConfigError(
            f"the schema {schema!r} of a log cannot be used: expected up to 63 of a-z 0-9 _, not first a digit, nor "
            "pg_ or information_schema, which are the server's own"
        )
    return Address(server, schema, root, _with_own(_without_secrets(server), schema, root))


def _directory(storage: str) -> str:
    if not storage:
        raise ConfigError(
            "a log whose catalog is on a server needs a directory for its slabs, on a file system that all its hosts share: "
            "name it as ?storage=/shared/log in the URL, or set STREAMKIT_LOG_STORAGE"
        )
    return absolute_folder(storage, "storage directory")


def _with_options(base: str, options: list[tuple[str, str]]) -> str:
    return f"{base}?{urlencode(options, safe='/', quote_via=quote)}" if options else base


def _with_own(server: str, schema: str, storage: str) -> str:
    own = f"schema={schema}&storage={quote(storage, safe='/')}"
    return f"{server}{'&' if '?' in server else '?'}{own}"


def _without_secrets(server: str) -> str:
    base, _, query = server.partition("?")
    scheme, _, rest = base.partition("://")
    user, at, place = rest.rpartition("@")
    options = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name not in _SECRETS]
    return _with_options(f"{scheme}://{user.partition(':')[0]}{at}{place}", options)
