"""The schemas of a topic in its registry: a statement that makes or changes the topic registers them, and not the first record."""

from __future__ import annotations

from dataclasses import replace

from streamkit.data_type import INTEGERS, fields_of, inner_types, is_nested, to_arrow
from streamkit.errors import RegistryUnavailableError, SchemaError, StreamKitError
from streamkit.expressions.ksql.signature import ksql_type, without_times
from streamkit.formats.avro_schema import check_avro_names, is_record
from streamkit.formats.codec import Codec, schema_made_of, with_newest_schema
from streamkit.formats.format import AUTO_REGISTER, KEY_FORMAT, KEY_SCHEMA, WINDOW, Format
from streamkit.formats.windowed_keys import without_bounds
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.evolution import is_wider
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.log.topic.topic import Topic
from streamkit.plan.encoding import Encoded, is_same_key, own_keys, value_columns, with_schema, with_subject_of_keys
from streamkit.schema import Schema
from streamkit.sql.execution.script_state import ScriptState
from streamkit.sql.execution.stored_source import format_of_subject, has_all, schemas_there
from streamkit.sql.tree.span import TextSpan


def register_schemas(
    state: ScriptState, topic: Topic, span: TextSpan, *, with_keys: bool = True, checks_names: bool = True
) -> None:
    """
    Make the schemas of a topic's values and keys known to its registry, if it has one; TopologyError at the statement if that refuses one.

    Without `with_keys` it is of a topic that is there, whose keys stay as they are: others may have registered them. Where it `checks_names`, those that
    Avro does not accept are refused, too.

    While a script is only checked, the registry is asked whether it would accept them, so that a script with a fault registers nothing.
    """
    try:
        if with_keys and checks_names:
            _check_names(topic)
    except SchemaError as error:
        raise state.error(str(error), span) from None
    for codec in _codecs(topic, with_keys=with_keys):
        try:
            if state.is_rehearsed:
                codec.check_registrable()
            else:
                codec.register()
        except StreamKitError as error:
            raise state.error(str(error), span) from None


def _check_names(topic: Topic) -> None:
    """SchemaError for names that Avro does not accept, in a topic that a statement makes, with a registry or without."""
    format = topic.format
    if format is None:
        return
    if format.name == "avro" and format.schema is not None:
        check_avro_names(Codec(format).written)
    if format.setting(KEY_FORMAT) == "avro":
        check_avro_names(Schema.from_ddl(format.setting(KEY_SCHEMA)))


def under_its_subject(topic: Topic) -> Topic:
    """
    A topic that a statement makes; with the newest schema of its subject where the registry refuses the one of its columns, and they fit that.

    So a topic is made for a subject that others have, whose records are called otherwise or have more fields.
    """
    if topic.format is None or topic.format.schema is None or not topic.format.has_registry:
        return topic
    newest = _newest_instead(topic.format, topic.format.topic or topic.name, VALUE)
    return topic if newest is None else replace(topic, format=newest)


def under_its_subject_of_keys(topic: Topic) -> Topic:
    """
    A topic that a statement makes; without a schema of its keys where the registry refuses that, and the columns fit the newest of the subject.

    So the registry says what they are, as of a topic of others.
    """
    format = topic.format
    try:
        keys = own_keys(format, "" if format is None else format.setting(KEY_FORMAT), topic.name, is_new=True)
    except SchemaError:  # which `register_schemas` says
        return topic
    if format is None or keys is None or _newest_instead(keys, format.topic or topic.name, KEY) is None:
        return topic
    settings = tuple(pair for pair in format.settings if pair[0] != KEY_SCHEMA)
    return replace(topic, format=replace(format, settings=settings))


def _newest_instead(format: Format, topic: str, part: str) -> Format | None:
    """
    The format with the newest schema of its subject, where the registry refuses the schema that it has.

    None if it does not, or if the columns are others there, or not enough.
    """
    try:
        Codec(format, topic=topic, part=part).check_registrable()
        return None
    except RegistryUnavailableError:  # as `register_schemas` finds, too
        return None
    except SchemaError:  # which `register_schemas` says, unless the newest does
        pass
    try:
        newest = with_newest_schema(replace(format, schema=None), topic, part)
        if newest.schema is None or newest.settings != format.settings or (part == KEY and not _has_record(newest)):
            return None
        columns, its = Codec(format).written, Codec(newest).written
        value_columns(newest, columns, ())
    except SchemaError:
        return None
    is_fit = all(one.name in its and _fits(one.type, its[one.name].type, part) for one in columns)
    return newest if is_fit else None


def _fits(type: str, its: str, part: str) -> bool:
    """Whether a column may be under a field of a type: in keys whole numbers may be narrower, which have the same bytes."""
    return type == its or (part == KEY and type in INTEGERS and its in INTEGERS[INTEGERS.index(type) :])


