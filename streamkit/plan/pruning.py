"""Pass `prune_columns`: what nobody reads is neither read from a topic nor moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import singledispatch

from streamkit.plan.program import (
    Aggregate,
    Edge,
    Emit,
    Filter,
    Fold,
    GlobalJoin,
    Materialize,
    Operator,
    Project,
    Receive,
    Send,
    Source,
    TableJoin,
    Windows,
    Write,
)
from streamkit.plan.steps import Plan, Step, column_of, referenced, with_operator
from streamkit.schema import Schema

Names = frozenset[str]


def prune_columns(plan: Plan) -> Plan:
    """
    Keep in every step the columns that later steps read, and project before a `Send` what would travel for nothing.

    A store keeps all columns of its table: what it holds must not depend on who reads it today.
    """
    needed = _needed(plan)
    steps: list[Step] = []
    for step in plan.steps:
        steps += _narrowed(step, steps, needed[step.id], plan)
    schemas = {step.operator.edge: step.schema for step in steps if isinstance(step.operator, Send)}
    edges = tuple(_with_columns(edge, schemas[edge.number]) for edge in plan.edges)
    return replace(plan, steps=tuple(steps), edges=edges)


def _needed(plan: Plan) -> dict[str, Names]:
    """The columns that are read of each step's rows."""
    needed: dict[str, Names] = {step.id: frozenset() for step in plan.steps}
    stores = {store.name: frozenset(store.key.names + store.value.names) for store in plan.stores}
    for step in reversed(plan.steps):
        if isinstance(step.operator, Write):
            needed[step.id] = frozenset(step.schema.names)
        if isinstance(step.operator, Materialize):
            needed[step.id] |= stores[step.operator.store]
        if isinstance(step.operator, Send):
            needed[step.id] |= frozenset(plan.edges[step.operator.edge].key)
        for place, name in enumerate(step.inputs):
            needed[name] |= read(step.operator, place, needed[step.id], plan.step(name).schema)
    return needed


@singledispatch
def read(operator: Operator, place: int, needed: Names, rows: Schema) -> Names:
    """The columns an operator reads of its input number `place`, given those that are read of its own rows."""
    raise TypeError(f"no rule for {operator.kind}")


@read.register(Write)
@read.register(Send)
@read.register(Receive)
@read.register(Materialize)
def _(operator: Operator, place: int, needed: Names, rows: Schema) -> Names:
    return needed


@read.register
def _(operator: Filter, place: int, needed: Names, rows: Schema) -> Names:
    return needed | referenced(operator.predicate)


@read.register
def _(operator: Project, place: int, needed: Names, rows: Schema) -> Names:
    return _union(referenced(expression) for name, expression in operator.columns if name in needed)


@read.register
def _(operator: TableJoin, place: int, needed: Names, rows: Schema) -> Names:
    return _joined(operator.columns, "left", needed) | frozenset(operator.on) if place == 0 else frozenset(rows.names)


@read.register
def _(operator: GlobalJoin, place: int, needed: Names, rows: Schema) -> Names:
    return _joined(operator.columns, "left", needed) | frozenset(operator.on)


@read.register
def _(operator: Windows, place: int, needed: Names, rows: Schema) -> Names:
    return needed | frozenset(operator.key)


@read.register
def _(operator: Fold, place: int, needed: Names, rows: Schema) -> Names:
    return _arguments(operator) | frozenset(operator.key)


@read.register
def _(operator: Aggregate, place: int, needed: Names, rows: Schema) -> Names:
    return frozenset(rows.names) if operator.folded else _arguments(operator) | frozenset(operator.key)


@read.register
def _(operator: Emit, place: int, needed: Names, rows: Schema) -> Names:
    return frozenset(rows.names)


def _arguments(operator: Fold | Aggregate) -> Names:
    return _union(referenced(one.argument) for one in operator.aggregates if one.argument is not None)


def _joined(columns: Iterable[tuple[str, str]], side: str, needed: Names) -> Names:
    return frozenset(source.partition(".")[2] for name, source in columns if name in needed and source.startswith(f"{side}."))


def _union(sets: Iterable[Iterable[str]]) -> Names:
    return frozenset(name for names in sets for name in names)


def _narrowed(step: Step, before: list[Step], needed: Names, plan: Plan) -> list[Step]:
    """A step with the columns needed of it; in front of a `Send`, a projection if its input still has more."""
    operator = step.operator
    if isinstance(operator, (Write, Materialize, Emit, Aggregate, Fold)):
        return [step]
    schema = step.schema.select(name for name in step.schema.names if name in needed)
    if isinstance(operator, Source):
        return [replace(with_operator(step, columns=schema.names), schema=schema)]
    if isinstance(operator, (Project, TableJoin, GlobalJoin)):
        kept = tuple(pair for pair in operator.columns if pair[0] in needed)
        return [replace(with_operator(step, columns=kept), schema=schema)]
    rows = next((each for each in before if each.id in step.inputs), step)
    if isinstance(operator, Send) and rows.schema.names != schema.names:
        narrow = _projection(rows, f"{step.id}:prune", schema, plan.edges[operator.edge].key)
        return [narrow, replace(with_operator(step, inputs=(narrow.id,)), schema=schema)]
    return [replace(step, schema=schema if isinstance(operator, (Send, Receive)) else _passed(rows, step))]


def _passed(rows: Step, step: Step) -> Schema:
    """Filters and windows pass on whatever columns they get."""
    return step.schema.select(name for name in step.schema.names if name in rows.schema)


def _projection(rows: Step, step_id: str, schema: Schema, key: tuple[str, ...]) -> Step:
    columns = tuple((name, column_of(schema, name)) for name in schema.names)
    return replace(rows, operator=Project(step_id, rows.stage, (rows.id,), columns, key, rows.table), schema=schema)


def _with_columns(edge: Edge, schema: Schema) -> Edge:
    return replace(edge, columns=schema)
