"""
Suppress: hold back the updates of a table for a time, and give the newest of each key.

A key waits from its first update after the last that was given; when stream time is a limit past it, the newest update goes
out. What a key gives follows from its own updates and from the records that move stream time, so the keys are taken all at
once: for each update it is found where the wait would end if it began there, and from these the waits that there are.

Final results of windows that a topic holds are held back in the same way, from the ends of their windows on.

Rows under a bound are the exception: what one key group holds back depends on all its keys, so its updates are taken in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.folding.bounded_buffer import Waits, bounded_waits
from streamkit.engine.folding.joining import milliseconds
from streamkit.engine.rows.place import are_in_front, in_canonical_order, in_front, paths_in_turn, place_ranks
from streamkit.engine.rows.rows import (
    OptionalBatch,
    deletions_of,
    last_of_each,
    numbers,
    row_times,
    rows_of,
    with_columns,
    without_null_keys,
    without_nulls,
)
from streamkit.engine.stage.advance import reaching_place, stream_times
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.errors import SuppressionFullError
from streamkit.log.values.byte_order import byte_order
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED, DUE, KEY_GROUP, ORDER_COLUMNS, PATH, ROW_TIME, SINCE, TIMESTAMP
from streamkit.plan.operators.suppress import Suppress
from streamkit.plan.program import ProgramStore
from streamkit.state.layout import layout_of
from streamkit.state.row import decode_rows, encode_rows


@kernel(Suppress, runs_empty=True)
def suppress(operator: Suppress, inputs: Sequence[OptionalBatch], context: Context) -> dict[str, OptionalBatch]:
    """The updates whose wait ends, at the places where it does, and the newest of each key."""
    before, now = context.stream_time(operator.window)
    rows = _rows(operator, inputs[0], context)
    if rows is None and now == before:
        return {}
    updates = _Updates(operator, _held(operator, rows, context), rows, context)
    if not len(updates.since):
        return {}
    waits = _waits(updates)
    _keep(updates, waits)
    if not len(waits.ended):
        return {}
    given = in_canonical_order(_given(updates, waits))
    if operator.bounds:
        given = given.filter(pc.invert(given[DELETED]))
    newest = given.take(pa.array(last_of_each(encode_keys([given[name] for name in updates.store.key.names]))))
    return {"": given, "every": given, "latest": newest}


@dataclass(frozen=True, eq=False)
class _Updates:
    """What was held back before the epoch, one row a key, followed by the epoch's updates in canonical order."""

    operator: Suppress
    held: pa.RecordBatch
    rows: pa.RecordBatch | None
    context: Context

    @cached_property
    def store(self) -> ProgramStore:
        return self.context.store(self.operator.store)

    @cached_property
    def values(self) -> pa.RecordBatch:
        """The columns of all, with their own times, deletions and key groups."""
        if self.rows is None:
            return self.held
        columns = {name: self.held[name] for name in self.held.schema.names if name != SINCE}
        return rows_of({name: pa.concat_arrays([old, self.rows[name].cast(old.type)]) for name, old in columns.items()})

    @cached_property
    def codes(self) -> Integers:
        """A number for each one's key."""
        codes: Integers = self.keys.dictionary_encode().indices.to_numpy().astype(np.int64)
        return codes

    @cached_property
    def keys(self) -> pa.BinaryArray:
        return encode_keys([self.values[name] for name in self.store.key.names])

    @cached_property
    def since(self) -> Integers:
        """From when its key waits if it is the first."""
        return np.concatenate([numbers(self.held, SINCE), self._since_of_rows])

    @property
    def _since_of_rows(self) -> Integers:
        if self.rows is None:
            return np.empty(0, np.int64)
        return milliseconds(self.rows[self.operator.bounds[-1]]) if self.operator.bounds else numbers(self.rows, TIMESTAMP)

    @cached_property
    def time(self) -> Integers:
        """Stream time at each; at what was held back, that before the epoch."""
        before, _ = self.context.stream_time(self.operator.window)
        at_rows = np.empty(0, np.int64)
        if self.rows is not None:
            at_rows = stream_times(self.operator, self.operator.window, self.rows, self.context)
        return np.concatenate([np.full(self.held.num_rows, before, np.int64), at_rows])

    @cached_property
    def due(self) -> Integers:
        """The moment at which the wait ends; what should have ended already, under a longer limit, ends when time next moves."""
        due = self.since + self.operator.window.size_ms
        held = self.held.num_rows
        due[:held] = np.maximum(due[:held], self.time[:held] + 1)
        return due

    @cached_property
    def ends_at_once(self) -> Mask:
        return self.due <= self.time

    @cached_property
    def stays(self) -> Mask:
        """Whether the wait does not end in this epoch."""
        return self.due > self.context.stream_time(self.operator.window)[1]

    @cached_property
    def places(self) -> pa.RecordBatch:
        """The places of the updates, then of the records that end waits; each with stream time there."""
        reaching = reaching_place(self.operator, self.due[self._is_reached], self.context.advances())
        ends = rows_of(reaching)
        if self.rows is None:
            return ends
        own = rows_of({**{name: self.rows[name] for name in ORDER_COLUMNS}, DUE: pa.array(self.time[self.held.num_rows :])})
        return pa.RecordBatch.from_arrays(
            [pa.concat_arrays([own[name], ends[name].cast(own[name].type)]) for name in own.schema.names],
            names=own.schema.names,
        )

    @cached_property
    def ends_in_front(self) -> Mask:
        """Which of `places` are those of final results: a wait that ends there is over before the record of the place comes."""
        found = np.zeros(self.places.num_rows, bool)
        if self.rows is not None:
            found[: self.rows.num_rows] = are_in_front(self.rows)
        return found

    @cached_property
    def place(self) -> Integers:
        """Where each stands, as an index of `places`; -1 for what was held back."""
        place: Integers = np.maximum(np.arange(len(self.since)) - self.held.num_rows, -1)
        return place

    @cached_property
    def end(self) -> Integers:
        """Where a wait that begins with each ends, as an index of `places`; -1 if not in this epoch."""
        end = np.where(self.ends_at_once, self.place, -1)
        new = len(self.since) - self.held.num_rows
        end[self._is_reached] = new + np.arange(int(self._is_reached.sum()))
        return end

    @cached_property
    def ranks(self) -> Integers:
        """A number for each of `places` that grows with it, equal where several rows are of one record."""
        (ranks,) = place_ranks(self.places.select(list(ORDER_COLUMNS)))
        return ranks

    @property
    def _is_reached(self) -> Mask:
        return ~self.ends_at_once & ~self.stays


