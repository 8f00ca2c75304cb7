"""
Versioned join: a stream row meets the row that the table had at the event time of the stream row, as known at its place.

The rules are Kafka Streams' (stream-table join with a versioned table, with and without a grace period). With a grace a row
waits until stream time is so far past it; it is then joined just before the record that moved stream time so far, in the order of
the times of the rows that wait. A row that is older than that when it comes is joined at once, and so is one without a key.

No row waits for longer than the table remembers its time: just before the record of the table that would make it forget, the row is
joined. So a table that goes ahead takes no row away from those that wait, and a drain in between, which lets them go before, changes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.folding.joining import joined, live_rows
from streamkit.engine.folding.row_lists import Found, ListKeys, ListPlaces, RowLists
from streamkit.engine.folding.versions import History, Versions, coded_keys, valid_at
from streamkit.engine.rows.place import as_seen, as_they_come, in_canonical_order, in_front, place_ranks
from streamkit.engine.rows.rows import (
    OptionalBatch,
    concatenate,
    numbers,
    own_columns,
    plain,
    rows_of,
    with_one_key,
    without_null_keys,
)
from streamkit.engine.stage.advance import final_place, reached_before, stream_times
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.log.values.keys import key_parts
from streamkit.log.values.slices import join
from streamkit.names import DUE, KEY_GROUP, ORDER_COLUMNS, PATH, TIMESTAMP
from streamkit.plan.closing import are_over
from streamkit.plan.operators.versioned_join import VersionedJoin
from streamkit.plan.operators.versioned_table import VersionedTable

WAITED = np.dtype([("operator", ">u2"), ("time", ">u8")])
SIGN = np.uint64(1 << 63)
ALWAYS = 2**63 - 1  # after every event time


@kernel(VersionedJoin, runs_empty=True)
def versioned_join(operator: VersionedJoin, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """Each stream row with the row that the table had for its key at its time."""
    turn = context.turn(operator.id)
    left, changes = as_they_come(inputs, turn)[0], as_seen(inputs[1], turn, 1)
    if left is not None:
        left = live_rows(operator, left, context)
        if operator.how == "inner":
            left, dropped = without_null_keys(left, operator.on)
            context.count("null_key", operator.id, dropped)
    if operator.grace_ms is not None:
        left = None if left is None else with_one_key(left, operator.on)  # as a row comes back that waited
        left = _due(operator, operator.grace_ms, left, context)
    if left is None or not left.num_rows:
        return None
    table, found = _looked_up(operator, left, changes, context)
    return joined(operator.how, operator.columns, left, table, found)


# The table as of a time


def _looked_up(
    operator: VersionedJoin, left: pa.RecordBatch, changes: OptionalBatch, context: Context
) -> tuple[pa.RecordBatch, Integers]:
    """Rows of the table, and for each stream row the position of its match among them (-1: none)."""
    table = context.program.operator(operator.inputs[1])
    assert isinstance(table, VersionedTable), f"{operator.id} looks up a table without history"
    history = History(table, context)
    rows = [left] if changes is None or not changes.num_rows else [left, changes]
    keys, own = _keys(operator, history, rows)
    places = place_ranks(*rows)
    versions = _versions(history, keys, own[0], numbers(left, TIMESTAMP))
    if len(rows) > 1:
        versions = Versions.together([versions, Versions.of_rows(history.store, rows[1], own[1], places[1])])
    versions = versions.in_order()
    found = valid_at(versions, own[0], numbers(left, TIMESTAMP), places[0])
    is_lost = _is_forgotten(history, versions, found, left, own[0], places[0])
    is_there = (found >= 0) & ~is_lost & ~np.append(versions.is_deleted, True)[found]
    return versions.rows, np.where(is_there, found, -1)


def _keys(operator: VersionedJoin, history: History, rows: Sequence[pa.RecordBatch]) -> tuple[ListKeys, list[Integers]]:
    """The keys of the stream's rows and the table's changes, and the code of each row."""
    key = history.store.key.names
    named = [
        rows_of({**{name: plain(one[column]) for name, column in zip(key, on, strict=True)}, KEY_GROUP: one[KEY_GROUP]})
        for one, on in zip(rows, (operator.on, key), strict=False)
    ]
    types = history.store.key
    named = [
        rows_of({**{name: one[name].cast(types[name].arrow.type) for name in key}, KEY_GROUP: one[KEY_GROUP].cast(pa.int32())})
        for one in named
    ]
    codes, keys = coded_keys(history.store, concatenate(named), key)
    return keys, np.split(codes, [rows[0].num_rows]) if len(rows) > 1 else [codes]


def _versions(history: History, keys: ListKeys, codes: Integers, times: Integers) -> Versions:
    """The stored versions of the stream's keys; former ones are read only where a row is older than the newest."""
    newest = history.newest(keys)
    since = np.full(len(keys), ALWAYS, np.int64)
    since[newest.codes] = newest.times
    has_key = codes >= 0
    former = np.unique(codes[has_key][times[has_key] < since[codes[has_key]]])
    return Versions.together([newest, history.former(keys, former)])


