"""A global table: a compacted topic read whole, up to a position that the epoch's plan fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.kernels import run_alone
from streamkit.engine.rows import concatenate, empty_rows, last_of_each
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import read_frame
from streamkit.log.storage.storage import Storage
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED
from streamkit.plan.operator import Operator
from streamkit.plan.program import Input
from streamkit.state.key_index import NOWHERE, KeyIndex

TABLES_KEPT = 8


@dataclass(frozen=True, eq=False)
class GlobalTable:
    """The newest row of each key, and an index of the keys as bytes, in the same order."""

    rows: pa.RecordBatch
    index: KeyIndex

    @classmethod
    def read(
        cls, storage: Storage, source: Input, extents: Sequence[Extent], steps: tuple[Operator, ...], key: tuple[str, ...]
    ) -> GlobalTable:
        """The table as of the end of these extents, after the steps, by its key behind them; the same call again finds it in memory."""
        return _read(storage, source, tuple(extents), steps, key)  # type: ignore[arg-type]  # storages hash by identity

    def find(self, columns: Sequence[pa.Array]) -> pa.Int32Array:
        """For each row of these columns, the position of the table's row with that key; null where there is none."""
        found = self.index.find(encode_keys(columns))
        return pa.array(found, pa.int32(), mask=found == NOWHERE)


@lru_cache(maxsize=TABLES_KEPT)
def _read(
    storage: Storage, source: Input, extents: tuple[Extent, ...], steps: tuple[Operator, ...], key: tuple[str, ...]
) -> GlobalTable:
    batches = [_frame_rows(storage, source, extent) for extent in extents]
    rows = concatenate(batches) if batches else empty_rows(source.schema, DELETED)
    rows = rows.take(pa.array(last_of_each(encode_keys([rows[name] for name in source.key]))))
    for step in steps:
        rows = run_alone(step, rows)
    rows = rows.filter(pc.invert(rows[DELETED]))
    return GlobalTable(rows, KeyIndex(encode_keys([rows[name] for name in key])))


def _frame_rows(storage: Storage, source: Input, extent: Extent) -> pa.RecordBatch:
    batch = read_frame(storage, extent, [*source.schema.names, DELETED], source)
    deleted = batch[DELETED] if DELETED in batch.schema.names else pa.array(np.zeros(batch.num_rows, bool))
    columns = [batch[name] for name in source.schema.names]
    return pa.RecordBatch.from_arrays([*columns, deleted], names=[*source.schema.names, DELETED])
