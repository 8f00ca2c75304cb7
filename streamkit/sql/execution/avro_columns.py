"""
The columns of a topic of Avro without a registry, which a declaration may have more of.

All that is written to such a topic is under its newest schema, and who declares other columns reads them by their names. So a column
that the topic lacks has to be in its schema before anything is written.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa

from streamkit.description.applications import is_running
from streamkit.errors import SchemaError
from streamkit.expressions.ksql.signature import ksql_type, without_times
from streamkit.formats.avro_schema import avro_of
from streamkit.formats.codec import Codec, schema_made_of
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.evolution import is_wider
from streamkit.log.topic.topic import Topic
from streamkit.plan.decoding import reads_by_names
from streamkit.schema import Schema, SchemaColumn
from streamkit.sql.execution.backfill import built_beside
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.script.declared_source import HEADERS_ROLE
from streamkit.sql.tree.span import TextSpan


def add_avro_columns(state: ScriptState, source: StoredSource, span: TextSpan) -> bool:
    """
    Add to the topic of a declaration the columns that it lacks; whether it is a topic of Avro that is read by their names.

    TopologyError if it has one of them in a type that cannot be read as the declared one, or while an application that is no query of SQL reads it.
    Queries with other declarations of the topic begin again, because their runs do not know the new schema.
    """
    topic = state.definitions.find_topic(source.topic)
    if topic is None or topic.format is None or topic.format.name != "avro":
        return False
    own = topic.format
    columns = Schema(
        tuple(
            SchemaColumn(str(one["name"]), without_times(str(one["type"])))
            for one in source.columns
            if one["name"] not in source.key and one.get("role") != HEADERS_ROLE
        )
    )
    if own.schema is None or own.has_registry or not reads_by_names(replace(own, schema=schema_made_of("avro", columns)), own):
        return False
    written = Codec(own).written
    for column in columns:
        if column.name in written and not _is_readable(written[column.name], column):
            raise state.error(
                f"{column.name} is {ksql_type(written[column.name].type)} in the values of the topic {topic.name}, and {ksql_type(column.type)} in "
                f"{source.name}; expected the type that it has, which a query casts",
                span,
            )
    new = Schema(tuple(column for column in columns if column.name not in written))
    if not len(new) or source.is_read_only:
        return True
    _check_none_runs(state, topic, span)
    try:
        wanted = Alteration(format_schema=_with_fields(own.schema, new))
        state.definitions = state.definitions.with_altered_topic(topic.name, wanted)
    except SchemaError as error:
        raise state.error(str(error), span) from None
    for other in state.definitions.sources.values():
        if other.topic == topic.name and other.name != source.name:
            state.definitions = state.definitions.with_new_runs(other)
    return True


def _check_none_runs(state: ScriptState, topic: Topic, span: TextSpan) -> None:
    """TopologyError if an application that is no query runs and reads the topic: nobody would start it again, so it would leave out new records."""
    if topic.name in state.definitions.created:
        return
    applications, builds = state.log.catalog.applications, map(built_beside, state.definitions.queries.values())
    of_queries = {one.application for one in (*state.definitions.queries.values(), *builds) if one is not None}
    for found in applications.every():
        if found.name in of_queries or topic.id not in applications.current_inputs(found).topic_ids:
            continue
        state.definitions = state.definitions.with_seen(found.name)
        if is_running(state.log, found):
            raise state.error(
                f"the application {found.name} runs and reads the topic {topic.name}, and would leave out what is written with a column that the topic "
                "gets now; expected its end before, and its start after this, with which it reads all",
                span,
            )


def _is_readable(written: SchemaColumn, declared: SchemaColumn) -> bool:
    """Whether values of the one type may be read as the other; fields of nested ones are found by their names."""
    types = written.arrow.type, declared.arrow.type
    return (
        types[0] == types[1]
        or is_wider(types[1], types[0])
        or all(pa.types.is_nested(one) and one.id == types[0].id for one in types)
    )


def _with_fields(schema: str, new: Schema) -> str:
    """The schema of a record with a field for each of the columns, whose nested records have names of their own."""
    record = json.loads(schema)
    fields = json.loads(avro_of(new, f"{record['name']}_{len(record['fields'])}"))["fields"]
    return json.dumps({**record, "fields": [*record["fields"], *fields]})
