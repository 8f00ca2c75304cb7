"""
Grouped aggregation: fold before the exchange, fold into the store behind it, and the three emissions.

State of a group is one row: the largest event time seen, then the columns of each aggregate's state. Results of an epoch
depend only on committed state and the epoch's rows; what changed goes to the changelog.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.advance import final_place
from streamkit.engine.changes import old_and_new, previous_of_code
from streamkit.engine.context import Context, key_groups_of
from streamkit.engine.kernels import Rows, kernel
from streamkit.engine.operators.fold import keyed_values, lifted, state_names
from streamkit.engine.place import at_epoch_end, have_own_records, in_canonical_order, paths_of, place_columns
from streamkit.engine.rows import numbers, rows_of
from streamkit.engine.stream_time import NO_TIME
from streamkit.engine.window_results import Finish, bounds, failing, finished, null_on_overflow
from streamkit.engine.windows import assign_windows
from streamkit.expressions.aggregates import combine, fold, per_aggregate, result, running, state_columns
from streamkit.expressions.groups import group
from streamkit.log.values.byte_order import byte_order
from streamkit.names import DELETED, KEY_GROUP, PATH, TIMESTAMP, WINDOW
from streamkit.plan.building import OLD_AND_NEW
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.operator import Operator
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.plan.windows import Windowing
from streamkit.state.layout import layout_of
from streamkit.state.row import decode_rows, encode_rows

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


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


@kernel(Aggregate, runs_empty=True)
def aggregate(operator: Aggregate, inputs: Sequence[Rows], context: Context) -> Mapping[str, Rows]:
    """Fold the rows into the store, and return the results that were asked for, by mode."""
    (batch,) = inputs
    results: dict[str, Rows] = dict.fromkeys(operator.modes)
    updated = Updated.none()
    if batch is not None and batch.num_rows:
        if operator.folded:
            updated = _update(operator, _merge(operator, batch), context)
        elif "every" in operator.modes or OLD_AND_NEW in operator.modes:
            updated, each = _update_each(operator, batch, context)
            results |= each
        else:
            updated = _update(operator, _merge(operator, _in_order(operator, batch, context)), context)
    if "latest" in operator.modes and updated.groups is not None:
        results["latest"] = latest_results(operator, updated.groups, context)
    if "final" in operator.modes:
        results["final"] = _close(operator, updated, context)
    keep(operator, updated, context)
    return results


@dataclass(frozen=True, eq=False)
class Updated:
    """The groups an epoch touched, sorted by state key; `after` has what is folded of its group after each row, if rows were taken one by one."""

    keys: pa.BinaryArray
    groups: Groups | None
    after: Groups | None = None

    @classmethod
    def none(cls) -> Updated:
        return cls(pa.array([], pa.binary()), None)


def _in_order(operator: Aggregate, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The states of rows that came one by one, in canonical order, since that is what the result depends on."""
    rows = _placed(operator, batch, context)
    states = dict(zip(state_names(operator.aggregates), lifted(operator.aggregates, rows), strict=True))
    names = [*operator.key, *([WINDOW] if operator.window else []), TIMESTAMP, KEY_GROUP]
    return rows_of({**{name: rows[name] for name in names}, **states})


