"""Pass `prune_columns`: columns that nobody reads are neither read from a topic nor moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streamkit.names import HEADERS
from streamkit.plan.operator import Names
from streamkit.plan.operators.project import Project
from streamkit.plan.steps import Plan, Step, column_of, with_operator
from streamkit.schema import Schema


def prune_columns(plan: Plan) -> Plan:
    """
    Keep in every step only the columns that later steps read, and drop the others by a projection before a `Send`.

    Headers of records are such a column, too: they are read and moved only if an output or a processor behind can see them.
    A store keeps all columns of its table: what it holds must not depend on who reads it today.
    """
    return _with_columns(plan, _needed(plan))


def keep_columns(plan: Plan) -> Plan:
    """Keep all columns in every step, for whoever looks at rows on their way; headers are moved to where they are read, as ever."""
    return _with_columns(
        plan, {name: columns | frozenset(plan.step(name).schema.names) for name, columns in _needed(plan).items()}
    )


def _with_columns(plan: Plan, needed: Mapping[str, Names]) -> Plan:
    narrowed: dict[str, Step] = {}
    for step in plan.steps:
        for one in _narrowed(step, narrowed, needed[step.id]):
            narrowed[one.id] = one
    schemas = {_edge(step): step.schema for step in narrowed.values() if step.operator.traits.narrows_input}
    edges = tuple(replace(edge, columns=schemas[edge.number]) for edge in plan.edges)
    return replace(plan, steps=tuple(narrowed.values()), edges=edges)


def _needed(plan: Plan) -> dict[str, Names]:
    """For each step the columns of its rows that others read."""
    needed: dict[str, Names] = {step.id: frozenset() for step in plan.steps}
    for step in reversed(plan.steps):
        for place, name in enumerate(step.sources):
            needed[name] |= step.operator.reads(place, needed[step.id] - {HEADERS}, plan.step(name).schema)
            if step.operator.traits.needs_headers(place, HEADERS in needed[step.id]):
                needed[name] |= {HEADERS}
    return needed


def _narrowed(step: Step, before: dict[str, Step], needed: Names) -> list[Step]:
    """A step with the columns needed of it; in front of a `Send`, a projection if its input still has more."""
    rows = before[step.sources[0]] if step.sources else None
    narrow = step.operator.narrowed(step, needed, rows.schema if rows else None)
    if rows is None or not step.operator.traits.narrows_input or rows.schema.names == narrow.schema.names:
        return [narrow]
    projection = _projection(rows, step, narrow.schema)
    return [projection, with_operator(narrow, inputs=(projection.id,))]


def _projection(rows: Step, step: Step, schema: Schema) -> Step:
    columns = tuple((name, column_of(schema, name)) for name in schema.names)
    key = step.operator.key  # type: ignore[attr-defined]
    operator = Project(f"{step.id}:prune", rows.stage, step.inputs, columns, key, rows.table)
    return replace(rows, operator=operator, schema=schema)


def _edge(step: Step) -> int:
    number: int = step.operator.edge  # type: ignore[attr-defined]
    return number
