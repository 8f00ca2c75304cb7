"""
Grouped aggregation: fold before the exchange, fold into the store behind it, and the three emissions.

State of a group is one row: the largest event time seen, then the columns of each aggregate's state. Results of an epoch
follow from committed state and the epoch's rows alone; what changed goes to the changelog.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.context import Context, key_groups_of
from streamkit.engine.order import NO_TIME
from streamkit.engine.rows import in_canonical_order, numbers, rows_of, without_deletions, without_null_keys
from streamkit.expressions.aggregates import combine, combine_functions, fold, lift, result, running, state_columns
from streamkit.expressions.arrow import evaluate
from streamkit.log.values.keys import encode_keys, murmur2
from streamkit.names import (
    DELETED,
    INPUT,
    KEY_GROUP,
    OFFSET,
    ORDER,
    ORDER_COLUMNS,
    PARTITION,
    SUBINDEX,
    TIMESTAMP,
    WINDOW,
    WINDOW_END,
    WINDOW_START,
)
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.program import Aggregate, Fold
from streamkit.state.key import range_prefix, split_state_keys, state_keys
from streamkit.state.row import decode_rows, encode_rows

Numbers = npt.NDArray[np.int64]
MICROSECONDS = 1000
CLOSED_INPUT = -1  # a final result comes before every record of its moment


@dataclass(frozen=True, eq=False)
class Groups:
    """State of some groups: key columns, window starts (None without windows), largest event times, state columns."""

    keys: list[pa.Array]
    windows: Numbers | None
    timestamps: Numbers
    states: list[pa.Array]
    key_groups: Numbers

    def take(self, indices: Numbers) -> Groups:
        wanted = pa.array(indices)
        return Groups(
            [column.take(wanted) for column in self.keys],
            None if self.windows is None else self.windows[indices],
            self.timestamps[indices],
            [column.take(wanted) for column in self.states],
            self.key_groups[indices],
        )


def fold_rows(operator: Fold, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """One row of state per key (and window): key columns, `_window`, `_timestamp`, state columns."""
    batch = _keyed_values(operator, batch, context)
    by = [*operator.key, *([WINDOW] if operator.windowed else [])]
    states = [(batch[TIMESTAMP], "max"), *_lifted(operator.aggregates, batch)]
    keys, (timestamps, *folded) = fold([batch[name] for name in by], states)
    names = [column.name for aggregate in operator.aggregates for column in state_columns(aggregate)]
    return rows_of({**dict(zip(by, keys, strict=True)), TIMESTAMP: timestamps, **dict(zip(names, folded, strict=True))})


def aggregate(operator: Aggregate, batch: pa.RecordBatch | None, context: Context) -> None:
    """Fold the rows into the store, and keep the results that were asked for, by mode, for `Emit`."""
    emissions: dict[str, pa.RecordBatch | None] = dict.fromkeys(operator.modes)
    updated = _Updated.none()
    if batch is not None and batch.num_rows:
        if operator.folded:
            updated = _update(operator, _merge(operator, batch), context)
        else:
            updated, emissions["every"] = _update_each(operator, batch, context)
    if "latest" in operator.modes and updated.groups is not None:
        emissions["latest"] = _results(operator, updated.groups, _latest_order(updated.groups, context))
    if "final" in operator.modes:
        emissions["final"] = _close(operator, updated, context)
    _keep(operator, updated, context)
    context.emissions[operator.id] = emissions


@dataclass(frozen=True, eq=False)
class _Updated:
    """The groups an epoch touched, sorted by state key."""

    keys: pa.BinaryArray
    groups: Groups | None

    @classmethod
    def none(cls) -> _Updated:
        return cls(pa.array([], pa.binary()), None)


def _keyed_values(operator: Fold | Aggregate, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows to aggregate: a null key has no group, a deletion has no value; both are counted."""
    batch, dropped = without_null_keys(batch, operator.key)
    context.count("null_key", operator.id, dropped)
    batch, deletions = without_deletions(batch)
    context.count("deletion", operator.id, deletions)
    return batch


def _lifted(aggregates: Sequence[TypedAggregate], batch: pa.RecordBatch) -> list[tuple[pa.Array, str]]:
    states: list[tuple[pa.Array, str]] = []
    for one in aggregates:
        argument = evaluate(one.argument, batch) if one.argument is not None else None
        states += zip(lift(one, argument, batch.num_rows), combine_functions(one), strict=True)
    return states


def _functions(operator: Aggregate) -> list[str]:
    return [function for one in operator.aggregates for function in combine_functions(one)]