def _has_record(keys: Format) -> bool:
    """Whether keys have the record that SQL writes around their columns."""
    return keys.name != "avro" or is_record(str(keys.schema))


def let_write(
    state: ScriptState, topic: str, written: Encoded | None, source: str, span: TextSpan, *, is_said: bool = False
) -> None:
    """Let a stream or table write to a topic behind a registry as `grow_schema` does; TopologyError if it could not, whatever its rows are."""
    found = state.definitions.find_topic(topic)
    if written is None or found is None or found.format is None or not written.format.has_registry:
        return
    let_write_keys(state, topic, written, source, span)
    its = format_of_subject(written.format, found.format, topic)
    try:
        if next := _next_format(its, written, is_said=is_said):
            written.under(next, with_key=written.format.setting(KEY_FORMAT) is None)
    except SchemaError as error:
        raise state.error(_refused(source, "values", topic, error), span) from None
    grow_schema(state, topic, written, span, is_said=is_said)


def let_write_keys(state: ScriptState, topic: str, written: Encoded | None, source: str, span: TextSpan) -> None:
    """Let a stream or table write keys to a topic behind a registry, as rows and deletions have them; TopologyError if it could not."""
    found = state.definitions.find_topic(topic)
    if written is None or found is None:
        return
    try:
        _check_keys(written, found, is_new=topic in state.definitions.created)
    except SchemaError as error:
        raise state.error(_refused(source, "keys", topic, error), span) from None


def _refused(source: str, what: str, topic: str, error: SchemaError) -> str:
    reason = str(error)
    if "\n" not in reason:  # else it shows both schemas, and says what to do
        reason = (
            f"{reason.partition('; expected')[0]}; expected columns as the newest schema of the subject has them, to which a query casts, or "
            "another topic"
        )
    return f"{source} cannot write {what} of the topic {topic} behind its registry: {reason}"


def _check_keys(written: Encoded, topic: Topic, *, is_new: bool) -> None:
    """SchemaError if a topic cannot take these keys: they fit no schema of its subject, or the registry refuses theirs as the first one."""
    own = own_keys(topic.format, written.keys.name, topic.name, is_new=is_new)
    if own is not None and own.name == "json" and topic.format is not None:  # whose schema does not tell one number from another
        declared = Schema.from_ddl(topic.format.setting(KEY_SCHEMA))
        if not is_same_key(own, written.key, declared):
            raise SchemaError(f"its keys are {declared}, and {written.key} is written")
    keys, columns = with_subject_of_keys(written, topic.name, topic.format), written.key
    if not keys.has_registry or keys.schema is not None or not columns.names:
        return
    columns = without_bounds(columns) if keys.setting(WINDOW) else columns
    nullable = Schema(tuple(replace(column, nullable=True) for column in columns))
    made, other = (
        Codec(replace(keys, schema=schema_made_of(keys.name, each)), topic=topic.name, part=KEY) for each in (columns, nullable)
    )
    if own is None and (made.is_registered() or other.is_registered()):
        return
    newest = own or with_newest_schema(keys, topic.name, KEY)
    if newest.schema is not None:  # equal keys have equal bytes, so it gets no second one: this says why it does not take them
        if not _has_record(newest):
            raise SchemaError(f"its keys are {newest.schema}, without the record that SQL writes around them")
        value_columns(newest, columns, ())
    else:
        _check_registers(made.format, topic.name)
        made.check_registrable()


def grow_schema(state: ScriptState, name: str, written: Encoded | None, span: TextSpan, *, is_said: bool = False) -> None:
    """
    Let the values of a topic behind a registry have a schema with all columns that are written from now on; TopologyError if it may have none.

    That is the topic's own, or the newest of its subject, or else the newest with fields for the columns that it lacks, which is registered: so no
    version is without the fields of others. A schema that a declaration has `said` takes the place of a smaller one as it is.
    """
    topic = state.definitions.find_topic(name)
    if (
        topic is None
        or topic.format is None
        or written is None
        or not written.format.has_registry
        or written.format.schema is None
    ):
        return
    its = format_of_subject(written.format, topic.format, name)
    try:
        next = _next_format(its, written, is_said=is_said)
        if next is None or next.schema == its.schema:
            return
        if next.name == "avro" and its.schema is not None:
            known = Codec(its).written.names
            check_avro_names(Schema(tuple(one for one in Codec(next).written if one.name not in known)))
        codec = Codec(next, topic=its.topic)
        if is_new := not codec.is_registered():
            _check_registers(next, name)
        if topic.format.schema is not None:
            state.definitions = state.definitions.with_altered_topic(name, Alteration(format_schema=next.schema))
            register_schemas(state, state.definitions.topic(name), span, with_keys=False)
        elif is_new and state.is_rehearsed:
            codec.check_registrable()
            altered = {**state.definitions.altered, name: replace(topic, format=next)}  # as the subject will be
            state.definitions = replace(state.definitions, altered=altered)
        elif is_new:
            codec.register()
    except SchemaError as error:
        raise state.error(str(error), span) from None