def _is_forgotten(
    history: History, versions: Versions, found: Integers, left: pa.RecordBatch, codes: Integers, ranks: Integers
) -> Mask:
    """
    Whether the version that was found is too old: the row's time lies before the history, and the version is not the key's newest.

    The history goes back from the stream time that the table had at the row's place.
    """
    table, context = history.table, history.context
    before, _ = context.stream_time(table.windowing)
    reached = np.maximum(reached_before(table, left, context.advances()), before)
    old = np.flatnonzero((found >= 0) & are_over(numbers(left, TIMESTAMP) + table.forgets_after_ms, reached))
    forgotten = np.zeros(len(found), bool)
    if len(old):
        newest = valid_at(versions, codes[old], np.full(len(old), ALWAYS, np.int64), ranks[old])
        forgotten[old] = newest != found[old]
    return forgotten


# Rows that wait


@dataclass(frozen=True, eq=False)
class _VersionedWaits:
    """
    When rows wait no longer: as soon as stream time is `grace_ms` past them, or the table's time is past its history since them.

    `before` and `now` are the stream times before and after the epoch, of the stream and of the table.
    """

    operator: VersionedJoin
    table: VersionedTable
    grace_ms: int
    before: int
    now: int
    table_before: int
    table_now: int
    context: Context

    @classmethod
    def of(cls, operator: VersionedJoin, grace_ms: int, context: Context) -> _VersionedWaits:
        table, window = context.program.operator(operator.inputs[1]), operator.windowing
        assert isinstance(table, VersionedTable), f"{operator.id} looks up a table without history"
        assert window is not None, "an operator with a grace has a stream time"
        times = (*context.stream_time(window), *context.stream_time(table.windowing))
        return cls(operator, table, grace_ms, *times, context)

    def stored(self, lists: RowLists) -> Found:
        """The rows of former epochs whose wait is over."""
        lapse_ms = self.table.forgets_after_ms
        by_table = max(self.table_now, NO_TIME + lapse_ms) - lapse_ms + self.grace_ms
        return lists.over(self.before, max(self.now, by_table))

    def waits(self, rows: pa.RecordBatch) -> Mask:
        """Which rows wait at the places where they come."""
        times, window = numbers(rows, TIMESTAMP), self.operator.windowing
        assert window is not None, "an operator with a grace has a stream time"
        of_table = np.maximum(reached_before(self.table, rows, self.context.advances()), self.table_before)
        over = are_over(times + self.grace_ms, stream_times(self.operator, window, rows, self.context))
        return ~(over | are_over(times + self.table.forgets_after_ms, of_table))

    def are_over(self, times: Integers) -> Mask:
        """Whether the wait of rows of these times is over at the end of the epoch."""
        return are_over(times + self.grace_ms, self.now) | are_over(times + self.table.forgets_after_ms, self.table_now)

    def places(self, times: Integers) -> dict[str, pa.Array]:
        """Where rows whose wait is over are joined: just before the record that ended it, of the stream or of the table."""
        reports, due, due_by_table = self.context.advances(), times + self.grace_ms, times + self.table.forgets_after_ms
        in_time, lapsed = are_over(due, self.now), are_over(due_by_table, self.table_now)
        if not lapsed.any():
            return final_place(self.operator, due, reports)
        by_time = rows_of(final_place(self.operator, np.where(in_time, due, self.before), reports))
        by_table = rows_of(final_place(self.table, np.where(lapsed, due_by_table, self.table_before), reports))
        (rank_by_time, rank_by_table) = place_ranks(by_time, by_table)
        is_by_table = lapsed & (~in_time | (rank_by_table < rank_by_time))
        reached = np.maximum(reached_before(self.operator, by_table, reports), self.before)
        moments = np.where(is_by_table, np.clip(reached, times, due), due)
        chosen = pa.array(is_by_table)
        return {name: pc.if_else(chosen, by_table[name], by_time[name]) for name in ORDER_COLUMNS} | {DUE: pa.array(moments)}


