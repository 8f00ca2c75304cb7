"""
Versioned join: a stream row meets the row that the table had at the event time of the stream row, as known at its place.

The rules are Kafka Streams' (stream-table join with a versioned table, with and without a grace period). With a grace a row
waits until stream time is so far past it; it is then joined just before the record that moved stream time so far, in the order of
the times of the rows that wait. A row that is older than that when it comes is joined at once, and so is one without a key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.engine.advance import final_place, reached_before, stream_times
from streamkit.engine.context import Context
from streamkit.engine.joining import joined, live_rows
from streamkit.engine.kernels import Rows, kernel
from streamkit.engine.place import as_seen, as_they_come, in_canonical_order, place_ranks
from streamkit.engine.row_lists import Keys, Places, RowLists
from streamkit.engine.rows import concatenate, numbers, own_columns, plain, rows_of, without_null_keys
from streamkit.engine.stream_time import NO_TIME
from streamkit.engine.versions import History, Mask, Numbers, Versions, coded_keys, valid_at
from streamkit.log.values.keys import key_parts
from streamkit.log.values.slices import join
from streamkit.names import KEY_GROUP, PATH, TIMESTAMP
from streamkit.plan.operators.versioned_join import VersionedJoin
from streamkit.plan.operators.versioned_table import VersionedTable

WAITED = np.dtype([("operator", ">u2"), ("time", ">u8")])
SIGN = np.uint64(1 << 63)
ALWAYS = 2**63 - 1  # after every event time


@kernel(VersionedJoin, runs_empty=True)
def versioned_join(operator: VersionedJoin, inputs: Sequence[Rows], context: Context) -> Rows:
    """Each stream row with the row that the table had for its key at its time."""
    turn = context.turn(operator.id)
    left, changes = as_they_come(inputs, turn)[0], as_seen(inputs[1], turn, 1)
    if left is not None:
        left = live_rows(operator, left, context)
        if operator.how == "inner":
            left, dropped = without_null_keys(left, operator.on)
            context.count("null_key", operator.id, dropped)
    if operator.grace_ms is not None:
        left = _due(operator, operator.grace_ms, left, context)
    if left is None or not left.num_rows:
        return None
    table, found = _looked_up(operator, left, changes, context)
    return joined(operator.how, operator.columns, left, table, found)


# The table as of a time


def _looked_up(operator: VersionedJoin, left: pa.RecordBatch, changes: Rows, context: Context) -> tuple[pa.RecordBatch, Numbers]:
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


def _keys(operator: VersionedJoin, history: History, rows: Sequence[pa.RecordBatch]) -> tuple[Keys, list[Numbers]]:
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


def _versions(history: History, keys: Keys, codes: Numbers, times: Numbers) -> Versions:
    """The stored versions of the stream's keys; former ones are read only where a row is older than the newest."""
    newest = history.newest(keys)
    since = np.full(len(keys), ALWAYS, np.int64)
    since[newest.codes] = newest.times
    has_key = codes >= 0
    former = np.unique(codes[has_key][times[has_key] < since[codes[has_key]]])
    return Versions.together([newest, history.former(keys, former)])


def _is_forgotten(
    history: History, versions: Versions, found: Numbers, left: pa.RecordBatch, codes: Numbers, ranks: Numbers
) -> Mask:
    """
    Whether the version that was found is too old: the row's time lies before the history, and the version is not the key's newest.

    The history goes back from the stream time that the table had at the row's place.
    """
    table, context = history.table, history.context
    before, _ = context.stream_time(table.windowing)
    reached = np.maximum(reached_before(table, left, context.advances()), before)
    begin = np.maximum(reached, NO_TIME + table.history_ms) - table.history_ms
    old = np.flatnonzero((found >= 0) & (numbers(left, TIMESTAMP) < begin))
    forgotten = np.zeros(len(found), bool)
    if len(old):
        newest = valid_at(versions, codes[old], np.full(len(old), ALWAYS, np.int64), ranks[old])
        forgotten[old] = newest != found[old]
    return forgotten


# Rows that wait


