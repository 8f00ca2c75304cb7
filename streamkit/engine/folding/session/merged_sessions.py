"""
Which sessions there are after each row: their bounds, which sessions a row merges, which rows are late.

The rules are Kafka Streams':

    A row at t merges the sessions of its key with end >= t - gap and start <= t + gap, if they still take rows.
    It is late if the session that it would make has closed.

When a session closes, and until when it takes rows, `streamkit.plan.closing` and `SessionWindowing` say; here a session is known by its end,
as it is there.

Nothing here looks at values. Keys whose rows come in the order of their times are done with numpy, as runs without a gap. So are
keys whose rows come in any order, if it is certain that no row is late or meets a closed session, and nobody asks for the
sessions between; and keys that never have more than one session. All others are done row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from streamkit.arrays import Integers, Mask
from streamkit.engine.rows.lineage import NONE, RowLineage
from streamkit.expressions.core.accumulation import stable_order
from streamkit.log.values.byte_order import order_of_numbers
from streamkit.plan.windows import Windowing

OVERWRITTEN = -2  # a session that was closed to rows, and whose bounds a new one has


@dataclass(frozen=True, eq=False)
class SessionRows:
    """
    Rows in canonical order: the number of each key, its time, stream time at the row.

    `moves_time` says which rows moved stream time: before such a row, it was earlier.
    """

    keys: Integers
    times: Integers
    reached: Integers
    moves_time: Mask

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, eq=False)
class Stored:
    """The stored sessions that can still take rows, with the number of their key; in order of key, then time."""

    keys: Integers
    starts: Integers
    ends: Integers

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, eq=False)
class Sessions:
    """
    Every session there was: as stored, then after each row; `starts` and `ends` are its bounds.

    `replaced_by` has the session that took its place (-1: none, it is there; -2: another has its bounds). `is_deleted` says that
    its bounds are gone with it. `is_late` has the rows that no session took.
    """

    lineage: RowLineage
    starts: Integers
    ends: Integers
    replaced_by: Integers
    is_deleted: Mask
    is_late: Mask


def merged_sessions(rows: SessionRows, stored: Stored, window: Windowing, *, is_each_needed: bool) -> Sessions:
    """The sessions after each row; unless each is needed, some of those that others replaced have no bounds of their own."""
    making = _GrowingSessions.of(rows, stored, window)
    in_order = _keys_in_order(rows, stored)
    at_once = np.zeros(len(in_order), bool) if is_each_needed else ~in_order & _keys_in_time(rows, stored, len(in_order), window)
    left = ~in_order & ~at_once
    as_one = left & making.keys_of_one_session(len(in_order)) if left.any() else left
    steps = (
        (in_order, making.take_in_order),
        (at_once, making.take_at_once),
        (as_one, making.take_as_one),
        (left & ~as_one, making.take_one_by_one),
    )
    for keys, take in steps:
        take(np.flatnonzero(keys[rows.keys]), np.flatnonzero(keys[stored.keys]))
    return making.made()


def _keys_in_time(rows: SessionRows, stored: Stored, size: int, window: Windowing) -> Mask:
    """
    Which keys have only rows that are not late, and meet no closed session: the oldest that one may meet still takes rows.

    A session that a row meets ends within the gap before it, and not before the first end that its key has: a stored one, or a row's time.
    """
    first_end = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(first_end, rows.keys, rows.times)
    np.minimum.at(first_end, stored.keys, stored.ends)
    oldest_met = np.maximum(rows.times - _gap_ms(window), first_end[rows.keys])
    in_time = np.ones(size, bool)
    in_time[rows.keys[~(window.take_rows(oldest_met, rows.reached) | rows.moves_time)]] = False
    return in_time


def _gap_ms(window: Windowing) -> int:
    return window.size_ms - 1


def _keys_in_order(rows: SessionRows, stored: Stored) -> Mask:
    """Which keys have rows in the order of their times, none before the end of a stored session."""
    size = int(max(rows.keys.max(initial=NONE), stored.keys.max(initial=NONE))) + 1
    in_order = np.ones(size, bool)
    order = stable_order(rows.keys)
    keys, times = rows.keys[order], rows.times[order]
    falls = (keys[1:] == keys[:-1]) & (times[1:] < times[:-1])
    in_order[keys[1:][falls]] = False
    ends = np.full(size, np.iinfo(np.int64).min)
    np.maximum.at(ends, stored.keys, stored.ends)
    is_first = np.diff(keys, prepend=NONE) != 0
    in_order[keys[is_first][times[is_first] < ends[keys[is_first]]]] = False
    return in_order


def _largest_so_far(values: Integers, keys: Integers) -> Integers:
    """The largest value of each key up to each row; rows are in the order of their keys."""
    known, ranks = np.unique(values, return_inverse=True)
    place = np.cumsum(np.diff(keys, prepend=keys[0]) != 0) * len(known)
    largest: Integers = known[np.maximum.accumulate(place + ranks) - place]
    return largest


@dataclass(eq=False)
class _GrowingSessions:
    """Sessions in the making; stored ones are the first nodes, then comes a node for each row."""

    rows: SessionRows
    stored: Stored
    window: Windowing
    gap_ms: int
    starts: Integers
    ends: Integers
    chains: Integers
    replaced_by: Integers
    is_deleted: Mask
    is_late: Mask
    levels: list[int]
    heads: list[tuple[int, int]]

    @classmethod
    def of(cls, rows: SessionRows, stored: Stored, window: Windowing) -> _GrowingSessions:
        nodes = len(stored) + len(rows)
        nowhere = np.full(nodes, NONE, np.int64)
        return cls(
            rows,
            stored,
            window,
            _gap_ms(window),
            np.concatenate([stored.starts, rows.times]),
            np.concatenate([stored.ends, rows.times]),
            nowhere.copy(),
            nowhere.copy(),
            np.zeros(nodes, bool),
            np.zeros(len(rows), bool),
            [],
            [],
        )

    def made(self) -> Sessions:
        heads = np.array(self.heads, np.int64).reshape(-1, 2)
        levels = np.array(self.levels, np.int64)
        lineage = RowLineage(np.arange(len(self.chains)), self.chains, levels, heads[:, 0], heads[:, 1])
        return Sessions(lineage, self.starts, self.ends, self.replaced_by, self.is_deleted, self.is_late)

    def take_in_order(self, rows: Integers, stored: Integers) -> None:
        """Take rows of keys whose rows come in the order of their times: a session is a run of rows without a gap."""
        times, reached = self.rows.times[rows], self.rows.reached[rows]
        late = self.window.are_closed(times, reached)  # in this order the session that a row makes ends with the row
        self.is_late[rows[late]] = True
        rows = rows[~late]
        nodes = np.concatenate([stored, len(self.stored) + rows])
        keys = np.concatenate([self.stored.keys[stored], self.rows.keys[rows]])
        order = stable_order(keys)  # stored sessions come first, and they are in the order of their times
        nodes, keys = nodes[order], keys[order]
        joins = self._joins(nodes, keys)
        first = np.maximum.accumulate(np.where(joins, 0, np.arange(len(nodes))))
        self.starts[nodes] = self.starts[nodes[first]]
        self.chains[nodes] = len(self.levels) + np.cumsum(~joins) - 1
        self.levels += [0] * int((~joins).sum())
        follows = np.flatnonzero(joins)
        before, after = nodes[follows - 1], nodes[follows]
        self.replaced_by[before] = after
        self.is_deleted[before] = self.starts[after] != self.ends[after]
        twins = self._overwriting(nodes, keys, joins)
        self.replaced_by[nodes[twins - 1]] = OVERWRITTEN

    def _joins(self, nodes: Integers, keys: Integers) -> Mask:
        """Which nodes, in the order of key and time, are rows that extend the session before them."""
        joins = np.zeros(len(nodes), bool)
        if not len(nodes):
            return joins
        row = nodes - len(self.stored)
        time, end = self.ends[nodes[1:]], self.ends[nodes[:-1]]
        own = np.maximum(row[1:], 0)
        reached, moves = self.rows.reached[own], self.rows.moves_time[own]
        near = (keys[1:] == keys[:-1]) & (row[1:] >= 0) & (time - end <= self.gap_ms)
        joins[1:] = near & (moves | self.window.take_rows(end, reached))
        return joins

    def _overwriting(self, nodes: Integers, keys: Integers, joins: Mask) -> Integers:
        """Which of the nodes begin a session that has the bounds of the one before it: that one was closed to rows."""
        same = (keys[1:] == keys[:-1]) & ~joins[1:]
        same &= (self.starts[nodes[1:]] == self.starts[nodes[:-1]]) & (self.ends[nodes[1:]] == self.ends[nodes[:-1]])
        return np.flatnonzero(same) + 1

    def take_at_once(self, rows: Integers, stored: Integers) -> None:
        """Take rows of which none is late: whatever their order, a session is what no gap divides. Only the last of each is right."""
        nodes = np.concatenate([stored, len(self.stored) + rows])
        keys = np.concatenate([self.stored.keys[stored], self.rows.keys[rows]])
        order = order_of_numbers(keys, self.starts[nodes])
        nodes, keys = nodes[order], keys[order]
        if not len(nodes):
            return
        reached = _largest_so_far(self.ends[nodes], keys)
        begins = np.ones(len(nodes), bool)
        begins[1:] = (keys[1:] != keys[:-1]) | (self.starts[nodes[1:]] - reached[:-1] > self.gap_ms)
        first = np.flatnonzero(begins)
        session = np.cumsum(begins) - 1
        last = np.maximum.reduceat(nodes, first)  # stored sessions have the smallest numbers: a row, if there is one
        self.chains[nodes] = len(self.levels) + session
        self.levels += [0] * len(first)
        self.replaced_by[nodes] = np.where(nodes == last[session], NONE, last[session])
        is_row = last >= len(self.stored)
        self.starts[last[is_row]] = self.starts[nodes[first]][is_row]
        self.ends[last[is_row]] = np.maximum.reduceat(self.ends[nodes], first)[is_row]

    def keys_of_one_session(self, size: int) -> Mask:
        """Which keys have one session throughout: it takes every row, and none is late."""
        nodes, keys = self._by_arrival(np.arange(len(self.rows)), np.arange(len(self.stored)))
        fits = np.ones(size, bool)
        if not len(nodes):
            return fits
        starts, ends = self._grown(nodes, keys)
        own = np.maximum(nodes - len(self.stored), 0)
        is_row, times = nodes >= len(self.stored), self.ends[nodes]
        first_open = self.window.first_open(self.rows.reached)[own]
        fits[keys[is_row & (ends < first_open)]] = False
        meets = (times[1:] - self.gap_ms <= ends[:-1]) & (times[1:] + self.gap_ms >= starts[:-1])
        meets &= is_row[1:] & (self.rows.moves_time[own][1:] | (ends[:-1] > first_open[1:]))
        fits[keys[1:][(keys[1:] == keys[:-1]) & ~meets]] = False
        return fits

    def take_as_one(self, rows: Integers, stored: Integers) -> None:
        """Take rows of keys that have one session throughout, which each row makes larger, or leaves as it is."""
        nodes, keys = self._by_arrival(rows, stored)
        if not len(nodes):
            return
        times = self.ends[nodes]
        self.starts[nodes], self.ends[nodes] = self._grown(nodes, keys)
        follows = np.flatnonzero(keys[1:] == keys[:-1]) + 1
        before, after = nodes[follows - 1], nodes[follows]
        self.replaced_by[before] = after
        self.is_deleted[before] = (self.starts[after] != times[follows]) | (self.ends[after] != times[follows])
        session = np.cumsum(np.diff(keys, prepend=NONE) != 0) - 1
        self.chains[nodes] = len(self.levels) + session
        self.levels += [0] * int(session[-1] + 1)

    def _by_arrival(self, rows: Integers, stored: Integers) -> tuple[Integers, Integers]:
        """The nodes by key, with the number of their key: stored sessions, then rows as they came."""
        nodes = np.concatenate([stored, len(self.stored) + rows])
        keys = np.concatenate([self.stored.keys[stored], self.rows.keys[rows]])
        order = stable_order(keys)
        return nodes[order], keys[order]

    def _grown(self, nodes: Integers, keys: Integers) -> tuple[Integers, Integers]:
        """The bounds of the first node of each key up to each, all taken together."""
        return -_largest_so_far(-self.starts[nodes], keys), _largest_so_far(self.ends[nodes], keys)

    def take_one_by_one(self, rows: Integers, stored: Integers) -> None:
        """Take rows in whatever order their times are."""
        first_open = self.window.first_open(self.rows.reached)
        for own, sessions in self._by_key(rows, stored):
            _OneKey(self, [int(node) for node in sessions]).take(own, first_open[own])

    def _by_key(self, rows: Integers, stored: Integers) -> Iterator[tuple[Integers, Integers]]:
        """The rows and the stored sessions of each key that has rows."""
        keys = self.rows.keys[rows]
        order = stable_order(keys)
        keys = keys[order]
        borders = np.flatnonzero(np.diff(keys, prepend=NONE))
        stored_keys = self.stored.keys[stored]
        by_key = stable_order(stored_keys)
        stored, stored_keys = stored[by_key], stored_keys[by_key]
        for own in np.split(rows[order], borders[1:]) if len(rows) else []:
            key = self.rows.keys[own[0]]
            first, last = np.searchsorted(stored_keys, [key, key + 1])
            yield own, stored[first:last]


class _OneKey:
    """The sessions of one key while its rows are taken one by one; each is known by its node."""

    def __init__(self, making: _GrowingSessions, stored: list[int]) -> None:
        self._making = making
        self._open: OpenSessions[int] = OpenSessions(making.gap_ms)
        for node in stored:
            self._open.add(int(making.starts[node]), int(making.ends[node]), node)
            self._begin_chain(node, [])

    def take(self, rows: Integers, first_open: Integers) -> None:
        """Take rows, with the first open moment at each."""
        making = self._making
        taken = making.rows
        for row, time, own_first_open, moves in zip(
            rows.tolist(), taken.times[rows].tolist(), first_open.tolist(), taken.moves_time[rows].tolist(), strict=True
        ):
            grown = self._open.grown(time, own_first_open, moves)
            if grown is None:
                making.is_late[row] = True
            else:
                self._grow(len(making.stored) + row, time, grown)

    def _grow(self, node: int, time: int, grown: Grown[int]) -> None:
        making = self._making
        before = [one.session for one in grown.merged]
        for one in before:
            making.replaced_by[one] = node
            making.is_deleted[one] = grown.start != time or grown.end != time
        making.starts[node], making.ends[node] = grown.start, grown.end
        if len(before) == 1:
            making.chains[node] = making.chains[before[0]]
        else:
            self._begin_chain(node, before)
        twin = self._open.replace(grown, node)
        if twin is not None:
            making.replaced_by[twin] = OVERWRITTEN

    def _begin_chain(self, node: int, before: list[int]) -> None:
        making = self._making
        chain = len(making.levels)
        making.chains[node] = chain
        making.levels.append(max((making.levels[int(making.chains[one])] + 1 for one in before), default=0))
        making.heads += [(chain, one) for one in before]


AnySession = TypeVar("AnySession")


class Bounded(NamedTuple, Generic[AnySession]):
    """A session with its bounds."""

    end: int
    start: int
    session: AnySession


class Grown(NamedTuple, Generic[AnySession]):
    """The session that a row makes: its bounds, the sessions that it takes the place of, in order of time, and the first open moment."""

    start: int
    end: int
    merged: list[Bounded[AnySession]]
    first_open: int


class OpenSessions(Generic[AnySession]):
    """
    The sessions of one key, while rows are taken one by one.

    What stream time says at a row is one number here, `first_open` of the windows: sessions that end before it have closed, and those
    that end behind it take rows. One that ends with it has not closed, and takes none (`SessionWindowing.take_rows`).
    """

    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms
        self._open: list[Bounded[AnySession]] = []
        self._closed: dict[tuple[int, int], AnySession] = {}

    def add(self, start: int, end: int, session: AnySession) -> None:
        """Take a session as it is."""
        self._open.append(Bounded(end, start, session))

    def grown(self, time: int, first_open: int, moves_time: bool) -> Grown[AnySession] | None:
        """
        What a row at this time makes of the sessions near it; None if it is late, as what it would make has closed.

        A row that moves stream time is taken by sessions that take no others any more.
        """
        gap = self._gap_ms
        near = [
            one
            for one in self._open
            if one.end >= time - gap and one.start <= time + gap and (moves_time or one.end > first_open)
        ]
        near.sort(key=lambda one: one[:2])
        end = max([time, *(one.end for one in near)])
        start = min([time, *(one.start for one in near)])
        return None if end < first_open else Grown(start, end, near, first_open)

    def replace(self, grown: Grown[AnySession], session: AnySession | None) -> AnySession | None:
        """
        Put a session in the place of those that it merged, or none if its state was deleted.

        Returns the session that was closed to rows and has the same bounds: it is gone, too.
        """
        merged = {(one.end, one.start) for one in grown.merged}
        rest = [one for one in self._open if (one.end, one.start) not in merged]
        self._closed.update({(one.start, one.end): one.session for one in rest if one.end <= grown.first_open})
        self._open = [one for one in rest if one.end > grown.first_open]
        if session is not None:
            self.add(grown.start, grown.end, session)
        return self._closed.pop((grown.start, grown.end), None)
