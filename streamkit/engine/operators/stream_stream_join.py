"""
Stream-stream join: the rows of two streams with the same key whose times are within the window.

The rules are Kafka Streams' (KStream-KStream join). Of two rows that meet, the one that stands later in the canonical order gives
the result, at its own place; its partners come in the order of their times. A row of a kept side without a partner waits for one.
It gives its result with nulls just before the record that moves stream time past its window and grace. If its window has ended
before it comes, it gives that result at once, and may meet a partner all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.folding.joining import live_rows
from streamkit.engine.folding.nearby import Axis, Line
from streamkit.engine.folding.row_lists import Found, ListedRows, ListKeys, ListPlaces, RowLists, distinct
from streamkit.engine.rows.place import as_they_come, extended_by_turn, in_front, place_ranks
from streamkit.engine.rows.rows import (
    RECORD_FIELDS,
    OptionalBatch,
    concatenate,
    is_null_key,
    numbers,
    plain,
    record_columns,
    rows_of,
    with_one_key,
    without_null_keys,
)
from streamkit.engine.stage.advance import final_place, stream_times
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.log.values.byte_order import byte_order
from streamkit.log.values.keys import encode_keys, key_parts
from streamkit.log.values.slices import join
from streamkit.names import ALONE, KEY_GROUP, ORDER_COLUMNS, PATH, TIMESTAMP
from streamkit.plan.closing import are_over
from streamkit.plan.joining import SIDES
from streamkit.plan.operators.stream_stream_join import StreamStreamJoinRows, buffer_of, waiting_of

ColumnReaders = Mapping[str, Callable[[str], pa.Array]]  # by side: a column of each result's row of that side
NO_KEY = -1  # the code of a key that is null
CLOSED = np.dtype([("operator", ">u2"), ("time", ">u8"), ("side", "u1")])
SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, eq=False)
class StreamSide:
    """
    One side of the join, and the rows of it that came in this epoch, in canonical order.

    A row at t meets those of the other side in [t + low_ms, t + high_ms], until stream time is `keep_ms` past it. Without a partner
    it gives a result when stream time is `close_ms` past it; at once if stream time is `early_ms` past it when it comes.
    """

    name: str
    key: tuple[str, ...]
    low_ms: int
    high_ms: int
    keep_ms: int
    close_ms: int
    early_ms: int
    is_kept: bool
    rows: pa.RecordBatch
    codes: Integers
    times: Integers
    now: Integers
    ranks: Integers


@dataclass(frozen=True, eq=False)
class KnownRows:
    """
    All rows of a side that may be met: the stored ones, then those that came in this epoch.

    So a row that came in this epoch has two numbers: its own among the rows of the epoch, `side.rows`, and one among all known rows, which
    is `old` more. Below, row numbers and masks whose names begin with `epoch_` go by the rows of the epoch, others by all known rows.
    """

    side: StreamSide
    buffer: RowLists
    places: ListPlaces
    stored: ListedRows
    codes: Integers
    times: Integers
    now: Integers
    ranks: Integers
    columns: dict[str, pa.Array] = field(default_factory=dict)

    @classmethod
    def of(cls, side: StreamSide, buffer: RowLists, places: ListPlaces, stored: ListedRows) -> KnownRows:
        old = len(stored.times)
        return cls(
            side,
            buffer,
            places,
            stored,
            np.concatenate([places.codes[stored.owners], side.codes]),
            np.concatenate([stored.times, side.times]),
            np.concatenate([np.full(old, NO_TIME), side.now]),
            np.concatenate([np.arange(-old, 0), side.ranks]),
        )

    @property
    def old(self) -> int:
        """How many rows are stored ones."""
        return len(self.stored.times)

    def column(self, name: str) -> pa.Array:
        """A value column of all rows."""
        if name not in self.columns:
            new = plain(self.side.rows[name])
            self.columns[name] = pa.concat_arrays([self.stored.columns[name], new]) if self.old else new
        return self.columns[name]

    def mark_alone(self, new: Mask) -> Mask:
        """Say which of the epoch's rows, by their own numbers, found no partner when they came; which of all rows found none."""
        old = [self.stored.columns[ALONE]] if self.old else []
        self.columns[ALONE] = pa.concat_arrays([*old, pa.array(new)])
        alone: Mask = self.columns[ALONE].to_numpy(zero_copy_only=False)
        return alone

    def taken(self, rows: Integers) -> Callable[[str], pa.Array]:
        """Columns of these rows."""
        wanted = pa.array(rows)
        return lambda name: self.column(name).take(wanted)

    def absent(self, rows: int) -> Callable[[str], pa.Array]:
        """Columns of so many rows that are not there."""
        return lambda name: pa.nulls(rows, self.column(name).type)


