"""
Layouts: what the keys of a store hold beside the key columns, and where.

Operators, views and commands build and take apart state keys by the layout of the store, so that they agree:

    key      the key alone                                       tables, aggregates without windows
    window   the start of the window, then the key               windows, which close and expire by ranges of bytes
    sliding  the start of the window, then the key               as window; records look for windows by key, too
    session  the end of the session, the key, then its start     sessions, which close and expire by ranges of bytes
    kept_session  as session                                     windows whose start tells no end, and tables of them; looked up by both bounds
    since    the moment since which the key waits, then the key  rows held back, beside a store by key that has the rows

Where windows are looked for by key, too, they are listed: under the time LISTED before the key, and 0 behind it, stands the
list of a key's windows (`list_keys`).

A new layout is one entry in LAYOUTS. What must be found by time (join buffers by bucket, what is due) has its time before the
key; what must be found by key (sessions, versions) has its times behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import AnyArray, Integers
from streamkit.errors import CorruptionError
from streamkit.log.values.byte_order import order_of_numbers
from streamkit.names import SINCE, WINDOW_END, WINDOW_START
from streamkit.plan.program import ProgramStore
from streamkit.state.key import join_keys, range_end, range_prefix, split_keys
from streamkit.state.row import decode_rows, encode_rows

LISTED = -(2**63)  # before every time: where the list of a key's windows stands
MICROSECONDS = 1000
PAIR_BYTES = 16
UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class KeyLayout:
    """
    The layout of a store's keys: how many times (ms) stand `before` and `after` the key columns.

    `columns` are the names under which a view shows the times. A name more than there are times is that of the window's end,
    which is not in the key: all windows of a store have one size. `has_lists` says that the store lists the windows of each key.
    """

    name: str
    before: int = 0
    after: int = 0
    columns: tuple[str, ...] = ()
    has_lists: bool = False

    def window_times(self, starts: Integers, ends: Integers) -> tuple[Integers, ...]:
        """The times (ms) in the keys of windows with these bounds; none if the layout has no windows."""
        return (ends, starts) if self.after else (starts,) * self.before

    def list_keys(self, store_number: int, key_groups: AnyArray, key_columns: Sequence[pa.Array]) -> pa.BinaryArray:
        """The state keys under which the windows of each key are listed; ValueError if the layout has no lists."""
        if not self.has_lists:
            raise ValueError(f"a store of layout {self.name!r} lists no windows")
        times = [np.full(len(key_groups), time, np.int64) for time in (LISTED, *[0] * (self.before + self.after - 1))]
        return self.keys(store_number, key_groups, key_columns, times)

    @property
    def starts_first(self) -> bool:
        """Whether the first time before the key is the start of the window."""
        return self.before > 0 and not self.after

    def keys(
        self,
        store_number: int,
        key_groups: AnyArray,
        key_columns: Sequence[pa.Array],
        times: Sequence[AnyArray] = (),
    ) -> pa.BinaryArray:
        """
        The state keys of rows: key group, key columns and times (ms) of each.

        ValueError as in `join_keys`, or if the number of times is wrong.
        """
        if len(times) != self.before + self.after:
            raise ValueError(f"found {len(times)} times; expected {self.before + self.after} in a key of layout {self.name!r}")
        return join_keys(store_number, key_groups, key_columns, times[: self.before], times[self.before :])

    def split(self, keys: pa.BinaryArray, types: Sequence[str]) -> tuple[Integers, tuple[Integers, ...], list[pa.Array]]:
        """Key groups, times (ms) and key columns of state keys; CorruptionError if bytes are not such a key."""
        return split_keys(keys, types, self.before, self.after)

    def ranges(
        self, store_number: int, groups: Iterable[int], first: int | None = None, last: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        """
        The ranges [start, end) of a store's state keys, one a key group, in byte order if the groups are.

        With `first` or `last` only those whose first time (ms) is in [first, last); ValueError if none stands before the key.
        Lists of windows are not among them.
        """
        if self.has_lists:
            first = LISTED + 1 if first is None else max(first, LISTED + 1)
        if not self.before and (first is not None or last is not None):
            raise ValueError(f"keys of layout {self.name!r} are not in the order of times; expected neither first nor last")
        return [
            (
                range_prefix(group, store_number, first),
                range_end(group, store_number) if last is None else range_prefix(group, store_number, last),
            )
            for group in groups
        ]

    def shown(self, times: Sequence[Integers], size_ms: int | None = None) -> dict[str, pa.Array]:
        """The times as a view shows them, by column; `size_ms` is that of the store's windows."""
        times = times[::-1] if self.after else times  # the end of a session stands before its start
        ends = [times[0] + size_ms] if len(self.columns) > len(times) and size_ms is not None else []
        return {name: _moments(time) for name, time in zip(self.columns, [*times, *ends], strict=True)}


