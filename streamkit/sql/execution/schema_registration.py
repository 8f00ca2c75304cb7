"""The schemas of a topic in its registry: a statement that makes or changes the topic registers them, and not the first record."""

from __future__ import annotations

from dataclasses import replace

from streamkit.data_type import fields_of, inner_types, is_nested, to_arrow
from streamkit.errors import StreamKitError
from streamkit.expressions.ksql.signature import without_times
from streamkit.formats.codec import Codec, format_of_keys, schema_made_of
from streamkit.formats.format import KEY_FORMAT, KEY_SCHEMA, WINDOW, Format
from streamkit.formats.windowed_keys import without_bounds
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.evolution import is_wider
from streamkit.log.topic.formats import KEY
from streamkit.log.topic.topic import Topic
from streamkit.plan.encoding import with_schema
from streamkit.schema import Schema
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.tree.span import TextSpan


def register_schemas(state: ScriptState, topic: Topic, span: TextSpan) -> None:
    """
    Make the schemas of a topic's values and keys known to its registry, if it has one; TopologyError at the statement if that refuses one.

    While a script is only checked, the registry is asked whether it would accept them, so that a script with a fault registers nothing.
    """
    for codec in _codecs(topic):
        try:
            if state.is_rehearsed:
                codec.check_registrable()
            else:
                codec.register()
        except StreamKitError as error:
            raise state.error(str(error), span) from None


def grow_schema(state: ScriptState, name: str, wanted: Format | None, span: TextSpan) -> None:
    """
    Let a topic behind a registry have the next schema, in which values are written from now on; TopologyError if the registry refuses it.

    One that lacks a column of the topic is not next, because others write it. Nor do topics without a registry get one here.
    """
    topic = state.definitions.find_topic(name)
    its = None if topic is None else topic.format
    if its is None or wanted is None or its.name != wanted.name or not (its.has_registry and wanted.has_registry):
        return
    if its.schema is None or wanted.schema is None:
        return
    if set(Codec(its).written.names) < set(Codec(wanted).written.names):
        state.definitions = state.definitions.with_altered_topic(name, Alteration(format_schema=wanted.schema))
        register_schemas(state, state.definitions.topic(name), span)


def check_holds(state: ScriptState, source: StoredSource, span: TextSpan) -> None:
    """TopologyError if a query would write wider numbers to a topic behind a registry than its schema has: values beyond that would be lost."""
    topic = state.definitions.find_topic(source.topic)
    format = None if topic is None else topic.format
    if format is None or format.schema is None or not format.has_registry:
        return
    there = Codec(format).written
    for name, type in ((str(one["name"]), without_times(str(one["type"]))) for one in source.columns):
        if name in there and name not in source.key and _is_wider(type, there[name].type):
            raise state.error(
                f"{name} is {type}, and the schema of the topic {source.topic} in the registry has it as {there[name].type}, so values "
                f"beyond that would be lost; expected a CAST of {name} to that type, or another topic",
                span,
            )


def _is_wider(written: str, known: str) -> bool:
    """Whether some numbers of a type are none of another one, at any depth; a double counts as a float, which ksqlDB does not have."""
    if (of_written := fields_of(written)) and (of_known := fields_of(known)):
        known_fields = dict(of_known)
        return any(name in known_fields and _is_wider(type, known_fields[name]) for name, type in of_written)
    if is_nested(written) or is_nested(known):
        return any(map(_is_wider, inner_types(written), inner_types(known)))
    return (written, known) != ("double", "float") and is_wider(to_arrow(written), to_arrow(known))


def written_format(state: ScriptState, source: StoredSource) -> Format | None:
    """The format in which rows of a stream or table are inserted, with the schema of their values; None of a topic without a registry."""
    topic = state.definitions.find_topic(source.topic)
    if topic is None or topic.format is None or not topic.format.has_registry:
        return None
    decoding = state.reading.topic_rows(source).decoding
    if decoding is None or not len(decoding.value):
        return None
    return with_schema(decoding.format, decoding.value)


def _codecs(topic: Topic) -> list[Codec]:
    """What knows a schema that the registry is to have: of the values, and of keys in a format that has schemas, too."""
    format = topic.format
    if format is None or not format.has_registry or format.schema is None:
        return []
    subjects_of = format.topic or topic.name
    found = [Codec(format, topic=subjects_of)]
    if name := format.setting(KEY_FORMAT):
        keys = format_of_keys(name, format, dict(format.settings))
        columns = Schema.from_ddl(format.setting(KEY_SCHEMA))
        columns = without_bounds(columns) if keys.setting(WINDOW) else columns
        if keys.has_registry:
            found.append(Codec(replace(keys, schema=schema_made_of(keys.name, columns)), topic=subjects_of, part=KEY))
    return found
