"""A topic as a table, kept from query to query: the newest row of each key, updated by later commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.chunks import one_batch
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED, ORDER
from streamkit.state.key_index import NOWHERE, KeyIndex

RECENT_ROWS = 4_096  # newer rows are kept apart, until there are so many, and a quarter as many as the others
RECENT_SHARE = 4


@dataclass(frozen=True, eq=False)
class _RowsByKey:
    """Rows with their encoded keys; `alive` says which of them no newer row has replaced."""

    rows: pa.RecordBatch
    index: KeyIndex
    alive: Mask

    @classmethod
    def of(cls, rows: pa.RecordBatch, keys: pa.BinaryArray) -> _RowsByKey:
        return cls(rows, KeyIndex(keys), np.ones(rows.num_rows, bool))

    def without(self, keys: pa.BinaryArray) -> _RowsByKey:
        """Those left when these keys have other rows, or none."""
        found = self.index.find(keys)
        alive = self.alive.copy()
        alive[found[found != NOWHERE]] = False
        return replace(self, alive=alive)

    def living(self) -> pa.RecordBatch:
        return self.rows if self.alive.all() else self.rows.filter(pa.array(self.alive))

    def living_keys(self) -> pa.BinaryArray:
        return self.index.keys if self.alive.all() else self.index.keys.filter(pa.array(self.alive))

    def find(self, keys: pa.BinaryArray) -> pa.RecordBatch:
        """The rows of those of the keys that have one here."""
        places = self.places(keys)
        return self.rows.take(pa.array(places[places != NOWHERE]))

    def places(self, keys: pa.BinaryArray) -> Integers:
        """Where the row of each of the keys is; -1 for one that has none here."""
        found = self.index.find(keys)
        is_there = found != NOWHERE
        is_there[is_there] = self.alive[found[is_there]]
        return np.where(is_there, found, NOWHERE)


@dataclass(frozen=True, eq=False)
class FoldedTopic:
    """
    The rows of a table as of the offsets in `reached`; `topic_id` says of which topic, and `time_ms` which order key it had come to.

    A value: whoever reads it while it is moved on sees one moment of it.
    """

    topic_id: int
    schema: pa.Schema
    key: tuple[str, ...]
    reached: Mapping[int, int] = field(default_factory=dict)
    time_ms: int = NO_TIME
    parts: tuple[_RowsByKey, ...] = ()  # old ones, then recent ones; a key lives in one of them

    def moved_on(self, batches: Sequence[pa.RecordBatch], reached: Mapping[int, int]) -> FoldedTopic:
        """
        The table behind further rows, by partition and offset, with `_order` and `_deleted`; keys that are all null have no row.

        The rows have the columns of the schema, and these two. Keys that are equal may lie in several partitions, if producers have spelt them
        in several ways; then the newest row is the last one in the canonical order (law 11).
        """
        rows = one_batch(pa.Table.from_batches(batches, self.read_schema))
        time_ms = max(self.time_ms, pc.max(rows.column(ORDER)).as_py()) if rows.num_rows else self.time_ms
        rows, keys = newest_of_each(rows, self.key)
        if not rows.num_rows:
            return replace(self, reached=reached, time_ms=time_ms)
        parts = tuple(part.without(keys) for part in self.parts)
        kept = pc.invert(rows.column(DELETED))
        recent, recent_keys = rows.filter(kept).select(self.schema.names), keys.filter(kept)
        return replace(self, parts=_merged(parts, recent, recent_keys), reached=reached, time_ms=time_ms)

    @property
    def read_schema(self) -> pa.Schema:
        """The columns of the rows that move it on."""
        return self.schema.append(pa.field(ORDER, pa.int64())).append(pa.field(DELETED, pa.bool_()))

    def rows(self) -> pa.Table:
        """All rows of the table."""
        return pa.Table.from_batches([part.living() for part in self.parts], self.schema)

    def find(self, key: Sequence[pa.Array]) -> pa.Table:
        """The rows of some keys, each given once by a value in each array."""
        keys = encode_keys(key)
        return pa.Table.from_batches([part.find(keys) for part in self.parts], self.schema)

    def beside(self, key: Sequence[pa.Array], names: Sequence[str]) -> pa.Table:
        """Some columns of the row of each of some keys, in their order; nulls for a key that has none."""
        keys = encode_keys(key)
        found, start = np.full(len(keys), NOWHERE, np.int64), 0
        for part in self.parts:
            places = part.places(keys)
            found = np.where(places == NOWHERE, found, places + start)
            start += part.rows.num_rows
        every = pa.Table.from_batches([part.rows for part in self.parts], self.schema)
        return every.select(names).take(pa.array(found, mask=found == NOWHERE))

    def count(self) -> int:
        """How many rows there are."""
        return int(sum(part.alive.sum() for part in self.parts))


def _with_a_key(rows: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
    """The rows whose key is not null."""
    columns = [rows.column(name) for name in key]
    if all(column.null_count for column in columns):
        has_key = np.logical_or.reduce([column.is_valid().to_numpy(zero_copy_only=False) for column in columns])
        return rows.filter(pa.array(has_key))
    return rows


def newest_of_each(rows: pa.RecordBatch, key: Sequence[str]) -> tuple[pa.RecordBatch, pa.BinaryArray]:
    """The newest row of each key, deletions too, with the encoded keys; rows are by partition and offset, and stay in this order."""
    rows = _with_a_key(rows, key)
    if not rows.num_rows:
        return rows, pa.array([], pa.binary())
    keys = encode_keys([rows.column(name) for name in key])
    codes = keys.dictionary_encode().indices.to_numpy()
    last = np.zeros(int(codes.max()) + 1, np.int64)
    by_order = np.argsort(rows.column(ORDER).to_numpy(), kind="stable")
    last[codes[by_order]] = by_order  # of equal codes the last one counts
    newest = pa.array(np.sort(last))
    return rows.take(newest), keys.take(newest)


def _merged(parts: tuple[_RowsByKey, ...], rows: pa.RecordBatch, keys: pa.BinaryArray) -> tuple[_RowsByKey, ...]:
    """The parts with new rows: those join the recent ones, and when these are many, all become old."""
    if not parts:
        return (_RowsByKey.of(rows, keys),)
    old, *recent = parts
    rows = one_batch(pa.Table.from_batches([*(part.living() for part in recent), rows]))
    keys = pa.concat_arrays([*(part.living_keys() for part in recent), keys])
    if rows.num_rows <= max(RECENT_ROWS, old.rows.num_rows // RECENT_SHARE):
        return (old, _RowsByKey.of(rows, keys))
    together = one_batch(pa.Table.from_batches([old.living(), rows]))
    return (_RowsByKey.of(together, pa.concat_arrays([old.living_keys(), keys])),)
