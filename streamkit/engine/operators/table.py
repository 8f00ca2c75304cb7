"""
Tables: keeping the newest row of each key, and joining streams with it.

A stream row meets the table as of its own place in the canonical order: the table's newest change before it in this epoch,
else what the store holds. Table rows never emit (Kafka Streams, stream-table join).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.context import Context
from streamkit.engine.rows import (
    canonical_order,
    in_canonical_order,
    is_null_key,
    numbers,
    record_columns,
    rows_of,
    without_deletions,
    without_null_keys,
)
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED, KEY_GROUP, ORDER_COLUMNS, TIMESTAMP
from streamkit.plan.program import GlobalJoin, Materialize, Store, TableJoin
from streamkit.state.key import state_keys
from streamkit.state.row import decode_rows, encode_rows

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TableChanges:
    """The changes of one table in this epoch, in canonical order, with their keys as bytes."""

    rows: pa.RecordBatch
    keys: pa.BinaryArray


def materialize(operator: Materialize, batch: pa.RecordBatch | None, context: Context) -> pa.RecordBatch | None:
    """Keep the newest row per key; the rows pass on in canonical order, without those whose key is null."""
    if batch is None:
        return None
    store = context.store(operator.store)
    batch, dropped = without_null_keys(batch, store.key.names)
    context.count("null_key", operator.id, dropped)
    batch = in_canonical_order(batch)
    newest = batch.take(pa.array(last_of_each(encode_keys([batch[name] for name in store.key.names]))))
    _record(store, newest, context)
    context.emissions[operator.id] = {"every": batch, "latest": newest}
    return batch


def table_join(
    operator: TableJoin, left: pa.RecordBatch | None, changes: pa.RecordBatch | None, context: Context
) -> pa.RecordBatch | None:
    """Each stream row with the table's row of its key, as of the stream row's place in the order."""
    if left is None:
        return None
    left = _without_deletions(operator, left, context)
    store = context.store(operator.store)
    if operator.how == "inner":
        left, dropped = without_null_keys(left, operator.on)
        context.count("null_key", operator.id, dropped)
    keys = encode_keys(key_columns(store, left, operator.on))
    keys = pc.if_else(is_null_key(left, operator.on), pa.scalar(None, pa.binary()), keys)
    committed, from_store = _committed_rows(store, operator.on, keys, left, context)
    table_rows, found = committed, from_store
    if changes is not None and changes.num_rows:
        table_rows, found = _with_changes(store, committed, from_store, left, keys, changes)
    return _joined(operator.how, operator.columns, left, table_rows, found)


def global_join(operator: GlobalJoin, left: pa.RecordBatch | None, context: Context) -> pa.RecordBatch | None:
    """Each stream row with the global table's row for it, as the table is at the position in the plan."""
    if left is None:
        return None
    left = _without_deletions(operator, left, context)
    table = context.global_table(operator)
    found = table.find([left[name] for name in operator.on]).to_numpy(zero_copy_only=False)
    found = np.where(np.isnan(found), -1, found).astype(np.int64) if found.dtype.kind == "f" else found.astype(np.int64)
    if len(operator.on):
        found = np.where(is_null_key(left, operator.on).to_numpy(zero_copy_only=False), -1, found)
    return _joined(operator.how, operator.columns, left, table.rows, found)


