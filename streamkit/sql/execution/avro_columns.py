"""
The columns of a topic of Avro without a registry, which a declaration may have more of.

All that is written to such a topic is under its newest schema, and who declares other columns reads them by their names. So a column
that the topic lacks has to be in its schema before anything is written.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.expressions.ksql.signature import ksql_type, without_times
from streamkit.formats.avro_schema import check_avro_names
from streamkit.formats.codec import Codec, schema_made_of
from streamkit.formats.format import Format
from streamkit.formats.grown_schema import with_avro_fields
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.evolution import is_wider
from streamkit.log.topic.topic import Topic
from streamkit.plan.decoding import reads_by_names
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.execution.backfill import built_beside, topic_of_built
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.script.declared_source import HEADERS_ROLE
from streamkit.sql.tree.span import TextSpan

_MOMENTS = ("timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros")


def add_avro_columns(state: ScriptState, source: StoredSource, span: TextSpan) -> bool:
    """
    Add to the topic of a declaration the columns that it lacks; whether it is a topic of Avro that is read by their names.

    TopologyError if it has one of them in a type that cannot be read as the declared one. Queries with other declarations of the topic begin again,
    and write under the new schema. What is built beside a query, whose
    topic takes the place of this one, gets the columns, too.
    """
    is_by_names = _add_to_topic(state, source, span)
    for query in state.definitions.queries.values():
        built, filled = built_beside(query), state.definitions.source(query.sink)
        if built is not None and filled is not None and filled.topic == source.topic and filled.name != source.name:
            _add_to_topic(state, replace(source, topic=str(topic_of_built(built))), span)
    return is_by_names


def gets_columns(topic: Topic | None) -> bool:
    """Whether declarations may add columns to a topic: it is one of Avro without a registry."""
    its = None if topic is None else topic.format
    return its is not None and its.name == "avro" and its.schema is not None and not its.has_registry


def _add_to_topic(state: ScriptState, source: StoredSource, span: TextSpan) -> bool:
    topic = state.definitions.find_topic(source.topic)
    own, columns = None if topic is None else topic.format, _value_columns(source)
    if topic is None or own is None or own.schema is None or not gets_columns(topic):
        return False
    written = Codec(own).written
    if not _goes_by_names(columns, own):
        _check_places(state, source, columns, own, span)
        return False
    for column in columns:
        if column.name in written and not _is_readable(written[column.name].arrow.type, column.arrow.type):
            raise state.error(
                f"{column.name} is {ksql_type(written[column.name].type)} in the values of the topic {topic.name}, and {ksql_type(column.type)} in "
                f"{source.name}; expected the type that it has, which a query casts",
                span,
            )
    new = Schema(tuple(column for column in columns if column.name not in written))
    if not len(new) or source.is_read_only:
        return True
    others = state.definitions.others(source)
    for other in others:
        if state.keeps_case and not _goes_by_names(_value_columns(other), own):
            raise state.error(
                f"the topic {topic.name} would get {', '.join(new.names)}, and {other.name}, whose names differ from those of its values in their case "
                f"only, reads them by places, so it would read none of them; expected DROP {other.kind.upper()} {other.name} before",
                span,
            )
    try:
        check_avro_names(new)
        wanted = Alteration(format_schema=with_avro_fields(own.schema, new))
        state.definitions = state.definitions.with_altered_topic(topic.name, wanted)
    except SchemaError as error:
        raise state.error(str(error), span) from None
    for other in others:
        state.definitions = state.definitions.with_new_runs(other)
    return True


def _value_columns(source: StoredSource) -> Schema:
    """The columns of values that a declaration has."""
    return Schema(
        tuple(
            SchemaColumn(str(one["name"]), without_times(str(one["type"])))
            for one in source.columns
            if one["name"] not in source.key and one.get("role") != HEADERS_ROLE
        )
    )


def _goes_by_names(columns: Schema, own: Format) -> bool:
    return reads_by_names(replace(own, schema=schema_made_of("avro", columns)), own)


def _check_places(state: ScriptState, source: StoredSource, columns: Schema, own: Format, span: TextSpan) -> None:
    """
    TopologyError if columns whose names differ in their case only are not those of the values at their places, too: no record would be read.

    The bytes have to be of one form: a value that may not be null has none in front that says so.
    """
    written = Codec(own).written
    places = [[(one.name.lower(), one.type.lower()) for one in listed] for listed in (columns, written)]
    is_of_one_form = _form(json.loads(str(schema_made_of("avro", columns)))) == _form(json.loads(str(own.schema)))
    if state.keeps_case and (places[0] != places[1] or not is_of_one_form):
        found, has = (", ".join(f"{one.name} {ksql_type(one.type)}" for one in listed) for listed in (columns, written))
        raise state.error(
            f"the values of the topic {source.topic} have {has}, and {source.name} has {found}: names that differ in their case only are read by their "
            "places; expected the names as the topic has them, in backquotes if they have small letters, or the same columns in the same order, all of "
            "which may be null, as ksqlDB writes them",
            span,
        )


def _form(schema: Any) -> Any:
    """What says how the bytes of a schema of Avro are read, and in any case the names of fields."""
    if isinstance(schema, list):
        return [_form(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    match schema["type"]:
        case "record":
            return ["record", *((field["name"].lower(), _form(field["type"])) for field in schema["fields"])]
        case "array":
            return ["array", _form(schema["items"])]
        case "map":
            return ["map", _form(schema["values"])]
        case str() as kind:
            scale = [schema.get(name, 0) for name in ("precision", "scale")]
            logical = schema.get("logicalType", "")
            return [kind, logical, *scale] if logical in ("decimal", *_MOMENTS) else kind
        case inner:
            return _form(inner)


def _is_readable(written: pa.DataType, declared: pa.DataType) -> bool:
    """Whether values of the one type may be read as the other; fields of nested ones are found by their names, and none is added to them."""
    if written == declared or is_wider(declared, written):
        return True
    if not pa.types.is_nested(written) or written.id != declared.id:
        return False
    if pa.types.is_struct(written):
        its = {field.name: field.type for field in written}
        return all(field.name in its and _is_readable(its[field.name], field.type) for field in declared)
    if pa.types.is_map(written):
        return _is_readable(written.key_type, declared.key_type) and _is_readable(written.item_type, declared.item_type)
    return _is_readable(written.value_type, declared.value_type)
