"""The stored windows of keys that are looked for by key and by time: sessions and sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.rows.rows import numbers
from streamkit.engine.stage.context import Context
from streamkit.expressions.aggregates import state_columns
from streamkit.log.values.byte_order import byte_order
from streamkit.log.values.keys import encode_keys
from streamkit.names import KEY_GROUP
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.plan.windows import Windowing
from streamkit.state.layout import KeyLayout, ListedWindows, decode_lists, encode_lists, layout_of
from streamkit.state.row import decode_rows

StoreChanges: TypeAlias = tuple[pa.BinaryArray, pa.BinaryArray, Integers]  # keys, values, times


@dataclass(frozen=True, eq=False)
class WindowKeys:
    """Distinct keys: their columns and key groups."""

    columns: list[pa.Array]
    groups: Integers

    def take(self, places: Integers) -> WindowKeys:
        wanted = pa.array(places)
        return WindowKeys([column.take(wanted) for column in self.columns], self.groups[places])

    @classmethod
    def concatenated(cls, one: WindowKeys, other: WindowKeys) -> WindowKeys:
        columns = [pa.concat_arrays([a.cast(b.type), b]) for a, b in zip(one.columns, other.columns, strict=True)]
        return cls(columns, np.concatenate([one.groups, other.groups]))


def keys_of(key: Sequence[str], batch: pa.RecordBatch) -> tuple[WindowKeys, Integers]:
    """The distinct keys of rows, and for each row the position of its own."""
    encoded = encode_keys([batch[name] for name in key]).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    first = np.full(len(encoded.dictionary), -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    columns = [batch[name].take(pa.array(first)) for name in key]
    return WindowKeys(columns, numbers(batch, KEY_GROUP)[first].astype(np.int64)), codes


@dataclass(frozen=True, eq=False)
class WindowState:
    """The store of an operator in an epoch."""

    operator: Aggregate
    context: Context

    @property
    def windowing(self) -> Windowing:
        """The windows as the operator applies them."""
        assert self.operator.window is not None, f"{self.operator.id} has no windows"
        return self.operator.window

    @property
    def length_ms(self) -> int:
        """The gap of sessions, or the difference of sliding windows: both ends are part of them."""
        return self.windowing.size_ms - 1

    @property
    def times(self) -> tuple[int, int]:
        """Stream time before the epoch and at its end."""
        return self.context.stream_time(self.windowing)

    @property
    def wait_ms(self) -> int:
        """How long after its time in the key of the store a window closes."""
        return self.windowing.closing_wait_ms

    @property
    def expired_ms(self) -> int:
        """Windows up to this time have expired at the end of the epoch."""
        return self.context.reached(self.windowing)[1] - self._kept_ms

    def keys(self, keys: WindowKeys, places: Integers, times: Sequence[Integers]) -> pa.BinaryArray:
        """The state keys of windows; `places` are the positions of their keys."""
        own = keys.take(places)
        return self._layout.keys(self._number, own.groups, own.columns, times)

    def list_keys(self, keys: WindowKeys) -> pa.BinaryArray:
        """The state keys of the lists of keys."""
        return self._layout.list_keys(self._number, keys.groups, keys.columns)

    def split(self, state_keys: pa.BinaryArray) -> tuple[WindowKeys, tuple[Integers, ...]]:
        """The keys and times of stored windows."""
        types = [column.type for column in self.context.store(self.operator.store).key]
        groups, times, columns = self._layout.split(state_keys, types)
        return WindowKeys(columns, groups), times

    def listed(self, keys: WindowKeys) -> ListedWindows:
        """The stored windows of keys."""
        return decode_lists(self.read(self.list_keys(keys)))

    def read(self, keys: pa.BinaryArray) -> pa.BinaryArray:
        """The stored values of keys in any order."""
        if not len(keys):
            return pa.array([], pa.binary())
        order = byte_order(keys)
        back = np.empty(len(keys), np.int64)
        back[order.to_numpy()] = np.arange(len(keys))
        return self.context.committed_state().get(keys.take(order)).take(pa.array(back))

    def due_in_epoch(self, wait_ms: int, *, has_expired: bool = False) -> tuple[pa.BinaryArray, pa.BinaryArray]:
        """
        Keys and values of the stored windows whose time plus `wait_ms` is reached by stream time in this epoch.

        With `has_expired` stream time is that of records alone, and those are among them that were reached before, if the store is to
        forget them.
        """
        before, now = self.context.reached(self.windowing) if has_expired else self.times
        is_purged = has_expired and self.context.is_purged(self.operator.store) and now != NO_TIME
        if now == before and not is_purged:
            return pa.array([], pa.binary()), pa.array([], pa.binary())
        first = NO_TIME if before == NO_TIME or is_purged else before - wait_ms + 1
        return self.context.committed_state().scan(
            self._layout.ranges(self._number, self.context.groups, first, now - wait_ms + 1)
        )

    def keep(self, changes: Sequence[StoreChanges], taken: WindowKeys | None) -> None:
        """Write changes to the changelog, and delete what has expired; the lists of the keys `taken` are among the changes."""
        expired, _ = self.due_in_epoch(self._kept_ms, has_expired=True)
        self.context.count("expired", self.operator.id, len(expired))
        if len(expired):
            changes = [*changes, self._unlisted(expired, taken)]
        if changes:
            self.context.change(self.operator.store, *_sorted(changes))

    def _unlisted(self, expired: pa.BinaryArray, taken: WindowKeys | None) -> StoreChanges:
        """The deletion of expired windows, and the lists of those keys that had no rows."""
        owners, _ = self.split(expired)
        list_keys = self.list_keys(owners)
        first = np.unique(list_keys.dictionary_encode().indices.to_numpy(), return_index=True)[1]
        if taken is not None:
            is_taken = pc.is_in(list_keys.take(pa.array(first)), value_set=self.list_keys(taken))
            first = first[~is_taken.to_numpy(zero_copy_only=False)]
        listed = self.listed(owners.take(first))
        window_times = listed.ends if self._layout.after else listed.starts
        lists = encode_lists(listed.take(window_times > self.expired_ms), len(first))
        keys = pa.concat_arrays([expired, list_keys.take(pa.array(first))])
        return keys, pa.concat_arrays([pa.nulls(len(expired), pa.binary()), lists]), np.full(len(keys), self.times[1])

    @property
    def _layout(self) -> KeyLayout:
        return layout_of(self.context.store(self.operator.store))

    @property
    def _number(self) -> int:
        return self.context.store_number(self.operator.store)

    @property
    def _kept_ms(self) -> int:
        kept_ms = self.context.store(self.operator.store).retention_ms
        assert kept_ms is not None, "stores of windows have a retention"
        return kept_ms


def decoded(aggregates: Sequence[TypedAggregate], values: pa.BinaryArray) -> tuple[Integers, list[pa.Array]]:
    """The largest event times and the state columns of stored windows."""
    columns = [column for one in aggregates for column in state_columns(one)]
    times, *states = decode_rows(values, ["bigint", *(column.type for column in columns)])
    return times.to_numpy(zero_copy_only=False).astype(np.int64), states


def _sorted(changes: Sequence[StoreChanges]) -> StoreChanges:
    """All changes in the order of their keys, each key once: a window that is gone may also have expired."""
    keys, values = (pa.concat_arrays([one[part] for one in changes]) for part in (0, 1))
    times = np.concatenate([one[2] for one in changes])
    order = byte_order(keys)
    keys, values, times = keys.take(order), values.take(order), times[order.to_numpy()]
    if len(keys) < 2:
        return keys, values, times
    differs = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    kept = np.concatenate([[True], differs])
    return keys.filter(pa.array(kept)), values.filter(pa.array(kept)), times[kept]
