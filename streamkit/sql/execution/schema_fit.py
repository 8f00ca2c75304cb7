"""How a declaration fits the schemas that a registry has of its topic: what could be neither read nor written is an error of the statement."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from streamkit.data_type import FieldPath, fields_of, inner_types, struct_of, to_arrow
from streamkit.errors import SchemaError
from streamkit.expressions.ksql.signature import has_times, ksql_type, without_times
from streamkit.formats.avro_schema import is_record, times_in_micros
from streamkit.formats.codec import Codec, defaults_in
from streamkit.formats.format import KEY_FORMAT, KEY_SCHEMA, Format
from streamkit.formats.read_types import is_unreadable
from streamkit.formats.windowed_keys import BOUNDS
from streamkit.formats.written_types import why_unwritable
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.log.topic.topic import Topic
from streamkit.plan.encoding import Encoded, own_keys
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.stored_source import format_of_subject, is_ksql, schemas_there
from streamkit.sql.printer.names import quoted_name
from streamkit.sql.tree.span import TextSpan


def check_readable(state: ScriptState, known: StoredSource | None, stored: StoredSource, span: TextSpan) -> None:
    """TopologyError for a topic behind a registry whose schemas say that no row, or no key, would be read, or of SQL that no key would be written."""
    topic = state.definitions.find_topic(stored.topic)
    decoding = None if topic is None or topic.format is None else state.reading.topic_rows(stored).decoding
    if topic is None or topic.format is None or decoding is None or not decoding.format.has_registry:
        return
    format = format_of_subject(decoding.format, topic.format, topic.name)
    _check_keys_of_json(state, topic, decoding.keys, format, stored, span)
    try:
        if format.schema is None:  # else it is of SQL, and judged by that
            _check_values(Codec(format, topic=format.topic), decoding.value)
        own = own_keys(topic.format, decoding.keys.name, topic.name, is_new=topic.name in state.definitions.created)
        codec = Codec(own or replace(decoding.keys, schema=None), topic=format.topic, part=KEY)
        keys, newest = (codec.newest_columns(), codec.newest()) if own is None else (codec.written, own)
        if own is not None and own.name == "json":  # whose schema does not tell one number from another
            keys = Schema.from_ddl(topic.format.setting(KEY_SCHEMA))
    except SchemaError as error:
        if topic.name in state.definitions.created:  # which has none: it could not be made so
            raise state.error(str(error), span) from None
        reason = str(error).partition("; expected")[0]
        raise state.error(f"no record of the topic {topic.name} could be read: {reason}; expected another topic", span) from None
    types = {str(one["name"]): str(one["type"]) for one in stored.columns}
    former = {} if known is None else {str(one["name"]): str(one["type"]) for one in known.columns}
    declared = decoding.key.select(name for name in decoding.key.names if former.get(name) != types.get(name))
    if keys is None or not len(declared):  # a key of before stays, whatever keys others have registered since
        return
    where = "in the registry" if own is None else "by its format"
    is_left = own is None and topic.name in state.definitions.created  # by a topic that was dropped, or by others
    if missing := _lacking(decoding.keys, keys, declared):
        raise state.error(
            f"the keys of the topic {topic.name} have {keys} {where}, and no {', '.join(missing)}, which would be null; expected "
            f"{', '.join(f'{quoted_name(one.name)} {ksql_type(one.type)}' for one in keys)} as the key"
            + (f", or another name of the topic, or that you delete the subject {codec.subject()}" if is_left else ""),
            span,
        )
    alone = keys[VALUE].type if keys.names == (VALUE,) else struct_of((one.name, one.type) for one in keys)
    is_written = format.schema is not None and not stored.is_read_only
    defaults = {} if newest is None else defaults_in(newest)
    for one in declared:
        if one.name in BOUNDS:
            continue
        its = keys[one.name].type if one.name in keys else alone
        is_read = not is_unreadable(decoding.keys, one.type, its)
        is_other = is_of_other_kind(one.type, its) or _is_unwritable(decoding.keys, one, its, defaults)
        if not is_read or (is_written and is_other):
            raise state.error(
                f"{one.name} is {ksql_type(its)} in the keys of the topic {topic.name} {where}, and {ksql_type(types[one.name])} in "
                f"{stored.name}, so no record could be {'written' if is_read else 'read'}; expected the type that it has",
                span,
            )


def _check_keys_of_json(
    state: ScriptState, topic: Topic, keys: Format, values: Format, stored: StoredSource, span: TextSpan
) -> None:
    """TopologyError for keys in JSON without a registry where others write them under one of its schemas: none of them could be read."""
    assert topic.format is not None
    if keys.has_registry and keys.name == "json" and topic.format.setting(KEY_FORMAT) == "ksql_json":
        raise state.error(
            f"the keys of the topic {topic.name} are JSON without a schema of the registry, as the ksql dialect writes them beside such values, and the "
            f"spark dialect has them under one; expected the ksql dialect, or {stored.name} without its key",
            span,
        )
    is_said = topic.format.setting(KEY_FORMAT) not in ("", "json")  # in the spark dialect JSON is under a schema
    is_of_sql = is_said or topic.name in state.definitions.created
    if is_of_sql or keys.has_registry or keys.name not in ("json", "ksql_json") or not len(stored.key):
        return
    codec = Codec(replace(values, name="json", schema=None), topic=values.topic or topic.name, part=KEY)
    found = None if codec.registry is None else codec.registry.newest(codec.subject())
    if found is not None and found.type == "JSON":
        wanted = f"which the ksql dialect does not read; expected {stored.name} without its key, or the spark dialect, in which KEY_FORMAT = 'JSON' reads them"
        if not is_ksql(stored):
            wanted = "as values in JSON are not; expected VALUE_FORMAT = 'JSON_SR', beside which KEY_FORMAT = 'JSON' reads them"
        raise state.error(f"the keys of the topic {topic.name} are JSON under a schema of the registry, {wanted}", span)


def _check_values(codec: Codec, declared: Schema) -> None:
    """SchemaError for a subject of another format, or whose newest schema has a type that no column holds, or no columns of these names in Avro."""
    newest = None if codec.format.name == "protobuf" else codec.newest()
    if codec.format.name == "json":  # its fields are found by their names
        return
    codec.newest_columns()
    is_alone = newest is not None and newest.schema is not None and not is_record(newest.schema)
    if is_alone and len(declared) and VALUE not in declared:
        raise SchemaError(f"its values are no records, but the one column {quoted_name(VALUE)}")


def _lacking(format: Format, keys: Schema, declared: Schema) -> list[str]:
    """The columns of a key that those of the registry lack; one column of Avro may be a value without a record, or a struct of their fields."""
    if format.name == "avro" and len(declared) == 1:
        fields = {name for one in declared for name, _ in fields_of(one.type) or ()}
        if keys.names == (VALUE,) or fields & set(keys.names):
            return []
    return [name for name in declared.names if name not in (*keys.names, *BOUNDS)]


def check_behind_registry(
    state: ScriptState, known: StoredSource | None, stored: StoredSource, encoded: Encoded, topic: Topic, span: TextSpan
) -> None:
    """TopologyError for a column that could be neither read nor written under the schemas of a topic, or that its own schema does not take."""
    assert topic.format is not None
    new = _new_columns(known, encoded)
    for format in schemas_there(format_of_subject(encoded.format, topic.format, topic.name), encoded.value.names):
        _check_case(state, encoded.value.names, format, stored, span)
        is_own = format.schema == topic.format.schema
        _check_kinds(state, encoded.value, new, format, stored, span, is_own=is_own)
    check_others(state, known, stored, encoded, topic, span)


def _new_columns(known: StoredSource | None, encoded: Encoded) -> list[SchemaColumn]:
    """The columns of values that a declaration has, and the one of before had not."""
    former = () if known is None else [one["name"] for one in known.columns]
    return [one for one in encoded.value if one.name not in former]


def check_others(
    state: ScriptState, known: StoredSource | None, stored: StoredSource, encoded: Encoded, topic: Topic, span: TextSpan
) -> None:
    """
    TopologyError for a column that another declaration of the topic has in another kind: the first row gives the schema one of both.

    A key there is in other bytes, so it is not compared; in the spark dialect values have it, too.

    In a schema of others a time or a decimal may be there to be read, beside the number or text that the schema has. What is only read writes no row.
    """
    assert topic.format is not None
    new, is_own = _new_columns(known, encoded), topic.format.schema is not None
    for other in state.definitions.others(stored):
        if other.is_read_only:
            continue
        without = other.key if is_ksql(other) else ()
        types = {str(one["name"]): str(one["type"]) for one in other.columns if one["name"] not in without}
        for one in new:
            its = without_times(types.get(one.name, one.type))
            if is_of_other_kind(one.type, its, is_strict=is_own):
                raise state.error(
                    f"{one.name} is {ksql_type(types[one.name])} in {other.name}, and {ksql_type(one.type)} in {stored.name}, and both are the topic "
                    f"{stored.topic}; expected the same type, or another name, or DROP {other.kind.upper()} {other.name} before",
                    span,
                )


def _check_case(state: ScriptState, declared: Sequence[str], format: Format, stored: StoredSource, span: TextSpan) -> None:
    """TopologyError for a column whose name differs from one of the schema in its case only: all of its values would be null."""
    names = Codec(format).written.names
    in_any_case = {name.lower(): name for name in names}
    near = [(name, in_any_case[name.lower()]) for name in declared if name not in names and name.lower() in in_any_case]
    if near:
        raise state.error(
            f"the schema of the values of the topic {stored.topic} has {', '.join(its for _, its in near)}, and {stored.name} has "
            f"{', '.join(name for name, _ in near)}: behind a registry columns are found by their names in the same case; expected "
            f"{', '.join(quoted_name(its) for _, its in near)}, in backquotes",
            span,
        )


def _check_kinds(
    state: ScriptState,
    declared: Schema,
    new: Collection[SchemaColumn],
    format: Format,
    stored: StoredSource,
    span: TextSpan,
    *,
    is_own: bool,
) -> None:
    """
    TopologyError for a column of another kind than the schema of a topic behind a registry says: it could be neither read nor written.

    A `new` one is read as it says, and is written if the schema is the topic's own; in one of others it may be there to be read.
    """
    there, defaults = Codec(format).written, defaults_in(format)
    types = {str(one["name"]): str(one["type"]) for one in stored.columns}
    in_micros = times_in_micros(str(format.schema)) if format.name == "avro" else ()
    for one in declared:
        if one.name not in there:
            continue
        its = there[one.name].type
        is_micros = one.name in in_micros and has_times(types[one.name])
        is_refused = is_micros or (is_own and is_of_other_kind(one.type, its))
        if one in new and not is_refused:
            is_refused = is_unreadable(format, one.type, its) or (is_own and _is_unwritable(format, one, its, defaults))
        if is_refused:
            raise state.error(
                f"{one.name} is {ksql_type(its)}{' of microseconds' if is_micros else ''} in the schema of the values of the topic {stored.topic}, "
                f"and {ksql_type(types[one.name])} in {stored.name}; expected the type that it has, which a query casts, or another name",
                span,
            )


def _is_unwritable(format: Format, column: SchemaColumn, its: str, defaults: Mapping[FieldPath, Any]) -> bool:
    """Whether no value of a column may be written as the schema has it; JSON has times and decimals as texts."""
    is_text = format.name == "json" and "string" in (its, column.type)
    return not is_text and why_unwritable(format, column.type, its, (column.name,), defaults) is not None


def is_of_other_kind(type: str, its: str, *, is_strict: bool = False) -> bool:
    """Whether no value of a type is one of the other, at any depth; unless `is_strict`, times, decimals and bytes may be what some format has for them."""
    kinds = {_kind(type), _kind(its)}
    of_format = kinds & {"time", "decimal"}
    is_text = kinds == {"text", "bytes"}
    if len(kinds) > 1 and (
        is_strict or not (is_text or (len(of_format) == 1 and kinds - of_format <= {"number", "text", "bytes"}))
    ):
        return True
    pairs = list(zip(inner_types(type), inner_types(its)))
    if (fields := fields_of(type)) and (others := dict(fields_of(its) or ())):
        pairs = [(inner, others[name]) for name, inner in fields if name in others]
    return any(is_of_other_kind(*pair, is_strict=is_strict) for pair in pairs)


def _kind(type: str) -> str:
    """What values of a type are like."""
    arrow = to_arrow(type)
    if pa.types.is_temporal(arrow) or pa.types.is_decimal(arrow):
        return "time" if pa.types.is_temporal(arrow) else "decimal"
    if pa.types.is_floating(arrow) or pa.types.is_integer(arrow):
        return "number"
    if pa.types.is_string(arrow) or pa.types.is_binary(arrow):
        return "text" if pa.types.is_string(arrow) else "bytes"
    return str(arrow.id)