def _merge(operator: Aggregate, batch: pa.RecordBatch) -> Groups:
    """The rows of state that readers and upstream kernels sent, one per group."""
    by = [*operator.key, *([WINDOW] if operator.size_ms else [])]
    names = [column.name for one in operator.aggregates for column in state_columns(one)]
    states = [(batch[TIMESTAMP], "max"), (batch[KEY_GROUP], "max")]
    states += zip((batch[name] for name in names), _functions(operator), strict=True)
    keys, (timestamps, key_groups, *folded) = fold([batch[name] for name in by], states)
    windows = _numpy(keys.pop()) if operator.size_ms else None
    return Groups(keys, windows, _numpy(timestamps), folded, _numpy(key_groups))


def _update(operator: Aggregate, groups: Groups, context: Context) -> _Updated:
    """The groups with what the store holds of them folded in."""
    keys, groups = _sorted(operator, groups, context)
    return _Updated(keys, _combined(operator, groups, _stored(keys, groups, context)))


def _stored(keys: pa.BinaryArray, groups: Groups, context: Context) -> pa.BinaryArray:
    """What the store holds of these groups; windows that begin after the committed stream time are not looked up, for none is there."""
    state, newest = context.committed_state(), context.plan.before.stream_time_ms
    known = np.ones(len(keys), bool) if groups.windows is None else groups.windows <= newest
    if known.all():
        return state.get(keys)
    if not known.any():
        return pa.nulls(len(keys), pa.binary())
    places = np.cumsum(known) - 1
    return state.get(keys.filter(pa.array(known))).take(pa.array(places, mask=~known))


def _sorted(operator: Aggregate, groups: Groups, context: Context) -> tuple[pa.BinaryArray, Groups]:
    keys = state_keys(context.store_number(operator.store), groups.key_groups, groups.keys, groups.windows)
    order = pc.sort_indices(keys)
    return keys.take(order), groups.take(order.to_numpy().astype(np.int64))


def _combined(operator: Aggregate, groups: Groups, stored: pa.BinaryArray) -> Groups:
    if stored.null_count == len(stored):
        return groups
    known = np.flatnonzero(stored.is_valid().to_numpy(zero_copy_only=False))
    timestamps, states = _decoded(operator, stored.drop_null())
    indices = np.full(len(stored), -1, np.int64)
    indices[known] = np.arange(len(known))
    nullable = pa.array(indices, mask=indices < 0)
    largest = groups.timestamps.copy()
    largest[known] = np.maximum(largest[known], timestamps)
    combined = [
        combine(function, new, old.take(nullable))
        for function, new, old in zip(_functions(operator), groups.states, states, strict=True)
    ]
    return replace(groups, timestamps=largest, states=combined)


def _state_types(operator: Aggregate) -> list[str]:
    return ["bigint", *(column.type for one in operator.aggregates for column in state_columns(one))]


def _decoded(operator: Aggregate, values: pa.BinaryArray) -> tuple[Numbers, list[pa.Array]]:
    timestamps, *states = decode_rows(values, _state_types(operator))
    return _numpy(timestamps), states


def _update_each(operator: Aggregate, batch: pa.RecordBatch, context: Context) -> tuple[_Updated, pa.RecordBatch]:
    """Fold row by row in canonical order: the updated groups, and the result after each row."""
    batch = in_canonical_order(_keyed_values(operator, batch, context))
    groups_of_rows = _groups_of_rows(operator, batch)
    codes, first = _codes(operator, groups_of_rows)
    keys, touched = _sorted(operator, groups_of_rows.take(first), context)
    stored = _stored(keys, touched, context)
    rank = _rank_of_code(codes, first, keys, operator, groups_of_rows, context)
    after = _running(operator, groups_of_rows, rank[codes], stored)
    every = _results(operator, after, {name: batch[name] for name in ORDER_COLUMNS})
    last = np.full(len(first), -1, np.int64)
    last[rank[codes]] = np.arange(batch.num_rows)
    return _Updated(keys, replace(after.take(last), keys=touched.keys)), every


def _groups_of_rows(operator: Aggregate, batch: pa.RecordBatch) -> Groups:
    lifted = [array for array, _ in _lifted(operator.aggregates, batch)]
    windows = numbers(batch, WINDOW) if operator.size_ms else None
    keys = [batch[name] for name in operator.key]
    return Groups(keys, windows, numbers(batch, TIMESTAMP), lifted, numbers(batch, KEY_GROUP))


