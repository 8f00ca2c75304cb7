"""A codec: binary values as rows of columns and back, by a format, and by the schemas of a registry if the format has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.chunks import one_array
from streamkit.errors import ConfigError, SchemaError
from streamkit.formats import (
    avro,
    avro_key,
    bytes,
    csv,
    delimited,
    json,
    kafka,
    ksql_json,
    protobuf,
    single_object,
    string,
    windowed_keys,
    wire,
)
from streamkit.formats.avro_compatibility import check_compatible, differ_in_case, unreadable
from streamkit.formats.avro_defaults import defaults_of
from streamkit.formats.avro_references import inlined
from streamkit.formats.avro_schema import VALUE, avro_of, check_avro_schema, columns_of_avro
from streamkit.formats.csv import check_csv_schema
from streamkit.formats.decoded import Decoded, empty_rows, put_back
from streamkit.formats.format import (
    AUTO_REGISTER,
    COMPATIBILITY,
    MESSAGE,
    NULLS,
    OF_KEYS,
    OF_KSQLDB,
    REGISTRY_URL,
    SUBJECT_STRATEGY,
    USE_LATEST,
    WINDOW,
    WITH_REGISTRY,
    Format,
    Schemas,
    check_no_secrets,
    format_of,
    key_settings,
)
from streamkit.formats.grown_schema import grown_schema
from streamkit.formats.json_references import bundled
from streamkit.formats.json_schema import (
    check_json_schema,
    columns_of_json_schema,
    defaults_of_json_schema,
    json_schema_of,
    optional_of_json_schema,
    title_of,
)
from streamkit.formats.protobuf_schema import check_protobuf, columns_of_message, compiled, not_required, protobuf_of
from streamkit.formats.registry import TYPES, Registered, Registry, SchemaReference, registry_of
from streamkit.schema import Schema

_READERS: dict[str, Any] = {
    "avro": avro.read, "json": json.read, "protobuf": protobuf.read, "csv": csv.read, "string": string.read, "bytes": bytes.read,
    "kafka": kafka.read, "delimited": delimited.read, "ksql_json": ksql_json.read,
}  # fmt: skip
_WRITERS: dict[str, Any] = {
    "avro": avro.write, "json": json.write, "protobuf": protobuf.write, "csv": csv.write, "string": string.write, "bytes": bytes.write,
    "kafka": kafka.write, "delimited": delimited.write, "ksql_json": ksql_json.write,
}  # fmt: skip
_CHECKS: dict[str, Callable[[Any], str]] = {
    "avro": check_avro_schema, "json": check_json_schema, "protobuf": check_protobuf, "csv": check_csv_schema,
    "kafka": kafka.check_kafka_schema, "delimited": delimited.check_delimited_schema,
}  # fmt: skip
WrittenSchema: TypeAlias = "tuple[Integers, Schema | SchemaError, Format]"
"""Rows, their columns or why nobody knows them, and how they are read."""
_UNWRITABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError, pa.ArrowException)  # values
_INLINED = {"AVRO": inlined, "JSON": bundled}  # with the schemas that they refer to
_NO_COLUMN = Schema.parse(
    "`no column` string"
)  # is null in each value of a topic whose columns are all in its key or its headers
_NO_ID = "it does not begin with a zero byte and a schema id, as in the registry's wire format"
_IN_ANOTHER_CASE = (
    "names differ in their case only, and by places nobody reads what is written under a schema that the topic got later"
)
_OF_TOPIC = "TopicNameStrategy"
_NEEDS_SCHEMA = ("avro", "protobuf", "csv")
_MADE: dict[str, Callable[[Schema], str]] = {
    "avro": avro_of, "json": json_schema_of, "protobuf": protobuf_of, "csv": lambda columns: columns.ddl(),
    "kafka": lambda columns: columns.ddl(), "delimited": lambda columns: columns.ddl(),
}  # fmt: skip


def declare_format(
    name: str | None, schema: Schemas | None = None, settings: Any = None, *, on_record: bool = True, needs_schema: bool = True
) -> Format:
    """
    The format of that name, its schema and settings checked.

    `schema` is an Avro or JSON schema as JSON text, dict or list, the text of a .proto file, or the columns of CSV. ConfigError if the
    format does not exist, lacks a schema or takes none, and for a secret among the settings if they will be `on_record`. Without
    `needs_schema` something else may say how values are read: the topic, or the columns that are wanted of CSV.
    """
    found = format_of(name, None, settings)
    if on_record:
        check_no_secrets(found)
    if schema is None:
        if found.name in _NEEDS_SCHEMA and not found.has_registry and needs_schema:
            where = ", or schema.registry.url" if found.name != "csv" else ""
            raise ConfigError(f"the format {found.name} was given no schema; expected one{where}")
        return found
    if found.name not in _CHECKS:
        raise ConfigError(
            f"the format {found.name} accepts no schema; found {schema!r}, expected a schema for {', '.join(_CHECKS)} only"
        )
    return replace(found, schema=_CHECKS[found.name](schema))


def format_of_keys(name: str, value: Format, settings: Mapping[str, Any] | None) -> Format:
    """The format of keys beside one of values: with the registry of values, and with the settings that are of keys."""
    has_registry = name in WITH_REGISTRY and value.has_registry
    own = key_settings(settings)
    of_values = (OF_KEYS,) if name == "protobuf" else (OF_KEYS, NULLS)  # what says how values are written says nothing of keys
    shared = {key: one for key, one in (settings or {}).items() if not key.startswith(of_values)} if has_registry else {}
    return declare_format(name, None, {**shared, **own} or None, needs_schema=False)


@dataclass(frozen=True)
class Codec:
    """
    Values of a format as rows of columns.

    `topic` and `part` ("value" or "key") give the subject under which a registry knows the schema. `declared` are the columns
    that are wanted; without them they are those of the format's schema, or of the newest that the registry has.
    """

    format: Format
    declared: Schema | None = None
    topic: str = ""
    part: str = VALUE

    @cached_property
    def columns(self) -> Schema:
        """The columns of decoded values; ConfigError if nothing says what they are."""
        if self.declared is not None:
            return self.declared
        return self.written

    @cached_property
    def written(self) -> Schema:
        """The columns of the schema under which values are written."""
        name = self.format.name
        if name in ("string", "bytes"):
            return Schema.parse(f"{VALUE} {'string' if name == 'string' else 'binary'}")
        if self.format.schema is not None:
            return _columns(self.format, self.format.schema)
        if self.registry is not None:
            found = self._checked(self.registry.latest(self.subject()))
            return _columns(self.format, found.text, self._imports(found))
        raise ConfigError(
            f'nothing says what columns values of the format {name} have; expected schema=, such as schema="user string, amount double"'
        )

    @cached_property
    def reader_schema(self) -> str | None:
        """The schema that says how values of others are read: the format's, of Avro else the registry's newest, for its defaults."""
        is_asked = (
            self.declared is None and self.format.name == "avro" and self.format.schema is None and self.registry is not None
        )
        if is_asked:
            assert self.registry is not None
            return self._checked(self.registry.latest(self.subject())).text
        return self.format.schema

    @cached_property
    def with_message(self) -> Format:
        """The format; of Protobuf behind a registry, whose columns nothing else says, with the message that has them: others are errors."""
        if self.declared is not None or self.format.name != "protobuf" or self.registry is None or self.format.setting(MESSAGE):
            return self.format
        found = self._checked(self.registry.latest(self.subject()))
        name = str(compiled(found.text, self._imports(found)).named("").full_name)
        return replace(self.format, settings=tuple(sorted((*self.format.settings, (MESSAGE, name)))))

    @cached_property
    def registry(self) -> Registry | None:
        """The registry of the format; None of one without."""
        return registry_of(self.format) if self.format.has_registry else None

    def decode(self, values: pa.Array, names: Sequence[str] | None = None) -> pa.RecordBatch:
        """
        The named columns of the values, or all; a null value has nulls.

        SchemaError for values that are not of the format: its `rows` are their numbers, the message is about the first.
        """
        found = self.attempt(values, names)
        if found.failures:
            rows = tuple(sorted(found.failures))
            raise SchemaError(f"row {rows[0]}: it does not decode as {self.format.name}: {found.failures[rows[0]]}", rows)
        return found.rows

    def attempt(self, values: pa.Array, names: Sequence[str] | None = None) -> Decoded:
        """The named columns of the values, or all, and which of them are not of the format."""
        values = one_array(values)
        values = values if pa.types.is_binary(values.type) else values.cast(pa.binary())
        columns = self.columns if names is None else self.columns.select(names)
        if self.format.setting(WINDOW):
            return self._with_windows(values, columns)
        if not len(columns):  # what is not looked at must be of the format all the same
            some = self.columns.select(self.columns.names[:1]) if len(self.columns) else _NO_COLUMN
            found = self._of_present(values, some)
            return Decoded(found.rows.select([]), found.failures)
        return self._of_present(values, columns)

    def _of_present(self, values: pa.Array, columns: Schema) -> Decoded:
        """The columns of values, of which those that are null have nulls."""
        if not values.null_count:
            return self._attempt(values, columns)
        present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        found = self._attempt(values.take(pa.array(present)), columns)
        rows = put_back([(present, found.rows)], columns, len(values))
        return Decoded(rows, {int(present[row]): reason for row, reason in found.failures.items()})

    def _with_windows(self, values: pa.Array, columns: Schema) -> Decoded:
        """The columns of keys with windows behind them."""
        present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        keys, bounds, failures = windowed_keys.split(self.format, values.take(pa.array(present)))
        inner = replace(self, format=windowed_keys.inner_format(self.format), declared=windowed_keys.without_bounds(self.columns))
        wanted = [name for name in columns.names if name not in windowed_keys.BOUNDS]
        found = windowed_keys.with_bounds(inner.attempt(keys, wanted), bounds, failures, columns)
        rows = put_back([(present, found.rows)], columns, len(values))
        return Decoded(rows, {int(present[row]): reason for row, reason in found.failures.items()})

    def by_writer(self, values: pa.Array) -> list[WrittenSchema]:
        """
        Which of the values, none of which is null, each schema has written, their columns, and the format by which they are read.

        The format's own schema is that of all. What Avro reads under the newest schema of the subject has its columns and its defaults,
        too. Values of a schema that nobody knows, or that says no columns, have an error in place of columns.
        """
        if self.registry is None or self.format.schema is not None:
            return [(np.arange(len(values)), self.written, self.format)]
        ids = wire.schema_ids(values)
        found: list[WrittenSchema] = []
        for schema_id in np.unique(ids).tolist():
            rows = np.flatnonzero(ids == schema_id)
            try:
                if schema_id == wire.NO_ID:
                    raise SchemaError(_NO_ID)
                found += self._by_message(self._checked(self.registry.schema(schema_id)), values, rows)
            except SchemaError as error:
                found.append((rows, self._unknown(schema_id, error), self.format))
        return found

    def _unknown(self, schema_id: int, reason: SchemaError | ValueError) -> SchemaError:
        """Why nobody knows the columns of a schema's values."""
        place = "" if schema_id == wire.NO_ID else f"schema id {schema_id}: "
        return SchemaError(f"it does not decode as {self.format.name}: {place}{reason}")

    def _by_message(self, found: Registered, values: pa.Array, rows: Integers) -> list[WrittenSchema]:
        """The columns of values under a schema; a file of Protobuf has one for each message, and a value says which it is."""
        if self.format.name == "avro":
            return [(rows, *self._resolved(found))]
        if self.format.name != "protobuf":
            return [(rows, self._columns_of_json(found), self.format)]
        file = compiled(found.text, self._imports(found))
        by_path: dict[tuple[int, ...], list[int]] = {}
        parts: list[WrittenSchema] = []
        for row in rows.tolist():
            try:
                path, _ = wire.read_message_index(values[row].as_py(), wire.HEADER_BYTES)
            except ValueError as error:
                parts.append((np.array([row], np.int64), self._unknown(found.id, error), self.format))
                continue
            by_path.setdefault(path, []).append(row)
        for path, some in by_path.items():
            columns: Schema | SchemaError
            try:
                columns = columns_of_message(file.at(path))
            except SchemaError as error:
                columns = self._unknown(found.id, error)
            parts.append((np.array(some, np.int64), columns, self.format))
        return parts

    def _columns_of_json(self, found: Registered) -> Schema:
        """The columns of a JSON Schema; of one that says none somebody must, since no column is called as a property that is any object."""
        try:
            return columns_of_json_schema(found.text)
        except SchemaError as error:
            raise SchemaError(f"{error}; value.schema says which columns are read, such as 'id bigint, name string'") from error

    def _resolved(self, found: Registered) -> tuple[Schema, Format]:
        """The columns of values that an Avro schema has written: those of the newest that can read them, then what only the writer has."""
        if found.id not in self._readers:
            newest = self._newest_reader(found)
            own = columns_of_avro(found.text)
            if newest is None:
                self._readers[found.id] = own, self.format
            else:
                read = columns_of_avro(newest)
                more = tuple(column for column in own if column.name not in read)
                self._readers[found.id] = Schema((*read, *more)), replace(self.format, schema=newest)
        return self._readers[found.id]

    def _newest_reader(self, found: Registered) -> str | None:
        """The newest schema of the subject, if values of the other can be read under it, and it is another."""
        assert self.registry is not None
        try:
            newest = self._checked(self.registry.latest(self.subject()))
        except (SchemaError, ConfigError):
            return None
        return newest.text if newest.id != found.id and not unreadable(newest.text, found.text) else None

    @cached_property
    def _readers(self) -> dict[int, tuple[Schema, Format]]:
        """By the id of a schema how its values are read: once looked up it stays."""
        return {}

    def encode(self, rows: pa.RecordBatch) -> pa.Array:
        """The rows as values of the format; SchemaError names those that do not fit, or a schema that the registry refuses."""
        if self.format.setting(WINDOW):
            inner, before_window = self._before_window(rows)
            return windowed_keys.joined(self.format, inner.encode(before_window), rows)
        text = self._text_to_write(rows)
        try:
            found: pa.Array = _WRITERS[self.format.name](self.format, text, rows)
        except _UNWRITABLE as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise SchemaError(f"rows cannot be written as {self.format.name}: {said}") from error
        if self.registry is None:
            return wire.with_header(found, single_object.header(str(text))) if self.format.earlier else found
        assert text is not None
        return wire.with_header(found, self._prefix(text))

    def check_schema(self, rows: pa.RecordBatch) -> None:
        """
        SchemaError unless the registry, if there is one, has the schema under which rows are written, or takes it now.

        Only the names and types of the rows are looked at: no row is to blame for what this refuses.
        """
        if self.format.setting(WINDOW):
            inner, before_window = self._before_window(rows)
            inner.check_schema(before_window)
        elif self.registry is not None:
            self._prefix(str(self._text_to_write(rows)))

    def _before_window(self, rows: pa.RecordBatch) -> tuple[Codec, pa.RecordBatch]:
        """The codec of keys without the window behind them, and the columns that it writes."""
        names = [name for name in rows.schema.names if name not in windowed_keys.BOUNDS]
        return replace(self, format=windowed_keys.inner_format(self.format), declared=None), rows.select(names)

    def register(self) -> int:
        """Make the format's schema known to the registry, and return its id; SchemaError if it is refused, with both schemas."""
        assert self.format.schema is not None, "a schema is needed"
        return self._id_of(self.format.schema, asks=True)

    def check_registrable(self) -> None:
        """SchemaError, with both schemas, unless the registry would accept the format's schema; nothing is registered."""
        assert self.format.schema is not None, "a schema is needed"
        assert self.registry is not None, "a registry is needed"
        self.registry.check_accepts(self.subject(), TYPES[self.format.name], self.format.schema)

    def newest(self) -> Format | None:
        """
        The format with the newest schema of the subject, under which values are written from now on; None if the subject has none.

        SchemaError for one of another format, or of Protobuf that imports files of other subjects, under which nothing is written.
        """
        if self.registry is None or (self.format.schema is None and not self._is_of_topic):
            return None  # a subject that is called after the record has that of the format alone
        if (found := self.registry.newest(self.subject())) is None:
            return None
        if found.references and self.format.name == "protobuf":
            names = ", ".join(one.name for one in found.references)
            raise SchemaError(
                f"the schema of the subject {self.subject()} imports {names}; expected one that is whole, or another topic"
            )
        latest = {USE_LATEST: "true"} if found.references else {}  # the registry knows its text by them alone
        settings = {**dict(self.format.settings), **latest}
        return replace(self.format, schema=self._checked(found).text, settings=tuple(sorted(settings.items())))

    def newest_columns(self) -> Schema | None:
        """The columns of the newest schema of the subject; None if it has none. SchemaError for a schema that no columns say."""
        if self.registry is None or not self._is_of_topic or (found := self.registry.newest(self.subject())) is None:
            return None
        found = self._checked(found)
        return _columns(self.format, found.text, self._imports(found))

    def check_takes_fields(self) -> None:
        """SchemaError if the newest schema of the subject refers to others: with a field more it would have them as parts, and not by their names."""
        found = self.registry.newest(self.subject()) if self.registry is not None and self._is_of_topic else None
        if found is not None and found.references:
            names = ", ".join(one.name for one in found.references)
            raise SchemaError(
                f"the newest schema of the subject {self.subject()} refers to {names}, so SQL adds no field to it; expected columns that it has, or a "
                "schema with these in the registry before"
            )

    def grown(self, schema: str, wanted: str) -> str:
        """A schema of the subject with the fields that another one has besides, as `grown_schema` makes it."""
        former = self._former(self.subject(schema)) if self.format.name == "protobuf" else ()
        return grown_schema(self.format.name, schema, wanted, self.format.setting(MESSAGE), former)

    def _former(self, subject: str) -> Iterator[str]:
        """The texts of all versions of a subject, each once it is wanted."""
        if self.registry is not None:
            for version in self.registry.versions(subject):
                yield self.registry.version(subject, version).text

    def is_registered(self) -> bool:
        """Whether the subject has the format's schema, in any version."""
        assert self.format.schema is not None, "a schema is needed"
        newest = self.newest() if self._uses_latest else None
        if newest is not None and newest.schema == self.format.schema:  # with what it refers to, which makes it another text
            return True
        return self.registry is not None and self.registry.has(self.subject(), TYPES[self.format.name], self.format.schema)

    def value_writer(self) -> Callable[[Any], bytes]:  # type: ignore[valid-type]  # the module of that name
        """What writes one value of Python; it raises errors of many kinds."""
        write = _value_writer(self.format, self._text_of_values())
        if self.registry is None:
            marker = single_object.header(str(self.format.schema)) if self.format.earlier else None
            return write if marker is None else partial(_with_marker, marker, write)
        prefix: list[Any] = []

        def with_prefix(value: Any) -> Any:
            if not prefix:
                text = self._text_of_values()
                if text is None:
                    raise SchemaError("a JSON value needs a schema to be written with a registry; expected format_schema=")
                prefix.append(self._prefix(text))
            return prefix[0] + write(value)

        return with_prefix

    def value_reader(self) -> Callable[[Any], Any]:
        """What reads one value as Python has it; it raises errors of many kinds."""
        if self.registry is None:
            return self._plain_value_reader()
        registry = self.registry

        def read(data: Any) -> Any:
            (schema_id,) = wire.schema_ids(pa.array([data], pa.binary())).tolist()
            if schema_id == wire.NO_ID:
                raise ValueError("it does not begin with a zero byte and a schema id")
            found = self._checked(registry.schema(schema_id))
            start = wire.HEADER_BYTES
            if self.format.name == "protobuf":
                path, start = wire.read_message_index(data, start)
                return protobuf.value_reader(self.format, found.text, self._imports(found), path)(data[start:])
            return _value_reader(self.format, found.text)(data[start:])

        return read

    def _plain_value_reader(self) -> Callable[[Any], Any]:
        """
        What reads one value without a registry: of Avro each by the schema under which it was written, as the format's has it.

        Under a schema that the topic has got since the format was known the value has all that was written.
        """
        if self.format.name != "avro":
            found: Callable[[Any], Any] = _value_reader(self.format, self.format.schema)
            return found
        own = self._own_schemas

        def read(data: Any) -> Any:
            text = single_object.schema_of(data, own)
            if text is None:
                return avro.avro_codec(own[0], own[-1])[1](data)
            return avro.avro_codec(text, own[-1] if text in own else None)[1](data[single_object.HEADER_BYTES :])

        return read

    def subject(self, text: str | None = None) -> str:
        """The name under which the registry has the schemas, by the strategy of the settings."""
        strategy = self.format.setting(SUBJECT_STRATEGY, _OF_TOPIC).rpartition(".")[2]
        if self._is_of_topic:
            return f"{self.topic}-{self.part}"
        text = text or self.format.schema
        if text is None:
            raise ConfigError(
                f"{SUBJECT_STRATEGY}={strategy} names a subject after the record; expected a schema, from which the record is known"
            )
        record = _record_name(self.format, text)
        return record if strategy == "RecordNameStrategy" else f"{self.topic}-{record}"

    @property
    def _is_of_topic(self) -> bool:
        """Whether the subject is called after the topic."""
        return self.format.setting(SUBJECT_STRATEGY, _OF_TOPIC).rpartition(".")[2] == _OF_TOPIC

    def _attempt(self, values: pa.Array, columns: Schema) -> Decoded:
        if self.registry is None:
            return self._plain(values, columns)
        ids = wire.schema_ids(values)
        parts: list[tuple[Integers, pa.RecordBatch]] = []
        failures: dict[int, str] = {}
        for schema_id in np.unique(ids).tolist():
            rows = np.flatnonzero(ids == schema_id)
            found = self._of_id(schema_id, values if len(rows) == len(ids) else values.take(pa.array(rows)), columns)
            failures |= {int(rows[row]): reason for row, reason in found.failures.items()}
            parts.append((rows, found.rows))
        return Decoded(put_back(parts, columns, len(values)), failures)

    def _plain(self, values: pa.Array, columns: Schema) -> Decoded:
        """The columns of values without a registry; those of Avro say under which schema they were written, but for the first one's."""
        read = self._reader
        if self.format.name != "avro":
            found: Decoded = read(self.format, self._own_text(), values, columns, 0)
            return found
        decoded_parts: list[tuple[Integers, pa.RecordBatch]] = []
        failures: dict[int, str] = {}
        for text, rows, skipped in single_object.by_schema(values, self._own_schemas):
            some = values if len(rows) == len(values) else values.take(pa.array(rows))
            if text not in self._own_schemas and differ_in_case(self._own_schemas[-1], text):
                one = _all_fail(some, columns, f"{_IN_ANOTHER_CASE}: {text}")
            else:
                one = read(self.format, text, some, columns, skipped)
            decoded_parts.append((rows, one.rows))
            failures |= {int(rows[row]): reason for row, reason in one.failures.items()}
        return Decoded(put_back(decoded_parts, columns, len(values)), failures)

    @property
    def _reader(self) -> Any:
        """What reads the columns of values that one schema has written."""
        is_one_key = self.format.name == "avro" and self.part != VALUE and len(self.columns) == 1
        return avro_key.read if is_one_key else _READERS[self.format.name]

    @property
    def _own_schemas(self) -> tuple[str, ...]:
        """The schemas of Avro that the format knows, the first one first."""
        return (*self.format.earlier, str(self.format.schema))

    def _of_id(self, schema_id: int, values: pa.Array, columns: Schema) -> Decoded:
        """The columns of values that one schema of the registry has written."""
        assert self.registry is not None
        if schema_id == wire.NO_ID:
            return _all_fail(values, columns, _NO_ID)
        try:
            found = self._checked(self.registry.schema(schema_id))
            read = self._reader
            if self.format.name == "protobuf":
                read = partial(read, imports=self._imports(found))
            format = self.format if self.reader_schema == self.format.schema else replace(self.format, schema=self.reader_schema)
            decoded: Decoded = read(format, found.text, values, columns, wire.HEADER_BYTES)
        except SchemaError as error:
            return _all_fail(values, columns, f"schema id {schema_id}: {error}")
        return Decoded(decoded.rows, {row: f"schema id {schema_id}: {reason}" for row, reason in decoded.failures.items()})

    def _checked(self, found: Registered) -> Registered:
        expected = TYPES[self.format.name]
        if found.type != expected:
            raise SchemaError(f"the registry has {found.type} under the schema id {found.id}; expected {expected}")
        return self._with_imports(found) if found.references and found.type in _INLINED else found

    def _with_imports(self, found: Registered) -> Registered:
        """A schema of Avro or JSON that includes the schemas it refers to, since no reader can do without them."""
        if found.id not in self._inlined:
            text = _INLINED[found.type](found.text, dict(self._imports(found)))
            self._inlined[found.id] = replace(found, text=text, references=())
        return self._inlined[found.id]

    @cached_property
    def _inlined(self) -> dict[int, Registered]:
        """By id."""
        return {}

    def _imports(self, found: Registered) -> tuple[tuple[str, str], ...]:
        """The files that a schema imports, at any depth, by name; SchemaError if one name stands for several."""
        files: dict[str, tuple[SchemaReference, str]] = {}
        waiting = list(found.references)
        while waiting:
            reference = waiting.pop()
            known, text = files.get(reference.name, (reference, None))
            if text is None:
                imported = self._imported(reference)
                files[reference.name] = reference, imported.text
                waiting += imported.references
            elif known != reference and self._imported(reference).text != text:
                raise SchemaError(
                    f"{reference.name!r} is version {known.version} of the subject {known.subject} and version {reference.version} of "
                    f"{reference.subject} in one schema, and they differ; expected the same one wherever it is referred to"
                )
        return tuple(sorted((name, text) for name, (_, text) in files.items()))

    def _imported(self, reference: SchemaReference) -> Registered:
        assert self.registry is not None
        try:
            return self.registry.version(reference.subject, reference.version)
        except SchemaError as error:
            raise SchemaError(
                f"the schema refers to {reference.name!r}, version {reference.version} of the subject {reference.subject}: {error}"
            ) from None

    def _own_text(self) -> str | None:
        if self.format.name == "delimited" or (self.format.schema is None and self.format.name == "csv"):
            return self.columns.ddl()
        return self.format.schema

    def _text_of_values(self) -> str | None:
        """The schema under which one value is written."""
        if self.registry is not None and (self.format.schema is None or self._uses_latest):
            return self._latest.text
        return self.format.schema

    @property
    def _uses_latest(self) -> bool:
        return self.format.setting(USE_LATEST) == "true"

    @cached_property
    def _latest(self) -> Registered:
        """The newest schema of the subject, as it was when the codec first wrote a value."""
        assert self.registry is not None
        return self._checked(self.registry.latest(self.subject()))

    def _text_to_write(self, rows: pa.RecordBatch) -> str | None:
        """The schema under which rows are written: the format's, or one made of their columns, or the registry's newest."""
        if self.registry is not None and self._uses_latest:
            return self._latest.text
        if self.format.schema is not None or self.format.name in ("string", "bytes", *OF_KSQLDB):
            return self.format.schema
        if self.format.name == "json" and self.registry is None:
            return None
        return _made(self.format.name, self.declared or Schema.from_arrow(rows.schema))

    def _prefix(self, text: str) -> Any:
        is_latest = "_latest" in self.__dict__ and text == self._latest.text
        found = wire.header(self._latest.id if is_latest else self._id_of(text))
        return found + protobuf.message_index(self.format, text) if self.format.name == "protobuf" else found

    def _id_of(self, text: str, *, asks: bool = False) -> int:
        assert self.registry is not None
        subject, type = self.subject(text), TYPES[self.format.name]
        found = self.registry.id_of(subject, type, text, self.format.setting(AUTO_REGISTER, "true") == "true", asks=asks)
        if mode := self.format.setting(COMPATIBILITY):
            self.registry.keep_compatibility(subject, mode)
        return found


