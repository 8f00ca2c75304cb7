"""
Stores of lists of rows, by a time and a key: what a join keeps of a stream.

The value of a time and a key is one row of state whose columns are lists: the event times of the rows, and each of their own
columns. Rows stand in the list in the order in which they came. All is read and written a column at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.rows.rows import rows_of
from streamkit.engine.stage.context import Context
from streamkit.log.values.byte_order import byte_order
from streamkit.names import TIMESTAMP
from streamkit.plan.program import ProgramStore
from streamkit.state.layout import layout_of
from streamkit.state.row import decode_rows, encode_rows

PLACES_PER_RANGE_MIN = 32  # where fewer are asked for, asking costs less than the begin of a scan
PLACES_PER_LIST = 16  # of more lists a scan would cost more than it may save
RANGES_PROBED = 4


@dataclass(frozen=True, eq=False)
class ListKeys:
    """The distinct keys of some rows: what stands at each code."""

    columns: list[pa.Array]
    key_groups: Integers

    def __len__(self) -> int:
        return len(self.key_groups)

    def take(self, codes: Integers) -> ListKeys:
        return ListKeys(self.columns_at(codes), self.key_groups[codes])

    def columns_at(self, codes: Integers) -> list[pa.Array]:
        """The key columns at these codes; null at negative ones."""
        wanted = pa.array(codes, mask=codes < 0)
        return [column.take(wanted) for column in self.columns]

    def followed_by(self, more: ListKeys) -> ListKeys:
        columns = [pa.concat_arrays(both) for both in zip(self.columns, more.columns, strict=True)]
        return ListKeys(columns, np.concatenate([self.key_groups, more.key_groups]))


@dataclass(frozen=True, eq=False)
class ListPlaces:
    """Pairs of a time (ms) and a key (its code), each once: where lists are."""

    times: Integers
    codes: Integers

    def __len__(self) -> int:
        return len(self.times)

    def take(self, indices: Integers | Mask) -> ListPlaces:
        return ListPlaces(self.times[indices], self.codes[indices])

    @classmethod
    def distinct(cls, times: Integers, codes: Integers) -> tuple[ListPlaces, Integers]:
        """The distinct of some pairs, and for each pair its position among them."""
        moments, ranks = np.unique(times, return_inverse=True)
        span = int(codes.max()) + 1 if len(codes) else 1
        found, positions = np.unique(ranks * span + codes, return_inverse=True)
        return cls(moments[found // span], found % span), positions


@dataclass(frozen=True, eq=False)
class ListedRows:
    """Rows of lists: which list each is in, its event time, and its columns."""

    owners: Integers
    times: Integers
    columns: pa.RecordBatch

    def take(self, indices: Integers) -> ListedRows:
        return ListedRows(self.owners[indices], self.times[indices], self.columns.take(pa.array(indices)))


@dataclass(frozen=True, eq=False)
class Found:
    """Lists that a scan found: their state keys, times and keys, and their rows."""

    state_keys: pa.BinaryArray
    times: Integers
    keys: ListKeys
    rows: ListedRows


class RowLists:
    """One store of lists, as of the committed epoch, and the changes that this epoch makes to it."""

    def __init__(self, store: ProgramStore, context: Context) -> None:
        self.store = store
        self._context = context
        self._number = context.store_number(store.name)
        self._layout = layout_of(store)
        self._types = ["bigint", *(column.type for column in store.value)]

    @property
    def value_names(self) -> list[str]:
        """The columns of the rows, beside their times."""
        return [name for name in self.store.value.names if name != TIMESTAMP]

    def state_keys(self, places: ListPlaces, keys: ListKeys) -> pa.BinaryArray:
        owners = keys.take(places.codes)
        return self._layout.keys(self._number, owners.key_groups, owners.columns, (places.times,))

    def read(self, places: ListPlaces, keys: ListKeys) -> ListedRows:
        """The rows of these lists, list by list; the owner of a row is the place of its list among them."""
        if not len(places):
            return self._rows(pa.array([], pa.binary()), np.empty(0, np.int64))
        if len(places) >= PLACES_PER_RANGE_MIN * len(self._context.groups) and (few := self._few(places, keys)) is not None:
            return few
        wanted = self.state_keys(places, keys)
        order = byte_order(wanted)
        values = self._context.committed_state().get(wanted.take(order))
        present = values.is_valid().to_numpy(zero_copy_only=False)
        return self._rows(values.drop_null(), order.to_numpy().astype(np.int64)[present])

    def _few(self, places: ListPlaces, keys: ListKeys) -> ListedRows | None:
        """
        What `read` gives, by a scan of all lists between the first and the last of these times; None if there are too many of them.

        One side of a join may have a list where the other has thousands of rows, each of which would ask for one that is not there.
        """
        ranges = self._ranges(int(places.times.min()), int(places.times.max()) + 1)
        limit = len(places) // (PLACES_PER_LIST * len(ranges)) + 1
        near, found, values = np.zeros(len(places), bool), [], []
        for some in (ranges[:RANGES_PROBED], ranges[RANGES_PROBED:]):
            stored, of_stored = self._context.committed_state().scan(some, [limit] * len(some))
            groups, (times,), _ = self._layout.split(stored, [column.type for column in self.store.key])
            if np.bincount(groups).max(initial=0) >= limit:  # a range is that of a key group, and perhaps it goes on
                return None
            near |= np.isin(places.times, times) & np.isin(keys.key_groups[places.codes], groups)
            found.append(stored)
            values.append(of_stored)
        rows = np.flatnonzero(near)
        # The lists come in the order of their state keys, as without a scan.
        positions = pc.index_in(pa.concat_arrays(found), value_set=self.state_keys(places.take(rows), keys))
        return self._rows(pa.concat_arrays(values).filter(positions.is_valid()), rows[positions.drop_null().to_numpy()])

    def scan(self, first: int, last: int) -> Found:
        """The lists whose times are in [first, last)."""
        keys, values = self._context.committed_state().scan(self._ranges(first, last))
        groups, (times,), columns = self._layout.split(keys, [column.type for column in self.store.key])
        return Found(keys, times, ListKeys(columns, groups), self._rows(values, np.arange(len(keys))))

    def over(self, before_ms: int, now_ms: int) -> Found:
        """The lists whose time plus retention was reached between two stream times."""
        first, last = self._over(before_ms, now_ms)
        return self.scan(first, max(first, last))

    def present(self, state_keys: pa.BinaryArray) -> pa.BinaryArray:
        """Those of the state keys that have a list."""
        if not len(state_keys):
            return state_keys
        keys = state_keys.take(byte_order(state_keys))
        return keys.filter(self._context.committed_state().get(keys).is_valid())

    def expired(self, before_ms: int, now_ms: int) -> pa.BinaryArray:
        """The state keys of the lists whose time plus retention was reached between two stream times."""
        first, last = self._over(before_ms, now_ms)
        size = self.store.window_size_ms or 1
        if first >= last or (first != NO_TIME and -(-first // size) * size >= last):
            return pa.array([], pa.binary())
        return self._context.committed_state().scan_keys(self._ranges(first, last))

    def encoded(self, counts: Integers, times: Integers, columns: Sequence[pa.Array]) -> tuple[pa.BinaryArray, Integers]:
        """The values of lists of so many rows each, one after another, and the largest time in each."""
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        newest = np.maximum.reduceat(times, offsets[:-1]) if len(counts) else np.empty(0, np.int64)
        borders = pa.array(offsets.astype(np.int32))
        lists = [pa.ListArray.from_arrays(borders, column) for column in (pa.array(times, pa.int64()), *columns)]
        return encode_rows([pa.array(newest, pa.int64()), *lists]), newest

    def change(self, puts: pa.BinaryArray, values: pa.BinaryArray, times: Integers, deletes: pa.BinaryArray, now_ms: int) -> None:
        """Hand changes to the changelog; no key is both put and deleted."""
        if not len(puts) and not len(deletes):
            return
        keys = pa.concat_arrays([puts, deletes])
        order = byte_order(keys)
        if len(deletes):
            values = pa.concat_arrays([values, pa.nulls(len(deletes), pa.binary())])
            times = np.concatenate([times, np.full(len(deletes), now_ms, np.int64)])
        if not (order.to_numpy() == np.arange(len(keys))).all():
            keys, values, times = keys.take(order), values.take(order), times[order.to_numpy()]
        self._context.change(self.store.name, keys, values, times)

    def _over(self, before_ms: int, now_ms: int) -> tuple[int, int]:
        """The times, from the first to before the last, whose retention ends between two stream times."""
        retention = self.store.retention_ms
        assert retention is not None, "lists of rows are kept for a time"
        return NO_TIME if before_ms == NO_TIME else before_ms - retention + 1, now_ms - retention + 1

    def _ranges(self, first: int, last: int) -> list[tuple[bytes, bytes]]:
        return self._layout.ranges(self._number, self._context.groups, first, last)

    def _rows(self, values: pa.BinaryArray, owners: Integers) -> ListedRows:
        _, times, *columns = decode_rows(values, self._types)
        counts = np.diff(times.offsets.to_numpy()) if len(times) else np.empty(0, np.int64)
        rows = rows_of({name: column.flatten() for name, column in zip(self.store.value.names, (times, *columns), strict=True)})
        return ListedRows(np.repeat(owners, counts), rows[TIMESTAMP].to_numpy(), rows.drop_columns([TIMESTAMP]))


def distinct(numbers: Integers) -> Integers:
    """The distinct of some numbers that are not negative, in ascending order; faster than a sort where they are dense."""
    if not len(numbers):
        return numbers
    largest = int(numbers.max())
    if largest > 16 * len(numbers) + 1_000_000:
        return np.unique(numbers)
    is_there = np.zeros(largest + 1, bool)
    is_there[numbers] = True
    return np.flatnonzero(is_there)
