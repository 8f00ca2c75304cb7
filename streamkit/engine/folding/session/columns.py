"""
Aggregation per session: rows extend, begin and merge the sessions of their keys.

Which sessions there are is found out first (`merged_sessions`), their states then (`streamkit.engine.rows.lineage`). A stored
session is a row of state under its end, key and start; the sessions of a key are listed under the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.folding.changes import windows_with_old_values
from streamkit.engine.folding.group_state import keyed_values, lifted
from streamkit.engine.folding.result_places import places_of_final, places_of_newest, places_of_rows
from streamkit.engine.folding.session.merged_sessions import SessionRows, Sessions, Stored, merged_sessions
from streamkit.engine.folding.stored_windows import first_open_at
from streamkit.engine.folding.window_results import Finish, bounds, failing, finished, null_on_overflow
from streamkit.engine.folding.window_state import StoreChanges, WindowKeys, WindowState, decoded, keys_of
from streamkit.engine.rows.lineage import NONE
from streamkit.engine.rows.place import in_canonical_order
from streamkit.engine.rows.rows import OptionalBatch, numbers, rows_of
from streamkit.engine.stage.advance import moves_time, stream_times
from streamkit.engine.stage.context import Context
from streamkit.log.values.byte_order import order_of_numbers
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED, KEY_GROUP, TIMESTAMP
from streamkit.plan.demands import LATE, WITH_OLD_VALUES
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.state.layout import ListedWindows, encode_lists
from streamkit.state.row import encode_rows


def fold_columns(operator: Aggregate, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """Take the rows into the sessions of the store, and return the results that were asked for, by mode."""
    (batch,) = inputs
    results: dict[str, OptionalBatch] = dict.fromkeys(operator.modes)
    epoch = WindowState(operator, context)
    made = None
    if batch is not None and batch.num_rows:
        batch = in_canonical_order(keyed_values(operator.id, operator.key, batch, context))
        made = _made(epoch, batch) if batch.num_rows else None
    if made is not None:
        context.count("late", operator.id, int(made.sessions.is_late.sum()))
        if operator.gives_each:
            results |= _each(epoch, made)
        if LATE in operator.modes:
            results[LATE] = made.batch.filter(pa.array(made.sessions.is_late))
        if "latest" in operator.modes:
            results["latest"] = _latest(epoch, made)
    if "final" in operator.modes:
        results["final"] = _closed(epoch, made)
    _keep(epoch, made)
    return results


@dataclass(frozen=True, eq=False)
class _MadeSessions:
    """
    What the rows of an epoch made of the sessions of their keys.

    `codes` has, by session, the position of its key. `states` has the state of each session, `rows` those of stored sessions, then
    of rows, of which they are made. The first `stored` sessions are those that were stored; each other is that after a row.
    """

    aggregates: Sequence[TypedAggregate]
    batch: pa.RecordBatch
    keys: WindowKeys
    listed: ListedWindows
    codes: Integers
    sessions: Sessions
    stored: int
    rows: list[pa.Array]

    @cached_property
    def is_there(self) -> Mask:
        """Which sessions that rows made are there at the end of the epoch."""
        there: Mask = (self.sessions.replaced_by == NONE) & (self.sessions.lineage.chains >= 0)
        there[: self.stored] = False
        return there

    @cached_property
    def is_gone(self) -> Mask:
        """Which sessions that were stored are not there any more."""
        gone: Mask = self.sessions.replaced_by != NONE
        gone[self.stored :] = False
        return gone

    @cached_property
    def meets_stored(self) -> Mask:
        """Which sessions begin early enough to have the bounds of a stored one of their key; all others cannot."""
        ends = np.full(len(self.keys.groups), NO_TIME, np.int64)
        np.maximum.at(ends, self.listed.keys, self.listed.ends)
        meets: Mask = self.sessions.starts <= ends[self.codes]
        return meets

    def folded(self, nodes: Integers) -> list[pa.Array]:
        """The states of sessions that are there."""
        there, states = self._folded
        if len(nodes) == len(there):
            return states
        places = pa.array(np.searchsorted(there, nodes))
        return [column.take(places) for column in states]

    @cached_property
    def _folded(self) -> tuple[Integers, list[pa.Array]]:
        """All sessions that are there, and their states."""
        there = np.flatnonzero(self.is_there)
        if not len(there):
            return there, [row.slice(0, 0) for row in self.rows]
        return there, self.sessions.lineage.folded(self.aggregates, self.rows, there)


def _made(epoch: WindowState, batch: pa.RecordBatch) -> _MadeSessions:
    operator, context = epoch.operator, epoch.context
    keys, codes = keys_of(operator.key, batch)
    listed = epoch.listed(keys)
    before, _ = epoch.times
    # Only sessions that had not closed. One that closes next takes no more rows, but another session may get its bounds, and so its key.
    met = listed.take(listed.ends >= first_open_at(epoch.windowing, before))
    values = epoch.read(epoch.keys(keys, met.keys, (met.ends, met.starts)))
    states = lifted(operator.aggregates, batch)
    rows = [
        pa.concat_arrays([old, new.cast(old.type)])
        for old, new in zip(decoded(epoch.operator.aggregates, values)[1], states, strict=True)
    ]
    moves = np.zeros(batch.num_rows, bool)
    if operator.closing is not None and epoch.windowing.grace_ms == 0:
        moves = moves_time(operator, batch, before, context.advances())
    taken = SessionRows(codes, numbers(batch, TIMESTAMP), stream_times(operator, epoch.windowing, batch, context), moves)
    stored = Stored(met.keys, met.starts, met.ends)
    is_each_needed = operator.gives_each or any(one.ordered for one in operator.aggregates)
    sessions = merged_sessions(taken, stored, epoch.windowing, is_each_needed=is_each_needed)
    return _MadeSessions(
        operator.aggregates, batch, keys, listed, np.concatenate([stored.keys, codes]), sessions, len(stored), rows
    )


def _each(epoch: WindowState, made: _MadeSessions) -> dict[str, OptionalBatch]:
    """After each row the deletions of the sessions that it merged, then the session that it made; by mode."""
    sessions, stored = made.sessions, made.stored
    states = sessions.lineage.states(epoch.operator.aggregates, made.rows)
    results = stored + np.flatnonzero(~sessions.is_late)
    deleted = np.flatnonzero(sessions.is_deleted)
    shown = np.concatenate([deleted, results])
    causes = np.concatenate([sessions.replaced_by[deleted], results]) - stored
    is_result = np.repeat([False, True], [len(deleted), len(results)])
    order = order_of_numbers(causes, is_result, sessions.ends[shown], sessions.starts[shown])
    shown, causes, is_result = shown[order], causes[order], is_result[order]
    place = places_of_rows(epoch.operator, made.batch, causes, epoch.context)
    every = _results(epoch, made, shown, states, shown, ~is_result, place, failing)
    if WITH_OLD_VALUES not in epoch.operator.modes:
        return {"every": every}
    before = finished(epoch.operator.aggregates, [column.slice(0, stored) for column in made.rows], None, failing)
    nodes = np.concatenate([np.arange(stored), shown])
    windows = encode_keys([pa.array(column[nodes]) for column in (made.codes, sessions.starts, sessions.ends)])
    numbered = windows.dictionary_encode().indices.to_numpy()
    return {"every": every, WITH_OLD_VALUES: windows_with_old_values(every, before, numbered)}


def _latest(epoch: WindowState, made: _MadeSessions) -> pa.RecordBatch:
    """
    The newest result of each session that changed, and a deletion of each stored one that is gone with its bounds.

    Rows come in the order of ends, deletions first. No part of a session ends behind it, so parts are deleted before it comes.
    """
    there, gone = np.flatnonzero(made.is_there), np.flatnonzero(made.is_gone)
    gone = gone[~_among(made, gone, there)]
    shown = np.concatenate([gone, there])
    states = made.folded(there)
    places = np.concatenate([np.full(len(gone), -1), np.arange(len(there))])
    keys = [column.take(pa.array(made.codes[shown])) for column in made.keys.columns]
    place = places_of_newest(epoch.operator, made.sessions.ends[shown], keys, epoch.context, places < 0)
    finish = null_on_overflow(epoch.operator.id, epoch.context)
    return _results(epoch, made, shown, states, places, places < 0, place, finish)


def _among(made: _MadeSessions, some: Integers, others: Integers) -> Mask:
    """Which of some stored sessions have the key and the bounds of one of the others."""
    others = others[made.meets_stored[others]]
    columns = [made.codes, made.sessions.starts, made.sessions.ends]
    own, wanted = (encode_keys([pa.array(column[nodes]) for column in columns]) for nodes in (some, others))
    found: Mask = pc.is_in(own, value_set=wanted).to_numpy(zero_copy_only=False)
    return found


def _results(
    epoch: WindowState,
    made: _MadeSessions,
    shown: Integers,
    states: Sequence[pa.Array],
    places: Integers,
    is_deleted: Mask,
    place: Mapping[str, pa.Array],
    finish: Finish,
) -> pa.RecordBatch:
    """Rows of sessions; `places` are the positions of their states."""
    taken = pa.array(places, mask=is_deleted)
    codes = pa.array(made.codes[shown])
    return rows_of(
        {
            **{name: column.take(codes) for name, column in zip(epoch.operator.key, made.keys.columns, strict=True)},
            **bounds(made.sessions.starts[shown], made.sessions.ends[shown]),
            **finished(epoch.operator.aggregates, states, taken, finish),
            TIMESTAMP: pa.array(made.sessions.ends[shown]),
            **place,
            DELETED: pa.array(is_deleted),
            KEY_GROUP: pa.array(made.keys.groups[made.codes[shown]], pa.int32()),
        }
    )


@dataclass(frozen=True, eq=False)
class _Closing:
    """Sessions on their way to their final results."""

    keys: WindowKeys
    starts: Integers
    ends: Integers
    states: list[pa.Array]


def _closed(epoch: WindowState, made: _MadeSessions | None) -> pa.RecordBatch | None:
    """The results of the sessions that close in this epoch, from the store and this epoch's rows."""
    stored_keys, values = epoch.due_in_epoch(epoch.wait_ms)
    parts = []
    if made is not None:
        if len(stored_keys):
            changed = np.flatnonzero((made.is_there & made.meets_stored) | made.is_gone)
            own = epoch.keys(made.keys, made.codes[changed], (made.sessions.ends[changed], made.sessions.starts[changed]))
            untouched = pc.invert(pc.is_in(stored_keys, value_set=own))
            stored_keys, values = stored_keys.filter(untouched), values.filter(untouched)
        closing = np.flatnonzero(made.is_there & epoch.windowing.are_closed(made.sessions.ends, epoch.times[1]))
        if len(closing):
            codes = made.codes[closing]
            keys = WindowKeys([column.take(pa.array(codes)) for column in made.keys.columns], made.keys.groups[codes])
            parts.append(_Closing(keys, made.sessions.starts[closing], made.sessions.ends[closing], made.folded(closing)))
    if len(stored_keys):
        keys, (ends, starts) = epoch.split(stored_keys)
        parts.append(_Closing(keys, starts, ends, decoded(epoch.operator.aggregates, values)[1]))
    return in_canonical_order(_final(epoch, _both(parts))) if parts else None