def _rows(operator: Suppress, batch: OptionalBatch, context: Context) -> pa.RecordBatch | None:
    """The updates in canonical order, without those whose key is null."""
    if batch is None:
        return None
    batch, dropped = without_null_keys(batch, context.store(operator.store).key.names)
    batch, without_bounds = without_nulls(batch, operator.bounds)
    context.count("null_key", operator.id, dropped + without_bounds)
    if not batch.num_rows:
        return None
    batch = in_canonical_order(batch)
    return with_columns(batch, {DELETED: pa.array(deletions_of(batch)), ROW_TIME: row_times(batch)})


def _held(operator: Suppress, rows: pa.RecordBatch | None, context: Context) -> pa.RecordBatch:
    """What is held back of the keys that have updates or are due, and under a bound of all keys of their groups."""
    store, state = context.store(operator.store), context.committed_state()
    layout, number = layout_of(store), context.store_number(store.name)
    wanted = [_due_keys(operator, context)]
    if rows is not None:
        wanted.append(layout.keys(number, numbers(rows, KEY_GROUP), [rows[name] for name in store.key.names]).unique())
    if rows is not None and operator.rows_max is not None:
        groups = np.unique(numbers(rows, KEY_GROUP)).tolist()
        wanted.append(state.scan_keys(layout.ranges(number, groups)))
    keys = pa.concat_arrays(wanted).unique()
    keys = keys.take(byte_order(keys))
    values = state.get(keys)
    return _decoded(store, keys.filter(values.is_valid()), values.drop_null())


