"""
Pass `take_turns`: in which order operators get what one record causes.

One record may reach an operator by several ways. The order is that of Kafka Streams: a record is pushed to the children of a step in the
order in which they were declared, and each is through with it, and all that is behind it, before the next one gets it. What gets another
key waits until the record, and all rows that were made of it, are through, since Kafka Streams has a topic there; then it is pushed in
the same way.

So operators are numbered as a record visits them, and inputs where an operator has several. Records of two inputs of the program may
visit the same in two orders; then each input has its own numbers. Paths are made of these numbers (`streamkit.engine.rows.place`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from streamkit.plan.program import InputTurn, Turn
from streamkit.plan.steps import Plan, Step


def take_turns(plan: Plan) -> Plan:
    """
    Number the operators, and their inputs, in the order in which they get what a record causes.

    An operator with several inputs also learns from when on the rows of each are seen by who looks them up, and whether one record may
    cause rows of several.
    """
    visit = _visited(_Ways(plan), _sources(plan))
    usual, turns = _numbers(plan, visit), {}
    shares, looked_through = _sharing(plan, visit)
    of_inputs = _of_inputs(plan, visit, shares, usual) if shares else []
    is_one = all(numbers is usual for numbers in of_inputs)
    moments = sorted({step.declared for step in plan.steps})  # without those of other topologies before
    declared = {moment: place for place, moment in enumerate(moments)}
    for step in plan.steps:
        own, inputs, seen = (found := usual[step.id]).own, found.inputs, found.seen
        by_input = () if is_one else tuple(numbers[step.id] for numbers in of_inputs)
        turns[step.id] = Turn(own, declared[step.declared], inputs, seen, step.id in shares, step.id in looked_through, by_input)
    return replace(plan, turns=turns)


def _sources(plan: Plan) -> list[Step]:
    """The steps that read inputs, in the order in which they were declared."""
    return sorted((step for step in plan.steps if step.operator.input_read is not None), key=lambda step: step.declared)


def _of_inputs(plan: Plan, visit: _Visit, shares: set[str], usual: dict[str, InputTurn]) -> list[dict[str, InputTurn]]:
    """
    The numbers by step for records of each input.

    They are the usual ones, those of a visit, unless records of the input visit what they do in another order.
    """
    sources, order = _sources(plan), visit.numbers_in_paths(shares)
    found = []
    for number in range(1 + max(source.operator.input_read or 0 for source in sources)):
        first = [source for source in sources if source.operator.input_read == number]
        own = _visited(visit.ways, first).numbers_in_paths(shares)
        in_turn = [order[one] for one in sorted(own, key=own.__getitem__)]
        if in_turn == sorted(in_turn):
            found.append(usual)
        else:
            others = [source for source in sources if source.operator.input_read != number]
            found.append(_numbers(plan, _visited(visit.ways, [*first, *others])))
    return found


def _visited(ways: _Ways, sources: Sequence[Step]) -> _Visit:
    """What the records of sources visit, one source after the other."""
    visit = _Visit(ways)
    for source in sources:
        visit.begin(source)
    for source in sources:
        visit.push(source)
    return visit


def _numbers(plan: Plan, visit: _Visit) -> dict[str, InputTurn]:
    """The numbers of a visit by step."""
    seen, found = _seen(plan, visit), {}
    for step in plan.steps:
        several = list(step.sources) if len(step.sources) > 1 else []
        inputs = tuple(visit.inputs.get((step.id, place), 0) for place in range(len(several)))
        at_once = tuple(min(seen[name], number) for name, number in zip(several, inputs, strict=True))  # kept before they come
        found[step.id] = InputTurn(visit.own.get(step.id, 0), inputs, at_once)
    return found


def _sharing(plan: Plan, visit: _Visit) -> tuple[set[str], set[str]]:
    """
    The steps of which one record may cause rows of several inputs, and the views that they look up and that are made of joins of tables.

    Such a view gives no row for each of its values: it is another one between the changes of two tables, and who looks it up may see that.
    A join that was given a store is none, and neither is a stream that became a table: they are looked up in their stores.
    """
    causes, shares, looked_up = _causes(plan), set[str](), set[str]()
    kept = _kept(plan) | {step.id for step in plan.steps for name in step.sources if becomes_table(step, plan.step(name))}
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


def _kept(plan: Plan) -> set[str]:
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


class _StepArrival(NamedTuple):
    """
    Rows reach a step by an input, at once or behind all that gets its rows without another key.

    `moved` are the topics of Kafka Streams in between, which give them theirs: each is the exchanges and steps that do here what it does.
    They come in the order of `begins`: when the step was declared, or the stream that it takes if views of a table stand in between.
    """

    is_behind: bool
    begins: int
    declared: int
    place: int
    step: Step
    source: Step
    moved: _Topics


_Topics: TypeAlias = tuple[tuple[str, ...], ...]


class _Ways:
    """
    Which steps take the rows of each.

    A table that is kept for joins hands its changes on to them, as an exchange does; `behind` are such ends of exchanges, and steps, whose
    rows have another key and wait until the record is through. Of the exchanges among them those in `moved_once` take the new key itself,
    so that Kafka Streams has one topic there for all that is made of a table.
    `key_givers` are the steps that give rows another key. `tellers` are steps that make a stream of all changes of a
    table, and stand in front of views that were declared before; `told` are these views, and when the stream was declared.
    """

    def __init__(self, plan: Plan) -> None:
        self.steps = {step.id: step for step in plan.steps}
        self.takers: dict[str, list[tuple[Step, int]]] = {}
        self.behind: set[str] = set()
        self.moved_once: set[str] = set()
        self.key_givers: set[str] = set()
        self.merges = {step.id for step in plan.steps if step.operator.kind == "merge"}
        rekeyed: set[str] = set()
        for step in plan.steps:
            operator, sources = step.operator, [plan.step(name) for name in step.sources]
            for place, source in enumerate(sources):
                self.takers.setdefault(source.id, []).append((step, place))
            has_new_key = bool(sources) and operator.rekeys(sources[0].key, step.key)
            if has_new_key:
                self.key_givers.add(step.id)
            has_new_key |= operator.kind != "receive" and any(source.id in rekeyed for source in sources)
            if has_new_key:
                rekeyed.add(step.id)
            is_by_other_key = operator.kind == "send" and key_of(step) != sources[0].partition_by
            if (operator.kind == "send" and has_new_key) or is_by_other_key or operator.traits.waits_for_record:
                self.behind.add(step.id)
            if step.id in self.behind and operator.kind == "send" and not is_by_other_key:
                self.moved_once.add(step.id)
        self.told: dict[str, int] = {}
        self.tellers: set[str] = set()
        for step in plan.steps:
            if step.operator.kind == "emit" and self._tell(step, step.declared):
                self.tellers.add(step.id)

    def _tell(self, step: Step, declared: int) -> bool:
        """Note the views of a table that take its changes though the stream was declared behind them; whether there are any."""
        views = [
            one
            for one, _ in self.takers.get(step.id, ())
            if one.operator.traits.is_view and len(one.sources) == 1 and one.declared < declared
        ]
        for view in views:
            self.told[view.id] = min(declared, self.told.get(view.id, declared))  # several streams: the first one's
            self._tell(view, declared)
        return bool(views)

    def arrivals(self, steps: Sequence[Step], before: Mapping[str, _Topics]) -> list[list[_StepArrival]]:
        """
        Where the rows of steps go, in order; steps that give one table in several ways get them together.

        `before` are topics that rows of a step are still to pass.
        """
        found = [arrival for step in steps for arrival in self._found(step, step, before.get(step.id, ()))]
        together: dict[tuple[object, ...], list[_StepArrival]] = {}
        for one in sorted(found, key=lambda one: one[1:4]):
            is_table = one.step.table or one.step.id in self.told
            is_view = is_table and one.step.operator.traits.is_view and len(one.step.sources) == 1
            what = one.declared if is_view else (one.step.id, one.place)
            together.setdefault((one.is_behind, what), []).append(one)
        return list(together.values())

    def _found(
        self, step: Step, origin: Step, moved: _Topics = (), begins: int | None = None, *, is_by_key: bool = False
    ) -> Iterator[_StepArrival]:
        if step.id in self.behind:
            is_same = bool(moved) and self._is_one_topic(moved[-1][-1], step)
            moved = (*moved[:-1], (*moved[-1], step.id)) if is_same else (*moved, (step.id,))
        begins = self.told.get(step.id, begins)
        if step is not origin and step.id in self.key_givers and begins is None:
            begins = step.declared
        for taker, place in self.takers.get(step.id, ()):
            if hands_on(taker, step) or taker.id in self.tellers:
                is_kept = is_by_key or (bool(moved) and taker.operator.exchange(place, step) is not None)  # by a table
                yield from self._found(taker, origin, moved, begins, is_by_key=is_kept)
            else:
                grouped_at = taker.grouped_at[place] if taker.grouped_at else None
                since = taker.declared if begins is None or taker.id in self.told else begins
                since = since if grouped_at is None else grouped_at
                waits = bool(moved) and (is_by_key or not self._comes_before(moved[0], taker, place, step))
                yield _StepArrival(waits, since, taker.declared, place, taker, origin, moved)

    def _is_one_topic(self, before: str, step: Step) -> bool:
        """Whether a step and the one before it that rows wait for are one topic: an exchange, and what asks for it."""
        asks = self.steps[before].operator
        if asks.kind == "send":
            return step.operator.kind == "repartition"
        return asks.kind != "repartition" and step.operator.kind == "send"

    def _comes_before(self, topic: tuple[str, ...], taker: Step, place: int, source: Step) -> bool:
        """Whether Kafka Streams has the topic behind a step: a new key alone makes none until an operator needs rows by key."""
        return all(name in self.moved_once for name in topic) and taker.operator.exchange(place, source) is None


def key_of(send: Step) -> tuple[str, ...]:
    """The columns by which an exchange moves rows."""
    key: tuple[str, ...] = send.operator.key  # type: ignore[attr-defined]
    return key


def hands_on(step: Step, source: Step) -> bool:
    """Whether a step does nothing to the rows of another but hand them on, in Kafka Streams' eyes."""
    operator = step.operator
    if becomes_table(step, source) or (operator.traits.is_view and step.table != source.table):
        return False
    if operator.kind in ("emit", "net_change"):
        return step.declared == source.declared  # else a table becomes a stream
    return operator.passes_on or operator.traits.is_looked_up


