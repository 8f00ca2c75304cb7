"""How the bytes of a topic are read and written, as WITH says it, or as a result has it of what it comes of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamkit.data_type import entry_of, inner_types
from streamkit.errors import SchemaError
from streamkit.expressions.ksql.signature import has_times, ksql_type, without_times
from streamkit.expressions.times.datetime_patterns import PatternError, java_parsing_pattern
from streamkit.formats.codec import schema_made_of
from streamkit.formats.format import REGISTRY_URL
from streamkit.formats.protobuf_schema import protobuf_of_types, with_wrappers
from streamkit.plan.window_kinds.hopping import TimeWindow
from streamkit.plan.window_kinds.session import SessionWindow
from streamkit.plan.windows import WindowKind
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.lowering.scope import BOUNDS, bounds_in
from streamkit.sql.script.properties import KSQL_FORMATS, NATIVE, NONE, WITH_REGISTRY, TopicProperties

KAFKA, JSON, DELIMITED = "KAFKA", "JSON", "DELIMITED"
KAFKA_TYPES = ("int", "bigint", "double", "string", "binary")
WITH_SCHEMA = ("AVRO", "PROTOBUF", "PROTOBUF_NOSR")
NAMES_OF_SCHEMAS = ("VALUE_SCHEMA_FULL_NAME", "VALUE_AVRO_SCHEMA_FULL_NAME", "KEY_SCHEMA_FULL_NAME")
NULLS_IN_PROTOBUF = ("VALUE_PROTOBUF_NULLABLE_REPRESENTATION", "KEY_PROTOBUF_NULLABLE_REPRESENTATION")
INHERITED = ("VALUE_FORMAT", "KEY_FORMAT", "VALUE_DELIMITER", "KEY_DELIMITER")
Columns = Sequence[tuple[str, "str | None"]]


@dataclass(frozen=True)
class TopicFormat:
    """
    How the bytes of a topic are read and written; no value format is columns.

    `words` are the properties that say so in ksqlDB, which results have of what they come of. Records are written under the `times` of a
    column, whose texts have a pattern.
    """

    value: str | None = None
    key: str | None = None
    schema: str | None = None
    settings: Mapping[str, Any] | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    times: tuple[str, str | None] | None = None

    @property
    def sink_arguments(self) -> dict[str, Any]:
        """The arguments of verbs that write such topics."""
        if self.times is None or self.value is None:
            return self.arguments
        return {**self.arguments, "timestamp": self.times[0], "timestamp_format": self.times[1], "since_1970": True}

    @property
    def changes_rows(self) -> bool:
        """Whether rows may come back from their topic as others: nulls as texts, defaults or deletions, or under another time."""
        is_unwrapped = (self.settings or {}).get("unwrapped") == "true"
        return self.times is not None or is_unwrapped or self.value in ("kafka", "delimited", "protobuf")

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of verbs that read and write such topics."""
        if self.value is None:
            return {}
        found = {
            "value_format": self.value,
            "value_schema": self.schema,
            "format_settings": self.settings,
            "key_format": self.key,
        }
        return {name: value for name, value in found.items() if value is not None}

    @property
    def has_registry(self) -> bool:
        """Whether values are under schemas of a registry."""
        return self.registry is not None

    @property
    def registry(self) -> str | None:
        """The registry of the schemas of values."""
        return (self.settings or {}).get(REGISTRY_URL)

    @property
    def can_be_declared(self) -> bool:
        """Whether a topic of this format can be made before anything is written: without a registry Avro and Protobuf need a schema."""
        return self.schema is not None or self.has_registry or self.value not in ("avro", "protobuf")


def topic_format(properties: TopicProperties, registry: str | None, key_columns: int) -> TopicFormat:
    """The format of a topic, as WITH says it; keys of several columns are JSON unless it says more."""
    value = properties.value_format
    settings: dict[str, Any] = {}
    if value is not None and registry is not None and properties.uses_registry:
        settings[REGISTRY_URL] = registry
    if (delimiter := properties.delimiter) is not None:
        settings["delimiter"] = delimiter
    key = properties.key_format or ("json" if value is not None and key_columns > 1 else None)
    return TopicFormat(value, key, properties.value_schema, settings or None)