def _due_keys(operator: Suppress, context: Context) -> pa.BinaryArray:
    """The state keys of the rows whose wait ends by the end of the epoch."""
    before, now = context.stream_time(operator.window)
    if now == before:
        return pa.array([], pa.binary())
    store, index = context.store(operator.store), context.store(operator.index)
    ranges = layout_of(index).ranges(context.store_number(index.name), context.groups, None, now - operator.window.size_ms + 1)
    found = context.committed_state().scan_keys(ranges)
    groups, _, columns = layout_of(index).split(found, [column.type for column in index.key])
    return layout_of(store).keys(context.store_number(store.name), groups, columns)


def _decoded(store: ProgramStore, keys: pa.BinaryArray, values: pa.BinaryArray) -> pa.RecordBatch:
    groups, _, columns = layout_of(store).split(keys, [column.type for column in store.key])
    times, *kept = decode_rows(values, ["bigint", *(column.type for column in store.value)])
    own = {**dict(zip(store.key.names, columns, strict=True)), **dict(zip(store.value.names, kept, strict=True))}
    if ROW_TIME in own:  # not in rows that were held back before their table had such times
        own[ROW_TIME] = pc.coalesce(own[ROW_TIME], times)
    return rows_of({**own, TIMESTAMP: times, KEY_GROUP: pa.array(groups, pa.int32())})


def _waits(updates: _Updates) -> Waits:
    """The waits that begin in the epoch or before it, by the rules of time and of the bound."""
    rows_max = updates.operator.rows_max
    if rows_max is None:
        return _unbounded_waits(updates, np.arange(len(updates.since)))
    groups = numbers(updates.values, KEY_GROUP).astype(np.int64)
    first = np.unique(updates.codes, return_index=True)[1]
    may_be_full = np.isin(groups, np.flatnonzero(np.bincount(groups[first]) > rows_max))
    parts = [_unbounded_waits(updates, np.flatnonzero(~may_be_full))]
    for group in np.unique(groups[may_be_full]).tolist():
        parts.append(_bounded_waits(updates, np.flatnonzero(groups == group), group))
    return Waits.joined(parts)


def _unbounded_waits(updates: _Updates, chosen: Integers) -> Waits:
    """
    The waits of these updates, whose keys are whole among them.

    For each update, `last` is the last of its key that a wait beginning there would give: those of the record that ends the wait
    belong to it, up to the first of the key. The waits that there are begin with the first update of a key, then behind the last
    of the wait before.
    """
    if not len(chosen):
        return Waits.none()
    order = chosen[np.argsort(updates.codes[chosen], kind="stable")]
    codes = np.unique(updates.codes[order], return_inverse=True)[1]
    own = np.where(updates.place[order] >= 0, updates.ranks[updates.place[order]] if len(updates.ranks) else -1, -1)
    end = updates.end[order]
    never = len(updates.ranks)
    limit = np.where(end >= 0, updates.ranks[end] if len(updates.ranks) else never, never)
    span = never + 2
    position = codes * span + own + 1
    places = np.arange(len(order))
    found = np.searchsorted(position, codes * span + limit + 1, side="left")
    is_of_record = position[np.minimum(found, len(order) - 1)] == codes * span + limit + 1
    last = np.maximum(np.where((found < len(order)) & is_of_record, found, found - 1), places)
    after = np.where((last + 1 < len(order)) & (codes[np.minimum(last + 1, len(order) - 1)] == codes), last + 1, -1)
    begins = [np.flatnonzero(np.diff(codes, prepend=-1))]
    while len(begins[-1]):
        following = after[begins[-1]]
        begins.append(following[following >= 0])
    first = np.concatenate(begins)
    ends = end[first] >= 0
    return Waits(
        order[first[ends]], order[last[first[ends]]], end[first[ends]], order[first[~ends]], order[last[first[~ends]]]
    )  # fmt: skip


