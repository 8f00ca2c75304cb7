"""
The visit: operators get numbers in the order in which Kafka Streams would push a record to them.

A step gives a record to those behind it in the order in which they were declared, and each is through with it, and with all that is behind
it, before the next one gets it. What gets another key waits until that is over, since Kafka Streams has a topic there; then it goes on in
the same way. An arrival at an input has a number, and so has an operator once the first row arrives; rows that come to it by another input
are not pushed further again. For instance, of a record of `orders`,

    orders 1 ─┬─ filter 4 ───── 5 ┐
              ├─ project 8 ──── 9 ┴ merge 6 ── another key 14 ── 15 join 16 ── aggregate 18
              └─ filter 11 ─── to 13

where 5 and 9 are the inputs of the merge: it has had the row of the first filter before the projection gets the record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamkit.plan.steps import Step
from streamkit.plan.ways import StepArrival, Topics, Ways


@dataclass
class Visit:
    """The numbers so far: of operators, and of their inputs by place. `before` are topics that rows of a step are still to pass."""

    ways: Ways
    own: dict[str, int] = field(default_factory=dict)
    inputs: dict[tuple[str, int], int] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    topics: dict[str, int] = field(default_factory=dict)
    before: dict[str, Topics] = field(default_factory=dict)
    next: int = 0

    @classmethod
    def of(cls, ways: Ways, sources: Sequence[Step]) -> Visit:
        """What the records of sources visit, one source after the other; the sources themselves have the first numbers."""
        visit = cls(ways)
        for source in sources:
            visit.own[source.id] = visit._number()
        for source in sources:
            visit._push(source)
        return visit

    def numbers_in_paths(self, shares: set[str]) -> dict[tuple[str, int], int]:
        """The numbers that paths may have: of inputs where records come by several, and of operators but merges, which make no rows."""
        own = {(name, -1): number for name, number in self.own.items() if name not in self.ways.merges}
        return {**own, **{one: number for one, number in self.inputs.items() if one[0] in shares}}

    def _push(self, source: Step) -> None:
        """Number all that a record of a source reaches, in the order in which it does."""
        stack = self.ways.arrivals([source], self.before)[::-1]  # the next one to get the record is the last
        waiting: deque[list[StepArrival]] = deque()  # rows with another key, whose turn comes when nothing is left on the stack
        while stack or waiting:
            if stack and stack[-1][0].is_behind:
                waiting.append(stack.pop())
                continue
            arrivals = stack.pop() if stack else self._arrived(waiting.popleft(), waiting)
            # A table that is looked up causes nothing; an operator that has a number has given its rows already.
            caused = [one.step for one in arrivals if one.step.operator.traits.gives_rows_of(one.place)]
            new = [step for step in caused if step.id not in self.own]
            for one in arrivals:
                self.inputs[one.step.id, one.place] = self._number()
                if one.moved and not one.is_behind and one.step in new:
                    self.before[one.step.id] = one.moved
            self.own |= {step.id: self._number() for step in new}
            stack += self.ways.arrivals(new, self.before)[::-1]

    def _arrived(self, arrivals: list[StepArrival], waiting: deque[list[StepArrival]]) -> list[StepArrival]:
        """
        Arrivals that have waited for a topic, without those that are still to pass another one, and so wait again.

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