def _due(operator: VersionedJoin, grace_ms: int, left: OptionalBatch, context: Context) -> OptionalBatch:
    """The rows to be joined in this epoch, at the places where they are: those that wait no longer, and those that never do."""
    lists, waiting = RowLists(context.store(operator.waiting), context), _VersionedWaits.of(operator, grace_ms, context)
    if waiting.now == NO_TIME:
        return left
    over = waiting.stored(lists)
    old = _waited(waiting, over.keys.take(over.rows.owners), over.rows.times, over.rows.columns)
    batches = [old] if old is not None else []
    if left is not None and left.num_rows:
        left = in_canonical_order(left)
        times = numbers(left, TIMESTAMP)
        codes, keys = _waiting_keys(operator, left, lists)
        waits, are_over = (codes >= 0) & waiting.waits(left), waiting.are_over(times)
        batches.append(left.filter(pa.array(~waits)))
        ended = np.flatnonzero(waits & are_over)
        columns = rows_of({name: plain(left[name]).take(pa.array(ended)) for name in (TIMESTAMP, *lists.value_names)})
        new = _waited(waiting, keys.take(codes[ended]), times[ended], columns, len(over.rows.times))
        batches += [new] if new is not None else []
        _keep(lists, left, np.flatnonzero(waits & ~are_over), codes, keys, over.state_keys, waiting)
    else:
        empty = pa.array([], pa.binary())
        lists.change(empty, empty, np.empty(0, np.int64), over.state_keys, waiting.now)
    given = [batch for batch in batches if batch.num_rows]
    return concatenate(given) if given else None


def _waiting_keys(operator: VersionedJoin, left: pa.RecordBatch, lists: RowLists) -> tuple[Integers, ListKeys]:
    return coded_keys(lists.store, left, operator.on)


def _waited(waiting: _VersionedWaits, keys: ListKeys, times: Integers, columns: pa.RecordBatch, first: int = 0) -> OptionalBatch:
    """Rows that wait no longer: just before the record that ended their wait, by their times, keys and arrival."""
    operator, rows = waiting.operator, len(times)
    if not rows:
        return None
    place = waiting.places(times)
    head = np.empty(rows, WAITED)
    head["operator"], head["time"] = waiting.context.turn(operator.id).own, times.view(np.uint64) ^ SIGN
    path = in_front(join([head.view(f"V{WAITED.itemsize}"), *key_parts(keys.columns), (first + np.arange(rows)).astype(">u4")]))
    own = dict(zip(operator.on, keys.columns, strict=True))
    own |= {name: columns[name] for name in own_columns(columns)}
    groups = pa.array(keys.key_groups, pa.int32())
    return rows_of({**own, **place, PATH: path, TIMESTAMP: pa.array(times), KEY_GROUP: groups})


def _keep(
    lists: RowLists,
    left: pa.RecordBatch,
    rows: Integers,
    codes: Integers,
    keys: ListKeys,
    over: pa.BinaryArray,
    waiting: _VersionedWaits,
) -> None:
    """Write the rows that wait from now on behind those of their lists that do already; lists whose time is over go."""
    times = numbers(left, TIMESTAMP)[rows]
    places, owners = ListPlaces.distinct(times, codes[rows])
    known = np.flatnonzero(waiting.operator.may_lead | (places.times <= waiting.before))
    old = lists.read(places.take(known), keys)
    in_list = np.concatenate([known[old.owners], owners])
    order = np.argsort(in_list, kind="stable")
    wanted, taken = pa.array(order), pa.array(rows)
    columns = [pa.concat_arrays([old.columns[name], plain(left[name]).take(taken)]).take(wanted) for name in lists.value_names]
    counts = np.bincount(in_list, minlength=len(places)).astype(np.int64)
    values, newest = lists.encoded(counts, np.concatenate([old.times, times])[order], columns)
    lists.change(lists.state_keys(places, keys), values, newest, over, waiting.now)
