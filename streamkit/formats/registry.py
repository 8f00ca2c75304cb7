"""
The client of a schema registry that speaks Confluent's API.

What speaks HTTP is imported by the first request: every process that StreamKit starts imports this file, and few ask a registry.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
import urllib.parse
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from streamkit.errors import ConfigError, RegistryUnavailableError, SchemaError
from streamkit.formats.format import REGISTRY_SETTINGS, REGISTRY_URL, Format, without_password

if TYPE_CHECKING:
    import ssl
    import urllib.error

SCHEMAS_KEPT = 1_000
TYPES = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
_TIMEOUT_MS, _RETRIES = "10000", "4"
_FIRST_WAIT_SECONDS = 0.2
_LOGGER = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True)
class SchemaReference:
    """A schema that another one imports, by the name under which it does."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Registered:
    """A schema as the registry has it."""

    id: int
    type: str
    text: str
    references: tuple[SchemaReference, ...] = ()


class Registry:
    """
    A registry at an address. What it said of an id is kept, since ids do not change: up to a thousand schemas.

    A request that fails for now is tried again; then RegistryUnavailableError. ConfigError if it refuses the user.
    """

    def __init__(self, settings: dict[str, str]) -> None:
        self.urls = [url.strip().rstrip("/") for url in settings[REGISTRY_URL].split(",") if url.strip()]
        self._settings = settings
        self._timeout = int(settings.get("schema.registry.timeout.ms", _TIMEOUT_MS)) / 1_000
        self._retries = int(settings.get("schema.registry.retries", _RETRIES))
        self._known: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()
        if not self.urls or any(not url.startswith(("http://", "https://")) for url in self.urls):
            raise ConfigError(f"{REGISTRY_URL}={without_password(settings[REGISTRY_URL])!r}; expected http://… or https://…")

    @property
    def shown(self) -> str:
        """The address as messages have it."""
        return without_password(self.urls[0])

    def schema(self, schema_id: int) -> Registered:
        """The schema of an id; SchemaError if there is none."""
        return self._kept(("id", schema_id), lambda: _registered(schema_id, self._asked("GET", f"/schemas/ids/{schema_id}")))

    def latest(self, subject: str) -> Registered:
        """The newest schema of a subject; SchemaError if it has none."""
        found = self._asked("GET", f"/subjects/{_quoted(subject)}/versions/latest")
        return _registered(found["id"], found)

    def newest(self, subject: str) -> Registered | None:
        """The newest schema of a subject; None if it has none."""
        try:
            return self.latest(subject)
        except _MissingError:
            return None

    def has(self, subject: str, type: str, text: str) -> bool:
        """Whether a subject has a schema, among all of its versions."""
        with self._lock:
            if ("text", subject, type, text, True) in self._known:
                return True
        try:
            self.id_of(subject, type, text, register=False)
        except _MissingError:
            return False
        return True

    def versions(self, subject: str) -> list[int]:
        """The numbers of all versions of a subject, the oldest first; none if there is no such subject."""
        try:
            return sorted(self._asked("GET", f"/subjects/{_quoted(subject)}/versions"))
        except _MissingError:
            return []

    def version(self, subject: str, version: int) -> Registered:
        """A version of a subject; SchemaError if there is none."""

        def ask() -> Registered:
            found = self._asked("GET", f"/subjects/{_quoted(subject)}/versions/{version}")
            return _registered(found["id"], found)

        return self._kept(("version", subject, version), ask)

    def id_of(self, subject: str, type: str, text: str, register: bool, *, asks: bool = False) -> int:
        """
        The id of a schema under a subject, which gets it if `register`.

        SchemaError if the subject may not have it, with both schemas, or if it has it not and `register` is false. What is known `asks`
        again: somebody may have deleted the subject.
        """
        known = ("text", subject, type, text, register)
        if asks:
            with self._lock:
                self._known.pop(known, None)
        return self._kept(known, lambda: self._id_of(subject, type, text, register))

    def check_accepts(self, subject: str, type: str, text: str) -> None:
        """SchemaError, with both schemas, unless a subject has a schema in some version, or may get it; nothing is registered."""
        try:
            found = self._asked("POST", f"/compatibility/subjects/{_quoted(subject)}/versions?verbose=true", _body(type, text))
        except _RefusedSchemaError as refused:
            raise self._incompatible(subject, text, refused) from None
        except SchemaError:  # the subject has no schema yet, or the registry does not say: it will when it is to register
            return
        if not found.get("is_compatible", True) and not self.has(subject, type, text):
            raise self._incompatible(subject, text, "; ".join(found.get("messages") or ["incompatible"]))

    def set_compatibility(self, subject: str, mode: str) -> None:
        """Say which changes of its schema a subject takes."""
        self._asked("PUT", f"/config/{_quoted(subject)}", {"compatibility": mode})

    def keep_compatibility(self, subject: str, mode: str) -> None:
        """Say which changes of its schema a subject takes, once a process."""
        self._kept(("mode", subject, mode), lambda: self.set_compatibility(subject, mode))

    def compatibility(self, subject: str) -> str:
        """Which changes of its schema a subject takes."""
        for path in (f"/config/{_quoted(subject)}", "/config"):
            try:
                found: str = self._asked("GET", path)["compatibilityLevel"]
            except SchemaError:
                continue
            return found
        return "unknown"

    def _id_of(self, subject: str, type: str, text: str, register: bool) -> int:
        path = f"/subjects/{_quoted(subject)}{'/versions' if register else ''}"
        try:
            found: int = self._asked("POST", path, _body(type, text))["id"]
        except _RefusedSchemaError as refused:
            raise self._incompatible(subject, text, refused) from None
        return found

    def _incompatible(self, subject: str, text: str, refused: object) -> SchemaError:
        mode = self.compatibility(subject)
        try:
            there = self.latest(subject).text
        except SchemaError:  # it is refused for itself
            there = "no schema"
        return SchemaError(
            f"the registry {self.shown} refuses the schema for the subject {subject}, whose compatibility is {mode}: {refused}; expected columns or a "
            f"schema that it takes, or another compatibility of {subject} in the registry\n"
            f"  there: {there}\n"
            f"  asked for: {text}"
        )

    def _kept(self, key: Any, ask: Callable[[], T]) -> T:
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                found: T = self._known[key]
                return found
        found = ask()
        with self._lock:
            self._known[key] = found
            while len(self._known) > SCHEMAS_KEPT:
                self._known.popitem(last=False)
        return found

    def _asked(self, method: str, path: str, body: Any = None) -> Any:
        """The answer; each address is tried in turn, all of them again after a wait."""
        import http.client

        wait = _FIRST_WAIT_SECONDS
        for attempt in range(self._retries + 1):
            for url in self.urls:
                try:
                    return self._request(method, url, path, body)
                except (OSError, http.client.HTTPException) as error:
                    failure = error
            if attempt < self._retries:
                _LOGGER.warning(
                    "the schema registry %s does not answer: %s; tried again in %.1f s", self.shown, _said(failure), wait
                )
                time.sleep(wait)
                wait *= 2
        raise RegistryUnavailableError(
            f"the schema registry {self.shown} does not answer ({_said(failure)}), tried {self._retries + 1} times; "
            "expected it to run, and schema.registry.url to be right"
        )

    def _request(self, method: str, url: str, path: str, body: Any) -> Any:
        import urllib.error
        import urllib.request

        address, login = _split_login(url)
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address + path, data, self._headers(login), method=method)  # noqa: S310  # http or https: __init__
        try:
            with urllib.request.urlopen(request, timeout=self._timeout, context=self._context(address)) as answer:  # noqa: S310
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise self._refusal(error, path) from None
        except ValueError as error:
            raise ConfigError(f"{self.shown} is no schema registry: its answer to {path} is not JSON") from error

    def _refusal(self, error: urllib.error.HTTPError, path: str) -> Exception:
        said = _message(error)
        if error.code in (401, 403):
            return ConfigError(
                f"the schema registry {self.shown} refuses the user ({error.code}); look at schema.registry.basic.auth.user.info"
            )
        if error.code == 404:
            what = f"schema id {path.rpartition('/')[2]}" if path.startswith("/schemas/ids/") else path
            return _MissingError(f"the schema registry {self.shown} does not have {what}: {said}")
        if error.code in (409, 422):
            return _RefusedSchemaError(said)
        if error.code >= 500 or error.code in (408, 429):
            return ConnectionError(f"HTTP {error.code}: {said}")
        return SchemaError(f"the schema registry {self.shown} refuses {path} with {error.code}: {said}")

    def _headers(self, login: str | None) -> dict[str, str]:
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json", "Accept": "application/json"}
        user = self._settings.get("schema.registry.basic.auth.user.info", login)
        if user:
            headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        if token := self._settings.get("schema.registry.bearer.auth.token"):
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _context(self, url: str) -> ssl.SSLContext | None:
        if not url.startswith("https://"):
            return None
        import ssl

        context = ssl.create_default_context(cafile=self._settings.get("schema.registry.ssl.ca.location"))
        if certificate := self._settings.get("schema.registry.ssl.certificate.location"):
            context.load_cert_chain(certificate, self._settings.get("schema.registry.ssl.key.location"))
        return context


