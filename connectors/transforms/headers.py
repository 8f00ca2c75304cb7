"""Headers of records as a column: lists of a name and bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.connectors.transforms.records import Records
from streamkit.log.slab.frame import HEADERS_TYPE
from streamkit.names import HEADERS


def headers_of(records: Records) -> pa.ListArray:
    """The headers of each record; null where it has none."""
    found = records.fact(HEADERS)
    return pa.nulls(records.count, HEADERS_TYPE) if found is None else found.cast(HEADERS_TYPE)


def added(headers: pa.ListArray, names: Sequence[str], values: Sequence[pa.Array]) -> pa.ListArray:
    """Headers of these names behind those that are there; values are texts or bytes, one a record."""
    count, more = len(headers), len(names)
    old = headers.flatten()
    lengths = _lengths(headers)
    ends = np.cumsum(lengths + more)
    places = np.empty(ends[-1] if count else 0, np.int64)
    is_new = np.zeros(len(places), bool)
    for number in range(more):
        places[ends - more + number] = len(old) + np.arange(count) + number * count
        is_new[ends - more + number] = True
    places[~is_new] = np.arange(len(old))
    new = [
        pa.StructArray.from_arrays([pa.array([name] * count, pa.string()), pc.cast(value, pa.binary())], fields=list(HEADERS_TYPE.value_type))
        for name, value in zip(names, values, strict=True)
    ]  # fmt: skip
    pairs = pa.concat_arrays([old, *new]).take(pa.array(places))
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), pairs, type=HEADERS_TYPE)


def without(headers: pa.ListArray, names: Sequence[str]) -> pa.ListArray:
    """The headers of other names."""
    is_kept = pc.invert(pc.is_in(pc.struct_field(headers.flatten(), ["key"]), pa.array(names, pa.string())))
    ends = _per_record(headers, np.asarray(is_kept).astype(np.int64))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    found = pa.ListArray.from_arrays(offsets, headers.flatten().filter(is_kept), type=HEADERS_TYPE)
    return pc.if_else(pa.array(np.diff(np.concatenate([[0], ends])) > 0), found, pa.scalar(None, HEADERS_TYPE))


def has(headers: pa.ListArray, name: str) -> pa.BooleanArray:
    """Which records have a header of that name."""
    is_that = pc.equal(pc.struct_field(headers.flatten(), ["key"]), name)
    ends = _per_record(headers, np.asarray(is_that).astype(np.int64))
    return pa.array(np.diff(np.concatenate([[0], ends])) > 0)


def _lengths(headers: pa.ListArray) -> Integers:
    return np.asarray(pc.list_value_length(headers).fill_null(0)).astype(np.int64)


def _per_record(headers: pa.ListArray, counted: Integers) -> Integers:
    """How many of the headers that count lie before the end of each record."""
    running = np.concatenate([[0], np.cumsum(counted)])
    return np.asarray(running[np.cumsum(_lengths(headers))])
