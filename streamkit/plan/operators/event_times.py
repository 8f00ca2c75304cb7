"""Rows whose event time a column says: those that say none are refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from streamkit.plan.event_time import EventTime
from streamkit.plan.operator import Names, Operator
from streamkit.plan.operator_traits import EACH_ALONE, OperatorTraits
from streamkit.plan.stateless import passed
from streamkit.plan.steps import Step
from streamkit.schema import Schema


@dataclass(frozen=True)
class EventTimes(Operator):
    """Pass the rows that have an event time; the reader has put it into `_timestamp` from the column `column`."""

    kind: ClassVar[str] = "event_times"
    traits: ClassVar[OperatorTraits] = OperatorTraits(leaves_out=EACH_ALONE)
    column: str
    type: str
    since_1970: bool = False

    @property
    def reads_order(self) -> bool:
        return False

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        return passed(step, rows)

    def text(self) -> str:
        return f"event times of {self.column}"


def event_times_step(time: EventTime, rows: Step) -> Step:
    """The step that refuses rows without an event time."""
    id = f"{rows.id.partition(':')[0]}:event_times"
    return replace(rows, operator=EventTimes(id, rows.stage, (rows.id,), str(time), time.type, time.since_1970))
