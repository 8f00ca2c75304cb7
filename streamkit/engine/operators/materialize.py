"""Materialize: keep the newest row of each key of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.rows.place import in_canonical_order
from streamkit.engine.rows.rows import (
    OptionalBatch,
    deletions_of,
    last_of_each,
    numbers,
    row_times,
    with_columns,
    without_null_keys,
    without_row_times,
)
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.log.values.byte_order import byte_order
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED, KEY_GROUP, TIMESTAMP
from streamkit.plan.operator import PORT
from streamkit.plan.operators.materialize import Materialize
from streamkit.plan.operators.windowed_table import WindowedTable
from streamkit.plan.program import ProgramStore
from streamkit.state.layout import layout_of
from streamkit.state.row import encode_rows


@kernel(Materialize)
def materialize(operator: Materialize, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """Keep the newest row per key; the rows pass on in canonical order, without those whose key is null."""
    (batch,) = inputs
    assert batch is not None
    store = context.store(operator.store)
    batch, newest = changes_to_keep(operator, batch, store.key.names, context)
    _record(store, newest, context)
    if operator.inputs[0] in context.views:
        values, _ = changes_to_keep(
            operator, context.views[operator.inputs[0]], store.key.names, replace(context, counts=Counter())
        )
        context.views |= dict.fromkeys((operator.id, *(f"{operator.id}{PORT}{port}" for port in ("every", "latest"))), values)
    return {"": batch, "every": batch, "latest": newest}


def changes_to_keep(
    operator: Materialize | WindowedTable, batch: pa.RecordBatch, key: Sequence[str], context: Context
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The changes of a table in canonical order, without those whose key is null, which are counted; and the newest of each key."""
    batch, dropped = without_null_keys(batch, key)
    context.count("null_key", operator.id, dropped)
    if not operator.has_row_times:
        batch = without_row_times(batch)
    if DELETED not in batch.schema.names:
        batch = with_columns(batch, {DELETED: pa.array(deletions_of(batch))})
    batch = in_canonical_order(batch)
    return batch, batch.take(pa.array(last_of_each(encode_keys([batch[name] for name in key]))))


def row_values(store: ProgramStore, rows: pa.RecordBatch) -> pa.BinaryArray:
    """Rows as a store keeps them: their time and values; null for those that delete."""
    values = encode_rows([row_times(rows), *(rows[name] for name in store.value.names)])
    return pc.if_else(rows[DELETED], pa.scalar(None, pa.binary()), values)


def _record(store: ProgramStore, newest: pa.RecordBatch, context: Context) -> None:
    key_columns = [newest[name] for name in store.key.names]
    keys = layout_of(store).keys(context.store_number(store.name), numbers(newest, KEY_GROUP), key_columns)
    values = row_values(store, newest)
    order = byte_order(keys)
    context.change(store.name, keys.take(order), values.take(order), numbers(newest, TIMESTAMP)[order.to_numpy()])
