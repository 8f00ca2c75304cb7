"""What became of binary values: rows of columns, and what is wrong with those that are not of their format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.chunks import one_batch
from streamkit.schema import Schema


@dataclass(frozen=True)
class Decoded:
    """A row for each value; those that `failures` names mean nothing, and it says why."""

    rows: pa.RecordBatch
    failures: Mapping[int, str] = field(default_factory=dict)


def empty_rows(columns: Schema, count: int) -> pa.RecordBatch:
    """Rows of nulls."""
    schema = pa.schema([column.arrow.with_nullable(True) for column in columns])
    return pa.RecordBatch.from_arrays([pa.nulls(count, one.type) for one in schema], schema=schema)


def nullable(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, of whose columns all may be null."""
    return pa.RecordBatch.from_arrays(rows.columns, schema=pa.schema([one.with_nullable(True) for one in rows.schema]))


def put_back(parts: Sequence[tuple[Integers, pa.RecordBatch]], columns: Schema, count: int) -> pa.RecordBatch:
    """Rows of parts at the places that stand beside them; nulls elsewhere."""
    if not parts:
        return empty_rows(columns, count)
    if len(parts) == 1 and len(parts[0][0]) == count:
        return nullable(parts[0][1])
    places = np.full(count, -1, np.int64)
    owners = np.concatenate([owners for owners, _ in parts])
    places[owners] = np.arange(len(owners))
    rows = one_batch(pa.Table.from_batches([nullable(rows) for _, rows in parts]))
    return rows.take(pa.array(places, mask=places < 0)) if rows.num_rows else empty_rows(columns, count)


def halved(count: int, reads: Callable[[int, int], str | None], most: int) -> dict[int, str]:
    """The first values, at most `most`, with which `reads` of a range fails, and why; it gives None if it does not."""
    found: dict[int, str] = {}
    ranges = [(0, count)]
    while ranges and len(found) < most:
        start, end = ranges.pop()
        reason = reads(start, end) if end > start else None
        if reason is None:
            continue
        if end - start == 1:
            found[start] = reason
        else:
            middle = (start + end) // 2
            ranges += [(middle, end), (start, middle)]
    return found


def fitting(
    values: pa.Array | Sequence[Any],
    convert: Callable[[Any], pa.Array],
    kind: pa.DataType,
    reason: Callable[[int, Exception], str],
) -> tuple[pa.Array, dict[int, str]]:
    """
    What `convert` makes of values, null for those that it refuses with ArrowInvalid or another ValueError, and why it refuses each.

    It is tried with all of them, then with ever fewer, so a value that it refuses changes no other.
    """
    refused = (pa.ArrowInvalid, ValueError, OverflowError)
    try:
        return convert(values), {}
    except refused:
        pass

    def reads(start: int, end: int) -> str | None:
        try:
            convert(values[start:end])
        except refused as error:
            return reason(start, error)
        return None

    wrong = halved(len(values), reads, len(values))
    parts, start = [], 0
    for row in (*sorted(wrong), len(values)):
        if row > start:
            parts.append(convert(values[start:row]))
        parts.append(pa.nulls(min(1, len(values) - row), kind))
        start = row + 1
    return pa.concat_arrays(parts), wrong
