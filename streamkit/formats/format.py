"""A format of values: its name, its schema, and its settings, as topics, plans and connectors carry it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from streamkit.errors import ConfigError, SchemaError
from streamkit.schema import Schema

FORMATS = ("json", "avro", "protobuf", "csv", "string", "bytes", "kafka", "delimited", "ksql_json")
OF_KSQLDB = ("kafka", "delimited", "ksql_json")  # their values leave out the columns of the key
WITH_REGISTRY = ("json", "avro", "protobuf")
REGISTRY = "schema.registry."
REGISTRY_URL = "schema.registry.url"
SUBJECT_STRATEGY = "subject.name.strategy"
AUTO_REGISTER = "auto.register.schemas"
USE_LATEST = "use.latest.version"
COMPATIBILITY = "schema.compatibility"
MESSAGE = "message"
DELIMITER = "delimiter"
UNWRAPPED = "unwrapped"
NULLS = "nulls"
WINDOW = "window"
OF_KEYS = "key."  # begins settings of the keys, in a format whose keys have one of their own
KEY_FORMAT, KEY_SCHEMA = f"{OF_KEYS}format", f"{OF_KEYS}schema"
MODES = ("BACKWARD", "FORWARD", "FULL", "NONE", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE")
STRATEGIES = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
REGISTRY_SETTINGS = {
    REGISTRY_URL: "where the registry is",
    "schema.registry.basic.auth.user.info": "user:password",
    "schema.registry.bearer.auth.token": "a token in place of a password",
    "schema.registry.ssl.ca.location": "the certificates of the authorities that the registry's certificate must come from",
    "schema.registry.ssl.certificate.location": "the client's certificate",
    "schema.registry.ssl.key.location": "the client's key",
    "schema.registry.timeout.ms": "how many milliseconds an answer may take",
    "schema.registry.retries": "how often a request is tried again",
}
SETTINGS = {
    **REGISTRY_SETTINGS,
    SUBJECT_STRATEGY: f"one of {', '.join(STRATEGIES)}",
    AUTO_REGISTER: "whether a schema that the registry lacks is registered: true or false",
    USE_LATEST: "whether values are written under the newest schema that the registry has: true or false",
    COMPATIBILITY: f"one of {', '.join(MODES)}",
    MESSAGE: "the message of a Protobuf file that values are; the first unless given",
    DELIMITER: "the character between the values of CSV",
    UNWRAPPED: "whether a value is that of its one column, without an object around it: true or false",
    NULLS: "defaults, if null is written as nothing in Protobuf, which is read as the default of its type",
    WINDOW: "the windows behind keys: their length in milliseconds, or session",
}
OF_WRITERS = (
    *REGISTRY_SETTINGS,
    SUBJECT_STRATEGY,
    AUTO_REGISTER,
    USE_LATEST,
    COMPATIBILITY,
    MESSAGE,
)  # the topic's, where a writer says none
OF_KEY_SETTINGS = {
    KEY_FORMAT: "the format of keys, for those who read them without columns",
    KEY_SCHEMA: "the columns of keys, for those who read them without columns",
    f"{OF_KEYS}{DELIMITER}": "the delimiter of keys",
    f"{OF_KEYS}{UNWRAPPED}": "whether a key is that of its one column",
    f"{OF_KEYS}{WINDOW}": "the windows behind keys",
}
_SECRETS = ("schema.registry.basic.auth.user.info", "schema.registry.bearer.auth.token")
_PLACEHOLDER = re.compile(r"\$\{env:([^{}]+)\}")
_PASSWORD = re.compile(r"://[^/@\s]*@")
Schemas: TypeAlias = "str | Mapping[str, Any] | Sequence[Any]"


@dataclass(frozen=True)
class Format:
    """
    A format by its name; `schema` is Avro's or JSON's as JSON text, the text of a .proto file, or the columns of CSV.

    `topic` is the one whose subject a registry has the schemas under. `earlier` are the schemas that an Avro topic had before, the first
    one first.
    """

    name: str
    schema: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    topic: str = ""
    earlier: tuple[str, ...] = ()

    def to_json(self) -> list[Any]:
        """The format as plain lists and texts."""
        found = [self.name, self.schema, [list(pair) for pair in self.settings], self.topic, list(self.earlier)]
        return found if self.settings or self.topic or self.earlier else found[:2]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Format:
        """The inverse of `to_json`; formats from before settings have only a name and a schema."""
        name, schema = value[:2]
        if len(value) == 2:
            return cls(name, schema)
        return cls(name, schema, tuple((key, one) for key, one in value[2]), value[3], tuple(value[4]))

    def setting(self, name: str, default: str = "") -> str:
        """The value of a setting as it is meant: `${env:NAME}` in it stands for an environment variable."""
        return _PLACEHOLDER.sub(_environment, dict(self.settings).get(name, default))

    @property
    def has_registry(self) -> bool:
        """Whether values are in the wire format of a registry, which knows their schemas."""
        return any(name == REGISTRY_URL for name, _ in self.settings)

    def under_its_own(self) -> Format:
        """The format of values that are written under its own schema, whatever the newest is."""
        return replace(self, settings=tuple(pair for pair in self.settings if pair[0] != USE_LATEST))

    def without_registry(self) -> Format:
        """The format as values of it are without a registry, whose schema says all of them."""
        of_registry = (*REGISTRY_SETTINGS, SUBJECT_STRATEGY, AUTO_REGISTER, USE_LATEST)
        return replace(self, settings=tuple(pair for pair in self.settings if pair[0] not in of_registry))


def format_of(name: str | None, schema: str | None, settings: Mapping[str, Any] | None) -> Format:
    """The format of that name with its settings, both checked; ConfigError says what there is. The schema is not looked at."""
    name = "json" if name in ("json_schema", "jsonschema") else name
    if name not in FORMATS:
        raise ConfigError(f"there is no format {name!r}; expected one of {', '.join(FORMATS)}")
    given = {key: key_columns(_text(value)) if key == KEY_SCHEMA else _text(value) for key, value in (settings or {}).items()}
    found = Format(name, schema, tuple(sorted(given.items())))
    for key, value in found.settings:
        _check(found, key, value)
    return found


def check_no_secrets(format: Format) -> Format:
    """The format, which will be on record; ConfigError if a secret of it would be."""
    for key, value in format.settings:
        is_secret = key in _SECRETS or (key == REGISTRY_URL and _PASSWORD.search(value))
        if is_secret and not _PLACEHOLDER.search(value):
            raise ConfigError(f"{key} would be on record where all can read it; expected ${{env:NAME}} in place of the secret")
    return format


def without_password(url: str) -> str:
    """An address as messages show it."""
    return _PASSWORD.sub("://", url)


def key_columns(text: str) -> str:
    """The columns of a key in the one form in which they are compared; a text that says none is left as it is."""
    try:
        return Schema.parse(text, keeps_case=True).ddl()
    except SchemaError:
        return text


def key_settings(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of keys among those of a format, as their own format has them."""
    own = (KEY_FORMAT, KEY_SCHEMA)
    return {
        name.removeprefix(OF_KEYS): value
        for name, value in (settings or {}).items()
        if name.startswith(OF_KEYS) and name not in own
    }


