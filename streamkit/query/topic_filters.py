"""
Filters of a scan of a topic: comparisons of a row's time, partition and offset with constants.

They choose what is read, and the condition from which they come is checked once more on each row.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamkit.log.consume.reader import EVER
from streamkit.names import OFFSET, PARTITION, TIMESTAMP
from streamkit.query.comparisons import AT_LEAST, AT_MOST, EQUAL, GREATER, IN, LESS, ColumnComparison, comparisons

if TYPE_CHECKING:
    from streamkit.expressions.analysis.row_condition import RowCondition

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND = dt.timedelta(milliseconds=1)
_OFFSET_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Range:
    """Whole numbers from `start` to before `end`."""

    start: int
    end: int

    def __and__(self, other: Range) -> Range:
        return Range(max(self.start, other.start), min(self.end, other.end))


@dataclass(frozen=True)
class FilterBounds:
    """What filters leave of a topic: times in ms, offsets, and partitions (None: all)."""

    times: Range = Range(EVER.start_ms, EVER.end_ms)
    offsets: Range = Range(0, _OFFSET_MAX)
    partitions: frozenset[int] | None = None

    @classmethod
    def of(cls, condition: RowCondition) -> FilterBounds:
        """What a condition leaves, and perhaps more."""
        bounds = cls()
        for comparison in comparisons(condition.predicate):
            bounds = narrowed(bounds, comparison)
        return bounds

    def within(self, name: str, wanted: Range) -> FilterBounds:
        """These bounds and one more of a column."""
        if name == TIMESTAMP:
            return replace(self, times=self.times & wanted)
        if name == OFFSET:
            return replace(self, offsets=self.offsets & wanted)
        return self.of_partitions(frozenset(range(max(wanted.start, 0), min(wanted.end, 10_000))))

    def of_partitions(self, wanted: frozenset[int]) -> FilterBounds:
        """These bounds, of some partitions only."""
        return replace(self, partitions=wanted if self.partitions is None else self.partitions & wanted)


def narrowed(bounds: FilterBounds, comparison: ColumnComparison) -> FilterBounds:
    """The bounds with one comparison more; of another sign, or of another column, it changes nothing."""
    name = comparison.column
    if name not in (TIMESTAMP, OFFSET, PARTITION):
        return bounds
    if comparison.sign == IN:
        is_listed = name == PARTITION and all(map(_is_whole, comparison.values))
        return bounds.of_partitions(frozenset(comparison.values)) if is_listed else bounds
    wanted = _wanted(comparison)
    return bounds if wanted is None else bounds.within(name, wanted)


def _wanted(comparison: ColumnComparison) -> Range | None:
    """The numbers that a comparison lets through."""
    if comparison.sign not in (EQUAL, GREATER, AT_LEAST, LESS, AT_MOST):
        return None
    steps = _steps(comparison.values[0], comparison.column)
    if steps is None:
        return None
    below, above = steps  # the number itself, or those on both sides of what lies between two
    least, most = EVER.start_ms, EVER.end_ms
    return {
        GREATER: Range(below + 1, most), AT_LEAST: Range(above, most), LESS: Range(least, above), AT_MOST: Range(least, below + 1),
        EQUAL: Range(above, below + 1),
    }[comparison.sign]  # fmt: skip


def _steps(value: Any, name: str) -> tuple[int, int] | None:
    """The greatest number of the column that is not above a constant, and the least that is not below; None for another type."""
    if name == TIMESTAMP:
        if not isinstance(value, dt.datetime) or value.tzinfo is None:
            return None
        below, rest = divmod(value - _EPOCH, _MILLISECOND)
        return below, below + bool(rest)
    return (value, value) if _is_whole(value) else None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