def _both(parts: Sequence[_Closing]) -> _Closing:
    if len(parts) == 1:
        return parts[0]
    one, other = parts
    return _Closing(
        WindowKeys.concatenated(one.keys, other.keys),
        np.concatenate([one.starts, other.starts]),
        np.concatenate([one.ends, other.ends]),
        [pa.concat_arrays([a.cast(b.type), b]) for a, b in zip(one.states, other.states, strict=True)],
    )


def _final(epoch: WindowState, closing: _Closing) -> pa.RecordBatch:
    operator, keys = epoch.operator, [pa.array(closing.starts), *closing.keys.columns]
    place = places_of_final(operator, epoch.windowing.closes_at(closing.ends), closing.ends, keys, epoch.context)
    return rows_of(
        {
            **dict(zip(operator.key, closing.keys.columns, strict=True)),
            **bounds(closing.starts, closing.ends),
            **finished(operator.aggregates, closing.states, None, failing),
            TIMESTAMP: pa.array(closing.ends),
            **place,
            KEY_GROUP: pa.array(closing.keys.groups, pa.int32()),
        }
    )


def _keep(epoch: WindowState, made: _MadeSessions | None) -> None:
    """Write the sessions that changed and the lists of their keys to the changelog; those whose retention has ended are deleted."""
    changes = [] if made is None else [_changed(epoch, made, epoch.expired_ms)]
    epoch.keep(changes, None if made is None else made.keys)


