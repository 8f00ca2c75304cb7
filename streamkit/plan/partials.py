"""Pass `push_partial_aggregation`: rows are folded into state before they move."""

from __future__ import annotations

from dataclasses import replace

from streamkit.plan.program import Aggregate, Edge, Fold
from streamkit.plan.steps import Plan, Step, with_operator
from streamkit.schema import Schema


def push_partial_aggregation(plan: Plan) -> Plan:
    """
    Put a `Fold` in front of the exchange of every aggregation, unless a result is asked for every record.

        Windows → Send … Receive → Aggregate   becomes   Windows → Fold → Send … Receive(folded) → Aggregate(folded)
    """
    for step in plan.steps:
        if isinstance(step.operator, Aggregate) and "every" not in step.operator.modes:
            plan = _pushed(plan, step, step.operator)
    return plan


def _pushed(plan: Plan, step: Step, aggregate: Aggregate) -> Plan:
    receive = plan.step(step.inputs[0])
    send = plan.step(receive.inputs[0])
    source = plan.step(send.inputs[0])
    schema = _state_schema(plan, source.schema, aggregate)
    fold = Fold(f"{step.id}:fold", send.stage, (source.id,), aggregate.key, aggregate.size_ms is not None, aggregate.aggregates)
    folded = replace(source, operator=fold, schema=schema, key=aggregate.key, partition_by=aggregate.key, table=False, at=step.at)
    changed = {
        send.id: [folded, replace(with_operator(send, inputs=(fold.id,)), schema=schema, key=aggregate.key)],
        receive.id: [replace(with_operator(receive, folded=True), schema=schema, key=aggregate.key)],
        step.id: [with_operator(step, folded=True)],
    }
    edges = tuple(_with_columns(edge, schema) if edge.number == send.operator.edge else edge for edge in plan.edges)  # type: ignore[attr-defined]
    return replace(plan.with_steps(new for old in plan.steps for new in changed.get(old.id, [old])), edges=edges)


def _state_schema(plan: Plan, rows: Schema, aggregate: Aggregate) -> Schema:
    """The columns of folded rows: the key, then the state; the window travels as a record column."""
    store = next(store for store in plan.stores if store.name == aggregate.store)
    return Schema((*rows.select(aggregate.key), *store.value))


def _with_columns(edge: Edge, schema: Schema) -> Edge:
    return replace(edge, columns=schema)
