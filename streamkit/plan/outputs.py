"""Pass `fit_outputs`: what is written fits the topics that exist."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace

from streamkit.errors import Location, SchemaError, TopologyError
from streamkit.formats.codec import Codec, schema_made_of, with_newest_schema
from streamkit.formats.format import KEY_FORMAT, KEY_SCHEMA, NULLS, OF_WRITERS, USE_LATEST, WITH_REGISTRY, Format
from streamkit.log.topic.evolution import is_wider
from streamkit.names import changelog_topic
from streamkit.plan.encoding import (
    Encoded,
    is_same_key,
    other_settings,
    own_keys,
    with_keys,
    with_schema,
    with_subject_of_keys,
)
from streamkit.plan.inputs import KnownTopics, TopicDescription, known_topic, planned_topics
from streamkit.plan.operators.project import Project
from streamkit.plan.program import Output
from streamkit.plan.refusal import Refuse, RefusedTopic, stop_at
from streamkit.plan.registry_fit import registry_misfit
from streamkit.plan.steps import UNSTAGED, Plan, Step, column_of, with_operator
from streamkit.schema import Schema, check_apart_in_any_case


def fit_outputs(
    topics: KnownTopics | None, refuse: Refuse = stop_at, read_at: Mapping[str, Location | None] | None = None
) -> Callable[[Plan], Plan]:
    """
    The pass that gives every output the columns of its topic: their order, the wider types, and the nullable ones that nobody writes.

    TopologyError, with both schemas, if the topic exists and does not take what is written, or has another key; or if it is the changelog
    of a store. Of a topic that only the topology declares the error says where it is read, which is `read_at`. If `refuse` goes on, such an output
    stays as the topology has it.
    """
    declared_at: dict[str, Location | None] = dict.fromkeys(planned_topics(topics))
    declared_at |= {name: at for name, at in (read_at or {}).items() if name in declared_at}

    def fit_outputs(plan: Plan) -> Plan:
        """Check every output against its topic, and bring its columns into the order of the topic."""
        outputs = tuple(
            _fitted(output, number, None if topics is None else known_topic(topics, output.topic), plan, refuse, declared_at)
            for number, output in enumerate(plan.outputs)
        )
        there = {
            one.topic for one in outputs if topics is not None and known_topic(topics, one.topic) and one.topic not in declared_at
        }
        return _in_order(_in_format(replace(plan, outputs=outputs), there))

    return fit_outputs


def _fitted(
    output: Output,
    number: int,
    topic: TopicDescription | None,
    plan: Plan,
    refuse: Refuse,
    declared_at: Mapping[str, Location | None],
) -> Output:
    written = _maker(plan, number).operator.bytes_made
    if topic is None:
        misfit = _own_changelog(output, plan)
    elif output.topic in declared_at:
        misfit = _own_changelog(output, plan) or _undeclared(output, topic, written, declared_at[output.topic])
    else:
        misfit = _own_changelog(output, plan) or _misfit(output, topic, written)
    if misfit is not None:
        refuse(RefusedTopic(output.topic, False, TopologyError(misfit, _line(plan, number))))
        return output
    if topic is None:
        return _with_keys(output, written)
    return replace(output, schema=topic.schema, format=_key_format(output.format, _format(topic), written, output.topic))


def made_outputs(plan: Plan) -> tuple[Output, ...]:
    """The outputs of a plan as topics are made for them."""
    return tuple(_with_keys(output, _maker(plan, number).operator.bytes_made) for number, output in enumerate(plan.outputs))


def _with_keys(output: Output, written: Encoded | None) -> Output:
    if output.format is None or written is None:
        return output
    return replace(output, format=with_keys(output.format, written.keys, written.key))


def _own_changelog(output: Output, plan: Plan) -> str | None:
    for store in plan.stores:
        if output.topic == changelog_topic(plan.application, store.name):
            return f"the topic {output.topic!r} is the changelog of the store {store.name!r}; expected a topic of another name"
    return None


def _misfit(output: Output, topic: TopicDescription, written: Encoded | None) -> str | None:
    if getattr(topic, "internal", False):
        return f"the topic {output.topic!r} is the changelog of another application's store; expected a topic of another name"
    if output.format is not None and (reason := _other_format(output, topic, written)):
        return f"the topic {output.topic!r} exists and does not fit: {reason}"
    if output.format is None and (its := _format(topic)) is not None:
        return (
            f"the topic {output.topic!r} exists and does not fit: its values are {its.name}, and what is written are columns; expected "
            f"to({output.topic!r}, value_format={its.name!r}), or write to another topic, or delete this one"
        )
    reasons = _reasons(output, topic)
    if not reasons:
        return None
    return (
        f"the topic {output.topic!r} exists and does not fit: {'; '.join(reasons)}; expected a topic with the written columns, as they are "
        f"or wider, with others only if they may be null, and with the same key: {_ways_on(output, topic)}\n"
        f"  written:   {output.schema}; key {list(output.key)}\n"
        f"  the topic: {topic.schema}; key {list(topic.key)}"
    )


def _reasons(output: Output, topic: TopicDescription) -> list[str]:
    """Why a topic with columns does not take the rows of an output."""
    key = [] if tuple(topic.key) == output.key else [f"its key is {list(topic.key)}"]
    return [*_refusals(output.schema, topic.schema), *_missing_time(output, topic), *key]


def _undeclared(output: Output, topic: TopicDescription, written: Encoded | None, at: Location | None) -> str | None:
    """How what is written to a topic and what the topology declares of it differ, while there is no such topic; None if they agree."""
    its, place = _format(topic), "" if at is None else f"\n  declared at {at}"
    begin = f"what is written to the topic {output.topic!r} is not what the topology declares of it"
    if output.format is not None and its is not None:
        way = "write to another topic, or declare this one as it is written"
        reason = _other_format(output, topic, written, way, is_new=True)
        return reason and f"{begin}: {reason}{place}"
    if (output.format is None) != (its is None):
        forms = ["columns" if one is None else f"values of {one.name}" for one in (output.format, its)]
        return f"{begin}: {forms[0]} are written, and {forms[1]} declared; expected the same in both places{place}"
    reasons = _reasons(output, topic)
    if not reasons:
        return None
    return (
        f"{begin}: {'; '.join(reasons)}; expected a declaration with the written columns, as they are or wider, with others only if they may be null, "
        f"and with the same key\n  written:  {output.schema}; key {list(output.key)}\n  declared: {topic.schema}; key {list(topic.key)}{place}"
    )


def _ways_on(output: Output, topic: TopicDescription) -> str:
    """What to do: a topic that lacks nullable columns only can get them."""
    others = "write to another topic, or delete this one"
    added = [replace(column, nullable=True) for column in output.schema if column.name not in topic.schema]
    try:
        grown = check_apart_in_any_case(Schema((*topic.schema, *added)))
    except SchemaError:  # names that differ in their case only
        return others
    if not added or tuple(topic.key) != output.key or [*_refusals(output.schema, grown), *_missing_time(output, topic)]:
        return others
    return f"to add the new columns, streamkit topics alter {output.topic} --schema {shlex.quote(str(grown))}; else {others}"


def _refusals(written: Schema, topic: Schema) -> Iterator[str]:
    """Why a topic does not take these rows; their columns may stand in any order."""
    for column in written:
        if column.name not in topic:
            yield f"it has no column {column.name!r}"
            continue
        its = topic[column.name]
        if its.type != column.type and not is_wider(its.arrow.type, column.arrow.type):
            yield f"its column {column.name!r} is {its.type}, and {column.type} cannot become that without loss"
        if column.nullable and not its.nullable:
            yield f"its column {column.name!r} is NOT NULL, and what is written may be null"
    for its in topic:
        if its.name not in written and not its.nullable:
            yield f"its column {its.name!r} is NOT NULL, and the written rows do not have it"


def _missing_time(output: Output, topic: TopicDescription) -> Iterator[str]:
    """A topic whose event times are in a column needs that column."""
    timestamp = getattr(topic, "timestamp", None)
    if timestamp is not None and timestamp not in output.schema:
        yield f"its event time is the column {timestamp!r}, and the written rows do not have it"


def _format(topic: TopicDescription) -> Format | None:
    return getattr(topic, "format", None)


def _maker(plan: Plan, number: int) -> Step:
    """The step whose rows an output is made of."""
    return plan.step(_write(plan, number).inputs[0])


def _other_format(
    output: Output,
    topic: TopicDescription,
    written: Encoded | None,
    others: str = "write to another topic, or delete this one",
    *,
    is_new: bool = False,
) -> str | None:
    """Why a topic, which may be one that a start makes, does not take values of the format that is written, and what `others` to do; None if it does."""
    its, own = _format(topic), output.format
    assert own is not None
    assert written is not None
    if its is None:
        return (
            f"it has the columns {topic.schema}, and what is written are values of {own.name}; expected to({output.topic!r}) without "
            f"value_format=, or a topic of that format: {others}"
        )
    if reason := registry_misfit(own, its):
        return f"{reason}; or {others}"
    if its.name != own.name:
        return f"its values are {its.name}, and what is written are values of {own.name}; expected value_format={its.name!r}, or {others}"
    if _is_said(own, written) and own.schema != its.schema and not _has_subject_alone(its):
        return (
            f"its values have another schema; expected no value_schema=, or the topic's, which log.alter_topic changes, or {others}\n"
            f"  written:   {own.schema}\n"
            f"  the topic: {its.schema}"
        )
    if own.settings and (reason := other_settings(_said(own, its, written, output.topic, is_new=is_new), _compared(own, its))):
        return f"{reason}; {others}"
    try:
        written.under(its, with_key=own.setting(KEY_FORMAT) is None)
        _key_format(own, its, written, output.topic)
    except SchemaError as error:
        more = f"log.alter_topic({output.topic!r}, format_schema=…) gives it more, or " if its.schema is not None else ""
        return f"{error}; expected a topic with the written columns: {more}{others}"
    return None


def _said(own: Format, its: Format, written: Encoded, topic: str, *, is_new: bool) -> dict[str, str]:
    """
    The settings of a writer; one that says nothing of its keys, as in Python and in Spark's dialect, says it by what it writes.

    Behind a registry keys that are those of the topic are written under its schema.
    """
    said, key_format, key_schema = dict(own.settings), its.setting(KEY_FORMAT), its.setting(KEY_SCHEMA)
    if KEY_FORMAT in said or not key_format:
        return said
    its_own = {KEY_FORMAT: key_format, **({KEY_SCHEMA: key_schema} if key_schema else {})}
    has_registry = its.has_registry and key_format in WITH_REGISTRY
    if has_registry and (not written.key.names or (written.keys.has_registry and written.keys.name == key_format)):
        try:
            keys = own_keys(its, key_format, topic, is_new=is_new)
            # Without a schema that somebody has written under, the registry says what they are.
            if keys is None or is_same_key(keys, written.key, Schema.from_ddl(key_schema)):
                return {**said, **its_own}
        except SchemaError:  # of a type that the format does not have
            pass
    is_plain = has_registry and written.keys.name == key_format and not written.keys.has_registry
    by_rows = {
        KEY_FORMAT: f"{key_format} without a registry" if is_plain else written.keys.name,
        **({KEY_SCHEMA: written.key.ddl()} if key_schema else {}),
    }
    return {**said, **by_rows} if key_schema or has_registry else said


def _compared(own: Format, its: Format) -> dict[str, str]:
    """
    The settings of a topic that a writer has to have: what it leaves open the topic says.

    Behind a registry the writer says how null is written, and the subject of keys what these are, unless the topic does.
    """
    said = dict(own.settings)
    found = {name: value for name, value in its.settings if name not in OF_WRITERS or name in said}
    if not its.has_registry:
        return found
    of_subject = (KEY_SCHEMA,) if KEY_SCHEMA not in found and its.setting(KEY_FORMAT) in ("avro", "protobuf") else ()
    return {**found, **{name: said[name] for name in (NULLS, *of_subject) if name in said}}


def _is_said(own: Format, written: Encoded) -> bool:
    """Whether somebody has said the schema of what is written, which else is made of its columns."""
    if own.schema is None or (own.has_registry and own.setting(NULLS)):  # SQL has made it
        return False
    # SQL declares columns that may be null, also for counts, which never are
    nullable = Schema(tuple(replace(column, nullable=True) for column in written.value))
    return own.schema not in [with_schema(replace(own, schema=None), columns).schema for columns in (written.value, nullable)]


def _has_subject_alone(its: Format) -> bool:
    """Whether a registry alone says the schemas of a topic."""
    return its.has_registry and its.schema is None


def _key_format(own: Format | None, its: Format | None, written: Encoded | None, topic: str) -> Format | None:
    """
    The format in which an output is written to a topic that is there: that of the topic.

    Where a registry alone says the schema, it is that of `_under_subject`; SchemaError if none takes what is written.
    """
    if own is None or its is None or written is None or not _has_subject_alone(its):
        return own and its
    nulls = [pair for pair in own.settings if pair[0] == NULLS]
    its = replace(its, settings=tuple(sorted({**dict(its.settings), **dict(nulls)}.items())))
    if _is_said(own, written):
        return replace(its, schema=own.schema)
    return _under_subject(its, written, topic, with_key=own.setting(KEY_FORMAT) is None)


def _under_subject(its: Format, written: Encoded, topic: str, *, with_key: bool) -> Format:
    """
    The format with a schema of the topic's subject, so that no new version is without the fields of others; SchemaError if none takes what is written.

    It is the newest if the columns fit it, else one of before that is made of them, else the newest with a field for each that it lacks.
    """
    newest = with_newest_schema(its, topic)
    if newest.schema is None:
        return its
    try:
        written.under(newest, with_key=with_key)
        return newest
    except SchemaError:
        columns = written.under(its, with_key=with_key)
        nullable = Schema(tuple(replace(column, nullable=True) for column in columns))
        made = [replace(its, schema=schema_made_of(its.name, each)) for each in (columns, nullable)]
        if before := next((one for one in made if Codec(one, topic=its.topic or topic).is_registered()), None):
            return before
        if newest.setting(USE_LATEST) == "true":
            raise
    wanted = schema_made_of(its.name, nullable.select(name for name in nullable.names if name not in written.key))
    grown = replace(newest, schema=Codec(newest, topic=its.topic or topic).grown(newest.schema, str(wanted)))
    written.under(grown, with_key=with_key)
    return grown


def _in_format(plan: Plan, there: Container[str]) -> Plan:
    """The plan in which bytes are made under the schemas that the topics which are there, and their registries, have."""
    steps = list(plan.steps)
    for write in plan.steps:
        if write.operator.output_written is None:
            continue
        output, maker = plan.outputs[write.operator.output_written], plan.step(write.inputs[0])
        written = maker.operator.bytes_made
        if written is None or output.format is None:
            continue
        found = _under(written, output.format)
        if output.topic in there:
            found = replace(found, keys=with_subject_of_keys(written, output.format.topic or output.topic, output.format))
        if found != written:
            changed = with_operator(maker, format=found.format, value=found.value, keys=found.keys)
            steps = [changed if step.id == maker.id else step for step in steps]
    return replace(plan, steps=tuple(steps))


def _under(written: Encoded, topic: Format) -> Encoded:
    """What is written in the format of a topic; as it is if it does not fit, as where a second writer has other columns."""
    if written.format == topic:
        return written
    try:
        value = written.under(topic, with_key=written.format.setting(KEY_FORMAT) is None)
    except SchemaError:
        return written
    return replace(written, format=topic, value=value)


def _in_order(plan: Plan) -> Plan:
    steps: list[Step] = []
    for step in plan.steps:
        number = step.operator.output_written
        if number is not None and step.schema.names != _written_names(plan, number, step.schema):
            rows = plan.step(step.inputs[0])
            ordered = _ordered(rows, f"{step.id}:order", _written_names(plan, number, step.schema))
            steps += [ordered, replace(with_operator(step, inputs=(ordered.id,)), schema=ordered.schema)]
        else:
            steps.append(step)
    return replace(plan, steps=tuple(steps))


def _written_names(plan: Plan, number: int, written: Schema) -> tuple[str, ...]:
    """The written columns in the order of the topic; `Write` adds the others and widens."""
    return tuple(name for name in plan.outputs[number].schema.names if name in written)


def _ordered(rows: Step, step_id: str, names: Sequence[str]) -> Step:
    columns = tuple((name, column_of(rows.schema, name)) for name in names)
    operator = Project(step_id, UNSTAGED, (rows.id,), columns, rows.key, rows.table)
    return replace(rows, operator=operator, schema=rows.schema.select(names))


def _line(plan: Plan, number: int) -> Location | None:
    return _write(plan, number).at


def _write(plan: Plan, number: int) -> Step:
    return next(step for step in plan.steps if step.operator.output_written == number)
