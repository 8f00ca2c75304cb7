"""The rows of a store as users see them: what a program says of their bytes, which of them a selection takes, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.log.values.byte_order import byte_order
from streamkit.log.values.slices import ByteSlices, join
from streamkit.names import WINDOW_START
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.store_definition import StoreDefinition
from streamkit.schema import Schema
from streamkit.state.key import range_end, range_prefix
from streamkit.state.layout import MICROSECONDS, KeyLayout, layout_of
from streamkit.state.row import decode_rows
from streamkit.state.shown_rows import shown_rows
from streamkit.state.single_key import moment_key

PREFIX_BYTES = 4  # of each state key: the key group and the number of the store
GROUP_BYTES = 2
TIME_BYTES = 8  # of a time beside the key
MOMENT_BYTES = 9  # of a time that is a column of the key


@dataclass(frozen=True)
class WantedRows:
    """
    Which rows of a store are wanted; each bound that is None is open.

    The encoding of the key, as users declared it, is in [key_start, key_end). Windows start in [start_ms, end_ms), and end at
    `ends_from_ms` or later.
    """

    key_start: bytes = b""
    key_end: bytes | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    ends_from_ms: int | None = None

    @property
    def has_key_bounds(self) -> bool:
        return bool(self.key_start) or self.key_end is not None


EVERYTHING = WantedRows()


@dataclass(frozen=True, eq=False)
class StoredRows:
    """The bytes of one store of a program, which has the `number`, and what they mean. `is_earlier` says that they are of format 1."""

    program: Program
    store: ProgramStore
    number: int = 0
    is_earlier: bool = False
    layout: KeyLayout = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", layout_of(self.store))

    @cached_property
    def definition(self) -> StoreDefinition | None:
        """What a processor declared, if it keeps the store."""
        return self.program.keeper(self.store.name).definition_of(self.store.name)

    @property
    def kind(self) -> str:
        """That of a processor's store: key_value, window, session or versioned; of others the layout of the keys."""
        return self.layout.name if self.definition is None else self.definition.kind

    @property
    def key(self) -> Schema:
        """The key columns as users declared them: without the times, and numbers, that stores of processors have among theirs."""
        return self.store.key if self.definition is None else self.definition.key

    @property
    def has_windows(self) -> bool:
        """Whether rows are those of windows, or sessions, of a key."""
        return WINDOW_START in self.layout.columns or self._has_sessions_in_key

    @property
    def has_sessions(self) -> bool:
        """Whether the keys have start and end of each window."""
        return bool(self.layout.after) or self._has_sessions_in_key

    @property
    def _has_sessions_in_key(self) -> bool:
        """As in the session stores of processors: the end is the first column of the key, and the start the last one."""
        return self.definition is not None and self.definition.kind == "session"

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the rows: those of the key, where windows start and end, and the values."""
        nothing = pa.array([], pa.binary())
        return self.rows(nothing, nothing).schema

    def rows(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> pa.RecordBatch:
        """The rows behind state keys and their values."""
        return shown_rows(self.program, self.store, keys, values, is_earlier=self.is_earlier)

    def timed_values(self, values: pa.BinaryArray) -> list[pa.Array]:
        """The event time (ms) of each row that is kept as it is, and its value columns."""
        return decode_rows(values, ["bigint", *(column.type for column in self.store.value)])

    def ranges(self, groups: Iterable[int], wanted: WantedRows = EVERYTHING) -> list[tuple[bytes, bytes]]:
        """The ranges [start, end) of state keys that have all wanted rows, one a key group; others may lie there, see `is_wanted`."""
        if self._has_sessions_in_key:
            first = _latest(wanted.start_ms, wanted.ends_from_ms)  # a session does not end before it starts
            behind = b"" if first is None else moment_key(first)
            return [(range_prefix(group, self.number) + behind, range_end(group, self.number)) for group in groups]
        if self.layout.after:
            return self.layout.ranges(self.number, groups, _latest(wanted.start_ms, wanted.ends_from_ms))
        if self.layout.before:
            return self.layout.ranges(self.number, groups, wanted.start_ms, wanted.end_ms)
        return [
            (
                (prefix := range_prefix(group, self.number)) + wanted.key_start,
                range_end(group, self.number) if wanted.key_end is None else prefix + wanted.key_end,
            )
            for group in groups
        ]

    def is_wanted(self, keys: pa.BinaryArray, wanted: WantedRows) -> pa.BooleanArray | None:
        """Which of the state keys in these ranges a selection takes; None if all of them."""
        masks = []
        if wanted.has_key_bounds and self._times_in_front:
            encoded = inner_bytes(keys, PREFIX_BYTES + self._times_in_front, self._times_behind)
            masks += [] if not wanted.key_start else [pc.greater_equal(encoded, wanted.key_start)]
            masks += [] if wanted.key_end is None else [pc.less(encoded, wanted.key_end)]
        if self.has_sessions and (wanted.start_ms, wanted.end_ms) != (None, None):
            starts = self._starts(keys)
            kept = np.ones(len(starts), bool)
            kept &= True if wanted.start_ms is None else starts >= wanted.start_ms
            kept &= True if wanted.end_ms is None else starts < wanted.end_ms
            masks.append(pa.array(kept))
        if not masks:
            return None
        both = masks[0]
        for mask in masks[1:]:
            both = pc.and_(both, mask)
        return both

    def order(self, keys: pa.BinaryArray) -> pa.Array:
        """The order of the store: by windows' starts, or sessions' ends, then by keys; equal ones by key group."""
        return byte_order(inner_bytes(keys, GROUP_BYTES, 0))

    @property
    def _key_types(self) -> Sequence[str]:
        return [column.type for column in self.store.key]

    @property
    def _times_in_front(self) -> int:
        """How many bytes of times stand before the key as users declared it."""
        return MOMENT_BYTES if self._has_sessions_in_key else TIME_BYTES * self.layout.before

    @property
    def _times_behind(self) -> int:
        return MOMENT_BYTES if self._has_sessions_in_key else TIME_BYTES * self.layout.after

    def _starts(self, keys: pa.BinaryArray) -> Integers:
        """Where the session behind each state key starts, in ms."""
        _, times, columns = self.layout.split(keys, self._key_types)
        if not self._has_sessions_in_key:
            return times[-1]
        starts: Integers = columns[-1].cast(pa.int64()).to_numpy(zero_copy_only=False) // MICROSECONDS
        return starts


def inner_bytes(keys: pa.BinaryArray, in_front: int, behind: int) -> pa.BinaryArray:
    """The bytes of each key without so many in front and behind."""
    rows = ByteSlices.of(keys)  # Arrow's binary_slice fails where the end is left open
    return join([ByteSlices(rows.data, rows.starts + in_front, rows.lengths - in_front - behind)])


def _latest(*moments: int | None) -> int | None:
    return max((moment for moment in moments if moment is not None), default=None)
