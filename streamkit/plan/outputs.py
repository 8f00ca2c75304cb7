"""Pass `fit_outputs`: what is written fits the topics that exist."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace

from streamkit.errors import Location, SchemaError, TopologyError
from streamkit.plan.inputs import TopicDescription, Topics
from streamkit.plan.operators.project import Project
from streamkit.plan.program import Output
from streamkit.plan.steps import UNSTAGED, Plan, Step, column_of, with_operator
from streamkit.schema import Schema


def fit_outputs(topics: Topics | None) -> Callable[[Plan], Plan]:
    """
    The pass that gives every output the column order of its topic.

    TopologyError, with both schemas, where a topic exists and has other columns, types or another key.
    """
    names = () if topics is None else topics.topics(internal=True)
    existing = {name: topics.topic(name) for name in names} if topics is not None else {}

    def fit_outputs(plan: Plan) -> Plan:
        """Check every output against its topic, and bring its columns into the order of the topic."""
        outputs = tuple(
            _fitted(output, existing.get(output.topic), _line(plan, number)) for number, output in enumerate(plan.outputs)
        )
        return _in_order(replace(plan, outputs=outputs))

    return fit_outputs


def _fitted(output: Output, topic: TopicDescription | None, at: Location | None) -> Output:
    if topic is None:
        return output
    if not _takes(topic.schema, output.schema) or tuple(topic.key) != output.key:
        raise TopologyError(
            f"the topic {output.topic!r} exists and does not fit; expected the same columns, types and key: {_ways_on(output, topic)}\n"
            f"  written:   {output.schema}; key {list(output.key)}\n"
            f"  the topic: {topic.schema}; key {list(topic.key)}",
            at,
        )
    return replace(output, schema=topic.schema)


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
