"""Pass `push_partial_aggregation`: rows are folded into state before they move."""

from __future__ import annotations

from dataclasses import replace

from streamkit.plan.steps import Plan, Step, with_operator
from streamkit.schema import Schema


def push_partial_aggregation(plan: Plan) -> Plan:
    """
    Put a `Fold` in front of the exchange of every aggregation, or of the aggregation itself if there is no exchange.

    An aggregation that gives a result for every record gets none.

        Source → Send … Receive → Aggregate   becomes   Source → Fold → Send … Receive(folded) → Aggregate(folded)
    """
    for step in plan.steps:
        if step.operator.folds:
            plan = _pushed(plan, step)
    return plan


def _pushed(plan: Plan, step: Step) -> Plan:
    arrived = plan.step(step.inputs[0])
    (store,) = (one for one in plan.stores if one.name in step.operator.stores)
    is_moved = bool(arrived.sources) and plan.step(arrived.inputs[0]).stage < arrived.stage
    if not is_moved:
        fold = step.operator.early_fold(step, arrived, store.value)
        return _changed(plan, {step.id: [fold, with_operator(step, inputs=(fold.id,), folded=True)]})
    send = plan.step(arrived.inputs[0])
    source = plan.step(send.inputs[0])
    fold = replace(step.operator.early_fold(step, source, store.value))
    fold = with_operator(fold, inputs=send.inputs)
    changed = {
        send.id: [fold, replace(with_operator(send, inputs=(fold.id,)), schema=fold.schema, key=fold.key)],
        arrived.id: [replace(with_operator(arrived, folded=True), schema=fold.schema, key=fold.key)],
        step.id: [with_operator(step, folded=True)],
    }
    return _changed(plan, changed, (arrived.operator.edge, fold.schema))  # type: ignore[attr-defined]


def _changed(plan: Plan, changed: dict[str, list[Step]], narrowed: tuple[int, Schema] | None = None) -> Plan:
    edges = tuple(
        replace(edge, columns=narrowed[1]) if narrowed is not None and edge.number == narrowed[0] else edge for edge in plan.edges
    )
    return replace(plan.with_steps(new for old in plan.steps for new in changed.get(old.id, [old])), edges=edges)
