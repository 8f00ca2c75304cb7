"""Pass `assign_stages`: which steps run in the readers, and which in the first, second … kernel."""

from __future__ import annotations

from dataclasses import replace

from streamkit.plan.program import Aggregate, Materialize, Operator, Source, Store, TableJoin, Write
from streamkit.plan.steps import Plan, Step, with_operator


def assign_stages(plan: Plan) -> Plan:
    """
    Give every step its stage.

    Stage 0 is the readers. A stateful step comes one stage after the last of its inputs, a table in the stage of the join that looks
    it up, an output in the first kernel at the earliest; all else stays with its input. A table that is looked up in two
    stages is kept twice, under two names.

        Source → Filter → TableJoin → Aggregate → Emit → Write
        0        0        1           2           2      2
    """
    plan = _with_own_tables(plan, _stages(plan))
    stages = _stages(plan)
    staged = plan.with_steps(with_operator(step, stage=stages[step.id]) for step in plan.steps)
    stores = tuple(replace(store, stage=_store_stage(staged, store.name)) for store in plan.stores)
    return replace(staged, stores=stores)


def _stages(plan: Plan) -> dict[str, int]:
    stages: dict[str, int] = {}
    for step in plan.steps:
        stages[step.id] = _stage(step.operator, stages)
    for step in plan.steps:
        consumers = plan.consumers(step.id)
        if isinstance(step.operator, Materialize) and consumers and all(_looks_up(consumer) for consumer in consumers):
            stages[step.id] = min(stages[consumer.id] for consumer in consumers)
    return stages


def _stage(operator: Operator, stages: dict[str, int]) -> int:
    if isinstance(operator, Source):
        return 0
    if isinstance(operator, TableJoin):
        return 1 + stages[operator.inputs[0]]
    newest = max(stages[name] for name in operator.inputs)
    if isinstance(operator, (Aggregate, Materialize)):
        return 1 + newest
    return max(1, newest) if isinstance(operator, Write) else newest


def _looks_up(step: Step) -> bool:
    return isinstance(step.operator, TableJoin)


def _with_own_tables(plan: Plan, stages: dict[str, int]) -> Plan:
    """The plan in which every table is looked up in one stage only."""
    steps: list[Step] = list(plan.steps)
    stores = list(plan.stores)
    for table in [step for step in plan.steps if isinstance(step.operator, Materialize)]:
        joins = [step for step in plan.consumers(table.id) if _looks_up(step)]
        for stage in sorted({stages[join.id] for join in joins} - {stages[table.id]}):
            _add_copy(plan, table, [join for join in joins if stages[join.id] == stage], steps, stores)
    return replace(plan, steps=tuple(steps), stores=tuple(stores))


def _add_copy(plan: Plan, table: Step, joins: list[Step], steps: list[Step], stores: list[Store]) -> None:
    assert isinstance(table.operator, Materialize)
    name = f"{table.operator.store}-for-{joins[0].id}"
    copy = with_operator(table, id=f"{table.id}-for-{joins[0].id}", store=name)
    original = next(store for store in plan.stores if store.name == table.operator.store)
    stores.append(replace(original, name=name))
    for join in joins:
        steps[steps.index(join)] = with_operator(join, inputs=(join.inputs[0], copy.id), store=name)
    steps.insert(steps.index(table) + 1, copy)


def _store_stage(plan: Plan, name: str) -> int:
    return next(step.stage for step in plan.steps if getattr(step.operator, "store", None) == name)
