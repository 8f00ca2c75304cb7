"""How rows of columns are written as the keys and values of an opaque topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from streamkit.data_type import INTEGERS, element_of, entry_of, fields_of, struct_of
from streamkit.errors import Location, SchemaError, TopologyError
from streamkit.formats.codec import Codec, defaults_in, format_of_keys, schema_made_of, with_newest_schema
from streamkit.formats.csv import check_csv_schema
from streamkit.formats.format import (
    KEY_FORMAT,
    KEY_SCHEMA,
    OF_KSQLDB,
    REGISTRY,
    UNWRAPPED,
    USE_LATEST,
    WINDOW,
    Format,
    format_of,
    key_columns,
    key_settings,
)
from streamkit.formats.kafka import check_kafka_schema
from streamkit.formats.windowed_keys import without_bounds
from streamkit.formats.written_types import why_unwritable
from streamkit.schema import Schema

KEY = "key"
_OF_ONE = ("string", "bytes")


@dataclass(frozen=True)
class Encoding:
    """
    The formats of values and keys; without one of keys a single column is text, and several are JSON.

    `timestamp` is the column that has the time of what is written, and `timestamp_format` the pattern of its texts.
    With `since_1970` a time before 1970 counts as none.
    """

    value: Format
    keys: Format | None = None
    timestamp: str | None = field(default=None, kw_only=True)
    timestamp_format: str | None = field(default=None, kw_only=True)
    since_1970: bool = field(default=False, kw_only=True)

    def text(self) -> str:
        """What it writes, in a line."""
        return f"values of {self.value.name}"


@dataclass(frozen=True)
class Encoded:
    """The columns that make keys and values, and the formats of both."""

    key: Schema
    value: Schema
    keys: Format
    format: Format

    @property
    def columns(self) -> Schema:
        """All columns that are written."""
        return Schema((*self.key, *(column for column in self.value if column.name not in self.key)))

    def under(self, topic: Format, *, with_key: bool) -> Schema:
        """
        The columns of which values are made under the schema that a topic has; SchemaError as of `value_columns`.

        Without `with_key` a field with the name of a column of the key is another declaration's, and stays null.
        """
        return value_columns(topic, self.columns if with_key else self.value, self.key.names)


def encoded(encoding: Encoding, rows: Schema, key: tuple[str, ...], topic: str, at: Location | None) -> Encoded:
    """
    The columns and formats of an encoding; a format that needs a schema and has none gets that of the columns.

    Values have all columns, those of the key among them; those of a schema the ones that it names. TopologyError for columns that the
    schema does not name or needs besides, and where one text or bytes would be several columns.
    """
    keys = encoding.keys or Format("string" if len(key) == 1 else "json")
    columns = rows.select(key)
    if keys.name in _OF_ONE and len(columns.names) > 1:
        raise TopologyError(
            f"the key of the rows for {topic!r} has the columns {list(key)}, and a key of format {keys.name} is one value; expected "
            'key_format="json", or another format of several columns',
            at,
        )
    _check_one(f"keys of {topic!r}", keys, columns, at)
    check_kafka_key(keys, columns, f"the keys of {topic!r} cannot be written as kafka", at)
    try:
        value = value_columns(encoding.value, rows, key)
        _check_one(f"values of {topic!r}", encoding.value, value, at)
        for one, written in ((encoding.value, value), (keys, columns)):
            if one.name in ("csv", "delimited"):
                check_csv_schema(written)
        format = with_schema(encoding.value, value)
    except SchemaError as error:
        raise TopologyError(f"the values of {topic!r} cannot be written as {encoding.value.name}: {error}", at) from error
    return Encoded(columns, value, with_key_schema(keys, columns), format)


def other_keys(one: Encoded, other: Encoded) -> str | None:
    """How two ways to write a key differ; None if equal keys are equal bytes."""
    if one.keys.name != other.keys.name:
        return f"its keys are {one.keys.name}, and would be {other.keys.name}"
    if one.keys.name not in _OF_ONE and _forms(one) != _forms(other):
        return f"its keys are {one.keys.name} of {one.key}, and would be of {other.key}"
    return None


def is_same_key(keys: Format, columns: Schema, its: Schema) -> bool:
    """
    Whether keys of these columns are, under the schema of a topic, those of its own columns to the byte.

    So are they of the same names and types, or of narrower whole numbers; in JSON of any whole numbers, and in the same order.
    """
    if not columns.names:
        return True  # there is no key
    types, known = ([(one.name, one.type) for one in schema] for schema in (columns, its))
    return _is_same_type(struct_of(types), struct_of(known), is_json=keys.name == "json")


def _is_same_type(type: str, its: str, *, is_json: bool) -> bool:
    """
    Whether a value of one type is written to the same bytes as one of the other type.

    Fields of structs may stand in another order, but not in JSON, which writes them in their order.
    """
    if type in INTEGERS and its in INTEGERS:
        return is_json or INTEGERS.index(type) <= INTEGERS.index(its)
    fields, others = fields_of(type), fields_of(its)
    if fields and others:
        pairs = list(zip(fields, others)) if is_json else list(zip(sorted(fields), sorted(others)))
        is_same = len(fields) == len(others) and all(one[0] == other[0] for one, other in pairs)
        return is_same and all(_is_same_type(one[1], other[1], is_json=is_json) for one, other in pairs)
    element, other = element_of(type), element_of(its)
    return _is_same_type(element, other, is_json=is_json) if element and other else type == its


def other_settings(own: Mapping[str, str], its: Mapping[str, str]) -> str | None:
    """Which setting of a topic's format differs from what is written; None if none does, or if only names of keys do that are in no bytes."""
    for name in sorted({*own, *its}):
        written, found = own.get(name), its.get(name)
        if name == KEY_SCHEMA and written and found:  # which may be null or not
            written, found = (key_columns(one).replace(" NOT NULL", "") for one in (written, found))
        if written == found or (name == KEY_FORMAT and {written or "string", found or "string"} == {"string"}):
            continue  # a topic that says no format of its keys has texts as keys
        if name == KEY_SCHEMA and written and found:
            types = [[one.type for one in Schema.from_ddl(text)] for text in (written, found)]
            keys = format_of(own[KEY_FORMAT], None, key_settings(own))
            if types[0] == types[1] and not _has_names(keys):
                continue
        if name.startswith(REGISTRY):  # no message shows secrets
            return f"its format has another {name} than what is written; expected the same"
        if name in (KEY_FORMAT, KEY_SCHEMA):
            what = "its keys are"
            found, written = map(_keys_said, (its, own))
        else:
            what, (found, written) = f"its format has {name}", (repr(one) if one else "unset" for one in (found, written))
        return f"{what} {found}, and what is written has {written}; expected the same"
    return None