LAYOUTS: Mapping[str, KeyLayout] = {
    layout.name: layout
    for layout in (
        KeyLayout("key"),
        KeyLayout("window", before=1, columns=(WINDOW_START, WINDOW_END)),
        KeyLayout("sliding", before=1, columns=(WINDOW_START, WINDOW_END), has_lists=True),
        KeyLayout("session", before=1, after=1, columns=(WINDOW_START, WINDOW_END), has_lists=True),
        KeyLayout("kept_session", before=1, after=1, columns=(WINDOW_START, WINDOW_END)),
        KeyLayout("since", before=1, columns=(SINCE,)),
    )
}


def layout_of(store: ProgramStore) -> KeyLayout:
    """The layout of a store's keys."""
    return LAYOUTS[store.layout]


@dataclass(frozen=True, eq=False)
class ListedWindows:
    """The windows of keys: the position of each one's key, its start and its end (ms)."""

    keys: Integers
    starts: Integers
    ends: Integers

    def take(self, kept: AnyArray) -> ListedWindows:
        """The windows at these positions, or where a mask is true."""
        return ListedWindows(self.keys[kept], self.starts[kept], self.ends[kept])


def encode_lists(listed: ListedWindows, rows: int) -> pa.BinaryArray:
    """The lists of so many keys, by their positions, in the order of the windows' ends; null for a key without windows."""
    order = order_of_numbers(listed.keys, listed.ends, listed.starts)
    pairs = np.stack([listed.starts, listed.ends], axis=1)[order].astype("<i8")
    counts = np.bincount(listed.keys, minlength=rows)
    offsets = np.concatenate([[0], np.cumsum(counts)]) * pairs.itemsize * 2
    bytes_of_keys = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), rows, [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(pairs.tobytes())]
    ).cast(pa.binary())
    encoded = encode_rows([bytes_of_keys])
    return encoded if (counts > 0).all() else encoded.take(pa.array(np.arange(rows), mask=counts == 0))


def decode_lists(values: pa.BinaryArray) -> ListedWindows:
    """The inverse of `encode_lists`; CorruptionError if bytes are not such a list."""
    (lists,) = decode_rows(values, ["binary"])
    lengths = pc.binary_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if (lengths % PAIR_BYTES).any():
        raise CorruptionError(
            f"found a list of windows of {lengths.max()} bytes; expected pairs of times, of {PAIR_BYTES} bytes each"
        )
    pairs = np.frombuffer(_joined(lists.drop_null()), "<i8").reshape(-1, 2).astype(np.int64)
    return ListedWindows(np.repeat(np.arange(len(lists)), lengths // PAIR_BYTES), pairs[:, 0], pairs[:, 1])


def _joined(values: pa.BinaryArray) -> bytes | pa.Buffer:
    """The bytes of all values, which are not null, one after another."""
    if not len(values):
        return b""
    _, offsets, data = values.buffers()
    first, last = np.frombuffer(offsets, np.int32)[[values.offset, values.offset + len(values)]].tolist()
    return data.slice(first, last - first) if data is not None else b""


def _moments(times: Integers) -> pa.Array:
    return pa.array(times.astype(np.int64) * MICROSECONDS, pa.int64()).cast(UTC_MICROSECONDS)
