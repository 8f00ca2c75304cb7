"""Pass `assign_stages`: which steps run in the readers, and which in the first, second … kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

from streamkit.plan.operator import Exchange, Key, source_of
from streamkit.plan.steps import Plan, Step, with_operator


@dataclass(frozen=True)
class StagePlace:
    """Where the rows of a step are: their stage, and the columns they are partitioned by (None: unknown)."""

    stage: int
    key: Key | None


def assign_stages(plan: Plan) -> Plan:
    """
    Give every step its stage.

    Stage 0 is the readers. A step runs in the stage of its input if that is partitioned as the step needs, else one stage later.
    So operators on the same key share a kernel. A table is kept in the stage of the join that looks it up; one that is looked
    up in two stages is kept twice, under two names.

        Source → Filter → TableJoin on k → Aggregate by k → Emit → Write
        0        0        1                1                1      1
    """
    plan = _with_own_tables(plan, _stages(plan))
    stages = _stages(plan)
    staged = plan.with_steps(with_operator(step, stage=stages[step.id]) for step in plan.steps)
    stores = tuple(replace(store, stage=_store_stage(staged, store.name)) for store in plan.stores)
    return replace(staged, stores=stores)


def is_in_place(exchange: Exchange | None, rows: StagePlace) -> bool:
    """Whether rows are already partitioned as an exchange would partition them; those whose key is null stand anywhere."""
    return exchange is None or (rows.stage > 0 and rows.key == exchange.key and not exchange.null_keys_by)


def _stages(plan: Plan) -> dict[str, int]:
    places: dict[str, StagePlace] = {}
    for step in plan.steps:
        places[step.id] = _place(step, plan, places)
    stages = {step_id: place.stage for step_id, place in places.items()}
    for step in plan.steps:
        consumers = plan.consumers(step.id)
        if step.operator.traits.is_looked_up and consumers and all(_looks_up(consumer, step) for consumer in consumers):
            stages[step.id] = min(stages[consumer.id] for consumer in consumers)
    return stages


def _place(step: Step, plan: Plan, places: dict[str, StagePlace]) -> StagePlace:
    operator = step.operator
    rows = [plan.step(name) for name in step.sources]
    stage = operator.traits.stage_min
    for place, source in enumerate(rows):
        found = places[source.id]
        stays = place in operator.traits.looks_up or is_in_place(operator.exchange(place, source), found)
        stage = max(stage, found.stage + (not stays))
    keys = [_key(operator.exchange(place, source), source, places[source.id], stage) for place, source in enumerate(rows)]
    return StagePlace(stage, operator.partitioning(keys) if stage else None)


def _key(exchange: Exchange | None, source: Step, rows: StagePlace, stage: int) -> Key | None:
    """The columns that an input's rows are partitioned by when they have reached a stage."""
    if rows.stage == stage and is_in_place(exchange, rows):
        return rows.key
    return exchange.key if exchange is not None else source.partition_by or None


def _looks_up(consumer: Step, table: Step) -> bool:
    return any(place in consumer.operator.traits.looks_up for place, name in enumerate(consumer.sources) if name == table.id)


def _with_own_tables(plan: Plan, stages: dict[str, int]) -> Plan:
    """The plan in which every table is looked up in one stage only."""
    for table in [step for step in plan.steps if step.operator.traits.is_looked_up]:
        joins = [step for step in plan.consumers(table.id) if _looks_up(step, table)]
        for stage in sorted({stages[join.id] for join in joins} - {stages[table.id]}):
            plan = _with_copy(plan, table, [join for join in joins if stages[join.id] == stage])
    return plan


def _with_copy(plan: Plan, table: Step, joins: list[Step]) -> Plan:
    names = {store: f"{store}-for-{joins[0].id}" for store in table.operator.stores}
    fields = {field: names[getattr(table.operator, field)] for field in table.operator.traits.store_fields}
    copy = with_operator(with_operator(table, None, **fields), id=f"{table.id}-for-{joins[0].id}")
    copies = [replace(one, name=names[one.name]) for one in plan.stores if one.name in names]
    changed = {join.id: with_operator(join, inputs=_with_input(join, table.id, copy.id)) for join in joins}
    steps = [changed.get(step.id, step) for step in plan.steps]
    steps.insert(steps.index(table) + 1, copy)
    return replace(plan, steps=tuple(steps), stores=(*plan.stores, *copies))


def _with_input(step: Step, old: str, new: str) -> tuple[str, ...]:
    return tuple(new + name[len(old) :] if source_of(name) == old else name for name in step.inputs)


def _store_stage(plan: Plan, name: str) -> int:
    return next(step.stage for step in plan.steps if name in step.operator.stores)
