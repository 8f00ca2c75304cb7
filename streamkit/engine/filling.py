"""The first state of a group of a table: its operators run on the rows that the table has, as if all of them had come at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.engine.changes import old_and_new
from streamkit.engine.context import Context, Frame
from streamkit.engine.exchange import groups_of
from streamkit.engine.joining import decoded_rows
from streamkit.engine.kernels import run_operator
from streamkit.engine.rows import RECORD_FIELDS, concatenate, numbers, rows_of, with_columns
from streamkit.engine.young_groups import Filling
from streamkit.names import DELETED, INPUT, KEY_GROUP, OFFSET, ORDER, PARTITION
from streamkit.plan.program import Store
from streamkit.state.layout import layout_of

_SILENT: dict[str, Any] = {"modes": ()}  # nobody takes results of an epoch without records


def table_rows(store: Store, keys: pa.BinaryArray, values: pa.BinaryArray, first: int) -> pa.RecordBatch:
    """Stored rows as changes that came in the order of their keys; `first` is the number of the first."""
    _, _, key = layout_of(store).split(keys, [column.type for column in store.key])
    rows = decoded_rows(store, values)
    zeros = pa.array(np.zeros(len(keys), np.int64))
    place = {name: zeros.cast(RECORD_FIELDS[name]) for name in (ORDER, INPUT, PARTITION)}
    offsets = pa.array(np.arange(first, first + len(keys)))
    columns = dict(zip(store.key.names, key, strict=True)) | {name: rows[name] for name in rows.schema.names}
    return rows_of({**columns, **place, OFFSET: offsets, DELETED: pa.array(np.zeros(len(keys), bool))})


def rows_for_groups(filling: Filling, rows: pa.RecordBatch, context: Context) -> pa.RecordBatch | None:
    """What rows of the table add to groups; None if nothing."""
    values = {name: rows[name].slice(0, 0) for name in context.store(filling.table).value.names}
    made = old_and_new(rows, values, np.full(rows.num_rows, -1))
    for operator in filling.operators[:-1]:
        if operator.moves_rows:
            continue
        results = run_operator(operator, dict.fromkeys(operator.inputs, made), context)
        found = results.get(operator.id)
        assert isinstance(found, pa.RecordBatch), f"{operator.id} takes rows one by one"
        made = found
    return made if made.num_rows else None


def frames_of_groups(filling: Filling, batches: Iterable[pa.RecordBatch], context: Context) -> Iterator[list[Frame]]:
    """The states of all groups, for one changelog partition after the other, so that only its groups are in memory twice."""
    rows = concatenate(list(batches))
    group, application = filling.group, context.plan.application
    key = group.partitioning([])
    assert key is not None, "rows of a group lie by its key"
    key_groups = groups_of(rows, key, application.key_groups)
    rows = with_columns(rows, {KEY_GROUP: pa.array(key_groups, pa.int32())})
    partitions = numbers(rows, KEY_GROUP) * application.changelog_partitions // application.key_groups
    for partition in np.unique(partitions):
        own = replace(context, frames=[])
        part = rows.filter(pa.array(partitions == partition))
        run_operator(replace(group, **_SILENT), dict.fromkeys(group.inputs, part), own)
        yield own.frames