def altered(format: Format, schema: Schemas, topic: str) -> Format:
    """
    The format with another schema, if the topic may have it; SchemaError, with both schemas, if not.

    A registry decides when the schema is registered. Without one, Avro's rules decide by `schema.compatibility` (BACKWARD unless given);
    ConfigError for other formats, unless that is NONE.
    """
    if format.name not in _CHECKS or format.name in ("csv", *OF_KSQLDB):
        raise ConfigError(
            f"topic {topic}: the format {format.name} has no schema that could change; expected avro, json or protobuf"
        )
    text = _CHECKS[format.name](schema)
    if text == format.schema:
        return format
    if format.has_registry:
        return replace(format, schema=text, topic=topic)
    mode = format.setting(COMPATIBILITY, "BACKWARD")
    if format.name == "avro" and format.schema is not None:
        earlier = (*format.earlier, format.schema)
        if mode != "NONE":
            check_compatible(topic, mode, earlier, text)
        return replace(format, schema=text, earlier=earlier)
    if mode != "NONE" and format.schema is not None:
        raise ConfigError(
            f"topic {topic}: changes of a schema of {format.name} are checked by a registry; expected schema.registry.url among the format's "
            "settings, or schema.compatibility=NONE"
        )
    return replace(format, schema=text)


def with_newest_schema(format: Format, topic: str, part: str = VALUE) -> Format:
    """The format with the newest schema of its subject, if it has a registry, and no schema of its own; else as it is."""
    if format.schema is not None or not format.has_registry:
        return format
    return Codec(format, topic=format.topic or topic, part=part).newest() or format