def _check(format: Format, key: str, value: str) -> None:
    if key in OF_KEY_SETTINGS:
        return
    if key not in SETTINGS:
        raise ConfigError(f"a format has no setting {key!r}; it has {', '.join(SETTINGS)}")
    if key.startswith(REGISTRY) and format.name not in WITH_REGISTRY:
        raise ConfigError(f"the format {format.name} has no schemas, so {key} has no use; expected {', '.join(WITH_REGISTRY)}")
    if key == SUBJECT_STRATEGY and value.rpartition(".")[2] not in STRATEGIES:
        raise ConfigError(f"{key}={value!r}; expected {SETTINGS[key]}")
    if key == COMPATIBILITY and value not in MODES:
        raise ConfigError(f"{key}={value!r}; expected {SETTINGS[key]}")
    if key == NULLS and (value != "defaults" or format.name != "protobuf"):
        raise ConfigError(f"{key}={value!r} of {format.name}; expected {key}='defaults' of protobuf, or none")
    if key in (AUTO_REGISTER, USE_LATEST) and value not in ("true", "false"):
        raise ConfigError(f"{key}={value!r}; expected {SETTINGS[key]}")
    if key == DELIMITER and (len(value) != 1 or value in '"\r\n' or not value.isascii()):
        raise ConfigError(f"{key}={value!r}; expected one character of ASCII, such as ; or |, which is no quote and no line end")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _environment(found: re.Match[str]) -> str:
    if found[1] not in os.environ:
        raise ConfigError(f"found {found[0]}, but there is no environment variable {found[1]}")
    return os.environ[found[1]]
