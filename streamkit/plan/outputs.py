"""Pass `fit_outputs`: what is written fits the topics that exist."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace

from streamkit.errors import Location, SchemaError, TopologyError
from streamkit.names import changelog_topic
from streamkit.plan.inputs import TopicDescription, Topics
from streamkit.plan.operators.project import Project
from streamkit.plan.program import Output
from streamkit.plan.refusal import Refuse, RefusedTopic, stop_at
from streamkit.plan.steps import UNSTAGED, Plan, Step, column_of, with_operator
from streamkit.schema import Schema


def fit_outputs(topics: Topics | None, refuse: Refuse = stop_at) -> Callable[[Plan], Plan]:
    """
    The pass that gives every output the column order of its topic.

    TopologyError, with both schemas, if the topic exists and has other columns, types or another key; or if it is the changelog of a
    store. If `refuse` goes on, such an output stays as the topology has it.
    """
    names = () if topics is None else topics.topics(internal=True)
    existing = {name: topics.topic(name) for name in names} if topics is not None else {}

    def fit_outputs(plan: Plan) -> Plan:
        """Check every output against its topic, and bring its columns into the order of the topic."""
        outputs = tuple(
            _fitted(output, existing.get(output.topic), plan, _line(plan, number), refuse)
            for number, output in enumerate(plan.outputs)
        )
        return _in_order(replace(plan, outputs=outputs))

    return fit_outputs


def _fitted(output: Output, topic: TopicDescription | None, plan: Plan, at: Location | None, refuse: Refuse) -> Output:
    misfit = _own_changelog(output, plan) or (None if topic is None else _misfit(output, topic))
    if misfit is not None:
        refuse(RefusedTopic(output.topic, False, TopologyError(misfit, at)))
        return output
    return output if topic is None else replace(output, schema=topic.schema)


def _own_changelog(output: Output, plan: Plan) -> str | None:
    for store in plan.stores:
        if output.topic == changelog_topic(plan.application, store.name):
            return f"the topic {output.topic!r} is the changelog of the store {store.name!r}; expected a topic of another name"
    return None


def _misfit(output: Output, topic: TopicDescription) -> str | None:
    if getattr(topic, "internal", False):
        return f"the topic {output.topic!r} is the changelog of another application's store; expected a topic of another name"
    if _takes(topic.schema, output.schema) and tuple(topic.key) == output.key:
        return None
    return (
        f"the topic {output.topic!r} exists and does not fit; expected the same columns, types and key: {_ways_on(output, topic)}\n"
        f"  written:   {output.schema}; key {list(output.key)}\n"
        f"  the topic: {topic.schema}; key {list(topic.key)}"
    )


def _ways_on(output: Output, topic: TopicDescription) -> str:
    """What to do: a topic that lacks nullable columns only can get them."""
    others = "write to another topic, or delete this one"
    added = [replace(column, nullable=True) for column in output.schema if column.name not in topic.schema]
    try:
        grown = Schema((*topic.schema, *added))
    except SchemaError:  # names that differ in their case only
        return others
    if not added or tuple(topic.key) != output.key or not _takes(grown, output.schema):
        return others
    return f"to add the new columns, streamkit topics alter {output.topic} --schema {shlex.quote(str(grown))}; else {others}"


def _takes(topic: Schema, written: Schema) -> bool:
    """Whether a topic takes these rows: same names and types in any order, and nulls only where it allows them."""
    if {(column.name, column.type) for column in topic} != {(column.name, column.type) for column in written}:
        return False
    return all(column.nullable or not written[column.name].nullable for column in topic)


def _in_order(plan: Plan) -> Plan:
    steps: list[Step] = []
    for step in plan.steps:
        number = step.operator.output_written
        if number is not None and step.schema.names != plan.outputs[number].schema.names:
            rows = plan.step(step.inputs[0])
            ordered = _ordered(rows, f"{step.id}:order", plan.outputs[number].schema)
            steps += [ordered, replace(with_operator(step, inputs=(ordered.id,)), schema=ordered.schema)]
        else:
            steps.append(step)
    return replace(plan, steps=tuple(steps))


def _ordered(rows: Step, step_id: str, schema: Schema) -> Step:
    columns = tuple((name, column_of(rows.schema, name)) for name in schema.names)
    operator = Project(step_id, UNSTAGED, (rows.id,), columns, rows.key, rows.table)
    return replace(rows, operator=operator, schema=rows.schema.select(schema.names))


def _line(plan: Plan, number: int) -> Location | None:
    return next(step.at for step in plan.steps if step.operator.output_written == number)