def _changed(epoch: WindowState, made: _MadeSessions, expired_ms: int) -> StoreChanges:
    """The sessions that rows changed, those that are gone, and the lists of all keys that had rows."""
    sessions, there = made.sessions, np.flatnonzero(made.is_there & (made.sessions.ends > expired_ms))
    gone = np.flatnonzero(made.is_gone)
    gone = gone[~_among(made, gone, there)]
    nodes = np.concatenate([gone, there])
    keys = epoch.keys(made.keys, made.codes[nodes], (sessions.ends[nodes], sessions.starts[nodes]))
    values = encode_rows([pa.array(sessions.ends[there]), *made.folded(there)])
    lists = _lists(made, gone, there, expired_ms)
    return (
        pa.concat_arrays([keys, epoch.list_keys(made.keys)]),
        pa.concat_arrays([pa.nulls(len(gone), pa.binary()), values, lists]),
        np.concatenate([sessions.ends[nodes], np.full(len(lists), epoch.times[1])]),
    )


def _lists(made: _MadeSessions, gone: Integers, there: Integers, expired_ms: int) -> pa.BinaryArray:
    """The lists of the sessions of all keys that had rows."""
    sessions, listed = made.sessions, made.listed
    before = np.stack([listed.keys, listed.starts, listed.ends], axis=1)
    without, added = (np.stack([made.codes[n], sessions.starts[n], sessions.ends[n]], axis=1) for n in (gone, there))
    changed = np.concatenate([without, added[made.meets_stored[there]]])
    rows = np.concatenate([before[~_rows_in(before, changed)], added])
    rows = rows[rows[:, 2] > expired_ms]
    rows = rows[np.lexsort(rows.T[::-1])]
    rows = rows[np.append(True, (rows[1:] != rows[:-1]).any(axis=1))[: len(rows)]]
    return encode_lists(ListedWindows(rows[:, 0], rows[:, 1], rows[:, 2]), len(made.keys.groups))


def _rows_in(rows: Integers, others: Integers) -> Mask:
    """Which rows of numbers are among others."""
    own, wanted = (encode_keys([pa.array(np.ascontiguousarray(column)) for column in table.T]) for table in (rows, others))
    found: Mask = pc.is_in(own, value_set=wanted).to_numpy(zero_copy_only=False)
    return found
