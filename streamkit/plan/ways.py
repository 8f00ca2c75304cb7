"""
Ways: which steps take the rows of each, and in which order, as Kafka Streams would push a record.

Steps that do nothing to rows, in Kafka Streams' eyes, are looked through: a way goes from a step to the next one that does something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from streamkit.plan.steps import Plan, Step

Topics: TypeAlias = tuple[tuple[str, ...], ...]


class StepArrival(NamedTuple):
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
    moved: Topics


class Ways:
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
            is_by_other_key = operator.kind == "send" and operator.key != sources[0].partition_by  # type: ignore[attr-defined]
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

    def arrivals(self, steps: Sequence[Step], before: Mapping[str, Topics]) -> list[list[StepArrival]]:
        """
        Where the rows of steps go, in order; steps that give one table in several ways get them together.

        `before` are topics that rows of a step are still to pass.
        """
        found = [arrival for step in steps for arrival in self._found(step, step, before.get(step.id, ()))]
        together: dict[tuple[object, ...], list[StepArrival]] = {}
        for one in sorted(found, key=lambda one: one[1:4]):
            is_table = one.step.table or one.step.id in self.told
            is_view = is_table and one.step.operator.traits.is_view and len(one.step.sources) == 1
            what = one.declared if is_view else (one.step.id, one.place)
            together.setdefault((one.is_behind, what), []).append(one)
        return list(together.values())

    def _found(
        self, step: Step, origin: Step, moved: Topics = (), begins: int | None = None, *, is_by_key: bool = False
    ) -> Iterator[StepArrival]:
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
                yield StepArrival(waits, since, taker.declared, place, taker, origin, moved)

    def _is_one_topic(self, before: str, step: Step) -> bool:
        """Whether a step and the one before it that rows wait for are one topic: an exchange, and what asks for it."""
        asks = self.steps[before].operator
        if asks.kind == "send":
            return step.operator.kind == "repartition"
        return asks.kind != "repartition" and step.operator.kind == "send"

    def _comes_before(self, topic: tuple[str, ...], taker: Step, place: int, source: Step) -> bool:
        """Whether Kafka Streams has the topic behind a step: a new key alone makes none until an operator needs rows by key."""
        return all(name in self.moved_once for name in topic) and taker.operator.exchange(place, source) is None


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