def _without_deletions(operator: TableJoin | GlobalJoin, left: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows to join: among a table's changes a deletion has no value, and meets no row."""
    left, deletions = without_deletions(left)
    context.count("deletion", operator.id, deletions)
    return left


def key_columns(store: Store, batch: pa.RecordBatch, on: Sequence[str]) -> list[pa.Array]:
    """The columns `on`, typed as the store's key is."""
    return [batch[name].cast(column.arrow.type) for name, column in zip(on, store.key, strict=True)]


def last_of_each(keys: pa.BinaryArray) -> Indices:
    """For each distinct key the position of its last row, in ascending order."""
    codes = keys.dictionary_encode().indices.to_numpy()
    last = np.full(int(codes.max()) + 1 if len(codes) else 0, -1, np.int64)
    last[codes] = np.arange(len(codes))
    return np.sort(last)


def _record(store: Store, newest: pa.RecordBatch, context: Context) -> None:
    key_columns = [newest[name] for name in store.key.names]
    keys = state_keys(context.store_number(store.name), numbers(newest, KEY_GROUP), key_columns, None)
    values = encode_rows([newest[TIMESTAMP], *(newest[name] for name in store.value.names)])
    values = pc.if_else(newest[DELETED], pa.scalar(None, pa.binary()), values)
    order = pc.sort_indices(keys)
    context.change(store.name, keys.take(order), values.take(order), numbers(newest, TIMESTAMP)[order.to_numpy()])


def _committed_rows(
    store: Store, on: Sequence[str], keys: pa.BinaryArray, left: pa.RecordBatch, context: Context
) -> tuple[pa.RecordBatch, Indices]:
    """The stored rows of these keys, each key once, and for each left row the position of its own (-1: none)."""
    encoded = keys.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy()
    first = np.full(len(encoded.dictionary), -1, np.int64)
    first[codes[codes >= 0][::-1]] = np.flatnonzero(codes >= 0)[::-1]
    owners = left.take(pa.array(first))
    wanted = state_keys(context.store_number(store.name), numbers(owners, KEY_GROUP), key_columns(store, owners, on), None)
    order = pc.sort_indices(wanted)
    values = context.committed_state().get(wanted.take(order))
    rows = _decode(store, values.drop_null())
    position = np.full(len(encoded.dictionary) + 1, -1, np.int64)
    present = values.is_valid().to_numpy(zero_copy_only=False)
    position[order.to_numpy()[present]] = np.arange(int(present.sum()))
    return rows, position[codes]


def _decode(store: Store, values: pa.BinaryArray) -> pa.RecordBatch:
    _, *columns = decode_rows(values, ["bigint", *(column.type for column in store.value)])
    return pa.RecordBatch.from_arrays(columns, schema=store.value.arrow)


def _with_changes(
    store: Store,
    committed: pa.RecordBatch,
    from_store: Indices,
    left: pa.RecordBatch,
    left_keys: pa.BinaryArray,
    changes: pa.RecordBatch,
) -> tuple[pa.RecordBatch, Indices]:
    """The stored rows followed by this epoch's changes, and each left row's position among them."""
    change_keys = encode_keys([changes[name] for name in store.key.names])
    found = newest_before(left, left_keys, changes, change_keys)
    deleted = changes[DELETED].to_numpy(zero_copy_only=False)
    changed = np.where(deleted[found], -1, found + committed.num_rows)
    columns = [
        pa.concat_arrays([committed[name], changes[name].cast(committed.schema.field(name).type)]) for name in store.value.names
    ]
    rows = pa.RecordBatch.from_arrays(columns, names=list(store.value.names))
    return rows, np.where(found >= 0, changed, from_store)


def newest_before(left: pa.RecordBatch, left_keys: pa.BinaryArray, right: pa.RecordBatch, right_keys: pa.BinaryArray) -> Indices:
    """For each left row the position of the last right row of its key that comes before it in the order; -1 if none does."""
    codes = pa.concat_arrays([left_keys, right_keys]).dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    rank = _ranks(left, right)
    place = codes * len(codes) + rank
    left_place, right_place = place[: left.num_rows], place[left.num_rows :]
    order = np.argsort(right_place, kind="stable")
    before = np.searchsorted(right_place[order], left_place) - 1
    candidate = order[np.maximum(before, 0)]
    same_key = (before >= 0) & (codes[left.num_rows :][candidate] == codes[: left.num_rows]) & (codes[: left.num_rows] >= 0)
    return np.where(same_key, candidate, -1)


def _ranks(left: pa.RecordBatch, right: pa.RecordBatch) -> Indices:
    both = pa.Table.from_batches([left.select(ORDER_COLUMNS), right.select(ORDER_COLUMNS)]).combine_chunks().to_batches()[0]
    order = canonical_order(both)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _joined(
    how: str, columns: tuple[tuple[str, str], ...], left: pa.RecordBatch, table_rows: pa.RecordBatch, found: Indices
) -> pa.RecordBatch:
    if how == "inner" and (found < 0).any():
        kept = np.flatnonzero(found >= 0)
        left, found = left.take(pa.array(kept)), found[kept]
    indices = pa.array(found, mask=found < 0)
    sides: Mapping[str, pa.RecordBatch] = {"left": left, "right": table_rows}
    result: dict[str, pa.Array] = {}
    for name, source in columns:
        side, _, column = source.partition(".")
        values = sides[side][column]
        result[name] = values if side == "left" else values.take(indices)
    return rows_of({**result, **record_columns(left)})