@dataclass(frozen=True)
class KsqlFormat:
    """
    The format of a topic as ksqlDB has it: what WITH does not say is as `inherited` says, and keys are KAFKA.

    `key` and `columns` are those of the topic, with their types; the bounds of a `window`, as `window_text` has it, are behind keys.
    `wraps_one_column` says whether a value of one column is an object that holds it, where WITH does not, and `default_key` the format of the key
    of a result whose source has none.
    """

    properties: TopicProperties
    registry: str | None
    key: tuple[str, ...]
    columns: Columns
    window: str | None = None
    inherited: Mapping[str, str] = field(default_factory=dict)
    wraps_one_column: bool = True
    default_key: str = KAFKA

    def found(self) -> TopicFormat:
        """The format; TopologyError for one that cannot hold the columns."""
        value = self.properties.ksql_format("VALUE_FORMAT") or self.inherited.get("VALUE_FORMAT", NATIVE)
        said = self.properties.ksql_format("KEY_FORMAT")
        key = said or self.inherited.get("KEY_FORMAT", KAFKA)
        key = self.default_key if said is None and key == NONE and self._keys else key
        if key == NONE and self._keys:
            raise self.properties.error(
                "KEY_FORMAT", f"NONE holds no key, and there is one: {self._keys[0][0]}; expected another format"
            )
        words = {"VALUE_FORMAT": value, "KEY_FORMAT": key if self._keys or self.properties.says_key_format else NONE}
        if value == NATIVE:
            return TopicFormat(words=words)
        self._check("VALUE_FORMAT", value, self._values)
        self._check("KEY_FORMAT", key, self._keys)
        settings, delimiters = self._settings(value, key)
        has_registry = self.registry is not None and value in WITH_REGISTRY
        if has_registry:
            settings[REGISTRY_URL] = str(self.registry)
        name = "json" if has_registry and value == "JSON_SR" else str(KSQL_FORMATS[value])
        needs_schema = value in WITH_SCHEMA or (has_registry and len(self._values) > 0)  # a JSON Schema has a column
        return TopicFormat(
            name,
            KSQL_FORMATS[key],
            self.properties.value_schema or (self._schema(value, name) if needs_schema else None),
            settings or None,
            {**words, **delimiters, **self._wrapping(settings), **({} if self.window is None else window_words(self.window))},
            self._times,
        )

    def _wrapping(self, settings: Mapping[str, str]) -> dict[str, str]:
        """What WITH would say of a value that is no object because SET says so."""
        is_by_default = "unwrapped" in settings and "WRAP_SINGLE_VALUE" not in self.properties.values
        return {"WRAP_SINGLE_VALUE": "false"} if is_by_default else {}

    def _schema(self, value: str, name: str) -> str | None:
        """The schema of values in a format of that name; those of Protobuf cannot tell null from nothing, unless WITH says so."""
        found: str | None
        try:
            if value.startswith("PROTOBUF"):
                found = protobuf_of_types([(name, type or "string") for name, type in self.columns if name not in self.key])
            else:
                columns = Schema(tuple(SchemaColumn(name, type) for name, type in self._values))
                found = schema_made_of(name, columns)
        except SchemaError as error:
            raise self.properties.error("VALUE_FORMAT", str(error)) from None
        if found is None or not value.startswith("PROTOBUF"):
            return found
        if self._writes_defaults(value):
            return found.replace(" optional ", " ")
        nullable = str(self.properties.words("VALUE_PROTOBUF_NULLABLE_REPRESENTATION"))
        return with_wrappers(found) if nullable.upper() == "WRAPPER" else found

    def _writes_defaults(self, value: str) -> bool:
        """Whether null is the default of its type in a format."""
        return value.startswith("PROTOBUF") and self.properties.words("VALUE_PROTOBUF_NULLABLE_REPRESENTATION") is None

    @property
    def _keys(self) -> list[tuple[str, str]]:
        types, bounds = dict(self.columns), bounds_in(self.key, self.columns)
        return [(name, without_times(types.get(name) or "string")) for name in self.key if name not in bounds]

    @property
    def _values(self) -> list[tuple[str, str]]:
        return [(name, without_times(type or "string")) for name, type in self.columns if name not in self.key]

    @property
    def _times(self) -> tuple[str, str | None] | None:
        """The column of the time under which records are written, and the pattern of its texts; TopologyError if it cannot say one."""
        name, pattern = self.properties.timestamp, self.properties.words("TIMESTAMP_FORMAT")
        if name is None:
            return None
        types = dict(self.columns)
        name = next((one for one in (name, name.upper()) if one in types), name)
        if name not in types:
            raise self.properties.error("TIMESTAMP", f"there is no column {name!r}; the columns are {', '.join(types)}")
        expected = ("string",) if pattern is not None else ("bigint", "timestamp")
        if types[name] not in expected:
            raise self.properties.error(
                "TIMESTAMP",
                f"{name} is {ksql_type(str(types[name]))}; expected BIGINT or TIMESTAMP, or VARCHAR with TIMESTAMP_FORMAT",
            )
        if pattern is not None:
            try:
                if not java_parsing_pattern(pattern).fields:
                    raise PatternError("it reads no part of a time")
            except PatternError as error:
                raise self.properties.error(
                    "TIMESTAMP_FORMAT",
                    f"TIMESTAMP_FORMAT is {pattern!r}: {error}; expected a pattern such as yyyy-MM-dd HH:mm:ss",
                ) from None
        return name, pattern

    def _settings(self, value: str, key: str) -> tuple[dict[str, str], dict[str, str]]:
        """The settings of the format, and the delimiters among them, as WITH has them."""
        settings: dict[str, str] = {}
        delimiters: dict[str, str] = {}
        for name, format, setting in (("VALUE_DELIMITER", value, "delimiter"), ("KEY_DELIMITER", key, "key.delimiter")):
            given = self.properties.words(name)
            given = given if given is not None else (self.inherited.get(name) if format == DELIMITED else None)
            if given is not None:
                if format != DELIMITED:
                    raise self.properties.error(
                        name, f"{name} is for {name.partition('_')[0]}_FORMAT = 'DELIMITED'; found {format}"
                    )
                settings[setting] = self.properties.delimiter_of(name, given)
                delimiters[name] = given
        self._check_names(value, key)
        if value.startswith("PROTOBUF"):  # of lists and maps nothing says that they are null, whatever WITH says of other columns
            settings["nulls"] = "defaults"
        wraps, has_registry = self.wraps_one_column, self.registry is not None
        if self.properties.is_unwrapped(value, len(self._values), wraps=wraps, has_registry=has_registry):
            settings["unwrapped"] = "true"
        if self._keys:
            settings["key.format"] = str(KSQL_FORMATS[key])
            settings["key.schema"] = Schema(tuple(SchemaColumn(name, type) for name, type in (*self._keys, *self._bounds))).ddl()
            if key in (JSON, "JSON_SR") and len(self._keys) == 1:
                settings["key.unwrapped"] = "true"
            if self.window is not None:
                settings["key.window"] = self.window
        elif value == "AVRO":
            settings["key.format"] = (
                "string"  # as without it, but who writes bytes has written them as they are, as in other formats
            )
        return settings, delimiters

    def _check_names(self, value: str, key: str) -> None:
        """TopologyError for what WITH says of a schema or of nulls to a format that has none of it."""
        for names, formats in ((NAMES_OF_SCHEMAS, WITH_REGISTRY), (NULLS_IN_PROTOBUF, ("PROTOBUF", "PROTOBUF_NOSR"))):
            for name in names:
                given, format = self.properties.words(name), key if name.startswith("KEY") else value
                if given is not None and format not in formats:
                    raise self.properties.error(name, f"{name} is for the formats {', '.join(formats)}; found {format}")
                if given is not None and names == NULLS_IN_PROTOBUF and given not in ("OPTIONAL", "WRAPPER"):
                    raise self.properties.error(name, f"{name} is {given!r}; expected OPTIONAL or WRAPPER")

    @property
    def _bounds(self) -> list[tuple[str, str]]:
        return [] if self.window is None else [(name, "timestamp") for name in BOUNDS]

    def _check(self, name: str, format: str, columns: Sequence[tuple[str, str]]) -> None:
        if format == NONE and name == "VALUE_FORMAT":
            raise self.properties.error(name, "NONE is a format of keys; expected another one of values")
        if format == NATIVE and len(columns) > 1:
            names = ", ".join(name for name, _ in columns)
            raise self.properties.error(
                name, f"NATIVE writes a key as one text, and these are {names}; expected JSON, or another format"
            )
        if format == KAFKA and len(columns) > 1:
            raise self.properties.error(
                name,
                f"the format of {'keys' if name == 'KEY_FORMAT' else 'values'} is KAFKA, which holds one column, and these are "
                f"{', '.join(one for one, _ in columns)}; expected {name} = 'JSON', or another format of several",
            )
        declared = dict(self.columns)
        for column, type in columns:
            if format == KAFKA and (type not in KAFKA_TYPES or has_times(declared.get(column) or "")):
                part = "keys" if name == "KEY_FORMAT" else "values"
                raise self.properties.error(
                    name,
                    f"the format of {part} is KAFKA, which holds INT, BIGINT, DOUBLE, STRING and BYTES; {column} is "
                    f"{ksql_type(declared.get(column) or type)}; expected {name} = 'JSON', or another format",
                )
            if format in (JSON, "JSON_SR") and (kinds := [one for one in _map_keys(type) if one != "string"]):
                raise self.properties.error(name, f"{format} holds maps with STRING keys; those of {column} are {kinds[0]}")
            if format == DELIMITED and ("<" in type):
                raise self.properties.error(name, f"DELIMITED holds no nested values; {column} is {type}")


def window_words(window: str) -> dict[str, str]:
    """The properties that say which windows are behind keys."""
    return (
        {"WINDOW_TYPE": "SESSION"}
        if window == "session"
        else {"WINDOW_TYPE": "TUMBLING", "WINDOW_SIZE": f"{window} MILLISECONDS"}
    )


def window_text(window: WindowKind | None) -> str | None:
    """How formats of keys say such windows: their length in milliseconds, or session."""
    if window is None:
        return None
    if isinstance(window, SessionWindow):
        return "session"
    assert isinstance(window, TimeWindow), "windows of keys have a length, or are sessions"
    return str(window.size_ms)


def _map_keys(type: str) -> list[str]:
    """The types of the keys of all maps in a type."""
    entry = entry_of(type)
    return [*([] if entry is None else [entry[0]]), *(key for inner in inner_types(type) for key in _map_keys(inner))]