def becomes_table(step: Step, source: Step) -> bool:
    """Whether a stream was declared to be a table, of which this is the first step."""
    return step.became_table is not None and step.became_table != source.became_table


@dataclass
class _Visit:
    """The numbers so far: of operators, and of their inputs by place; a record that comes by another input is not pushed further again."""

    ways: _Ways
    own: dict[str, int] = field(default_factory=dict)
    inputs: dict[tuple[str, int], int] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    topics: dict[str, int] = field(default_factory=dict)
    before: dict[str, _Topics] = field(default_factory=dict)  # topics that rows of a step are still to pass
    next: int = 0

    def numbers_in_paths(self, shares: set[str]) -> dict[tuple[str, int], int]:
        """The numbers that paths may have: of inputs where records come by several, and of operators but merges, which make no rows."""
        own = {(name, -1): number for name, number in self.own.items() if name not in self.ways.merges}
        return {**own, **{one: number for one, number in self.inputs.items() if one[0] in shares}}

    def begin(self, source: Step) -> None:
        """Number a source, before all that its records reach."""
        self.own[source.id] = self._number()

    def push(self, source: Step) -> None:
        """Number all that a record of a source reaches, in the order in which it does."""
        pushed = self._below([source])
        waiting: deque[list[_StepArrival]] = deque()
        while pushed or waiting:
            if pushed and pushed[-1][0].is_behind:
                waiting.append(pushed.pop())
                continue
            arrivals = pushed.pop() if pushed else self._begun(waiting.popleft(), waiting)
            caused = [
                one.step for one in arrivals if one.step.operator.traits.gives_rows_of(one.place)
            ]  # not by a table that is looked up
            new = [step for step in caused if step.id not in self.own]
            for one in arrivals:
                self.inputs[one.step.id, one.place] = self._number()
                if one.moved and not one.is_behind and one.step in new:
                    self.before[one.step.id] = one.moved
            self.own |= {step.id: self._number() for step in new}
            pushed += self._below(new)

    def _below(self, steps: Sequence[Step]) -> list[list[_StepArrival]]:
        """What takes the rows of steps, the last one first."""
        return self.ways.arrivals(steps, self.before)[::-1]

    def _begun(self, arrivals: list[_StepArrival], waiting: deque[list[_StepArrival]]) -> list[_StepArrival]:
        """
        Arrivals that have waited, without those that are moved once more, and so wait again.

        What moved them has the next number, one for all exchanges that are one topic of Kafka Streams.
        """
        for arrival in arrivals:
            for name in arrival.moved[0]:
                if name not in self.moved:
                    self.moved.add(name)
                    topic = arrival.source.id if name in self.ways.moved_once else name
                    self.own[name] = self.topics.setdefault(topic, self._number())
        again = [one._replace(moved=one.moved[1:]) for one in arrivals if len(one.moved) > 1]
        if again:
            waiting.append(again)
        return [one for one in arrivals if len(one.moved) == 1]

    def _number(self) -> int:
        self.next += 1
        return self.next


