"""Filters of a scan of a topic let through what the comparison would."""

from __future__ import annotations

import datetime as dt
import operator
from functools import reduce

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from streamkit.spark.dataframe.filters import FilterBounds, narrowed
from tests.unit.spark.dataframe.conftest import T0

COMPARISONS = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}


def bounds_of(filters):
    """What all filters together leave."""
    return reduce(narrowed, filters, FilterBounds())


@pytest.mark.parametrize("kind", COMPARISONS)
@pytest.mark.parametrize("microseconds", [0, 1, 999, 1000, 1001, 3000, 90_000, -1, -90_000])
def test_times(kind, microseconds):
    """A constant between two milliseconds cuts between them."""
    constant = T0 + dt.timedelta(microseconds=microseconds)
    times = [T0 + dt.timedelta(milliseconds=step) for step in range(-2, 6)]
    bounds = bounds_of([kind(("_timestamp",), constant)])
    found = [time for time in times if bounds.times.start <= time.timestamp() * 1000 < bounds.times.end]
    assert found == [time for time in times if COMPARISONS[kind](time, constant)]


@pytest.mark.parametrize("kind", COMPARISONS)
@pytest.mark.parametrize("constant", [-1, 0, 3, 9])
def test_offsets_and_partitions(kind, constant):
    """Offsets and partitions are whole numbers."""
    wanted = [number for number in range(8) if COMPARISONS[kind](number, constant)]
    offsets = bounds_of([kind(("_offset",), constant)])
    partitions = bounds_of([kind(("_partition",), constant)])
    assert [number for number in range(8) if offsets.offsets.start <= number < offsets.offsets.end] == wanted
    assert [number for number in range(8) if partitions.partitions is None or number in partitions.partitions] == wanted


def test_filters_together():
    """All hold at once; those of other columns and kinds, and negated ones, bound nothing."""
    others = [
        EqualTo(("user",), "u1"),
        Not(EqualTo(("_offset",), 3)),
        StringStartsWith(("_partition",), "1"),
        LessThan(("_offset",), 2.5),
    ]
    some = [GreaterThan(("_offset",), 3), LessThan(("_offset",), 9), In(("_partition",), (0, 2)), LessThan(("_partition",), 2)]
    bounds = bounds_of([others[0], *some, *others[1:]])
    assert (bounds.offsets.start, bounds.offsets.end, bounds.partitions) == (4, 9, frozenset({0}))
    assert bounds_of(others) == FilterBounds()


def test_times_without_a_zone():
    """What is compared with a time that has no zone bounds nothing."""
    assert bounds_of([LessThan(("_timestamp",), dt.datetime(2026, 3, 1))]) == FilterBounds()
