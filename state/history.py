"""Which rows were valid at a time, by the versions that a store keeps: of a table with history, or of a processor's versioned store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.names import DELETED, TIMESTAMP
from streamkit.plan.store_kinds.versioned_store import IS_DELETED, VALID_FROM
from streamkit.state.layout import MICROSECONDS
from streamkit.state.stored_rows import MOMENT_BYTES, StoredRows, WantedRows, inner_bytes
from streamkit.state.task_state import TaskState


def valid_versions(
    stored: StoredRows, state: TaskState, groups: Iterable[int], wanted: WantedRows, time_ms: int
) -> tuple[pa.BinaryArray, pa.RecordBatch]:
    """Of each wanted key of a versioned store the version that was valid at a time, if there was a value: state keys, and rows."""
    keys, values = state.scan(stored.ranges(groups, wanted))
    rows = stored.rows(keys, values)
    is_begun = pc.less_equal(rows[VALID_FROM].cast(pa.int64()), time_ms * MICROSECONDS)
    keys, rows = keys.filter(is_begun), rows.filter(is_begun)
    # Versions of a key stand side by side, the oldest first: the time is the end of the state key.
    own = inner_bytes(keys, 0, MOMENT_BYTES)
    kept = pa.array(last_of_each(own)) if len(keys) else pa.array([], pa.bool_())
    kept = pc.and_(kept, pc.invert(rows[IS_DELETED]))
    return keys.filter(kept), rows.filter(kept)


def valid_rows_of_table(
    stored: StoredRows, history: StoredRows, state: TaskState, groups: Iterable[int], wanted: WantedRows, time_ms: int
) -> tuple[pa.BinaryArray, pa.RecordBatch]:
    """
    Of each wanted key of a table with history the row that was valid at a time: state keys, and rows.

    The store has the newest row of each key, with its time; the history has lists of former versions, by the time when each was
    replaced. So what was valid then is in the store, or in a list of that time or later, as is what replaced it before that.
    """
    numbers = list(groups)
    keys, values = state.scan(stored.ranges(numbers, wanted))
    starts, *columns = stored.timed_values(values)
    size_ms = history.store.window_size_ms
    assert size_ms is not None, "history is kept by buckets of time"
    listed = replace(wanted, start_ms=time_ms // size_ms * size_ms)
    list_keys, lists = state.scan(history.ranges(numbers, listed))
    if (mask := history.is_wanted(list_keys, listed)) is not None:
        list_keys, lists = list_keys.filter(mask), lists.filter(mask)
    former = dict(zip(history.store.value.names, history.timed_values(lists)[1:], strict=True))
    counts = pc.list_value_length(former[TIMESTAMP]).to_numpy(zero_copy_only=False)
    owners = pa.array(np.repeat(np.arange(len(list_keys)), counts))
    key_groups, _, key_columns = history.layout.split(list_keys, [column.type for column in history.store.key])
    own_keys = stored.layout.keys(stored.number, key_groups, key_columns)

    all_keys = pa.concat_arrays([keys, own_keys.take(owners)])
    all_starts = np.concatenate([starts.to_numpy(), former[TIMESTAMP].flatten().to_numpy(zero_copy_only=False)])
    is_deleted = np.concatenate([np.zeros(len(keys), bool), former[DELETED].flatten().to_numpy(zero_copy_only=False)])
    names = stored.store.value.names
    all_values = {
        name: pa.concat_arrays([own, former[name].flatten().cast(own.type)]) for name, own in zip(names, columns, strict=True)
    }
    codes = all_keys.dictionary_encode().indices.to_numpy()
    order = np.lexsort((all_starts, codes))
    order = order[all_starts[order] <= time_ms]
    is_last = np.append(codes[order][1:] != codes[order][:-1], True)[: len(order)]
    kept = order[is_last & ~is_deleted[order]]
    taken = pa.array(kept)
    found = all_keys.take(taken)
    _, _, columns = stored.layout.split(found, [column.type for column in stored.store.key])
    rows = dict(zip(stored.store.key.names, columns, strict=True)) | {
        name: values.take(taken) for name, values in all_values.items()
    }
    return found, pa.RecordBatch.from_pydict(rows, stored.schema)


def last_of_each(keys: pa.BinaryArray) -> Mask:
    """Which keys are the last of a run of equal ones."""
    return np.append(pc.not_equal(keys[1:], keys[:-1]).to_numpy(zero_copy_only=False), True)
