"""How the values and keys of an opaque topic are read as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamkit.errors import Location, TopologyError
from streamkit.formats.avro_compatibility import differ_in_case
from streamkit.formats.codec import Codec
from streamkit.formats.format import KEY_FORMAT, OF_KSQLDB, Format
from streamkit.plan.encoding import check_kafka_key, with_key_schema
from streamkit.plan.registry_fit import registry_misfit
from streamkit.schema import Schema, SchemaColumn

if TYPE_CHECKING:
    from streamkit.plan.program import Input

KEY = "key"


@dataclass(frozen=True)
class Decoding:
    """The formats of values and keys; `columns` are those of both that are wanted, `key` names those of the key."""

    value: Format
    keys: Format
    columns: Schema | None = None
    key: tuple[str, ...] | None = None

    @property
    def topic_format(self) -> Format:
        """The format of a topic whose values it reads; of CSV without columns of its own those that are wanted."""
        if self.value.name == "csv" and self.value.schema is None and self.columns is not None:
            return replace(self.value, schema=self.columns.ddl())
        return self.value

    def text(self) -> str:
        """What it reads, in a line."""
        return f"values of {self.value.name}"


@dataclass(frozen=True)
class DecodedSchema:
    """The columns of keys and those of values, and the formats of both, with the schemas that readers go by."""

    key: Schema
    value: Schema
    keys: Format
    format: Format

    @property
    def reads_each_key(self) -> bool:
        """
        Whether the key of each record is read, whatever is wanted of it.

        It is where the format says how keys lie, as the topics of ksqlDB's SQL have it: there a record whose key cannot be read is none.
        """
        is_said = dict(self.format.settings).get(KEY_FORMAT) == self.keys.name
        return len(self.key) > 0 and (is_said or self.keys.name in OF_KSQLDB)


def decoded(decoding: Decoding, source: Input, at: Location | None) -> DecodedSchema:
    """
    The columns of a decoding; a registry is asked for the newest schema if nothing else says what they are.

    What the decoding leaves out, the topic's own format says, if it is the same. TopologyError if nothing says how values are read, if the key's
    column is not named, and the value has one that is called `key`, and if the topic's values are in the wire format of a registry, and the decoding
    says none, or the other way round.
    """
    topic = source.topic
    format = _format(decoding, source.format)
    if source.format is not None and (reason := registry_misfit(format, source.format)):
        raise TopologyError(f"the topic {topic!r} cannot be read so: {reason}", at)
    if format.schema is None and not format.has_registry and format.name in ("avro", "protobuf"):
        raise TopologyError(
            f"the values of {topic!r} are {format.name}, and nothing says under which schema they were written; expected value_schema=, or "
            "schema.registry.url in format_settings=",
            at,
        )
    codec = Codec(format, decoding.columns, topic)
    columns = codec.columns
    if decoding.key is None and KEY in columns:
        raise TopologyError(
            f'the values of {topic!r} have a column "key"; expected key=, which names the column that the key becomes', at
        )
    names = (KEY,) if decoding.key is None else decoding.key
    keys = Schema(tuple(SchemaColumn(name, columns[name].type if name in columns else _key_type(decoding)) for name in names))
    values = Schema(tuple(SchemaColumn(column.name, column.type) for column in columns if column.name not in names))
    _check_bytes("values", format, values, topic, at)
    _check_bytes("keys", decoding.keys, keys, topic, at)
    _check_texts(format, values, topic, at)
    read = replace(codec.with_message, schema=codec.reader_schema)
    if read.name == "kafka" and not read.schema and len(values):  # the topic was declared without a value, which this reader has
        read = replace(read, schema=values.ddl())
    return DecodedSchema(keys, values, with_key_schema(decoding.keys, keys), read)


def _check_bytes(what: str, format: Format, columns: Schema, topic: str, at: Location | None) -> None:
    """TopologyError where bytes, which are what they are, would be a column of another type."""
    other = next((column for column in columns if column.type != "binary"), None)
    if format.name == "bytes" and other is not None:
        raise TopologyError(
            f"the {what} of {topic!r} are read as bytes, and the column {other.name!r} is {other.type}; expected {other.name} binary, or a "
            'format that reads such a type, as "string", "json" and "avro" do',
            at,
        )


def _check_texts(format: Format, columns: Schema, topic: str, at: Location | None) -> None:
    """TopologyError where values that are one text or bytes would be several columns, or none."""
    if format.name in ("string", "bytes") and len(columns.names) != 1:
        names = ", ".join(columns.names) or "none"
        raise TopologyError(
            f"the values of {topic!r} are read as {format.name}, which is one column beside the key's; found {names}; expected one column, as "
            f'in schema="{"line string" if format.name == "string" else "content binary"}", or a format of several, such as "csv" and "json"',
            at,
        )


def _format(decoding: Decoding, own: Format | None) -> Format:
    """The format by which values are read."""
    value = decoding.topic_format
    if own is None or own.name != value.name:
        return value
    if (
        decoding.value.schema is None and own.schema is not None and not own.has_registry
    ):  # how values lie, whatever is wanted of them
        value = replace(value, schema=own.schema)
    if decoding.value.schema is None and not value.settings:
        return own
    if value.schema == own.schema:
        return replace(value, earlier=own.earlier)
    return replace(value, earlier=(*own.earlier, own.schema)) if own.schema is not None and reads_by_names(value, own) else value


def reads_by_names(value: Format, own: Format) -> bool:
    """
    Whether values of Avro that were written under a topic's schemas are read under another one, fields by their names.

    Names that differ in their case only are those of no registry, and of values that are read by their places.
    """
    if value.name != "avro" or value.schema is None or value.has_registry:
        return False
    if value.schema in (own.schema, *own.earlier):
        return True
    return not differ_in_case(value.schema, str(own.schema))


def _key_type(decoding: Decoding) -> str:
    return "binary" if decoding.keys.name == "bytes" else "string"


def declared_decoding(value: Format, keys: Format, columns: Schema | None, key: tuple[str, ...] | None, at: Any) -> Decoding:
    """A decoding, checked: several columns of a key need a format that has several."""
    if key is not None and len(key) != 1 and keys.name in ("string", "bytes"):
        raise TopologyError(
            f'the key has the columns {list(key)}, and a key of format {keys.name} is one value; expected key_format=, such as "json"',
            at,
        )
    if columns is not None and key is not None and all(name in columns for name in key):
        check_kafka_key(keys, columns.select(key), "the keys cannot be read as kafka", at)
    return Decoding(value, keys, columns, key)
