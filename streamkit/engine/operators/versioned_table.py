"""
Versioned table: keep the newest row of each key by event time, and the rows before it as long as history goes back.

The rules are those of Kafka Streams' versioned stores. A row of a key's newest time, or behind it, is the newest; one that is
older becomes part of the history, where it is valid until the next version. A row of the same time replaces a version. What is
older than stream time by more than the history is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.folding.row_lists import ListKeys, ListPlaces
from streamkit.engine.folding.versions import IN_STORE, History, Versions, coded_keys
from streamkit.engine.rows.place import in_canonical_order
from streamkit.engine.rows.rows import (
    OptionalBatch,
    deletions_of,
    last_of_each,
    numbers,
    with_columns,
    without_null_keys,
    without_row_times,
)
from streamkit.engine.stage.advance import stream_times
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.log.values.byte_order import byte_order
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED, TIMESTAMP
from streamkit.plan.closing import are_over
from streamkit.plan.operators.versioned_table import VersionedTable
from streamkit.state.row import encode_rows


@kernel(VersionedTable, runs_empty=True)
def versioned_table(operator: VersionedTable, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """Enter the rows as versions; all pass on as `every`, those that were their key's newest when they came as the main output."""
    (batch,) = inputs
    history = History(operator, context)
    if batch is None:
        _forget(history)
        return {}
    store = history.store
    batch, dropped = without_null_keys(without_row_times(batch), store.key.names)
    context.count("null_key", operator.id, dropped)
    if DELETED not in batch.schema.names:
        batch = with_columns(batch, {DELETED: pa.array(deletions_of(batch))})
    batch = _in_time(operator, in_canonical_order(batch), context)
    if not batch.num_rows:
        _forget(history)
        return {"": batch, "every": batch, "latest": batch}
    codes, keys = coded_keys(store, batch, store.key.names)
    newest = history.newest(keys)
    stored = Versions.together([newest, history.former(keys, np.arange(len(keys)))])
    is_newest = _is_newest(stored, codes, numbers(batch, TIMESTAMP), len(keys))
    added = Versions.of_rows(store, batch, codes, np.arange(batch.num_rows))
    _record(history, keys, Versions.together([stored, added]).in_order())
    current = batch.filter(pa.array(is_newest))
    latest = current.take(pa.array(last_of_each(encode_keys([current[name] for name in store.key.names]))))
    return {"": current, "every": batch, "latest": latest}


def _in_time(operator: VersionedTable, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows that are not older than the history; the others are counted."""
    reached = stream_times(operator, operator.windowing, batch, context)
    late = are_over(numbers(batch, TIMESTAMP) + operator.forgets_after_ms, reached)
    context.count("late", operator.id, int(late.sum()))
    return batch.filter(pa.array(~late)) if late.any() else batch


def _is_newest(stored: Versions, codes: Integers, times: Integers, keys: int) -> Mask:
    """Which rows are not older than any version that their key had when they came; rows are in canonical order."""
    known = np.full(keys, NO_TIME, np.int64)
    np.maximum.at(known, stored.codes, stored.times)
    moments, ranks = np.unique(np.concatenate([known, times]), return_inverse=True)
    owners = np.concatenate([np.arange(keys), codes])
    order = np.argsort(owners, kind="stable")
    reached = np.maximum.accumulate(owners[order] * len(moments) + ranks[order])
    is_newest = np.empty(len(owners), bool)
    is_newest[order] = reached == owners[order] * len(moments) + ranks[order]
    return is_newest[keys:]


def _record(history: History, keys: ListKeys, versions: Versions) -> None:
    """
    Write what the epoch's versions change, among all versions of their keys.

    A version moves when its validity ends earlier or later than before. Every list that one comes to or goes from is written again.
    """
    last = np.append((versions.codes[1:] != versions.codes[:-1]) | (versions.times[1:] != versions.times[:-1]), True)[
        : len(versions)
    ]
    kept = versions.take(last)
    is_newest = np.append(kept.codes[1:] != kept.codes[:-1], True)[: len(kept)]
    ends = np.where(is_newest, kept.times, np.append(kept.times[1:], 0)[: len(kept)])
    buckets = np.where(is_newest & ~kept.is_deleted, IN_STORE, history.bucket(ends))
    replaced = versions.take(~last)
    moved = buckets != kept.buckets
    _write_newest(history, keys, kept.take(is_newest & moved))
    touched = np.concatenate([_lists(buckets[moved], kept.codes[moved]), _lists(kept.buckets[moved], kept.codes[moved])])
    gone = _lists(replaced.buckets, replaced.codes)
    _write_former(history, keys, kept, buckets, np.unique(np.concatenate([touched, gone]), axis=0))


def _lists(buckets: Integers, codes: Integers) -> Integers:
    """Pairs of a bucket and a key, of those that are lists of former versions."""
    former = (buckets != IN_STORE) & (buckets != NO_TIME)
    return np.stack([buckets[former], codes[former]], axis=1)


def _write_newest(history: History, keys: ListKeys, newest: Versions) -> None:
    """The newest versions that came in this epoch: rows are written, and deletions delete."""
    state_keys = history.state_keys(keys.take(newest.codes))
    names = history.store.value.names
    values = encode_rows([pa.array(newest.times), *(newest.rows[name] for name in names)])
    values = pc.if_else(pa.array(newest.is_deleted), pa.scalar(None, pa.binary()), values)
    order = byte_order(state_keys)
    history.context.change(history.table.store, state_keys.take(order), values.take(order), newest.times[order.to_numpy()])


def _write_former(history: History, keys: ListKeys, kept: Versions, buckets: Integers, touched: Integers) -> None:
    """Write these lists, each with all its versions; those that became empty, and those that are too old, go."""
    lists = history.lists
    touched = touched[~history.is_over(touched[:, 0])]
    places = ListPlaces(touched[:, 0], touched[:, 1])
    own = np.stack([buckets, kept.codes], axis=1)
    both, numbered = np.unique(np.concatenate([touched, own]), axis=0, return_inverse=True)
    position = np.full(len(both), -1, np.int64)
    numbered = numbered.ravel()
    position[numbered[: len(touched)]] = np.arange(len(touched))
    in_list = position[numbered[len(touched) :]]
    rows = np.flatnonzero(in_list >= 0)
    rows = rows[np.argsort(in_list[rows], kind="stable")]
    counts = np.bincount(in_list[rows], minlength=len(touched)).astype(np.int64)
    written = kept.take(rows)
    columns = [pa.array(written.is_deleted) if name == DELETED else written.rows[name] for name in lists.value_names]
    state_keys, is_full = lists.state_keys(places, keys), counts > 0
    values, newest = lists.encoded(counts[is_full], written.times, columns)
    _, now = history.context.stream_time(history.table.windowing)
    emptied = lists.present(state_keys.filter(pa.array(~is_full)))
    lists.change(state_keys.filter(pa.array(is_full)), values, newest, pa.concat_arrays([emptied, _expired(history)]), now)


def _forget(history: History) -> None:
    """Lists that are too old to be looked up go."""
    _, now = history.context.stream_time(history.table.windowing)
    empty = pa.array([], pa.binary())
    history.lists.change(empty, empty, np.empty(0, np.int64), _expired(history), now)


def _expired(history: History) -> pa.BinaryArray:
    before, now = history.context.stream_time(history.table.windowing)
    if now == NO_TIME:
        return pa.array([], pa.binary())
    found = history.lists.expired(before, now)
    history.context.count("expired", history.table.id, len(found))
    return found