def _due(operator: VersionedJoin, grace_ms: int, left: Rows, context: Context) -> Rows:
    """The rows to be joined in this epoch, at the places where they are: those that wait no longer, and those that never do."""
    lists = RowLists(context.store(operator.waiting), context)
    window = operator.windowing
    assert window is not None, "an operator with a grace has a stream time"
    before, now = context.stream_time(window)
    if now == NO_TIME:
        return left
    over = lists.over(before, now)
    old = _waited(operator, over.keys.take(over.rows.owners), over.rows.times, over.rows.columns, grace_ms, context)
    batches = [old] if old is not None else []
    if left is not None and left.num_rows:
        left = in_canonical_order(left)
        times = numbers(left, TIMESTAMP)
        codes, keys = _waiting_keys(operator, left, lists)
        waits = (codes >= 0) & (times + grace_ms > stream_times(operator, window, left, context))
        is_due = times + grace_ms <= now
        batches.append(left.filter(pa.array(~waits)))
        ended = np.flatnonzero(waits & is_due)
        columns = rows_of({name: plain(left[name]).take(pa.array(ended)) for name in (TIMESTAMP, *lists.value_names)})
        new = _waited(operator, keys.take(codes[ended]), times[ended], columns, grace_ms, context, len(over.rows.times))
        batches += [new] if new is not None else []
        _keep(lists, left, np.flatnonzero(waits & ~is_due), codes, keys, over.state_keys, before, now, operator.may_lead)
    else:
        empty = pa.array([], pa.binary())
        lists.change(empty, empty, np.empty(0, np.int64), over.state_keys, now)
    given = [batch for batch in batches if batch.num_rows]
    return concatenate(given) if given else None


def _waiting_keys(operator: VersionedJoin, left: pa.RecordBatch, lists: RowLists) -> tuple[Numbers, Keys]:
    return coded_keys(lists.store, left, operator.on)


def _waited(
    operator: VersionedJoin,
    keys: Keys,
    times: Numbers,
    columns: pa.RecordBatch,
    grace_ms: int,
    context: Context,
    first: int = 0,
) -> Rows:
    """Rows that wait no longer: just before the record that moved stream time so far, by their times, keys and arrival."""
    rows = len(times)
    if not rows:
        return None
    place = final_place(operator, times + grace_ms, context.advances())
    head = np.empty(rows, WAITED)
    head["operator"], head["time"] = context.turn(operator.id).own, times.view(np.uint64) ^ SIGN
    path = join([head.view(f"V{WAITED.itemsize}"), *key_parts(keys.columns), (first + np.arange(rows)).astype(">u4")])
    own = dict(zip(operator.on, keys.columns, strict=True))
    own |= {name: columns[name] for name in own_columns(columns)}
    groups = pa.array(keys.key_groups, pa.int32())
    return rows_of({**own, **place, PATH: path, TIMESTAMP: pa.array(times), KEY_GROUP: groups})


def _keep(
    lists: RowLists,
    left: pa.RecordBatch,
    rows: Numbers,
    codes: Numbers,
    keys: Keys,
    over: pa.BinaryArray,
    before: int,
    now: int,
    may_lead: bool,
) -> None:
    """Write the rows that wait from now on behind those of their lists that do already; lists whose time is over go."""
    times = numbers(left, TIMESTAMP)[rows]
    places, owners = Places.distinct(times, codes[rows])
    known = np.flatnonzero(may_lead | (places.times <= before))
    old = lists.read(places.take(known), keys)
    in_list = np.concatenate([known[old.owners], owners])
    order = np.argsort(in_list, kind="stable")
    wanted, taken = pa.array(order), pa.array(rows)
    columns = [pa.concat_arrays([old.columns[name], plain(left[name]).take(taken)]).take(wanted) for name in lists.value_names]
    counts = np.bincount(in_list, minlength=len(places)).astype(np.int64)
    values, newest = lists.encoded(counts, np.concatenate([old.times, times])[order], columns)
    lists.change(lists.state_keys(places, keys), values, newest, over, now)
