"""
Layouts: what the keys of a store hold beside the key columns, and where.

Operators, views and commands build and take apart state keys by the layout of the store, so that they agree:

    key      the key alone                                       tables, aggregates without windows
    window   the start of the window, then the key               windows, which close and expire by ranges of bytes
    since    the moment since which the key waits, then the key  rows held back, beside a store by key that has the rows

A new layout is one entry in LAYOUTS. What must be found by time (join buffers by bucket, what is due) has its time before the
key; what must be found by key (sessions, versions) has its times behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.names import SINCE, WINDOW_END, WINDOW_START
from streamkit.plan.program import Store
from streamkit.state.key import Numbers, join_keys, range_end, range_prefix, split_keys

MICROSECONDS = 1000
UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Layout:
    """
    The layout of a store's keys: how many times (ms) stand `before` and `after` the key columns.

    `columns` are the names under which a view shows the times. A name more than there are times is that of the window's end,
    which is not in the key: all windows of a store have one size.
    """

    name: str
    before: int = 0
    after: int = 0
    columns: tuple[str, ...] = ()

    def keys(
        self,
        store_number: int,
        key_groups: npt.NDArray[Any],
        key_columns: Sequence[pa.Array],
        times: Sequence[npt.NDArray[Any]] = (),
    ) -> pa.BinaryArray:
        """
        The state keys of rows: key group, key columns and times (ms) of each.

        ValueError as in `join_keys`, or if the number of times is wrong.
        """
        if len(times) != self.before + self.after:
            raise ValueError(f"found {len(times)} times; expected {self.before + self.after} in a key of layout {self.name!r}")
        return join_keys(store_number, key_groups, key_columns, times[: self.before], times[self.before :])

    def split(self, keys: pa.BinaryArray, types: Sequence[str]) -> tuple[Numbers, tuple[Numbers, ...], list[pa.Array]]:
        """Key groups, times (ms) and key columns of state keys; CorruptionError if bytes are not such a key."""
        return split_keys(keys, types, self.before, self.after)

    def ranges(
        self, store_number: int, groups: Iterable[int], first: int | None = None, last: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        """
        The ranges [start, end) of a store's state keys, one a key group, in byte order if the groups are.

        With `first` or `last` only those whose first time (ms) is in [first, last); ValueError if none stands before the key.
        """
        if not self.before and (first is not None or last is not None):
            raise ValueError(f"keys of layout {self.name!r} are not in the order of times; expected neither first nor last")
        return [
            (
                range_prefix(group, store_number, first),
                range_end(group, store_number) if last is None else range_prefix(group, store_number, last),
            )
            for group in groups
        ]

    def shown(self, times: Sequence[Numbers], size_ms: int | None = None) -> dict[str, pa.Array]:
        """The times as a view shows them, by column; `size_ms` is that of the store's windows."""
        ends = [times[0] + size_ms] if len(self.columns) > len(times) and size_ms is not None else []
        return {name: _moments(time) for name, time in zip(self.columns, [*times, *ends], strict=True)}


LAYOUTS: Mapping[str, Layout] = {
    layout.name: layout
    for layout in (
        Layout("key"),
        Layout("window", before=1, columns=(WINDOW_START, WINDOW_END)),
        Layout("since", before=1, columns=(SINCE,)),
    )
}


def layout_of(store: Store) -> Layout:
    """The layout of a store's keys."""
    return LAYOUTS[store.layout]


def _moments(times: Numbers) -> pa.Array:
    return pa.array(times.astype(np.int64) * MICROSECONDS, pa.int64()).cast(UTC_MICROSECONDS)