def _seen(plan: Plan, visit: _Visit) -> dict[str, int]:
    """
    From when on a table's rows are seen by who looks them up, by step.

    A table without a store of its own is a view of those that it is made of, so it changes with them. What holds rows back is none.
    """
    seen: dict[str, int] = {}
    joins_kept = _kept(plan)
    begun, kept = _begun(plan, visit)
    made_of: dict[str, _DeclaredTable] = {}
    for step in plan.steps:
        sources = [plan.step(name) for name in step.sources]
        becomes = bool(sources) and becomes_table(step, sources[0])
        is_single_view = len(sources) == 1 and (step.operator.traits.is_view or step.operator.traits.moves_rows)
        if becomes:
            made_of[step.id] = (_unmoved(plan, sources[0]).id, step.declared)
        elif is_single_view and sources[0].id in made_of:
            made_of[step.id] = made_of[sources[0].id]
        is_behind = any(one.id in visit.ways.behind for one in sources)
        is_view = bool(sources) and (
            step.operator.traits.moves_rows or (step.operator.traits.is_view and all(one.table for one in sources))
        )
        own = visit.own.get(step.id, visit.next)
        if step.id in joins_kept:
            seen[step.id] = own if len(sources) > 1 else seen[sources[0].id]
        elif is_view and not is_behind and not becomes:
            seen[step.id] = min(seen[one.id] for one in sources)
        elif is_single_view and is_behind:  # a topic of Kafka Streams, before the table
            is_table_kept = becomes or sources[0].id in visit.ways.moved_once
            seen[step.id] = min(kept.get(made_of[step.id], own), own) if is_table_kept and step.id in made_of else own
        else:
            seen[step.id] = begun.get(made_of[step.id], own) if becomes and step.operator.traits.is_view else own
    return seen


