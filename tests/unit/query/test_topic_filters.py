"""Filters of a scan of a topic let through what the comparison would."""

from __future__ import annotations

import datetime as dt
import operator
from functools import reduce

import pytest

from streamkit.query.comparisons import ColumnComparison
from streamkit.query.topic_filters import FilterBounds, narrowed

T0 = dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)
SIGNS = {"=": operator.eq, ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}


def bounds_of(*comparisons):
    """What all comparisons together leave."""
    return reduce(narrowed, [ColumnComparison(column, sign, values) for column, sign, *values in comparisons], FilterBounds())


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("microseconds", [0, 1, 999, 1000, 1001, 3000, 90_000, -1, -90_000])
def test_times(sign, microseconds):
    """A constant between two milliseconds cuts between them."""
    constant = T0 + dt.timedelta(microseconds=microseconds)
    times = [T0 + dt.timedelta(milliseconds=step) for step in range(-2, 6)]
    bounds = bounds_of(("_timestamp", sign, constant))
    found = [time for time in times if bounds.times.start <= time.timestamp() * 1000 < bounds.times.end]
    assert found == [time for time in times if SIGNS[sign](time, constant)]


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("constant", [-1, 0, 3, 9])
def test_offsets_and_partitions(sign, constant):
    """Offsets and partitions are whole numbers."""
    wanted = [number for number in range(8) if SIGNS[sign](number, constant)]
    offsets = bounds_of(("_offset", sign, constant))
    partitions = bounds_of(("_partition", sign, constant))
    assert [number for number in range(8) if offsets.offsets.start <= number < offsets.offsets.end] == wanted
    assert [number for number in range(8) if partitions.partitions is None or number in partitions.partitions] == wanted


def test_filters_together():
    """All hold at once; those of other columns and signs bound nothing."""
    others = [
        ("user", "=", "u1"),
        ("_offset", "is null"),
        ("_partition", "<=>", 1),
        ("_offset", "<", 2.5),
        ("_offset", "in", 1, 2),
    ]
    some = [("_offset", ">", 3), ("_offset", "<", 9), ("_partition", "in", 0, 2), ("_partition", "<", 2)]
    bounds = bounds_of(others[0], *some, *others[1:])
    assert (bounds.offsets.start, bounds.offsets.end, bounds.partitions) == (4, 9, frozenset({0}))
    assert bounds_of(*others) == FilterBounds()


def test_times_without_a_zone():
    """What is compared with a time that has no zone bounds nothing."""
    assert bounds_of(("_timestamp", "<", dt.datetime(2026, 3, 1))) == FilterBounds()