def _keys_said(settings: Mapping[str, str]) -> str:
    """What the settings of a format say of keys, in words."""
    if KEY_FORMAT not in settings:
        return "not declared"
    return f"{settings[KEY_SCHEMA]} in the format {settings[KEY_FORMAT]}" if KEY_SCHEMA in settings else settings[KEY_FORMAT]


def _has_names(keys: Format) -> bool:
    """Whether keys of a format have the names of their columns in their bytes."""
    return keys.name not in ("kafka", "delimited") and keys.setting(UNWRAPPED) != "true"


def _forms(written: Encoded) -> list[tuple[str, str]]:
    """The names that are in the bytes of a key, and the types, among which whole numbers have the same bytes but in KAFKA."""
    is_named, has_lengths = _has_names(written.keys), written.keys.name == "kafka"
    return [
        (column.name if is_named else "", INTEGERS[-1] if column.type in INTEGERS and not has_lengths else column.type)
        for column in written.key
    ]


def with_key_schema(keys: Format, columns: Schema) -> Format:
    """The format of keys; one that needs a schema and has none gets that of these columns, nullable or not, so that readers have the same."""
    if keys.schema is not None or keys.has_registry or keys.name not in ("avro", "protobuf"):
        return keys
    before_window = without_bounds(columns) if keys.setting(WINDOW) else columns
    nullable = Schema(tuple(replace(column, nullable=True) for column in before_window))
    return replace(keys, schema=schema_made_of(keys.name, nullable))


def own_keys(format: Format | None, name: str, topic: str, *, is_new: bool = False) -> Format | None:
    """
    The format of that name in which a topic of SQL has its keys, with their schema; None if the registry alone says it, or another format.

    The subject may have newer versions, of others or of a topic that was dropped. It has that of a topic of SQL, unless this `is_new`; of a topic of
    others it has theirs alone, whatever the topic says of its keys.
    """
    if (
        format is None
        or format.schema is None
        or not name
        or format.setting(KEY_FORMAT) != name
        or not format.setting(KEY_SCHEMA)
    ):
        return None
    keys = format_of_keys(name, format, dict(format.settings))
    if not keys.has_registry:
        return None
    columns = Schema.from_ddl(format.setting(KEY_SCHEMA))
    columns = without_bounds(columns) if keys.setting(WINDOW) else columns
    try:
        found = replace(keys, schema=schema_made_of(name, columns), topic=format.topic)
    except SchemaError:
        if is_new:
            raise
        return None  # the topic is not of SQL, which makes none with such columns
    return found if is_new or Codec(found, topic=format.topic or topic, part=KEY).is_registered() else None


