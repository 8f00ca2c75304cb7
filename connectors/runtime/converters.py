"""Bytes as columns and columns as bytes, by a connector's settings `value.format`, `value.schema`, `key.format` and `schema.registry.*`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.chunks import one_array, one_batch
from streamkit.connectors.connector import Connector
from streamkit.connectors.newest import with_one_key
from streamkit.connectors.reserved_columns import reserved_columns
from streamkit.connectors.runtime.usable_formats import OF_ONE, check_readable, check_writable
from streamkit.connectors.sink import Sink
from streamkit.connectors.source import Source
from streamkit.errors import ConfigError, SchemaError
from streamkit.formats.codec import Codec, declare_format
from streamkit.formats.format import REGISTRY, REGISTRY_URL, WITH_REGISTRY, Format, format_of
from streamkit.log.log import Log
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, LOG_COLUMNS, ROW_NUMBER, TOPIC
from streamkit.plan.decoding import reads_by_names
from streamkit.schema import Schema, SchemaColumn

TableByTopic = dict[str, pa.Table]
_OWN = (*LOG_COLUMNS, TOPIC, ROW_NUMBER)
_SCHEMA = "schema"


@dataclass(frozen=True)
class Formats:
    """What a connector's settings say: the formats of value and key, and the columns that `value.schema` names."""

    value: Format | None
    columns: Schema | None
    key: Format | None
    key_columns: Schema | None = None  # of `key.schema`

    @property
    def has_columns(self) -> bool:
        """Whether the settings alone say what columns values have."""
        return self.columns is not None or (self.value is not None and (self.value.schema is not None or self.value.has_registry))


def formats_of(connector: Connector, topic: Format | None = None) -> Formats:
    """The formats that the settings name; those of an opaque `topic` stand for what they leave out. ConfigError for what does not fit."""
    try:
        return _formats_said(connector, topic)
    except SchemaError as error:  # of the settings' schemas, and of no record
        raise ConfigError(f"connector {connector.name}: {error}") from error


def _formats_said(connector: Connector, topic: Format | None) -> Formats:
    settings = connector.settings
    own = {name.removeprefix("format."): value for name, value in settings["value."].items()}
    schema = own.pop(_SCHEMA, None)
    registry = {f"{REGISTRY}{name}": value for name, value in settings["schema.registry."].items()}
    if registry and REGISTRY_URL not in registry:
        raise ConfigError(f"connector {connector.name}: found {', '.join(sorted(registry))} without {REGISTRY_URL}")
    name = settings["value.format"] or (topic.name if topic is not None else None)
    if name is None:
        if schema is not None or own:
            raise ConfigError(
                f"connector {connector.name}: found {', '.join(f'value.{one}' for one in own) or 'value.schema'} without value.format"
            )
        return Formats(None, None, _key_format(connector, registry), _key_columns_of(connector))
    name = format_of(name, None, None).name
    used = registry if name in WITH_REGISTRY else {}
    columns = Schema.parse(schema) if schema is not None and _is_columns(name, schema) else None
    text = None if columns is not None and name != "csv" else schema
    if topic is not None and topic.name == name and schema is None:
        value: Format | None = replace(topic, settings=tuple(sorted((dict(topic.settings) | used | own).items())))
    elif name in ("avro", "protobuf") and text is None and not used:
        found = "no schema" if columns is None else f"columns in SQL, {schema!r}, which Spark knows and {name} does not"
        raise ConfigError(
            f"connector {connector.name}: value.format={name} was given {found}; expected schema.registry.url, or value.schema with a schema "
            f"of {name}"
        )
    else:
        value = declare_format(name, text, used | own, on_record=False, needs_schema=False)
        if topic is not None and topic.schema is not None and topic.name == name and reads_by_names(value, topic):
            value = replace(value, earlier=(*topic.earlier, topic.schema))
    return Formats(value, columns, _key_format(connector, registry), _key_columns_of(connector))