def _bounded_waits(updates: _Updates, chosen: Integers, group: int) -> Waits:
    """The waits of one key group under the bound, update by update; SuppressionFullError if it is to stop there."""
    operator, context = updates.operator, updates.context
    assert operator.rows_max is not None
    rank_of = [*updates.ranks.tolist(), -1]
    keys = updates.keys.take(pa.array(chosen)).to_pylist()
    waits, early = bounded_waits(
        chosen.tolist(),
        updates.codes[chosen].tolist(),
        [(since, key) for since, key in zip(updates.since[chosen].tolist(), keys, strict=True)],
        updates.place[chosen].tolist(),
        updates.end[chosen].tolist(),
        rank_of,
        operator.rows_max,
    )
    if early and operator.stops:
        line = context.program.lines.get(operator.id)
        raise SuppressionFullError(
            f"{operator.id} holds back more than max_rows={operator.rows_max:,} rows in key group {group}; expected fewer keys that wait: "
            "raise max_rows, shorten the time limit, or give when_full='emit', which emits the oldest rows early"
            + (f"\n  at {line}" if line else "")
        )
    context.count("emitted_early", operator.id, early)
    return waits


def _given(updates: _Updates, waits: Waits) -> pa.RecordBatch:
    """The rows whose wait has ended, at the places where it did."""
    chosen = updates.values.take(pa.array(waits.newest))
    columns = {name: chosen[name] for name in chosen.schema.names if name != SINCE}
    places = updates.places.take(pa.array(waits.ended))
    keys = [chosen[name] for name in updates.store.key.names]
    turns = _turns(updates.codes[waits.newest], waits.newest, updates.ranks[waits.ended])
    path = paths_in_turn(updates.context.turn(updates.operator.id).own, turns, updates.since[waits.first], keys)
    if (is_in_front := updates.ends_in_front[waits.ended]).any():
        path = pc.if_else(pa.array(is_in_front), in_front(path), path)
    return rows_of({**columns, **{name: places[name] for name in places.schema.names}, PATH: path})


def _turns(codes: Integers, newest: Integers, ranks: Integers) -> Integers:
    """How many rows of the same key the same record has given before each."""
    order = np.lexsort((newest, codes))
    is_first = (np.diff(codes[order], prepend=-1) != 0) | (np.diff(ranks[order], prepend=-1) != 0)
    places = np.arange(len(order))
    turns = np.empty(len(order), np.int64)
    turns[order] = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return turns


def _keep(updates: _Updates, waits: Waits) -> None:
    """Write what is held back now, and delete what no longer is."""
    operator, context, held = updates.operator, updates.context, updates.held.num_rows
    begun = waits.waiting >= held  # the others were held back before
    changed = begun | (waits.waiting != waits.waiting_newest)
    gone = np.setdiff1d(np.arange(held), waits.waiting)
    rows = updates.values.take(pa.array(waits.waiting_newest[changed]))
    held_since = pa.array(updates.since[waits.waiting[changed]])
    columns = {**{name: rows[name] for name in rows.schema.names}, SINCE: held_since}
    values = encode_rows([rows[TIMESTAMP], *(columns[name] for name in updates.store.value.names)])
    _write(operator.store, updates, waits.waiting_newest[changed], values, gone, (), context)
    firsts = waits.waiting[begun]
    times = updates.values[TIMESTAMP].take(pa.array(firsts))
    _write(operator.index, updates, firsts, encode_rows([times]), gone, (updates.since,), context)


def _write(
    name: str,
    updates: _Updates,
    put: Integers,
    values: pa.BinaryArray,
    gone: Integers,
    times: Sequence[Integers],
    context: Context,
) -> None:
    """Put these rows into a store, and delete those that are gone, unless they are put."""
    store = context.store(name)
    layout, number = layout_of(store), context.store_number(name)

    def keys_of(chosen: Integers) -> pa.BinaryArray:
        rows = updates.values.take(pa.array(chosen))
        columns = [rows[column] for column in store.key.names]
        return layout.keys(number, numbers(rows, KEY_GROUP), columns, [time[chosen] for time in times])

    kept, deleted = keys_of(put), keys_of(gone)
    deleted = deleted.filter(pc.invert(pc.is_in(deleted, value_set=kept)))
    keys = pa.concat_arrays([kept, deleted])
    written = pa.concat_arrays([values, pa.nulls(len(deleted), pa.binary())])
    _, now = context.stream_time(updates.operator.window)
    moments = np.concatenate([numbers(updates.values, TIMESTAMP)[put], np.full(len(deleted), now, np.int64)])
    order = byte_order(keys)
    context.change(name, keys.take(order), written.take(order), moments[order.to_numpy()])