class _MissingError(SchemaError):
    """The registry does not have what it was asked for."""


class _RefusedSchemaError(SchemaError):
    """The registry does not take the schema."""


def registry_of(format: Format) -> Registry:
    """The registry of a format, one a process for equal settings."""
    return _registry(tuple((name, format.setting(name)) for name, _ in format.settings if name in REGISTRY_SETTINGS))


@lru_cache(maxsize=16)
def _registry(settings: tuple[tuple[str, str], ...]) -> Registry:
    return Registry(dict(settings))


def _registered(schema_id: int, found: Any) -> Registered:
    references = [SchemaReference(one["name"], one["subject"], one["version"]) for one in found.get("references") or ()]
    return Registered(schema_id, found.get("schemaType") or "AVRO", found["schema"], tuple(references))


def _body(type: str, text: str) -> dict[str, Any]:
    return {"schema": text} if type == "AVRO" else {"schema": text, "schemaType": type}


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _split_login(url: str) -> tuple[str, str | None]:
    """The address without `user:password@`, and that."""
    parts = urllib.parse.urlsplit(url)
    login, found, host = parts.netloc.rpartition("@")
    return urllib.parse.urlunsplit(parts._replace(netloc=host)), urllib.parse.unquote(login) if found else None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        found = json.loads(error.read())
        return " ".join(str(found.get("message", found)).split())[:2_000]
    except (ValueError, OSError, AttributeError):
        return str(error.reason)


def _said(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or error
    return str(reason) or type(error).__name__