_DeclaredTable: TypeAlias = tuple[str, int]  # a stream that was declared to be a table: its last step, and when that was declared


def _begun(plan: Plan, visit: _Visit) -> tuple[dict[_DeclaredTable, int], dict[_DeclaredTable, int]]:
    """When each stream becomes a table, whose first steps may be several; and when it is kept in a store that has a name."""
    begun: dict[_DeclaredTable, int] = {}
    kept: dict[_DeclaredTable, int] = {}
    for step in plan.steps:
        if step.id in visit.own and step.operator.traits.is_view and becomes_table(step, plan.step(step.sources[0])):
            table = (_unmoved(plan, plan.step(step.sources[0])).id, step.declared)
            for found in (begun, kept) if step.operator.traits.is_looked_up else (begun,):
                found[table] = min(found.get(table, visit.next), visit.own[step.id])
    return begun, kept


def _unmoved(plan: Plan, step: Step) -> Step:
    """The step whose rows these are, before exchanges."""
    while step.operator.traits.moves_rows:
        step = plan.step(step.sources[0])
    return step


def _causes(plan: Plan) -> dict[str, frozenset[int]]:
    """The inputs whose records may cause rows of a step, by step; not those of tables that it looks up."""
    causes: dict[str, frozenset[int]] = {}
    for step in plan.steps:
        number = step.operator.input_read
        below = [causes[name] for place, name in enumerate(step.sources) if step.operator.traits.gives_rows_of(place)]
        causes[step.id] = frozenset().union(*below) if number is None else frozenset([number])
    return causes
