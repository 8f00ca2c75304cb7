"""A global table: a compacted topic read whole, up to a position that the epoch's plan fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.operators.columnwise import filter_rows, project
from streamkit.engine.rows import concatenate, empty_rows
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import read_frame
from streamkit.log.storage.storage import Storage
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED
from streamkit.plan.program import Filter, Input, Operator, Project

TABLES_KEPT = 8


@dataclass(frozen=True, eq=False)
class GlobalTable:
    """The newest row of each key, and the keys as bytes, in the same order."""

    rows: pa.RecordBatch
    keys: pa.BinaryArray

    @classmethod
    def read(cls, storage: Storage, source: Input, extents: Sequence[Extent], steps: tuple[Operator, ...]) -> GlobalTable:
        """The table as of the end of these extents, after the steps; the same call again finds it in memory."""
        return _read(storage, source, tuple(extents), steps)  # type: ignore[arg-type]  # storages hash by identity

    def find(self, columns: Sequence[pa.Array]) -> pa.Int32Array:
        """For each row of these columns, the position of the table's row with that key; null where there is none."""
        return pc.index_in(encode_keys(columns), value_set=self.keys)


@lru_cache(maxsize=TABLES_KEPT)
def _read(storage: Storage, source: Input, extents: tuple[Extent, ...], steps: tuple[Operator, ...]) -> GlobalTable:
    batches = [_frame_rows(storage, source, extent) for extent in extents]
    rows = concatenate(batches) if batches else empty_rows(source.schema, DELETED)
    rows = rows.take(pa.array(_last_of_each(encode_keys([rows[name] for name in source.key]))))
    key = source.key
    for step in steps:
        assert isinstance(step, (Filter, Project)), f"{step.kind} {step.id!r} cannot stand between a global table and its join"
        rows = filter_rows(step, rows) if isinstance(step, Filter) else project(step, rows)
        key = step.key if isinstance(step, Project) and step.key else key
    rows = rows.filter(pc.invert(rows[DELETED]))
    return GlobalTable(rows, encode_keys([rows[name] for name in key]))


def _frame_rows(storage: Storage, source: Input, extent: Extent) -> pa.RecordBatch:
    batch = read_frame(storage, extent, [*source.schema.names, DELETED], source)
    deleted = batch[DELETED] if DELETED in batch.schema.names else pa.array(np.zeros(batch.num_rows, bool))
    columns = [batch[name] for name in source.schema.names]
    return pa.RecordBatch.from_arrays([*columns, deleted], names=[*source.schema.names, DELETED])


def _last_of_each(keys: pa.BinaryArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    codes = keys.dictionary_encode().indices.to_numpy()
    last = np.full(int(codes.max()) + 1 if len(codes) else 0, -1, np.int64)
    last[codes] = np.arange(len(codes))
    return np.sort(last)
