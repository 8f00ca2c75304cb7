"""Where two runs of one program differ: in the records of a topic, or in the rows of a store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from streamkit.log.log import Log
from streamkit.names import DELETED, OFFSET, PARTITION, TIMESTAMP
from streamkit.state.layout import layout_of

ComparedRow: TypeAlias = Mapping[str, Any]
ComparedKey: TypeAlias = tuple[Any, ...]
RELATIVE_TOLERANCE = 1e-9  # sums of doubles may differ in their last bits with the cut


def topic_difference(topic: str, expected: Log, found: Log, *, newest_only: bool = False) -> str | None:
    """
    The first difference between the records of a topic in two logs, in words; None if there is none.

    The records of each key must be the same, in the same order; records without a key may be in any order. With `newest_only` the
    newest record of each key must be the same, and the other records are not compared.
    """
    key = expected.topic(topic).key
    sides = [_by_key(_records(log, topic), key, newest_only) for log in (expected, found)]
    return _difference(f"topic {topic}", key, *sides)


def store_difference(application: str, store: str, expected: Log, found: Log) -> str | None:
    """The first difference between the rows of a store in two logs, in words; None if there is none."""
    views = [log.store(application, store) for log in (expected, found)]
    kept = views[0].store
    key = (*kept.key.names, *layout_of(kept).columns[:1])
    sides = [_by_key(view.to_arrow().to_pylist(), key, False) for view in views]
    return _difference(f"store {store}", key, *sides)


def _records(log: Log, topic: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = log.read(topic).to_pylist()
    return [
        {name: row[name] for name in row if name not in (PARTITION, OFFSET)} | {DELETED: bool(row.get(DELETED))} for row in rows
    ]


def _by_key(rows: Sequence[ComparedRow], key: Sequence[str], newest_only: bool) -> dict[ComparedKey, list[ComparedRow]]:
    found: dict[ComparedKey, list[ComparedRow]] = {}
    for row in rows:
        found.setdefault(tuple(hashable(row[name]) for name in key), []).append(row)
    if newest_only:
        return {place: records[-1:] for place, records in found.items() if not records[-1].get(DELETED)}
    return {place: _sorted(records) if not key or None in place else records for place, records in found.items()}


def _sorted(rows: list[ComparedRow]) -> list[ComparedRow]:
    return sorted(rows, key=lambda row: (row.get(TIMESTAMP) is not None, str(row.get(TIMESTAMP)), repr(row)))


def hashable(value: Any) -> Any:
    """A value of a key such that equal ones are equal in Python: NaN is `math.nan`, a list a tuple, and a struct that of its values."""
    if isinstance(value, dict):
        return hashable(list(value.values()))
    if isinstance(value, list | tuple):
        return tuple(map(hashable, value))
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def _difference(
    what: str,
    key: Sequence[str],
    expected: Mapping[ComparedKey, list[ComparedRow]],
    found: Mapping[ComparedKey, list[ComparedRow]],
) -> str | None:
    for place in [*expected, *(place for place in found if place not in expected)]:
        mine, other = expected.get(place, []), found.get(place, [])
        named = f"{what}, {', '.join(f'{name}={value!r}' for name, value in zip(key, place, strict=True))}" if key else what
        for number, (one, two) in enumerate(zip(mine, other, strict=False)):
            if not _same(one, two):
                return f"{named}, record {number}: the driver has {one}, Spark {two}"
        if len(mine) != len(other):
            return f"{named}: the driver has {len(mine)} records, Spark {len(other)}; the driver's are {mine}, Spark's {other}"
    return None


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=RELATIVE_TOLERANCE) or (math.isnan(one) and math.isnan(two))
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return one.keys() == two.keys() and all(_same(one[name], two[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(_same(a, b) for a, b in zip(one, two, strict=True))
    return bool(one == two)
