"""
The versions of a table with history: which row each key had since when.

A version is a row, or a deletion, and its event time. It is valid until the next version of its key. The newest row of a key is
in the table's store; the history has former versions, and a deletion that is a key's newest. They stand in lists by key and by the
bucket of time in which their validity ended, so that what is too old to be looked up leaves as ranges of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.folding.joining import decoded_rows, key_columns
from streamkit.engine.folding.row_lists import ListKeys, ListPlaces, RowLists
from streamkit.engine.rows.rows import deletions_of, is_null_key, numbers, plain, rows_of
from streamkit.engine.stage.context import Context
from streamkit.log.values.byte_order import byte_order, order_of_numbers
from streamkit.log.values.keys import encode_keys
from streamkit.names import KEY_GROUP, TIMESTAMP
from streamkit.plan.operators.versioned_table import VersionedTable
from streamkit.plan.program import ProgramStore
from streamkit.state.layout import layout_of

STORED = -1  # the rank of the place of a version that is stored: before every row of the epoch
IN_STORE = np.iinfo(np.int64).max  # stands for the bucket of versions that are a key's newest row


@dataclass(frozen=True, eq=False)
class Versions:
    """
    Versions of keys, by the codes of the keys: since when each is valid, and the rank of its place.

    `buckets` says where a stored one is; `rows` has its time and the table's values, which are null for a deletion.
    """

    codes: Integers
    times: Integers
    ranks: Integers
    is_deleted: Mask
    buckets: Integers
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, chosen: Integers | Mask) -> Versions:
        indices = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        return Versions(
            self.codes[indices],
            self.times[indices],
            self.ranks[indices],
            self.is_deleted[indices],
            self.buckets[indices],
            self.rows.take(pa.array(indices)),
        )

    def in_order(self) -> Versions:
        """By key, time and place."""
        order = order_of_numbers(self.codes, self.times, self.ranks)
        return self if (order[1:] > order[:-1]).all() else self.take(order)

    @classmethod
    def of_rows(cls, store: ProgramStore, rows: pa.RecordBatch, codes: Integers, ranks: Integers) -> Versions:
        """The versions that the rows of an epoch make."""
        values = rows_of({name: plain(rows[name]) for name in (TIMESTAMP, *store.value.names)})
        nowhere = np.full(len(codes), NO_TIME, np.int64)
        return cls(codes, numbers(rows, TIMESTAMP), ranks, deletions_of(rows), nowhere, values)

    @classmethod
    def together(cls, parts: Sequence[Versions]) -> Versions:
        """All versions of several parts."""
        given = [part for part in parts if len(part)] or [parts[0]]
        if len(given) == 1:
            return given[0]
        columns = zip(*((one.codes, one.times, one.ranks, one.is_deleted, one.buckets) for one in given), strict=True)
        first = given[0].rows.schema
        rows = {name: pa.concat_arrays([one.rows[name].cast(first.field(name).type) for one in given]) for name in first.names}
        codes, times, ranks, is_deleted, buckets = (np.concatenate(some) for some in columns)
        return cls(codes, times, ranks, is_deleted, buckets, rows_of(rows))


def coded_keys(store: ProgramStore, rows: pa.RecordBatch, on: Sequence[str]) -> tuple[Integers, ListKeys]:
    """A code for the key of each row in the columns `on`, -1 if it is null, and the distinct keys by code."""
    columns = key_columns(store, rows, on)
    groups = numbers(rows, KEY_GROUP).astype(np.int64)
    encoded = pc.if_else(is_null_key(rows, on), pa.scalar(None, pa.binary()), encode_keys(columns))
    codes = encoded.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    first = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    first[codes[codes >= 0][::-1]] = np.flatnonzero(codes >= 0)[::-1]
    owners = pa.array(first)
    return codes, ListKeys([plain(column).take(owners) for column in columns], groups[first])


@dataclass(frozen=True, eq=False)
class History:
    """What a table with history holds as of the committed epoch."""

    table: VersionedTable
    context: Context

    @property
    def store(self) -> ProgramStore:
        """The store of the newest rows."""
        return self.context.store(self.table.store)

    @property
    def lists(self) -> RowLists:
        """The store of former versions."""
        return RowLists(self.context.store(self.table.history), self.context)

    def state_keys(self, keys: ListKeys) -> pa.BinaryArray:
        """Where the newest rows of keys are."""
        number = self.context.store_number(self.table.store)
        return layout_of(self.store).keys(number, keys.key_groups, keys.columns)

    def newest(self, keys: ListKeys) -> Versions:
        """The newest rows of those keys that have one."""
        wanted = self.state_keys(keys)
        order = byte_order(wanted)
        values = self.context.committed_state().get(wanted.take(order))
        rows = decoded_rows(self.store, values.drop_null())
        codes = order.to_numpy().astype(np.int64)[values.is_valid().to_numpy(zero_copy_only=False)]
        stored, nothing = np.full(len(codes), STORED, np.int64), np.zeros(len(codes), bool)
        in_store = np.full(len(codes), IN_STORE, np.int64)
        return Versions(codes, numbers(rows, TIMESTAMP), stored, nothing, in_store, rows)

    def former(self, keys: ListKeys, codes: Integers) -> Versions:
        """The former versions of the keys with these codes; deletions that are their newest, too."""
        buckets = self._buckets() if len(codes) else np.empty(0, np.int64)
        places = ListPlaces(np.tile(buckets, len(codes)), np.repeat(codes, len(buckets)))
        listed = self.lists.read(places, keys)
        owners, columns = listed.owners, listed.columns
        is_deleted = deletions_of(columns)
        values = rows_of({TIMESTAMP: pa.array(listed.times), **{name: columns[name] for name in self.store.value.names}})
        stored = np.full(len(owners), STORED, np.int64)
        return Versions(places.codes[owners], listed.times, stored, is_deleted, places.times[owners], values)

    def bucket(self, times: Integers) -> Integers:
        """The begin of the bucket of each time."""
        size = self.lists.store.window_size_ms
        assert size is not None, "history is kept by buckets of time"
        return times // size * size

    def is_over(self, buckets: Integers) -> Mask:
        """Whether everything in a bucket is too old to be looked up at the end of the epoch."""
        _, now = self.context.stream_time(self.table.windowing)
        retention = self.lists.store.retention_ms
        assert retention is not None, "history is kept for a time"
        over: Mask = (buckets != IN_STORE) & (buckets <= max(now, NO_TIME + retention) - retention)
        return over

    def _buckets(self) -> Integers:
        """Those in which versions may be that can still be looked up."""
        before, _ = self.context.stream_time(self.table.windowing)
        if before == NO_TIME:
            return np.empty(0, np.int64)
        size = self.lists.store.window_size_ms
        first, last = self.bucket(np.array([max(before, NO_TIME + 2 * self.table.history_ms) - self.table.history_ms, before]))
        return np.arange(first, last + 1, size, dtype=np.int64)


def valid_at(versions: Versions, codes: Integers, times: Integers, ranks: Integers) -> Integers:
    """
    For each key the position of the version that was valid at a time, as known at a place; -1 if there is none.

    Of the versions of the key that stand at the place or before it and are not younger, it is the youngest; versions are in order.
    """
    if not len(versions):
        return np.full(len(codes), -1, np.int64)
    moments = np.unique(versions.times)
    span = len(moments) + 1
    since = versions.codes * span + np.searchsorted(moments, versions.times) + 1
    found = np.searchsorted(since, codes * span + np.searchsorted(moments, times, side="right"), side="right") - 1
    found = _known_at(versions.ranks, found, ranks)
    is_own = (found >= 0) & (versions.codes[np.maximum(found, 0)] == codes) & (codes >= 0)
    return np.where(is_own, found, -1)


def _known_at(ranks: Integers, found: Integers, limits: Integers) -> Integers:
    """
    From each position the nearest one at it or before it whose rank is within the limit; -1 if there is none.

    Few rows have to look further than their first position, by steps of powers of two over the minima of as many ranks.
    """
    late = np.flatnonzero((found >= 0) & (ranks[np.maximum(found, 0)] > limits))
    if not len(late):
        return found
    minima = [ranks]
    while (width := 1 << len(minima)) <= len(ranks):
        half, before = width >> 1, minima[-1]
        wider = before.copy()
        wider[half:] = np.minimum(before[half:], before[:-half])
        minima.append(wider)
    at, wanted = found[late], limits[late]
    for level in reversed(range(len(minima))):
        skipped = (at >= 0) & (minima[level][np.maximum(at, 0)] > wanted)
        at = np.where(skipped, np.maximum(at - (1 << level), -1), at)
    result = found.copy()
    result[late] = at
    return result