def schema_made_of(name: str, columns: Schema) -> str | None:
    """A schema of a format whose values hold these columns; None of a format without schemas."""
    return _made(name, columns) if name in _MADE else None


def _made(name: str, columns: Schema) -> str:
    return _MADE[name](columns)


def defaults_in(format: Format) -> dict[tuple[str, ...], Any]:
    """What fields that are not written are for readers, by path, an element `""`; of Protobuf, and of JSON behind a registry, all that are not `required`."""
    assert format.schema is not None
    if format.name == "avro":  # a text says why a field has none
        return {path: default for path, default in defaults_of(format.schema).items() if not isinstance(default, str)}
    if format.name == "json":
        optional = optional_of_json_schema(format.schema) if format.has_registry else ()
        return {**dict.fromkeys(optional), **{(name,): value for name, value in defaults_of_json_schema(format.schema).items()}}
    if format.name == "protobuf":
        return {(name,): None for name in not_required(compiled(format.schema).named(format.setting(MESSAGE)))}
    return {}


def _columns(format: Format, text: str, imports: Any = ()) -> Schema:
    if format.name == "protobuf":
        return protobuf.columns_of(format, text, imports)
    if format.name in ("csv", "kafka", "delimited"):
        return Schema.from_ddl(text)
    return columns_of_avro(text) if format.name == "avro" else columns_of_json_schema(text)