def check_formats(connector: Connector) -> None:
    """
    ConfigError for formats by which no record is read or written, as far as the settings alone say it; nothing is connected to.

    What is wrong with them would else be said of each record, and leave all of them out where failures are tolerated.
    """
    is_raw = isinstance(connector, Source | Sink) and connector.IS_RAW
    if not is_raw and (connector.IS_SOURCE or connector.settings["value.format"] is None):
        return
    formats = formats_of(connector)
    if is_raw and not connector.IS_SOURCE:
        if formats.value is not None:
            check_writable(connector.name, Codec(formats.value, formats.columns))
        if formats.key is not None and formats.key_columns is not None:
            check_writable(connector.name, Codec(formats.key, formats.key_columns, part=KEY))
        return
    types = {column.name: column.type for column in (*(formats.columns or ()), *(formats.key_columns or ()))}
    names = tuple(connector.settings["key"]) if connector.IS_SOURCE else _keys_of_sink(connector)
    keys = Schema(tuple(SchemaColumn(one, types.get(one, "string")) for one in names))
    if formats.value is not None:
        columns = None if formats.columns is None else _columns_of_values(connector, formats.value, formats.columns, keys)
        check_readable(connector.name, Codec(formats.value, columns))
    if formats.key is not None:
        _check_keys(connector.name, formats.key, keys)


@cache
def _check_keys(connector: str, format: Format, keys: Schema) -> None:
    """ConfigError for a format by which no bytes become the columns of a key."""
    check_readable(connector, Codec(format, keys if len(keys) else None, part=KEY))


def _columns_of_values(connector: Connector, format: Format, declared: Schema, keys: Schema) -> Schema:
    """The columns that values have: of a format of one column, that which is not of the key. ConfigError if there are others."""
    if format.name not in OF_ONE or len(declared) == 1:
        return declared
    own = tuple(column for column in declared if column.name not in keys.names)
    if len(own) != 1:
        raise ConfigError(
            f"connector {connector.name}: value.format={format.name} has one column, and {', '.join(declared.names)} were "
            f"found; expected one beside those of the key{f', which are {chr(44).join(keys.names)}' if keys.names else ''}"
        )
    return Schema(own)


def decoder_of_source(connector: Connector, log: Log) -> SourceDecoder | None:
    """What makes columns of what a raw source polls; None if its settings name no format."""
    formats = formats_of(connector)
    return None if formats.value is None else SourceDecoder(connector, log, formats)


@dataclass(frozen=True, eq=False)
class SourceDecoder:
    """
    Columns of key and value bytes, by what a value is: the schema that wrote it, or `value.schema`.

    Where neither is known the columns are those of the topic, unless transforms stand between: then bytes stay bytes. So what a
    value becomes depends neither on what came before nor on when it is read.
    """

    connector: Connector
    log: Log
    formats: Formats

    def run(self, name: str, rows: pa.Table) -> TableByTopic | list[tuple[str, pa.Table]]:
        """The rows with columns in place of bytes, a table for each set of columns; SchemaError with `rows` for rows that do not decode."""
        if KEY not in rows.column_names or VALUE not in rows.column_names:
            return {name: rows}
        topic = self.log.topic(name) if name in self.log.topics() else None
        known = topic if self._is_of_values else None
        if topic is not None and topic.format is not None:
            return {name: rows}
        if self.formats.columns is None and not self.formats.has_columns and known is None:
            return {name: rows}
        subject = rows[TOPIC][0].as_py() if TOPIC in rows.column_names and rows.num_rows else name
        if self.formats.columns is not None or not self.formats.has_columns:
            declared = self.formats.columns if known is None or self.formats.columns is not None else known.schema
            assert declared is not None
            keys = self._keys(topic, declared, subject)
            assert self.formats.value is not None
            columns = _columns_of_values(self.connector, self.formats.value, declared, keys)
            return {name: decoded(rows, self._codec(subject, columns), keys, self.formats.key)}
        return [(name, part) for part in self._by_writer(rows, self._codec(subject, None), topic)]

    @property
    def _is_of_values(self) -> bool:
        """Whether the topic's columns are those of values: no transform makes others of them."""
        return self.connector.chain is None or self.connector.chain.keeps_columns

    def _by_writer(self, rows: pa.Table, codec: Codec, topic: Topic | None) -> list[pa.Table]:
        """The rows by the schemas that wrote them, each with its own columns; deletions have those of the key alone."""
        values = _binary(rows[VALUE])
        live = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        present = values.take(pa.array(live)) if values.null_count else values
        writers: list[tuple[Integers, Schema | SchemaError | None, Format]] = [
            (live[some], columns, format) for some, columns, format in codec.by_writer(present)
        ]
        if len(live) < len(values):
            writers.append((np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)), None, codec.format))
        parts, refused = [], dict[int, SchemaError]()
        for numbers, columns, format in writers:
            some = rows if len(numbers) == rows.num_rows else rows.take(pa.array(numbers))
            try:
                if isinstance(columns, SchemaError):
                    raise SchemaError(f"the value cannot be read: {columns}") from columns
                parts.append(self._part(some, codec, columns, format, topic))
            except SchemaError as error:
                refused |= {int(numbers[row]): error for row in error.rows or range(len(numbers))}
        if refused:
            first = refused[min(refused)]
            raise SchemaError(str(first), tuple(sorted(refused))) from first
        return parts

    def _part(self, rows: pa.Table, codec: Codec, columns: Schema | None, format: Format, topic: Topic | None) -> pa.Table:
        if columns is None:
            keys = self._keys(topic, codec.written if self._needs_types(topic) else None, codec.topic)
            return _deletions(rows, keys, self.formats.key, codec.topic) if len(keys) else decoded(rows, codec, None, None)
        found = self._fitted(columns, topic) if self._is_of_values and topic is not None else columns
        own = _codec(format, found, codec.topic, VALUE)
        return decoded(rows, own, self._keys(topic, found, codec.topic), self.formats.key)

    def _fitted(self, columns: Schema, topic: Topic) -> Schema:
        """The columns of JSON in the types of the topic, where JSON has none of that kind: times, bytes and decimals are texts there."""
        assert self.formats.value is not None
        if self.formats.value.name != "json":
            return columns
        types = {one.name: one.type for one in topic.schema}
        return Schema(tuple(replace(one, type=types[one.name]) if _is_written_as(one, types) else one for one in columns))

    def _keys(self, topic: Topic | None, columns: Schema | None, subject: str) -> Schema:
        """
        The key columns that are read: those of the setting `key`, else of the topic, unless transforms say what they are.

        Their types are those of `key.schema`, of the value, of the topic, of the key's schema in the registry; else text.
        """
        names = tuple(self.connector.settings["key"])
        makes_keys = self.connector.chain is not None and self.connector.chain.makes_keys
        if topic is not None and not names and self._is_of_values and not makes_keys:
            names = topic.key
        types = {column.name: column.type for column in columns or ()}
        if topic is not None and self._is_of_values:
            types = {column.name: column.type for column in topic.schema} | types
        if self.formats.key_columns is not None:
            types |= {column.name: column.type for column in self.formats.key_columns}
        if self.formats.key is not None and self.formats.key.has_registry and any(one not in types for one in names):
            types = _types_of_key(self.formats.key, subject, names) | types
        keys = Schema(tuple(SchemaColumn(one, types.get(one, "string")) for one in names))
        if self.formats.key is not None:
            _check_keys(self.connector.name, self.formats.key, keys)  # they may be the topic's
        return keys

    def _needs_types(self, topic: Topic | None) -> bool:
        """Whether the newest schema alone says which type the key of a deletion has."""
        return bool(self.connector.settings["key"]) and not (topic is not None and self._is_of_values)

    def _codec(self, subject: str, wanted: Schema | None) -> Codec:
        assert self.formats.value is not None
        return _codec(self.formats.value, wanted, subject, VALUE)


def _types_of_key(format: Format, subject: str, names: Sequence[str]) -> dict[str, str]:
    """The types of a key's columns as the registry has its schema; that of a key without columns is the one name's."""
    written = _codec(format, None, subject, KEY).written
    if len(written) == 1 and len(names) == 1:
        return {names[0]: written[written.names[0]].type}
    return {column.name: column.type for column in written}


def _key_columns_of(connector: Connector) -> Schema | None:
    """The columns that `key.schema` names."""
    text = connector.settings["key.schema"]
    return None if text is None else Schema.parse(text)


def _is_written_as(column: SchemaColumn, types: Mapping[str, str]) -> bool:
    """Whether JSON of a column's type is how a value of the topic's type is written."""
    kind = types.get(column.name, column.type)
    if kind.startswith("decimal"):
        return column.type in ("string", "double", "bigint")
    return column.type == "string" and kind in ("timestamp", "timestamp_ntz", "date", "binary")


def decoded(rows: pa.Table, codec: Codec, keys: Schema | None, key_format: Format | None) -> pa.Table:
    """
    Rows of bytes with columns in place of them.

    Key columns are those of the value where it has them, else of the key's bytes; with a `key_format` they are always the latter.
    """
    columns = codec.columns
    keys = Schema(tuple(replace(one, type=columns[one.name].type) if one.name in columns else one for one in keys or ()))
    names = [name for name in columns.names if key_format is None or name not in keys]
    arrays = dict(zip(names, _decoded(codec, _binary(rows[VALUE]), names).columns, strict=True))
    if len(keys):
        arrays |= _key_columns(arrays, _binary(rows[KEY]), keys, key_format, codec.topic)
    order = [name for name in keys.names if name not in columns] + list(columns.names)
    return _with_columns(rows, {name: arrays[name] for name in order})


def _deletions(rows: pa.Table, keys: Schema, key_format: Format | None, topic: str) -> pa.Table:
    """Deletions: rows with a key and without a value."""
    arrays = _key_columns({}, _binary(rows[KEY]), keys, key_format, topic) if len(keys) else {}
    return _with_columns(rows, arrays)