@dataclass(frozen=True, eq=False)
class RowPairs:
    """Rows that met, by their numbers among all known rows of either side, in the order of their results; and which of the two came later."""

    left: Integers
    right: Integers
    is_left_newer: Mask
    newer_ranks: Integers
    newer_now: Integers

    def older(self, number: int) -> tuple[Integers, Integers]:
        """The rows of side `number` that were met by a later one, and the stream times at which they were."""
        chosen = self.is_left_newer if number else ~self.is_left_newer
        return (self.right if number else self.left)[chosen], self.newer_now[chosen]

    def newer(self, number: int) -> Integers:
        """The rows of side `number` that met an earlier one."""
        return (self.right if number else self.left)[~self.is_left_newer if number else self.is_left_newer]


@kernel(StreamStreamJoinRows, runs_empty=True)
def stream_stream_join(operator: StreamStreamJoinRows, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """Pairs of rows that met, rows that came too late to wait for a partner, and rows whose time to wait is over."""
    came = as_they_come(inputs, context.turn(operator.id))
    sides, keys = _sides(operator, [_joinable(operator, number, rows, context) for number, rows in enumerate(came)], context)
    known = [_known(operator, sides[number], sides[1 - number], keys, context) for number in (0, 1)]
    pairs = _pairs(known[0], known[1], len(keys))
    results: list[OptionalBatch] = [_joined(operator, known, keys, pairs, context)]
    for number, one in enumerate(known):
        if one.side.is_kept:
            results += _without_partner(operator, known, number, keys, pairs, context)
        _keep(operator, one, keys, context)
    given = [rows for rows in results if rows is not None and rows.num_rows]
    return concatenate(given) if given else None


# What came


def _joinable(operator: StreamStreamJoinRows, number: int, rows: OptionalBatch, context: Context) -> pa.RecordBatch:
    """The rows of an input that can meet others or are kept without: no deletions, and null keys only on a kept side."""
    if rows is None:
        return _no_rows(operator, number, context)
    rows = live_rows(operator, rows, context)
    if SIDES[number] not in operator.preserved:
        rows, dropped = without_null_keys(rows, operator.keys[number])
        context.count("null_key", operator.id, dropped)
    return with_one_key(rows, operator.keys[number])  # as a row comes back that waited


def _no_rows(operator: StreamStreamJoinRows, number: int, context: Context) -> pa.RecordBatch:
    """No rows, with the columns of an input."""
    store = context.store(buffer_of(operator.id, SIDES[number]))
    values = [pa.field(one.name, one.type.value_type) for one in store.value.arrow if one.name not in (TIMESTAMP, ALONE)]
    record = [pa.field(name, RECORD_FIELDS[name]) for name in (TIMESTAMP, *ORDER_COLUMNS, KEY_GROUP)]
    return pa.RecordBatch.from_pylist([], schema=pa.schema([*store.key.arrow, *values, *record]))


def _sides(operator: StreamStreamJoinRows, batches: list[pa.RecordBatch], context: Context) -> tuple[list[StreamSide], ListKeys]:
    """Both sides, their rows in canonical order and their keys as codes; and the keys."""
    ranks = [2 * found + number for number, found in enumerate(place_ranks(*batches))]  # no two are equal
    for number, found in enumerate(ranks):
        if (np.diff(found) < 0).any():
            order = np.argsort(found)
            batches[number], ranks[number] = batches[number].take(pa.array(order)), found[order]
    codes, keys = _coded(operator, batches)
    sides = []
    for number, name in enumerate(SIDES):
        within, rows = operator.within, batches[number]
        low, high = (-within.before_ms, within.after_ms) if name == "left" else (-within.after_ms, within.before_ms)
        side = StreamSide(
            name, operator.keys[number], low, high, operator.keep_ms(name), operator.close_ms(name),
            high + operator.delay_ms + 1, name in operator.preserved,
            rows, codes[number], numbers(rows, TIMESTAMP), stream_times(operator, operator.windowing, rows, context), ranks[number],
        )  # fmt: skip
        context.count("late", operator.id, int(((side.codes >= 0) & are_over(side.times + side.keep_ms, side.now)).sum()))
        sides.append(side)
    return sides, keys


def _coded(operator: StreamStreamJoinRows, batches: Sequence[pa.RecordBatch]) -> tuple[list[Integers], ListKeys]:
    """A code for the key of each row, and the distinct keys by code; a null key has none."""
    encoded = []
    for key, rows in zip(operator.keys, batches, strict=True):
        own = encode_keys([rows[name] for name in key])
        has_null = any(rows[name].null_count for name in key)
        encoded.append(pc.if_else(is_null_key(rows, key), pa.scalar(None, pa.binary()), own) if has_null else own)
    codes = pa.concat_arrays(encoded).dictionary_encode().indices.fill_null(NO_KEY).to_numpy().astype(np.int64)
    first = np.full(int(codes.max(initial=NO_KEY)) + 1, -1, np.int64)
    # From the last row to the first: where several have one key, the assignment of the first comes last, and stays.
    first[codes[codes >= 0][::-1]] = np.flatnonzero(codes >= 0)[::-1]
    owners = pa.array(first)
    columns = [
        pa.concat_arrays([plain(rows[name]) for rows, name in zip(batches, names, strict=True)]).take(owners)
        for names in zip(*operator.keys, strict=True)
    ]
    groups = np.concatenate([numbers(rows, KEY_GROUP) for rows in batches])
    return np.split(codes, [batches[0].num_rows]), ListKeys(columns, groups[first])


# What is stored


def _known(operator: StreamStreamJoinRows, side: StreamSide, other: StreamSide, keys: ListKeys, context: Context) -> KnownRows:
    """The rows of a side that its own epoch's rows stand beside in a list, or those of the other side may meet."""
    buffer = RowLists(context.store(buffer_of(operator.id, side.name)), context)
    before, _ = context.stream_time(operator.windowing)
    buckets, codes = [], []
    for times, owners in (
        (side.times, side.codes),
        (other.times + other.low_ms, other.codes),
        (other.times + other.high_ms, other.codes),
    ):
        bucket = _bucket(operator, times)
        wanted = (owners >= 0) & (operator.may_lead | (bucket <= before)) & (bucket + _retention(buffer) > before)
        buckets.append(bucket[wanted])
        codes.append(owners[wanted])
    places = _distinct_buckets(operator, np.concatenate(buckets), np.concatenate(codes), len(keys))
    return KnownRows.of(side, buffer, places, buffer.read(places, keys))


def _bucket(operator: StreamStreamJoinRows, times: Integers) -> Integers:
    """The begin of the bucket of each time; one is at least as long as the window, so a row's partners are in two at most."""
    return times // operator.bucket_ms * operator.bucket_ms


def _distinct_buckets(operator: StreamStreamJoinRows, buckets: Integers, codes: Integers, keys: int) -> ListPlaces:
    if not len(buckets):
        return ListPlaces(buckets, codes)
    first = int(buckets.min())
    found = distinct((buckets - first) // operator.bucket_ms * keys + codes)
    return ListPlaces(found // keys * operator.bucket_ms + first, found % keys)


def _retention(buffer: RowLists) -> int:
    retention = buffer.store.retention_ms
    assert retention is not None, "a buffer keeps rows for a time"
    return retention


def _keep(operator: StreamStreamJoinRows, known: KnownRows, keys: ListKeys, context: Context) -> None:
    """Add the rows of the epoch that can still be met to their lists; lists whose time is over go."""
    side, buffer = known.side, known.buffer
    before, now = context.reached(operator.windowing)
    if now == NO_TIME:
        return
    bucket = _bucket(operator, side.times)
    can_be_met = (side.codes >= 0) & ~are_over(side.times + side.keep_ms, side.now)
    epoch_kept = np.flatnonzero(can_be_met & (bucket + _retention(buffer) > now))
    expired = buffer.expired(before, now)
    context.count("expired", operator.id, len(expired))
    places = _distinct_buckets(operator, bucket[epoch_kept], side.codes[epoch_kept], len(keys))
    first, width = (int(places.times.min()), len(keys)) if len(places) else (0, 1)
    # A list is known by its bucket and its key as one number. Those with a new row are written whole: the stored rows, then the new ones.
    own = (bucket[epoch_kept] - first) // operator.bucket_ms * width + side.codes[epoch_kept]
    listed = (known.places.times - first) // operator.bucket_ms * width + known.places.codes
    wanted = (places.times - first) // operator.bucket_ms * width + places.codes
    # They are written in the order of their state keys, in which changes are, so that nothing needs to be moved behind.
    state_keys = buffer.state_keys(places, keys)
    written = byte_order(state_keys)
    ranks = np.empty(len(places), np.int64)
    ranks[written.to_numpy()] = np.arange(len(places))
    stored = np.flatnonzero(np.isin(listed, wanted)[known.stored.owners])
    rows = np.concatenate([stored, known.old + epoch_kept])
    in_list = ranks[np.searchsorted(wanted, np.concatenate([listed[known.stored.owners[stored]], own]))]
    rows, counts = rows[np.argsort(in_list, kind="stable")], np.bincount(in_list, minlength=len(places))
    columns = [known.taken(rows)(name) for name in buffer.value_names]
    values, newest = buffer.encoded(counts, known.times[rows], columns)
    buffer.change(state_keys.take(written), values, newest, expired, now)


# What meets


def _pairs(left: KnownRows, right: KnownRows, keys: int) -> RowPairs:
    """All pairs of a row and one that stands before it, within the window, and not older than rows are kept."""
    axis = Axis.of(keys, [left.times, right.times])
    lines = [Line.of(axis, known.codes, known.times) for known in (left, right)]
    to_left, all_right = _met(left, lines[0], lines[1], axis)
    to_right, all_left = _met(right, lines[1], lines[0].first(left.old), axis)
    lefts, rights = np.concatenate([to_left, all_left]), np.concatenate([all_right, to_right])
    left_ranks, right_ranks = left.ranks[lefts], right.ranks[rights]
    is_left_newer = left_ranks > right_ranks
    newer = np.maximum(left_ranks, right_ranks)
    older_place = np.where(is_left_newer, lines[1].ranks[rights], lines[0].ranks[lefts])
    newer_now = np.where(is_left_newer, left.now[lefts], right.now[rights])
    kept_until = np.where(is_left_newer, right.times[rights] + right.side.keep_ms, left.times[lefts] + left.side.keep_ms)
    order = np.argsort(newer * (max(len(left.times), len(right.times)) + 1) + older_place)
    visible = ~are_over(kept_until, newer_now)
    if not visible.all():
        order = order[visible[order]]
    return RowPairs(lefts[order], rights[order], is_left_newer[order], newer[order], newer_now[order])


def _met(known: KnownRows, line: Line, other: Line, axis: Axis) -> tuple[Integers, Integers]:
    """The rows of this epoch, and the rows of the other side within their windows."""
    side = known.side
    rows = line.rows[(line.rows >= known.old)]
    rows = rows[known.codes[rows] >= 0]
    codes, times = known.codes[rows], known.times[rows]
    found, others = other.between(axis.before(codes, times + side.low_ms), axis.behind(codes, times + side.high_ms))
    return rows[found], others


def _joined(
    operator: StreamStreamJoinRows, known: Sequence[KnownRows], keys: ListKeys, pairs: RowPairs, context: Context
) -> OptionalBatch:
    """The results of pairs, at the places of the later rows."""
    if not len(pairs.left):
        return None
    left, right = known
    # The later row of a pair came in this epoch: its own number, those of the right side behind those of the left.
    newer = np.where(pairs.is_left_newer, pairs.left - left.old, pairs.right - right.old + left.side.rows.num_rows)
    record = concatenate([rows_of(record_columns(one.side.rows)) for one in known if one.side.rows.num_rows])
    record = record.take(pa.array(newer))
    times = np.maximum(left.times[pairs.left], right.times[pairs.right])
    starts = np.flatnonzero(np.diff(pairs.newer_ranks, prepend=-1))
    within = np.arange(len(newer)) - np.repeat(starts, np.diff(starts, append=len(newer)))
    path = extended_by_turn(record, context.turn(operator.id).owns, within)
    columns = {"left": left.taken(pairs.left), "right": right.taken(pairs.right)}
    own = _columns(operator, columns, keys, left.codes[pairs.left])
    return rows_of({**own, **record_columns(record), TIMESTAMP: pa.array(times), PATH: path})


def _columns(operator: StreamStreamJoinRows, sides: ColumnReaders, keys: ListKeys, codes: Integers) -> dict[str, pa.Array]:
    """The columns of results: the key by its code, the others from either side; null where a side has no row."""
    found = keys.columns_at(codes)
    result: dict[str, pa.Array] = {}
    for name, source in operator.columns:
        side, _, column = source.partition(".")
        if side == "left" and column in operator.left_key:
            result[name] = found[operator.left_key.index(column)]
        else:
            result[name] = sides[side](column)
    return result


# What does not meet


def _without_partner(
    operator: StreamStreamJoinRows, known: Sequence[KnownRows], number: int, keys: ListKeys, pairs: RowPairs, context: Context
) -> list[OptionalBatch]:
    """The results with nulls of a kept side: of rows that came too late to wait, and of those whose time to wait is over."""
    one, other = known[number], known[1 - number]
    side = one.side
    # A row of the epoch either found a partner that came before it, or waits for a later one, or is given up since it came too late to wait.
    epoch_found = np.zeros(len(side.times), bool)
    epoch_found[pairs.newer(number) - one.old] = True
    epoch_in_time = (side.codes != NO_KEY) & ~are_over(side.times + side.early_ms, side.now)
    epoch_alone, epoch_given_up = ~epoch_found & epoch_in_time, np.flatnonzero(~epoch_found & ~epoch_in_time)
    # What waits, be it stored or of the epoch, waits no longer if a later row met it before its time was over.
    older, met_at = pairs.older(number)
    has_met = np.zeros(len(one.times), bool)
    has_met[older[~are_over(one.times[older] + side.close_ms, met_at)]] = True
    stored_met = np.flatnonzero((has_met & one.mark_alone(epoch_alone))[: one.old])
    epoch_waiting = np.flatnonzero(epoch_alone & ~has_met[one.old :])
    closed = WaitingRows(operator, one, keys, context, stored_met).settle(epoch_waiting)
    return [
        _given_up(operator, one, other, keys, epoch_given_up, context),
        None if closed is None else _closed(operator, other, closed, context),
    ]


def _given_up(
    operator: StreamStreamJoinRows, one: KnownRows, other: KnownRows, keys: ListKeys, epoch_rows: Integers, context: Context
) -> OptionalBatch:
    """The results of rows that find no partner and wait for none, at their own places."""
    if not len(epoch_rows):
        return None
    record = rows_of(record_columns(one.side.rows)).take(pa.array(epoch_rows))
    sides = {one.side.name: one.taken(one.old + epoch_rows), other.side.name: other.absent(len(epoch_rows))}
    columns = _columns(operator, sides, keys, one.side.codes[epoch_rows])
    path = extended_by_turn(record, context.turn(operator.id).owns, np.zeros(len(epoch_rows), np.int64))
    return rows_of({**columns, **record_columns(record), PATH: path})


@dataclass(frozen=True, eq=False)
class Closed:
    """Rows of a side that waited for a partner until their time was over."""

    side: StreamSide
    times: Integers
    keys: ListKeys
    columns: pa.RecordBatch


def _closed(operator: StreamStreamJoinRows, other: KnownRows, closed: Closed, context: Context) -> pa.RecordBatch:
    """Their results: just before the record that moved stream time past their moments, by time, the right side before the left."""
    rows, number = len(closed.times), SIDES.index(closed.side.name)
    place = final_place(operator, closed.times + closed.side.close_ms, context.advances())
    head, tail = np.empty(rows, CLOSED), np.arange(rows).astype(">u4")
    head["operator"], head["side"] = context.turn(operator.id).own, 1 - number
    head["time"] = closed.times.view(np.uint64) ^ SIGN
    path = in_front(join([head.view(f"V{CLOSED.itemsize}"), *key_parts(closed.keys.columns), tail]))
    sides = {closed.side.name: closed.columns.column, other.side.name: other.absent(rows)}
    columns = _columns(operator, sides, closed.keys, np.arange(rows))
    groups = pa.array(closed.keys.key_groups, pa.int32())
    return rows_of({**columns, **place, PATH: path, TIMESTAMP: pa.array(closed.times), KEY_GROUP: groups})


@dataclass(frozen=True, eq=False)
class WaitingRows:
    """The rows of a kept side that wait for a partner; of the stored ones, the first of all known rows, `stored_met` have got one."""

    operator: StreamStreamJoinRows
    known: KnownRows
    keys: ListKeys
    context: Context
    stored_met: Integers

    def settle(self, epoch_rows: Integers) -> Closed | None:
        """Let these rows of the epoch wait; return those, and stored ones, whose time is over; None if there are none."""
        side = self.known.side
        before, now = self.context.stream_time(self.operator.windowing)
        if now == NO_TIME:
            return None
        lists = RowLists(self.context.store(waiting_of(self.operator.id, side.name)), self.context)
        times, codes = self.known.times[self.stored_met], self.known.codes[self.stored_met]
        waited = ~are_over(times + side.close_ms, before)
        met, _ = ListPlaces.distinct(times[waited], codes[waited])
        met_keys, is_open = lists.state_keys(met, self.keys), ~are_over(met.times + side.close_ms, now)
        over = lists.over(before, now)
        is_over = are_over(side.times[epoch_rows] + side.close_ms, now)
        self._wait(lists, epoch_rows[~is_over], met_keys, pa.array(is_open), over.state_keys)
        return self._over(over, met_keys, epoch_rows[is_over])

    def _over(self, over: Found, met_keys: pa.BinaryArray, epoch_rows: Integers) -> Closed | None:
        """The stored rows whose time is over and that met none, then those of the epoch."""
        known = self.known
        is_alone = ~pc.is_in(over.state_keys, value_set=met_keys).to_numpy(zero_copy_only=False)
        old = over.rows.take(np.flatnonzero(is_alone[over.rows.owners]))
        if not len(old.times) + len(epoch_rows):
            return None
        new = {name: known.column(name).take(pa.array(known.old + epoch_rows)) for name in over.rows.columns.schema.names}
        columns = {name: pa.concat_arrays([old.columns[name], column]) for name, column in new.items()}
        keys = over.keys.take(old.owners).followed_by(self.keys.take(known.side.codes[epoch_rows]))
        return Closed(known.side, np.concatenate([old.times, known.side.times[epoch_rows]]), keys, rows_of(columns))

    def _wait(
        self, lists: RowLists, epoch_rows: Integers, met_keys: pa.BinaryArray, is_open: pa.BooleanArray, over: pa.BinaryArray
    ) -> None:
        """
        Write the rows that wait from now on beside those that do already; those that met one, or whose time is over, go.

        All rows of one key and one time are a list: `places` says which lists the epoch's rows are in, and `owners` in which each is.
        """
        side = self.known.side
        before, now = self.context.stream_time(self.operator.windowing)
        places, owners = ListPlaces.distinct(side.times[epoch_rows], side.codes[epoch_rows])
        puts = lists.state_keys(places, self.keys)
        is_met = pc.is_in(puts, value_set=met_keys).to_numpy(zero_copy_only=False)
        # A list may be stored if its time is not ahead of what stream time was; its rows are gone if one of them met a partner, since all did.
        stored_lists = np.flatnonzero((self.operator.may_lead | (places.times <= before)) & ~is_met)
        old = lists.read(places.take(stored_lists), self.keys)
        in_list = np.concatenate([stored_lists[old.owners], owners])
        order = np.argsort(in_list, kind="stable")
        taken, wanted = self.known.taken(self.known.old + epoch_rows), pa.array(order)
        columns = [pa.concat_arrays([old.columns[name], taken(name)]).take(wanted) for name in lists.value_names]
        times = np.concatenate([old.times, side.times[epoch_rows]])[order]
        values, newest = lists.encoded(np.bincount(in_list, minlength=len(places)), times, columns)
        gone = met_keys.filter(pc.and_(is_open, pc.invert(pc.is_in(met_keys, value_set=puts))))
        lists.change(puts, values, newest, pa.concat_arrays([over, lists.present(gone)]), now)