def _placed(operator: Aggregate, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows to aggregate, in their windows and in canonical order."""
    batch = in_canonical_order(keyed_values(operator.id, operator.key, batch, context))
    if operator.window is None:
        return batch
    is_kept = operator.window.per_record == 1 or have_own_records(batch)  # the order
    batch = assign_windows(operator, operator.window, batch, context)
    return batch if is_kept else in_canonical_order(batch)


def _merge(operator: Aggregate, batch: pa.RecordBatch) -> Groups:
    """The rows of state that readers and upstream kernels sent, one per group."""
    by = [*operator.key, *([WINDOW] if operator.window else [])]
    names = state_names(operator.aggregates)
    largest, states = [batch[TIMESTAMP], batch[KEY_GROUP]], [batch[name] for name in names]
    keys, (timestamps, key_groups, *folded) = fold([batch[name] for name in by], largest, operator.aggregates, states)
    windows = _numpy(keys.pop()) if operator.window else None
    return Groups(keys, windows, _numpy(timestamps), folded, _numpy(key_groups))


def _update(operator: Aggregate, groups: Groups, context: Context) -> Updated:
    """The groups, with their stored state folded in."""
    keys, groups = _sorted(operator, groups, context)
    return Updated(keys, _combined(operator, groups, _stored(operator, keys, groups, context)))


def _stored(operator: Aggregate, keys: pa.BinaryArray, groups: Groups, context: Context) -> pa.BinaryArray:
    """
    The stored state of these groups.

    Windows that begin after the committed stream time have none, and are not looked up, unless rows may be newer than stream time.
    """
    state, known = context.committed_state(), np.ones(len(keys), bool)
    if operator.window is not None and groups.windows is not None and not operator.window.may_lead:
        known = groups.windows <= context.stream_time(operator.window)[0]
    if known.all():
        return state.get(keys)
    if not known.any():
        return pa.nulls(len(keys), pa.binary())
    places = np.cumsum(known) - 1
    return state.get(keys.filter(pa.array(known))).take(pa.array(places, mask=~known))


def _state_keys(operator: Aggregate, groups: Groups, context: Context) -> pa.BinaryArray:
    times = () if groups.windows is None else (groups.windows,)
    layout = layout_of(context.store(operator.store))
    return layout.keys(context.store_number(operator.store), groups.key_groups, groups.keys, times)


def _sorted(operator: Aggregate, groups: Groups, context: Context) -> tuple[pa.BinaryArray, Groups]:
    keys, order = _key_order(operator, groups, context)
    return keys, groups if len(keys) == 1 else groups.take(order)


def _key_order(operator: Aggregate, groups: Groups, context: Context) -> tuple[pa.BinaryArray, Numbers]:
    """The state keys of groups, sorted, and the permutation that sorts the groups so."""
    keys = _state_keys(operator, groups, context)
    if len(keys) == 1:
        return keys, np.zeros(1, np.int64)
    order = byte_order(keys)
    return keys.take(order), order.to_numpy().astype(np.int64)


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
    combined = combine(operator.aggregates, [old.take(nullable) for old in states], groups.states)
    return replace(groups, timestamps=largest, states=combined)


def _state_types(operator: Aggregate) -> list[str]:
    return ["bigint", *(column.type for one in operator.aggregates for column in state_columns(one))]


def _decoded(operator: Aggregate, values: pa.BinaryArray) -> tuple[Numbers, list[pa.Array]]:
    timestamps, *states = decode_rows(values, _state_types(operator))
    return _numpy(timestamps), states


@dataclass(frozen=True, eq=False)
class FoundGroups:
    """The groups that rows fall into, sorted by state key: what is stored of each, and for each row the position of its group."""

    keys: pa.BinaryArray
    groups: Groups
    stored: pa.BinaryArray
    ranks: Numbers


def _update_each(operator: Aggregate, batch: pa.RecordBatch, context: Context) -> tuple[Updated, dict[str, Rows]]:
    """Fold row by row in canonical order: the updated groups, and the result after each row, by mode."""
    batch = _placed(operator, batch, context)
    rows = groups_of_rows(operator, batch)
    return each_result(operator, batch, rows, find_groups(operator, rows, context))


def find_groups(operator: Aggregate, rows: Groups, context: Context) -> FoundGroups:
    """The groups of rows, and what is stored of them."""
    codes, first = _codes(rows)
    touched = rows.take(first)
    keys, order = _key_order(operator, touched, context)
    rank_of_code = np.empty(len(first), np.int64)
    rank_of_code[order] = np.arange(len(first))
    touched = touched.take(order)
    return FoundGroups(keys, touched, _stored(operator, keys, touched, context), rank_of_code[codes])


class OtherStates(Protocol):
    """The states of aggregates that are made otherwise than by folding rows."""

    @property
    def folded(self) -> Sequence[TypedAggregate]:
        """The aggregates that are folded."""
        ...

    def completed(self, groups: Groups, rows: Numbers) -> Groups:
        """The groups after these rows, which have the states that are folded, with the states of all aggregates."""
        ...


def each_result(
    operator: Aggregate,
    batch: pa.RecordBatch,
    rows: Groups,
    found: FoundGroups,
    gives: Mask | None = None,
    others: OtherStates | None = None,
) -> tuple[Updated, dict[str, Rows]]:
    """
    Fold row by row: the updated groups, and the results after each row, by mode.

    `rows` has the state of each row of the batch alone. `gives` says which rows give a result; None: all do. `others` are states that
    are not folded; then `rows` has only those that are.
    """
    folded = _running(operator, operator.aggregates if others is None else others.folded, rows, found.ranks, found.stored)
    last = np.full(len(found.keys), -1, np.int64)
    last[found.ranks] = np.arange(batch.num_rows)
    gives_each = "every" in operator.modes or OLD_AND_NEW in operator.modes
    after = others.completed(folded, np.arange(batch.num_rows)) if others is not None and gives_each else folded
    newest = others.completed(after.take(last), last) if others is not None and not gives_each else after.take(last)
    updated = Updated(found.keys, replace(newest, keys=found.groups.keys), folded)
    if not gives_each:
        return updated, {}
    ranks = found.ranks
    if gives is not None and not gives.all():
        after, batch, ranks = after.take(np.flatnonzero(gives)), batch.filter(pa.array(gives)), ranks[gives]
    every = _results(operator, after, place_columns(batch))
    each: dict[str, Rows] = {"every": every}
    if OLD_AND_NEW in operator.modes:
        each[OLD_AND_NEW] = _old_and_new(operator, every, ranks, found.stored)
    return updated, each


def _old_and_new(operator: Aggregate, every: pa.RecordBatch, ranks: Numbers, stored: pa.BinaryArray) -> pa.RecordBatch:
    """Each result as two rows: the result of its group before it, then itself."""
    _, states = _decoded(operator, stored.drop_null())
    before = {one.name: result(one, own) for one, own in per_aggregate(operator.aggregates, states)}
    known = stored.is_valid().to_numpy(zero_copy_only=False)
    of_group = np.where(known, np.cumsum(known) - 1, -1)
    previous = previous_of_code(ranks)
    replaced = np.where(previous >= 0, previous + int(known.sum()), of_group[ranks])
    values = {name: pa.concat_arrays([column, every[name].cast(column.type)]) for name, column in before.items()}
    return old_and_new(every, values, replaced)


def groups_of_rows(operator: Aggregate, batch: pa.RecordBatch) -> Groups:
    """Each row as a group of its own, with the state of the row alone."""
    states = lifted(operator.aggregates, batch)
    windows = numbers(batch, WINDOW) if operator.window else None
    keys = [batch[name] for name in operator.key]
    return Groups(keys, windows, numbers(batch, TIMESTAMP), states, numbers(batch, KEY_GROUP))


def _codes(rows: Groups) -> tuple[Numbers, Numbers]:
    """A number for each row's group, and the first row of each group."""
    columns = [*rows.keys, *([pa.array(rows.windows)] if rows.windows is not None else [])]
    found, _ = group(columns, len(rows.timestamps))
    first = np.full(found.size, -1, np.int64)
    first[found.codes[::-1]] = np.arange(len(found.codes))[::-1]
    used = first >= 0
    return (np.cumsum(used) - 1)[found.codes], first[used]


def _running(
    operator: Aggregate, folded: Sequence[TypedAggregate], rows: Groups, ranks: Numbers, stored: pa.BinaryArray
) -> Groups:
    """The states of `folded` after each row: the stored state of its group, then the rows up to and with it."""
    known = np.flatnonzero(stored.is_valid().to_numpy(zero_copy_only=False))
    timestamps, states = _decoded(operator, stored.drop_null())
    own = [column for one, columns in per_aggregate(operator.aggregates, states) if one in folded for column in columns]
    before = [pa.array(timestamps, pa.int64()), *own]
    after = [pa.array(rows.timestamps, pa.int64()), *rows.states]
    added = [new.cast(old.type) for old, new in zip(before, after, strict=True)]
    both = [pa.concat_arrays(pair) for pair in zip(before, added, strict=True)] if len(known) else added
    times, *columns = both
    largest, *running_states = running(np.concatenate([known, ranks]), [times], folded, columns)
    skip = len(known)
    return replace(rows, timestamps=_numpy(largest)[skip:], states=[column.slice(skip) for column in running_states])


def _close(operator: Aggregate, updated: Updated, context: Context) -> pa.RecordBatch | None:
    """The results of the windows that close in this epoch, from the store and this epoch's updates."""
    assert operator.window is not None
    wait = operator.window.size_ms + operator.window.grace_ms
    closed = _groups_between(operator, operator.window, updated, context, wait)
    if closed is None:
        return None
    assert closed.windows is not None
    place = final_place(operator, closed.windows + wait, context.advances())
    paths = paths_of(context.number(operator.id), closed.windows, closed.keys)
    return in_canonical_order(_results(operator, closed, {**place, PATH: paths}))


def keep(operator: Aggregate, updated: Updated, context: Context) -> None:
    """Write the updated groups to the changelog; those whose retention ends in this epoch are deleted, or not written."""
    keys, values, timestamps = updated.keys, pa.array([], pa.binary()), np.empty(0, np.int64)
    if updated.groups is not None:
        timestamps = updated.groups.timestamps
        _check_not_ahead(operator, updated.groups, context)
        values = encode_rows([pa.array(timestamps, pa.int64()), *updated.groups.states])
    retention = context.store(operator.store).retention_ms
    if operator.window and retention is not None:
        starts = updated.groups.windows if updated.groups is not None else None
        keys, values, timestamps = expired(operator, operator.window, retention, starts, keys, values, timestamps, context)
    context.change(operator.store, keys, values, timestamps)


def _check_not_ahead(operator: Aggregate, groups: Groups, context: Context) -> None:
    """No group's window begins after the epoch's stream time: `_stored` relies on it."""
    if operator.window is not None and groups.windows is not None and not operator.window.may_lead:
        now = context.stream_time(operator.window)[1]
        assert (groups.windows <= now).all(), "a window began after the stream time of its epoch"


def expired(
    operator: Operator,
    window: Windowing,
    retention: int,
    starts: Numbers | None,
    keys: pa.BinaryArray,
    values: pa.BinaryArray,
    timestamps: Numbers,
    context: Context,
) -> tuple[pa.BinaryArray, pa.BinaryArray, Numbers]:
    """The changes of an operator's one store without windows, which begin at `starts`, whose retention has ended; stored ones are deleted."""
    (store,) = operator.stores
    expired_keys, _ = context.committed_state().scan(ranges_reached(store, window, context, retention))
    now = context.stream_time(window)[1]
    if starts is not None:
        alive = starts + retention > now
        if not alive.all():
            keys, values, timestamps = keys.filter(pa.array(alive)), values.filter(pa.array(alive)), timestamps[alive]
    if not len(expired_keys):
        return keys, values, timestamps
    context.count("expired", operator.id, len(expired_keys))
    all_keys = pa.concat_arrays([keys, expired_keys])
    all_values = pa.concat_arrays([values, pa.nulls(len(expired_keys), pa.binary())])
    all_timestamps = np.concatenate([timestamps, np.full(len(expired_keys), now, np.int64)])
    # Within a key group expired windows sort before open ones, so sorting by key group alone puts all keys in order.
    order = np.argsort(key_groups_of(all_keys).astype(np.uint16), kind="stable")
    return all_keys.take(pa.array(order)), all_values.take(pa.array(order)), all_timestamps[order]


def ranges_reached(store: str, window: Windowing, context: Context, wait: int) -> list[tuple[bytes, bytes]]:
    """Ranges of state keys, one per key group of the task: windows whose start plus `wait` is reached by stream time in this epoch."""
    number = context.store_number(store)
    before, now = context.stream_time(window)
    if now == before:
        return []
    first = NO_TIME if before == NO_TIME else before - wait + 1
    last = now - wait + 1
    if not window.has_start(first, last):
        return []
    return layout_of(context.store(store)).ranges(number, context.groups, first, last)


def _groups_between(operator: Aggregate, window: Windowing, updated: Updated, context: Context, wait: int) -> Groups | None:
    """The groups, stored or updated, whose window's start plus `wait` is reached by stream time in this epoch."""
    keys, values = context.committed_state().scan(ranges_reached(operator.store, window, context, wait))
    groups = updated.groups
    if groups is not None and groups.windows is not None:
        closing = groups.windows + wait <= context.stream_time(window)[1]
        groups = groups.take(np.flatnonzero(closing))
        if len(keys):
            untouched = pc.invert(pc.is_in(keys, value_set=updated.keys))
            keys, values = keys.filter(untouched), values.filter(untouched)
    stored = _stored_groups(operator, keys, values, context) if len(keys) else None
    both = [one for one in (stored, groups) if one is not None and len(one.timestamps)]
    return _concatenated(both) if both else None


def _stored_groups(operator: Aggregate, keys: pa.BinaryArray, values: pa.BinaryArray, context: Context) -> Groups:
    types = [column.type for column in context.store(operator.store).key]
    key_groups, (windows,), columns = layout_of(context.store(operator.store)).split(keys, types)
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


def _results(
    operator: Aggregate,
    groups: Groups,
    order: dict[str, pa.Array],
    finish: Finish = failing,
) -> pa.RecordBatch:
    """Result rows: key columns, window bounds, aggregates (which `finish` makes of their states), and record columns."""
    columns: dict[str, pa.Array] = dict(zip(operator.key, groups.keys, strict=True))
    if groups.windows is not None:
        assert operator.window is not None
        columns |= bounds(groups.windows, groups.windows + operator.window.size_ms)
    columns |= finished(operator.aggregates, groups.states, None, finish)
    columns[TIMESTAMP] = pa.array(groups.timestamps, pa.int64())
    return rows_of({**columns, **order, KEY_GROUP: pa.array(groups.key_groups, pa.int32())})


def latest_results(operator: Aggregate, groups: Groups, context: Context) -> pa.RecordBatch:
    """
    Newest results stand at the end of the epoch, in the order of their windows and keys.

    Which of them there are depends on the cut. So a value that does not fit its type is null and counted, while the other
    emissions fail. If this one failed too, the cut would decide whether a sum that leaves its range and comes back fails.
    """
    number = context.number(operator.id)
    place = at_epoch_end(context.plan.end.order, number, paths_of(None, groups.windows, groups.keys))
    finish = null_on_overflow(operator.id, context)
    return _results(operator, groups, {**place, DELETED: pa.array(np.zeros(len(groups.timestamps), bool))}, finish)


def _numpy(array: pa.Array) -> Numbers:
    numbers: Numbers = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers
