"""
What a condition asks of a record, and between which offsets, partitions and times a record must lie for it to hold.

The intervals are what a reader needs to leave out frames: they may be wider than what the condition says, never narrower.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.names import OFFSET, PARTITION, TIMESTAMP

_BOUNDED = (OFFSET, PARTITION, TIMESTAMP)
COMPARISONS: dict[str, Callable[[pc.Expression, pc.Expression | pa.Scalar], pc.Expression]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<>": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """Integers from `start` to before `end`; None means that there is no bound."""

    start: int | None = None
    end: int | None = None

    def __and__(self, other: Interval) -> Interval:
        """The numbers that are in both."""
        starts = [start for start in (self.start, other.start) if start is not None]
        ends = [end for end in (self.end, other.end) if end is not None]
        return Interval(max(starts, default=None), min(ends, default=None))

    def __or__(self, other: Interval) -> Interval:
        """The shortest interval with the numbers of both."""
        start = None if self.start is None or other.start is None else min(self.start, other.start)
        end = None if self.end is None or other.end is None else max(self.end, other.end)
        return Interval(start, end)

    def __contains__(self, number: int) -> bool:
        return (self.start is None or number >= self.start) and (self.end is None or number < self.end)


EVERYTHING = Interval()


@dataclass(frozen=True)
class QueryCondition:
    """An Arrow expression, and by column the interval in which it can hold; times are in ms since 1970."""

    expression: pc.Expression
    intervals: Mapping[str, Interval] = field(default_factory=dict)

    def interval(self, column: str) -> Interval:
        """The interval of a column; everything if nothing is known."""
        return self.intervals.get(column, EVERYTHING)

    def __and__(self, other: QueryCondition) -> QueryCondition:
        columns = [*self.intervals, *other.intervals]
        return QueryCondition(
            self.expression & other.expression, {name: self.interval(name) & other.interval(name) for name in columns}
        )

    def __or__(self, other: QueryCondition) -> QueryCondition:
        return QueryCondition(
            self.expression | other.expression, {name: found | other.interval(name) for name, found in self.intervals.items()}
        )

    def __invert__(self) -> QueryCondition:
        return QueryCondition(~self.expression)


def compared(column: str, operand: pc.Expression, sign: str, value: pa.Scalar) -> QueryCondition:
    """A comparison of a column, as `operand` has it, with a value."""
    found = _interval(sign, value) if column in _BOUNDED else None
    return QueryCondition(COMPARISONS[sign](operand, value), {} if found is None else {column: found})


def _interval(sign: str, value: pa.Scalar) -> Interval | None:
    """The integers for which a comparison with a value holds, as far as they are an interval."""
    number = Fraction(value.value, 1000) if pa.types.is_timestamp(value.type) else value.as_py()
    if not math.isfinite(number):
        return None
    least, above = math.ceil(number), math.floor(number) + 1
    return {
        "=": Interval(least, above), "==": Interval(least, above), "<": Interval(None, least),
        "<=": Interval(None, above), ">": Interval(above, None), ">=": Interval(least, None),
    }.get(sign)  # fmt: skip