def _all_fail(values: pa.Array, columns: Schema, reason: str) -> Decoded:
    return Decoded(empty_rows(columns, len(values)), dict.fromkeys(range(len(values)), reason))


def _record_name(format: Format, text: str) -> str:
    if format.name == "avro":
        return avro.record_name(text)
    if format.name == "protobuf":
        return str(compiled(text).named(format.setting("message")).full_name)
    return title_of(text)


def _with_marker(marker: Any, write: Callable[[Any], Any], value: Any) -> Any:
    return marker + write(value)


def _value_writer(format: Format, text: str | None) -> Any:
    name = format.name
    if name == "avro":
        return avro.avro_codec(str(text))[0]
    if name == "protobuf":
        return protobuf.value_writer(format, str(text))
    if name == "csv":
        return csv.value_writer(format, str(text))
    if name == "kafka":
        return kafka.value_writer(format, str(text))
    if name == "delimited":
        return delimited.value_writer(format, text)
    if name == "ksql_json":
        return ksql_json.value_writer
    return {"json": json.value_to_json, "string": string.value_to_text, "bytes": bytes.value_to_bytes}[name]


def _value_reader(format: Format, text: str | None) -> Any:
    name = format.name
    if name == "avro":
        return avro.avro_codec(str(text))[1]
    if name == "protobuf":
        return protobuf.value_reader(format, str(text))
    if name == "csv":
        return csv.value_reader(format, str(text))
    if name == "kafka":
        return kafka.value_reader(format, str(text))
    if name == "delimited":
        return delimited.value_reader(format, text)
    if name == "ksql_json":
        return json.value_from_json
    return {"json": json.value_from_json, "string": string.value_from_text, "bytes": bytes.value_from_bytes}[name]


__all__ = ["REGISTRY_URL", "VALUE", "Codec", "declare_format", "schema_made_of"]