def _codes(operator: Aggregate, rows: Groups) -> tuple[Numbers, Numbers]:
    """A number for each row's group, and the first row of each group."""
    columns = [*rows.keys, *([pa.array(rows.windows)] if rows.windows is not None else [])]
    codes = encode_keys(columns).dictionary_encode().indices.to_numpy().astype(np.int64)
    first = np.full(int(codes.max()) + 1 if len(codes) else 0, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return codes, first


def _rank_of_code(
    codes: Numbers, first: Numbers, keys: pa.BinaryArray, operator: Aggregate, rows: Groups, context: Context
) -> Numbers:
    """Where each group stands among the sorted state keys."""
    unsorted = rows.take(first)
    own = state_keys(context.store_number(operator.store), unsorted.key_groups, unsorted.keys, unsorted.windows)
    return _numpy(pc.index_in(own, value_set=keys))


def _running(operator: Aggregate, rows: Groups, ranks: Numbers, stored: pa.BinaryArray) -> Groups:
    """The state after each row: the stored state of its group, then the rows up to and with it."""
    known = np.flatnonzero(stored.is_valid().to_numpy(zero_copy_only=False))
    timestamps, states = _decoded(operator, stored.drop_null())
    functions = ["max", *_functions(operator)]
    before = [pa.array(timestamps, pa.int64()), *states]
    after = [pa.array(rows.timestamps, pa.int64()), *rows.states]
    columns = [pa.concat_arrays([old, new.cast(old.type)]) for old, new in zip(before, after, strict=True)]
    largest, *folded = running(np.concatenate([known, ranks]), list(zip(columns, functions, strict=True)))
    skip = len(known)
    return replace(rows, timestamps=_numpy(largest)[skip:], states=[column.slice(skip) for column in folded])


def _close(operator: Aggregate, updated: _Updated, context: Context) -> pa.RecordBatch | None:
    """The results of the windows that close in this epoch: those of the store, with this epoch's updates over them."""
    assert operator.size_ms is not None
    assert operator.grace_ms is not None
    wait = operator.size_ms + operator.grace_ms
    closed = _groups_between(operator, updated, context, wait)
    if closed is None:
        return None
    assert closed.windows is not None
    order = _final_order(closed, closed.windows + wait)
    return in_canonical_order(_results(operator, closed, order))


def _keep(operator: Aggregate, updated: _Updated, context: Context) -> None:
    """Put the updated groups; delete, or do not put, those whose retention ends in this epoch."""
    keys, values, timestamps = updated.keys, pa.array([], pa.binary()), np.empty(0, np.int64)
    if updated.groups is not None:
        timestamps = updated.groups.timestamps
        _check_not_ahead(updated.groups, context)
        values = encode_rows([pa.array(timestamps, pa.int64()), *updated.groups.states])
    retention = context.store(operator.store).retention_ms
    if operator.size_ms and retention is not None:
        keys, values, timestamps = _expire(operator, retention, updated, keys, values, timestamps, context)
    context.change(operator.store, keys, values, timestamps)


def _check_not_ahead(groups: Groups, context: Context) -> None:
    """No group's window begins after the epoch's stream time: `_stored` relies on it."""
    if groups.windows is not None:
        assert (groups.windows <= context.plan.end.stream_time_ms).all(), "a window began after the stream time of its epoch"


def _expire(
    operator: Aggregate,
    retention: int,
    updated: _Updated,
    keys: pa.BinaryArray,
    values: pa.BinaryArray,
    timestamps: Numbers,
    context: Context,
) -> tuple[pa.BinaryArray, pa.BinaryArray, Numbers]:
    expired_keys, _ = context.committed_state().scan(_ranges(operator, context, retention))
    if updated.groups is not None and updated.groups.windows is not None:
        alive = updated.groups.windows + retention > context.plan.end.stream_time_ms
        keys, values, timestamps = keys.filter(pa.array(alive)), values.filter(pa.array(alive)), timestamps[alive]
    if not len(expired_keys):
        return keys, values, timestamps
    context.count("expired", operator.id, len(expired_keys))
    all_keys = pa.concat_arrays([keys, expired_keys])
    all_values = pa.concat_arrays([values, pa.nulls(len(expired_keys), pa.binary())])
    all_timestamps = np.concatenate([timestamps, np.full(len(expired_keys), context.plan.end.stream_time_ms, np.int64)])
    # Within a key group expired windows come before those that are open: by group alone the keys are in order.
    order = np.argsort(key_groups_of(all_keys).astype(np.uint16), kind="stable")
    return all_keys.take(pa.array(order)), all_values.take(pa.array(order)), all_timestamps[order]


def _ranges(operator: Aggregate, context: Context, wait: int) -> list[tuple[bytes, bytes]]:
    """State keys of windows whose start plus `wait` stream time passes in this epoch, per key group of the task."""
    number = context.store_number(operator.store)
    before, now = context.plan.before.stream_time_ms, context.plan.end.stream_time_ms
    if now == before:
        return []
    first = NO_TIME if before == NO_TIME else before - wait + 1
    last = now - wait + 1
    return [(range_prefix(group, number, first), range_prefix(group, number, last)) for group in context.groups]


def _groups_between(operator: Aggregate, updated: _Updated, context: Context, wait: int) -> Groups | None:
    """The groups, stored or updated, whose window's start plus `wait` stream time passes in this epoch."""
    keys, values = context.committed_state().scan(_ranges(operator, context, wait))
    groups = updated.groups
    if groups is not None and groups.windows is not None:
        closing = groups.windows + wait <= context.plan.end.stream_time_ms
        groups = groups.take(np.flatnonzero(closing))
        if len(keys):
            untouched = pc.invert(pc.is_in(keys, value_set=updated.keys))
            keys, values = keys.filter(untouched), values.filter(untouched)
    stored = _stored_groups(operator, keys, values, context) if len(keys) else None
    both = [one for one in (stored, groups) if one is not None and len(one.timestamps)]
    return _concatenated(both) if both else None


def _stored_groups(operator: Aggregate, keys: pa.BinaryArray, values: pa.BinaryArray, context: Context) -> Groups:
    types = [column.type for column in context.store(operator.store).key]
    key_groups, windows, columns = split_state_keys(keys, types, windowed=True)
    timestamps, states = _decoded(operator, values)
    return Groups(columns, windows, timestamps, states, key_groups)


def _concatenated(groups: Sequence[Groups]) -> Groups:
    if len(groups) == 1:
        return groups[0]
    first, second = groups
    assert first.windows is not None
    assert second.windows is not None
    return Groups(
        [pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(first.keys, second.keys, strict=True)],
        np.concatenate([first.windows, second.windows]),
        np.concatenate([first.timestamps, second.timestamps]),
        [pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(first.states, second.states, strict=True)],
        np.concatenate([first.key_groups, second.key_groups]),
    )


def _results(operator: Aggregate, groups: Groups, order: dict[str, pa.Array]) -> pa.RecordBatch:
    """Result rows: key columns, window bounds, aggregates, and record columns."""
    columns: dict[str, pa.Array] = dict(zip(operator.key, groups.keys, strict=True))
    if groups.windows is not None:
        assert operator.size_ms is not None
        columns[WINDOW_START] = _timestamp(groups.windows)
        columns[WINDOW_END] = _timestamp(groups.windows + operator.size_ms)
    widths = [len(state_columns(one)) for one in operator.aggregates]
    for one, end, width in zip(operator.aggregates, accumulate(widths), widths, strict=True):
        columns[one.name] = result(one, groups.states[end - width : end])
    columns[TIMESTAMP] = pa.array(groups.timestamps, pa.int64())
    return rows_of({**columns, **order, KEY_GROUP: pa.array(groups.key_groups, pa.int32())})


def _latest_order(groups: Groups, context: Context) -> dict[str, pa.Array]:
    """Newest results stand at the end of the epoch, in the order of their keys."""
    times = np.full(len(groups.timestamps), context.plan.end.stream_time_ms, np.int64)
    return {**_order_columns(times, groups), DELETED: pa.array(np.zeros(len(times), bool))}


def _final_order(groups: Groups, times: Numbers) -> dict[str, pa.Array]:
    """Final results stand where stream time reached the end of their grace, whatever the epoch or the task."""
    return _order_columns(times, groups)


def _order_columns(times: Numbers, groups: Groups) -> dict[str, pa.Array]:
    columns = [*groups.keys, *([pa.array(groups.windows)] if groups.windows is not None else [])]
    rank = murmur2(encode_keys(columns)).astype(np.int64)
    rows = len(times)
    return {
        ORDER: pa.array(times, pa.int64()),
        INPUT: pa.array(np.full(rows, CLOSED_INPUT, np.int16)),
        PARTITION: pa.array(np.zeros(rows, np.int32)),
        OFFSET: pa.array(rank),
        SUBINDEX: pa.array(np.zeros(rows, np.int32)),
    }


def _timestamp(milliseconds: Numbers) -> pa.Array:
    return pa.array(milliseconds * MICROSECONDS, pa.timestamp("us", tz="UTC"))


def _numpy(array: pa.Array) -> Numbers:
    numbers: Numbers = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers
