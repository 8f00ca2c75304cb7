"""What who looks a table up sees of it: from when on its rows are those that a record has caused, and through which views."""

from __future__ import annotations

from typing import TypeAlias

from streamkit.plan.steps import Plan, Step
from streamkit.plan.visit import Visit
from streamkit.plan.ways import becomes_table

_DeclaredTable: TypeAlias = tuple[str, int]  # a stream that was declared to be a table: its last step, and when that was declared


def seen_from(plan: Plan, visit: Visit) -> dict[str, int]:
    """
    From when on a table's rows are seen by who looks them up, by step.

    A table without a store of its own is a view of those that it is made of, so it changes with them. What holds rows back is none.
    """
    seen: dict[str, int] = {}
    joins_kept = kept_joins(plan)
    begun, kept = _begun(plan, visit)
    made_of: dict[str, _DeclaredTable] = {}
    for step in plan.steps:
        sources = [plan.step(name) for name in step.sources]
        becomes = bool(sources) and becomes_table(step, sources[0])
        is_single_view = len(sources) == 1 and (step.operator.traits.is_view or step.operator.traits.moves_rows)
        if becomes:
            made_of[step.id] = (_rows_of(plan, sources[0]).id, step.declared)
        elif is_single_view and sources[0].id in made_of:
            made_of[step.id] = made_of[sources[0].id]
        is_behind = any(one.id in visit.ways.behind for one in sources)
        is_view = bool(sources) and (
            step.operator.traits.moves_rows or (step.operator.traits.is_view and all(one.table for one in sources))
        )
        own = visit.own.get(step.id, visit.next)
        if step.id in joins_kept:  # seen when the join has made them; the steps from there to its store add nothing
            seen[step.id] = own if len(sources) > 1 else seen[sources[0].id]
        elif is_view and not is_behind and not becomes:  # as soon as one of the tables below has changed
            seen[step.id] = min(seen[one.id] for one in sources)
        elif is_single_view and is_behind:  # a topic of Kafka Streams, before the table
            is_table_kept = becomes or sources[0].id in visit.ways.moved_once
            seen[step.id] = min(kept.get(made_of[step.id], own), own) if is_table_kept and step.id in made_of else own
        else:  # when the operator has had its turn; of a stream that became a table, the first step that has
            seen[step.id] = begun.get(made_of[step.id], own) if becomes and step.operator.traits.is_view else own
    return seen


def _begun(plan: Plan, visit: Visit) -> tuple[dict[_DeclaredTable, int], dict[_DeclaredTable, int]]:
    """When each stream becomes a table, whose first steps may be several; and when it is kept in a store that has a name."""
    begun: dict[_DeclaredTable, int] = {}
    kept: dict[_DeclaredTable, int] = {}
    for step in plan.steps:
        if step.id in visit.own and step.operator.traits.is_view and becomes_table(step, plan.step(step.sources[0])):
            table = (_rows_of(plan, plan.step(step.sources[0])).id, step.declared)
            for found in (begun, kept) if step.operator.traits.is_looked_up else (begun,):
                found[table] = min(found.get(table, visit.next), visit.own[step.id])
    return begun, kept


def _rows_of(plan: Plan, step: Step) -> Step:
    """The step whose rows these are, before exchanges."""
    while step.operator.traits.moves_rows:
        step = plan.step(step.sources[0])
    return step


def sharing(plan: Plan, visit: Visit) -> tuple[set[str], set[str]]:
    """
    The steps of which one record may cause rows of several inputs, and the views that they look up and that are made of joins of tables.

    Such a view gives no row for each of its values: it is another one between the changes of two tables, and who looks it up may see that.
    A join that was given a store is none, and neither is a stream that became a table: they are looked up in their stores.
    """
    # By step: the inputs whose records may cause rows of it, not those of tables that it looks up.
    causes: dict[str, frozenset[int]] = {}
    for step in plan.steps:
        number = step.operator.input_read
        below = [causes[name] for place, name in enumerate(step.sources) if step.operator.traits.gives_rows_of(place)]
        causes[step.id] = frozenset().union(*below) if number is None else frozenset([number])
    shares, looked_up = set[str](), set[str]()
    kept = kept_joins(plan) | {step.id for step in plan.steps for name in step.sources if becomes_table(step, plan.step(name))}
    for step in reversed(plan.steps):
        several = [causes[name] for name in step.sources] if len(step.sources) > 1 else []
        if sum(map(len, several)) > len(frozenset().union(*several)):
            shares.add(step.id)
        if step.id in shares or (step.id in looked_up and step.operator.traits.is_view and step.id not in kept):
            looked_up.update(step.sources)
    looked_through = set[str]()
    for step in plan.steps:
        is_view = step.id in looked_up and step.operator.traits.is_view and step.id not in kept
        is_view &= not any(name in visit.ways.behind for name in step.sources)
        given = [name for place, name in enumerate(step.sources) if step.operator.traits.gives_rows_of(place)]
        if is_view and (len(given) > 1 or given[0] in looked_through):
            looked_through.add(step.id)
    return shares, looked_through


def kept_joins(plan: Plan) -> set[str]:
    """The joins of tables that were given a store, with the steps from there to it."""
    kept = set[str]()
    for step in plan.steps:
        naming = plan.namings.get(getattr(step.operator, "store", None) or "") if step.operator.traits.is_looked_up else None
        if naming is None or not naming.words.startswith("store="):
            continue
        to_store = [step, plan.step(step.sources[0])]
        while to_store[-1].operator.kind == "emit":
            to_store.append(plan.step(to_store[-1].sources[0]))
        if to_store[-1].operator.kind == "table_table_join":
            kept.update(one.id for one in to_store)
    return kept