def _with_columns(rows: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Rows of bytes with these columns in place of them."""
    others = {name: rows[name] for name in rows.column_names if name not in (KEY, VALUE)}
    said = reserved_columns("the value", columns)
    if said:
        raise SchemaError(said, tuple(range(rows.num_rows)))
    return pa.table({**columns, **others})


def _key_columns(
    values: dict[str, pa.Array], bytes: pa.Array, keys: Schema, key_format: Format | None, topic: str
) -> dict[str, pa.Array]:
    """The columns of keys, of their bytes where the values have none: one is text, several are JSON, unless a format is given."""
    missing = [pc.is_null(values[name]) if name in values else pa.array([True] * len(bytes)) for name in keys.names]
    is_asked = missing[0]
    for one in missing[1:]:
        is_asked = pc.or_(is_asked, one)
    if not pc.any(is_asked).as_py():
        return {}
    chosen = key_format or _format_of_keys(keys)
    asked = pc.if_else(is_asked, bytes, pa.scalar(None, pa.binary()))
    bare = _bare_name(chosen, keys, topic)
    codec, read = (_codec(chosen, keys, topic, KEY), keys.names) if bare is None else (_codec(chosen, None, topic, KEY), [bare])
    found = _decoded(codec, asked, read, "key")
    pairs = zip(keys.names, found.columns, strict=True)
    return {name: pc.coalesce(values[name], array) if name in values else array for name, array in pairs}


def _bare_name(format: Format, keys: Schema, topic: str) -> str | None:
    """The name of the one column of a key that is no record, as its schema in the registry says; None of a record."""
    if not format.has_registry or format.schema is not None or len(keys) > 1:
        return None
    written = _codec(format, None, topic, KEY).written
    return written.names[0] if len(written) == 1 and written.names[0] not in keys else None


def topic_of_sink(connector: Connector, topic: Topic, is_raw: bool) -> Topic:
    """The topic as a sink sees it: with columns, where the values of an opaque one can be read."""
    codec = _codec_of_sink(connector, topic, is_raw)
    if codec is None:
        return topic
    columns = codec.columns
    known = {column.name: column.type for column in (*(_key_columns_of(connector) or ()), *columns)}
    keys = Schema(tuple(SchemaColumn(name, known.get(name, "string")) for name in _keys_of_sink(connector)))
    added = tuple(column for column in keys if column.name not in columns)
    schema = Schema((*added, *columns))
    return replace(topic, schema=schema, key=keys.names, partition_by=keys.names, format=None)


@dataclass(frozen=True, eq=False)
class SinkDecoder:
    """Columns of an opaque topic for a sink that takes columns."""

    connector: Connector
    codec: Codec

    def run(self, name: str, rows: pa.Table) -> TableByTopic:
        """The rows with columns in place of bytes; SchemaError with `rows` for those that do not decode."""
        known = {column.name: column.type for column in _key_columns_of(self.connector) or ()}
        keys = Schema(tuple(SchemaColumn(one, known.get(one, "string")) for one in _keys_of_sink(self.connector)))
        return {name: decoded(rows, self.codec, keys, formats_of(self.connector, self.codec.format).key)}


def decoder_of_sink(connector: Connector, topic: Topic, is_raw: bool) -> SinkDecoder | None:
    """What makes columns of an opaque topic's bytes; None where the sink takes bytes, or nothing says what columns there are."""
    codec = _codec_of_sink(connector, topic, is_raw)
    return None if codec is None else SinkDecoder(connector, codec)


@dataclass(frozen=True, eq=False)
class SinkEncoder:
    """Bytes of a topic's columns, for a raw sink; `names` are those that values have."""

    topic: Topic
    names: Sequence[str]
    value: Codec
    key: Codec

    def run(self, name: str, rows: pa.Table) -> TableByTopic:
        """The rows as key and value bytes; a deletion has no value."""
        columns = rows.select(list(self.topic.schema.names))
        live = pc.invert(one_array(rows[DELETED]).fill_null(False))
        values = _encoded(self.value, columns.select(list(self.names)), live)
        keys = pa.nulls(rows.num_rows, pa.binary())
        if self.topic.key:
            key_columns = with_one_key(columns, self.topic.key).select(list(self.topic.key))
            keys = _encoded(self.key, key_columns, pa.array([True] * rows.num_rows))
        kept = rows.drop_columns(list(self.topic.schema.names))
        return {name: kept.append_column(KEY, keys).append_column(VALUE, values)}


def encoder_of_sink(connector: Sink, topic: Topic) -> SinkEncoder:
    """
    What makes bytes of a topic's columns. The settings of the value say nothing of keys.

    Without `value.format` values are JSON; but those of records that nothing decoded, whose columns are `key` and `value`, are as they came.
    """
    formats = formats_of(connector)
    value = formats.value or _format_of_values(topic.schema)
    keys = topic.schema.select(topic.key)
    key_format = formats.key or _format_of_keys(keys)
    if key_format.name in OF_ONE and len(keys) > 1:
        raise ConfigError(
            f"connector {connector.name}: key.format={key_format.name} writes one column, and the key of topic {topic.name} has "
            f"{', '.join(keys.names)}; expected key.format=json, or one with a schema"
        )
    _check_key_said(connector, formats.key_columns, topic)
    names = _names_written(connector, value, formats.columns, topic)
    name = connector.name_in_registry(topic.name)
    values = _codec(value, formats.columns or topic.schema.select(names), name, VALUE)
    check_writable(connector.name, values)
    if len(keys):
        check_writable(connector.name, _codec(key_format, keys, name, KEY))
    return SinkEncoder(topic, names, values, _codec(key_format, keys, name, KEY))


def _check_key_said(connector: Connector, columns: Schema | None, topic: Topic) -> None:
    """ConfigError for `key` or `key.schema` that say another key than the topic has: a sink writes the topic's, in its types."""
    said = tuple(connector.settings["key"])
    if not said:
        return
    own = topic.schema.select(topic.key)
    types = {column.name: column.type for column in columns or ()}
    if set(said) != set(topic.key) or any(types.get(column.name, column.type) != column.type for column in own):
        found = f"key.schema={str(columns)!r}" if columns is not None else f"key={','.join(said)}"
        raise ConfigError(
            f"connector {connector.name}: found {found}, and topic {topic.name} has {f'the key {own}' if topic.key else 'no key'}; expected neither "
            "key nor key.schema, because a sink writes the key of its topic, or that key"
        )


def _format_of_values(columns: Schema) -> Format:
    """How values are written unless a setting says it."""
    as_they_came = {"binary": "bytes", "string": "string"}
    is_undecoded = set(columns.names) == {KEY, VALUE} and columns[KEY].type in as_they_came
    return Format(as_they_came.get(columns[VALUE].type, "json") if is_undecoded else "json")


def _format_of_keys(keys: Schema) -> Format:
    """How keys are written and read unless a setting says it: one column as text, or as its bytes, several as JSON."""
    if len(keys) != 1:
        return Format("json")
    return Format("bytes" if keys[keys.names[0]].type == "binary" else "string")


def _names_written(connector: Connector, value: Format, columns: Schema | None, topic: Topic) -> tuple[str, ...]:
    """The columns of values: those that `value.schema` names, else all; ConfigError where a format of one column would leave others out."""
    found = tuple(topic.schema.names) if columns is None else tuple(columns.names)
    unknown = [name for name in found if name not in topic.schema]
    if unknown:
        raise ConfigError(
            f"connector {connector.name}: topic {topic.name} has no column {unknown[0]!r} of value.schema; it has {', '.join(topic.schema.names)}"
        )
    if value.name not in OF_ONE or len(found) == 1:
        return found
    if len(topic.values) == 1 and columns is None:
        return tuple(topic.values)
    raise ConfigError(
        f"connector {connector.name}: value.format={value.name} writes one column, and found {', '.join(found)}; expected "
        f"value.schema with the one that is written, such as {next(iter(topic.values), found[0])} string"
    )


def _codec_of_sink(connector: Connector, topic: Topic, is_raw: bool) -> Codec | None:
    is_asked = connector.settings["value.format"] is not None or _SCHEMA in connector.settings["value."]
    if is_raw or topic.format is None or not is_asked:
        return None
    formats = formats_of(connector, topic.format)
    if formats.value is None or not formats.has_columns:
        return None
    names = _keys_of_sink(connector)
    keys = Schema(tuple(SchemaColumn(one, "string") for one in names))
    columns = None if formats.columns is None else _columns_of_values(connector, formats.value, formats.columns, keys)
    codec = _codec(formats.value, columns, topic.name, VALUE)
    check_readable(connector.name, codec)
    return codec


def _keys_of_sink(connector: Connector) -> Sequence[str]:
    return tuple(connector.settings["key"]) or (KEY,)


def _key_format(connector: Connector, registry: dict[str, str]) -> Format | None:
    name = connector.settings["key.format"]
    if name is None:
        return None
    name = format_of(name, None, None).name
    return declare_format(name, None, registry if name in WITH_REGISTRY else None, on_record=False, needs_schema=False)


def _decoded(codec: Codec, values: pa.Array, names: Sequence[str], what: str = "value") -> pa.RecordBatch:
    try:
        return codec.decode(values, names)
    except SchemaError as error:
        first = f"row {error.rows[0]}: " if error.rows else ""
        advice = "; key.schema says the types of a key's columns, such as 'id bigint'" if what == "key" else ""
        raise SchemaError(f"the {what} cannot be read: {str(error).removeprefix(first)}{advice}", error.rows) from error


def _encoded(codec: Codec, columns: pa.Table, live: pa.Array) -> pa.Array:
    """The rows that are live as bytes, the others as null; SchemaError with their numbers among all rows."""
    numbers = pc.indices_nonzero(live)
    if not len(numbers):
        return pa.nulls(columns.num_rows, pa.binary())
    try:
        found = codec.encode(one_batch(columns.take(numbers)))
    except SchemaError as error:
        raise SchemaError(str(error), tuple(numbers[row].as_py() for row in error.rows)) from error
    if len(numbers) == columns.num_rows:
        return found
    places = pc.subtract(pc.cumulative_sum(pc.cast(live, pa.int64())), 1)
    return found.take(pc.if_else(live, places, pa.scalar(None, pa.int64())))


def _binary(values: pa.ChunkedArray) -> pa.Array:
    return one_array(values) if values.num_chunks else pa.array([], pa.binary())


def _is_columns(name: str, schema: str) -> bool:
    """Whether a schema is SQL text, and not the format's own."""
    return (
        name in ("csv", "string", "bytes")
        or (name != "protobuf" and not schema.lstrip().startswith(("{", "[", '"')))
        or (name == "protobuf" and "message" not in schema)
    )


@cache
def _codec(format: Format, columns: Schema | None, topic: str, part: str) -> Codec:
    """One codec for all rows of a topic: what it asks a registry is asked once."""
    return Codec(format, columns, topic, part)