def with_keys(format: Format, keys: Format, columns: Schema) -> Format:
    """
    The format of a topic that is made for keys of these columns; it says how they lie if they are under schemas of a registry.

    So later writers give equal keys equal bytes, whatever schemas others have registered in the meantime.
    """
    if not keys.has_registry or not columns.names or format.setting(KEY_FORMAT):
        return format
    said = {**dict(format.settings), KEY_FORMAT: keys.name, KEY_SCHEMA: columns.ddl()}
    return replace(format, settings=tuple(sorted(said.items())))


def with_subject_of_keys(written: Encoded, topic: str, own: Format | None = None) -> Format:
    """
    The format of keys; with the schema of their subject under which they are written, if they fit it.

    Equal keys have equal bytes, also where others have given the subject a newer schema. So the schema of the topic's `own` format goes first, then one
    that the subject has and that is made of these columns, then the newest.
    """
    keys, columns = written.keys, written.key
    if keys.schema is not None or not keys.has_registry or not columns.names:
        return keys
    columns = without_bounds(columns) if keys.setting(WINDOW) else columns
    nullable = Schema(tuple(replace(column, nullable=True) for column in columns))
    try:
        its = own_keys(own, keys.name, topic)
        made = [replace(keys, schema=schema_made_of(keys.name, each)) for each in (columns, nullable)]
        if its is None and any(Codec(one, topic=topic, part=KEY).is_registered() for one in made):
            return keys
        found = with_newest_schema(keys, topic, KEY) if its is None else replace(keys.under_its_own(), schema=its.schema)
        return found if found.schema is not None and len(value_columns(found, columns, ())) else keys
    except SchemaError:  # the registry says whether it takes the one that is made
        return keys


def with_schema(format: Format, columns: Schema) -> Format:
    """The format with the schema of these columns, if it needs one and nothing else says it."""
    is_said = format.schema is not None or format.setting(USE_LATEST) == "true"
    is_free = format.name == "ksql_json" or (format.name == "json" and not format.has_registry)
    return format if is_said or is_free else replace(format, schema=schema_made_of(format.name, columns))


def value_columns(format: Format, rows: Schema, key: tuple[str, ...]) -> Schema:
    """
    The columns of which values are made.

    SchemaError if the format's schema has others, leaves out more than the key's, or has one in a type whose values it is never.
    """
    if format.name in OF_KSQLDB:
        return rows.select(name for name in rows.names if name not in key)
    if format.name in _OF_ONE:
        return rows.select(name for name in rows.names if name not in key) if len(rows.names) > 1 else rows
    if format.schema is None:
        return rows
    named, defaults = Codec(format).written, defaults_in(format)
    needed = [name for name in named.names if (name,) not in defaults]
    _check_named("its schema has {}, which is not written", (name for name in needed if name not in rows), rows, named)
    lost = (name for name in rows.names if name not in named and name not in key)
    _check_named("its schema does not have {}, which is written", lost, rows, named)
    found = rows.select(name for name in named.names if name in rows)
    for column in found:
        reason = why_unwritable(format, column.type, named[column.name].type, (column.name,), defaults)
        if reason is not None:
            raise SchemaError(f"{reason}; expected a column of that type, by cast() in front, or another schema")
    return found


def check_kafka_key(keys: Format, columns: Schema, what: str, at: Location | None) -> None:
    """TopologyError for a key in ksqlDB's format KAFKA that is not one value of a type which the format has."""
    if keys.name != "kafka" or not columns.names:
        return
    try:
        check_kafka_schema(without_bounds(columns) if keys.setting(WINDOW) else columns)
    except SchemaError as error:
        raise TopologyError(f'{what}: {error}; expected key_format="json", or another format that holds such a key', at) from None


def _check_named(complaint: str, names: Iterable[str], rows: Schema, named: Schema) -> None:
    if found := list(names):
        shown = ", ".join(map(repr, found))
        raise SchemaError(
            f"{complaint.format(shown)}; the schema has {', '.join(named.names)}, and written are {', '.join(rows.names)}"
        )


def _check_one(what: str, format: Format, columns: Schema, at: Location | None) -> None:
    """TopologyError where one text, or bytes, would be several columns or one that is neither."""
    if format.name not in _OF_ONE or (not columns.names and what.startswith("keys")):
        return
    fits = len(columns.names) == 1 and all(_is_one(format, column.type) for column in columns)
    if not fits:
        kind = "binary" if format.name == "bytes" else "text, or a number, a date, a time or a boolean"
        raise TopologyError(
            f"the {what} are written as {format.name}, which is one column of {kind} beside the key's; found {columns or 'none'}; expected "
            'select() of that one column before, or a format of several columns, such as "json"',
            at,
        )


def _is_one(format: Format, type: str) -> bool:
    if format.name == "bytes":
        return type == "binary"
    return type not in ("binary", "void") and not (element_of(type) or entry_of(type) or fields_of(type))