def _next_format(its: Format, written: Encoded, *, is_said: bool) -> Format | None:
    """The format of a topic with the schema in which values have all columns that are written; None if none is needed, or it has been said otherwise."""
    wanted = written.format.schema
    if is_said and wanted is not None:
        known = set() if its.schema is None else set(Codec(its).written.names)
        said = set(Codec(written.format).written.names)
        return its if said <= known else replace(its, schema=wanted) if known < said else None
    names = set(written.value.names)
    there = schemas_there(its, names)
    if not there:
        return None if wanted is None else replace(its, schema=wanted)
    if has_all(there[-1], names):
        return there[-1]
    codec = Codec(its, topic=its.topic)
    codec.check_takes_fields()
    return replace(its, schema=codec.grown(str(there[-1].schema), str(wanted)))


def _check_registers(format: Format, name: str) -> None:
    """SchemaError for a new schema of a topic whose settings say that writers register none."""
    if format.setting(AUTO_REGISTER) == "false":
        raise SchemaError(
            f"the topic {name} has {AUTO_REGISTER} false, so SQL registers no schema for it, and the registry has none with "
            f"{', '.join(Codec(format).written.names)}; expected columns that the newest schema of its subject has, or a schema with these in the "
            "registry before"
        )


def check_holds(state: ScriptState, source: StoredSource, span: TextSpan) -> None:
    """TopologyError if a query would write wider numbers to a topic behind a registry than its schemas have: values beyond that would be lost."""
    topic = state.definitions.find_topic(source.topic)
    if topic is None or topic.format is None or not topic.format.has_registry:
        return
    try:
        format = with_newest_schema(topic.format, source.topic)
        values = Schema(()) if format.schema is None else Codec(format).written
        keys = _columns_of_keys(state, source, topic)
    except SchemaError:  # nothing is written to it, which is said where that is tried
        return
    for name, type in ((str(one["name"]), without_times(str(one["type"]))) for one in source.columns):
        its = keys if name in source.key else values
        if name in its and _is_wider(type, its[name].type):
            wanted = f"a CAST of {name} to that type"
            if source.query is None:
                wanted = f"{source.name} declared with {name} as {ksql_type(its[name].type)}"
            raise state.error(
                f"{name} is {type}, and the schema of the topic {source.topic} in the registry has it as {its[name].type}, so values "
                f"beyond that would be lost; expected {wanted}, or another topic",
                span,
            )


def _columns_of_keys(state: ScriptState, source: StoredSource, topic: Topic) -> Schema:
    """The columns of the schema under which rows get their keys; none where the columns make it, and of keys without a registry."""
    written = written_by(state, source)
    if written is None or not written.keys.has_registry:
        return Schema(())
    own = own_keys(topic.format, written.keys.name, topic.name, is_new=topic.name in state.definitions.created)
    keys = own or with_subject_of_keys(written, topic.name)
    return Schema(()) if keys.schema is None else Codec(keys, part=KEY).written


def _is_wider(written: str, known: str) -> bool:
    """Whether some numbers of a type are none of another one, at any depth; a double counts as a float, which ksqlDB does not have."""
    if (of_written := fields_of(written)) and (of_known := fields_of(known)):
        known_fields = dict(of_known)
        return any(name in known_fields and _is_wider(type, known_fields[name]) for name, type in of_written)
    if is_nested(written) or is_nested(known):
        return any(map(_is_wider, inner_types(written), inner_types(known)))
    return (written, known) != ("double", "float") and is_wider(to_arrow(written), to_arrow(known))


def written_by(state: ScriptState, source: StoredSource) -> Encoded | None:
    """How rows of a stream or table are inserted, with a schema of their values; None of a topic without a registry."""
    topic = state.definitions.find_topic(source.topic)
    if topic is None or topic.format is None:
        return None
    decoding = state.reading.topic_rows(source).decoding
    if decoding is None or not decoding.format.has_registry:
        return None
    format = with_schema(decoding.format, decoding.value) if len(decoding.value) else decoding.format
    # For a stream without a key the spark dialect reads a text as the key, and writes none.
    key = decoding.key if source.key else Schema(())
    return Encoded(key, decoding.value, decoding.keys, format)


def _codecs(topic: Topic, *, with_keys: bool) -> list[Codec]:
    """What knows a schema that the registry is to have: of the values, and of keys in a format that has schemas, too."""
    format = topic.format
    if format is None or not format.has_registry or format.schema is None:
        return []
    subjects_of = format.topic or topic.name
    keys = own_keys(format, format.setting(KEY_FORMAT), topic.name, is_new=True) if with_keys else None
    return [Codec(format, topic=subjects_of), *([] if keys is None else [Codec(keys, topic=subjects_of, part=KEY)])]
