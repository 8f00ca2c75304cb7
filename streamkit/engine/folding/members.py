"""
The members of groups: the values that the rows of each group have now, and how often, for aggregates that cannot subtract.

A store has one entry for each group, aggregate and member, in the order of the members' bytes; so the first members of a group lie
side by side. Of a group only these are read, as many as could be needed after all rows of the epoch have left, and those that rows touch.

Each member, or each of its copies, is there from the row that adds it up to the row that takes it away: an interval of the rows of its
group. So the members after a row are the intervals that cover it, and are found for all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.engine.stage.context import Context
from streamkit.errors import EvaluationError
from streamkit.expressions.aggregates import Members
from streamkit.expressions.aggregates.leading import NOTHING, first_covering, first_of_each
from streamkit.log.values.byte_order import byte_order
from streamkit.log.values.keys import encode_keys
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.program import ProgramStore
from streamkit.state.layout import layout_of
from streamkit.state.row import decode_rows, encode_rows

WIDTH_MAX = 16  # so many first members are found by intervals; of more all intervals are written out
FOLLOWING = b"\x02"  # behind every member of a group: these begin with the tag of a value
COPIES_MAX = 2**62
YOUNG = (
    "was the grouping added to a table that had rows already, by a version that did not fill it? Give it another store=, which is filled "
    "with the table's rows, and delete this one by app.drop_store(…); or reset the application"
)


@dataclass(frozen=True, eq=False)
class GroupRows:
    """
    Rows that are added to groups or taken from them, in their order.

    `groups` has the position of each row's group; `keys` and `key_groups` are those of the groups.
    """

    groups: Integers
    is_added: Mask
    timestamps: Integers
    keys: list[pa.Array]
    key_groups: Integers


@dataclass(frozen=True, eq=False)
class MemberStore:
    """The store of members of an operator in an epoch."""

    name: str
    context: Context

    def counts(self, keys: pa.BinaryArray) -> Integers:
        """How often each member is stored."""
        order = byte_order(keys)
        found = self.context.committed_state().get(keys.take(order))
        back = np.empty(len(keys), np.int64)
        back[order.to_numpy()] = np.arange(len(keys))
        return _counts(found)[back]

    def keys(self, rows: GroupRows, groups: Integers, aggregate: str, members: pa.BinaryArray | None = None) -> pa.BinaryArray:
        """The state keys of members of groups, or what those of all members of a group begin with."""
        columns = [column.take(pa.array(groups)) for column in rows.keys]
        columns.append(pa.array([aggregate]).take(pa.array(np.zeros(len(groups), np.int64))))
        if members is not None:
            columns.append(members)
        return layout_of(self.store).keys(self.number, rows.key_groups[groups], columns)

    def first(
        self, rows: GroupRows, groups: Integers, aggregate: str, limits: list[int | None]
    ) -> tuple[Integers, pa.Array, Integers]:
        """The first stored members of each group: their groups, the members, and how often each is there."""
        starts = self.keys(rows, groups, aggregate).to_pylist()
        found: list[tuple[pa.Array, pa.Array]] = []
        for start, limit in zip(starts, limits, strict=True):
            found.append(self.context.committed_state().scan([(start, start + FOLLOWING)], [limit]))
        owners = np.repeat(groups, [len(keys) for keys, _ in found])
        keys, values = (pa.concat_arrays([one[part] for one in found]) for part in (0, 1))
        types = [column.type for column in self.store.key]
        members = layout_of(self.store).split(keys, types)[2][-1] if len(keys) else pa.array([], pa.binary())
        return owners, members, _counts(values)

    @property
    def store(self) -> ProgramStore:
        return self.context.store(self.name)

    @property
    def number(self) -> int:
        return self.context.store_number(self.name)


def _counts(values: pa.BinaryArray) -> Integers:
    counts = decode_rows(values, ["bigint", "bigint"])[1].fill_null(0)
    found: Integers = counts.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


@dataclass(frozen=True, eq=False)
class ChangedMembers:
    """
    Members with changed counts: state keys, the new count of each, and the times of the rows that changed it last.

    `was_stored` says which of them were there before.
    """

    keys: pa.BinaryArray
    counts: Integers
    timestamps: Integers
    was_stored: Mask


@dataclass(frozen=True, eq=False)
class _Touched:
    """The members that rows touch: `of_rows` has the one that each of `rows` touches. They are in the order of their bytes."""

    rows: Integers
    of_rows: Integers
    groups: Integers
    members: pa.Array
    stored: Integers
    keys: pa.BinaryArray


def member_states(
    aggregate: TypedAggregate, kept: Members, members: pa.BinaryArray, rows: GroupRows, store: MemberStore, wanted: Integers,
    stored: pa.Array,
) -> tuple[list[pa.Array], ChangedMembers]:  # fmt: skip
    """
    The state columns of an aggregate after each of the `wanted` rows, and what rows change in the store.

    `members` are those of the rows, null of a row that has none; `stored` is the first state column of each group, null without state.
    """
    touched = _touched(aggregate, members, rows, store)
    counts = _running_counts(touched, rows)
    _check(aggregate, touched, counts, rows)
    if kept.is_number:
        states = kept.states(aggregate, pa.array(_numbers(touched, counts, rows, stored)[wanted]))
    else:
        limit = kept.first(aggregate)
        states = kept.states(aggregate, _lists(aggregate, kept, limit, touched, counts, rows, store, wanted))
    return states, _changed(touched, counts, rows)


def _touched(aggregate: TypedAggregate, members: pa.BinaryArray, rows: GroupRows, store: MemberStore) -> _Touched:
    """The distinct (member, group) among the rows that have a member, numbered in the order of their bytes, with what is stored of each."""
    places = np.flatnonzero(members.is_valid().to_numpy(zero_copy_only=False))
    found = members.drop_null()
    encoded = encode_keys([found, pa.array(rows.groups[places])]).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    of_rows = rank[encoded.indices.to_numpy()] if len(found) else np.empty(0, np.int64)
    some = np.zeros(len(order), np.int64)  # some row of each, which has its member and its group
    some[of_rows] = np.arange(len(places))
    groups, distinct = rows.groups[places][some], found.take(pa.array(some))
    keys = store.keys(rows, groups, aggregate.name, distinct)
    return _Touched(places, of_rows, groups, distinct, store.counts(keys), keys)


def _running_counts(touched: _Touched, rows: GroupRows) -> Integers:
    """How often the member that a row touches is there after it."""
    # Rows of one member are laid side by side, in their order. A sum of their steps that runs over all members has at each row, beside its
    # own member's, the steps of those in front: what the sum had reached where the member begins is taken off.
    order = np.argsort(touched.of_rows, kind="stable")
    own = touched.of_rows[order]
    steps = np.cumsum(np.where(rows.is_added[touched.rows][order], 1, -1))
    before = np.concatenate([[0], steps])[np.searchsorted(own, own)]
    counts = np.empty(len(order), np.int64)
    counts[order] = touched.stored[own] + steps - before
    return counts


def _check(aggregate: TypedAggregate, touched: _Touched, counts: Integers, rows: GroupRows) -> None:
    """EvaluationError if a value leaves a group in which it is not."""
    below = np.flatnonzero(counts < 0)
    if len(below):
        group = [column[int(rows.groups[touched.rows[below[0]]])].as_py() for column in rows.keys]
        raise EvaluationError(
            f"more rows were taken from the group {group} than it had, for {aggregate.name}; expected only rows that were added before: "
            f"{YOUNG}"
        )


def _numbers(touched: _Touched, counts: Integers, rows: GroupRows, stored: pa.Array) -> Integers:
    """How many distinct members the group of each row has after it."""
    # A row counts where it brings the first copy of a member, or takes the last one; then sums as in `_running_counts`, by group.
    added = rows.is_added[touched.rows]
    steps = np.zeros(len(rows.groups), np.int64)
    steps[touched.rows] = np.where(added & (counts == 1), 1, np.where(~added & (counts == 0), -1, 0))
    order = np.argsort(rows.groups, kind="stable")
    own = rows.groups[order]
    total = np.cumsum(steps[order])
    numbers = np.empty(len(order), np.int64)
    before = np.concatenate([[0], total])[np.searchsorted(own, own)]
    numbers[order] = stored.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)[own] + total - before
    return numbers


def _changed(touched: _Touched, counts: Integers, rows: GroupRows) -> ChangedMembers:
    last = np.zeros(len(touched.groups), np.int64)
    last[touched.of_rows] = np.arange(len(touched.of_rows))  # of several rows the last one is written last
    changed = np.flatnonzero(counts[last] != touched.stored) if len(last) else last
    timestamps = rows.timestamps[touched.rows][last][changed]
    return ChangedMembers(touched.keys.take(pa.array(changed)), counts[last][changed], timestamps, touched.stored[changed] > 0)


def _lists(
    aggregate: TypedAggregate, kept: Members, limit: int | None, touched: _Touched, counts: Integers, rows: GroupRows,
    store: MemberStore, wanted: Integers,
) -> pa.Array:  # fmt: skip
    """The first members of the groups of the wanted rows after them, as lists."""
    # Intervals of two kinds: of members that rows touch, and of stored ones that no row touches, which are there all the time. Of a group so
    # many more of the stored ones are read as rows touch, since all of these may leave and let others move up.
    copies = 1 if kept.is_set else COPIES_MAX if limit is None else limit
    per_group = np.bincount(touched.groups, minlength=len(rows.key_groups))
    groups = np.unique(rows.groups[wanted])
    limits = [None if limit is None else limit + int(per_group[group]) for group in groups]
    owners, members, stored = store.first(rows, groups, aggregate.name, limits)
    others = _without(owners, members, touched)
    owners, members, stored = owners[others], members.take(pa.array(others)), stored[others]

    time = _Time(rows.groups, wanted)
    first = len(touched.groups)
    found = [
        _intervals_of_touched(touched, counts, rows, time, copies),
        _repeated(first + np.arange(len(owners)), np.minimum(stored, copies), time.first[owners], time.end[owners]),
    ]
    entries, copy, starts, ends = (np.concatenate([one[part] for one in found]) for part in range(4))
    values = pa.concat_arrays([touched.members.cast(pa.binary()), members.cast(pa.binary())])
    # From here on time has only the wanted rows; an interval that covers none of them is left out.
    starts, ends = time.point_from(starts), time.point_from(ends)
    there = starts < ends
    entries, copy, starts, ends = entries[there], copy[there], starts[there], ends[there]
    # In the order of values, so that the first intervals to cover a row are its first members.
    order = np.lexsort((copy, _ranks(values)[entries]))
    points, places = _covering(starts[order], ends[order], len(wanted), limit)
    offsets = np.searchsorted(points, np.arange(len(wanted) + 1)).astype(np.int32)
    in_time = pa.ListArray.from_arrays(
        pa.array(offsets), values.take(pa.array(entries[order][places])), type=pa.list_(pa.binary())
    )
    return in_time.take(pa.array(time.point_of_wanted))


def _without(owners: Integers, members: pa.Array, touched: _Touched) -> Integers:
    """The places of the members that no row touches."""
    if not len(owners):
        return owners
    own, others = (
        encode_keys([pa.array(groups), of_groups]) for groups, of_groups in ((owners, members), (touched.groups, touched.members))
    )
    return np.flatnonzero(~pc.is_in(own, value_set=others).to_numpy(zero_copy_only=False))


class _Time:
    """
    The rows in a line, those of a group side by side, in their order; `of_rows` are their places.

    Points are the wanted rows in this order, which are all that matters.
    """

    def __init__(self, groups: Integers, wanted: Integers) -> None:
        order = np.argsort(groups, kind="stable")
        self.of_rows = np.empty(len(order), np.int64)
        self.of_rows[order] = np.arange(len(order))
        size = int(groups.max(initial=-1)) + 1
        self.first = np.searchsorted(groups[order], np.arange(size), "left")
        self.end = np.searchsorted(groups[order], np.arange(size), "right")
        self._points = np.sort(self.of_rows[wanted])
        self.point_of_wanted = np.searchsorted(self._points, self.of_rows[wanted])

    def point_from(self, places: Integers) -> Integers:
        """The first point at or behind each place."""
        points: Integers = np.searchsorted(self._points, places)
        return points


Intervals = tuple[Integers, Integers, Integers, Integers]  # of which member, which of its copies, from which place, up to which


def _intervals_of_touched(touched: _Touched, counts: Integers, rows: GroupRows, time: _Time, copies: int) -> Intervals:
    """From each place where a copy of a member comes to that where it goes, or to the end of the group."""
    at_start = _repeated(np.arange(len(touched.groups)), np.minimum(touched.stored, copies), time.first[touched.groups], None)
    added = rows.is_added[touched.rows]
    copy = np.where(
        added, counts, counts + 1
    )  # a row brings the copy that makes the count what it is after it, or takes the one before
    few = copy <= copies
    members = np.concatenate([at_start[0], touched.of_rows[few]])
    numbers = np.concatenate([at_start[1], copy[few]])
    places = np.concatenate([at_start[2], time.of_rows[touched.rows][few]])
    comes = np.concatenate([np.ones(len(at_start[0]), bool), added[few]])
    is_row = np.repeat([False, True], [len(at_start[0]), int(few.sum())])  # the first row of a group may take away what was there
    # In this order each copy comes and goes in turn, so what comes ends where the next one of the same copy stands.
    order = np.lexsort((is_row, places, numbers, members))
    members, numbers, places, comes = members[order], numbers[order], places[order], comes[order]
    ends = time.end[touched.groups[members]] if len(members) else places.copy()
    goes = np.flatnonzero((members[1:] == members[:-1]) & (numbers[1:] == numbers[:-1]))
    ends[goes] = places[goes + 1]
    return members[comes], numbers[comes], places[comes], ends[comes]


def _repeated(members: Integers, times: Integers, starts: Integers, ends: Integers | None) -> Intervals:
    """Each member as often as it is there, its copies numbered from 1."""
    numbers = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times) + 1
    until = np.repeat(starts if ends is None else ends, times)
    return np.repeat(members, times), numbers, np.repeat(starts, times), until


def _ranks(values: pa.Array) -> Integers:
    """A number for each, equal for equal ones and growing with them."""
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks[encoded.indices.to_numpy()] if len(values) else np.empty(0, np.int64)


def _covering(starts: Integers, ends: Integers, points: int, limit: int | None) -> tuple[Integers, Integers]:
    """The points, in order, and for each the numbers of the first intervals that cover it."""
    if limit is not None and limit <= WIDTH_MAX and len(starts):
        table = first_covering(starts, ends, points, limit)
        covered, columns = np.nonzero(table != NOTHING)
        return covered, table[covered, columns]
    # All of them written out: an interval as the points from its start to its end, one after the other.
    lengths = ends - starts
    covered = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths - starts, lengths)
    numbers = np.repeat(np.arange(len(starts)), lengths)
    kept = first_of_each(covered, numbers, np.full(points, len(starts) if limit is None else limit))
    return covered[kept], numbers[kept]


def keep_members(store: MemberStore, changes: Sequence[ChangedMembers]) -> None:
    """Write the numbers of members to the changelog; a member that is not there any more is deleted."""
    keys = pa.concat_arrays([one.keys for one in changes])
    order = byte_order(keys)
    names = ("counts", "timestamps", "was_stored")
    counts, timestamps, was_stored = (np.concatenate([getattr(one, name) for one in changes])[order.to_numpy()] for name in names)
    values = encode_rows([pa.array(timestamps, pa.int64()), pa.array(counts)])
    gone = pa.array(counts == 0)
    store.context.change(
        store.name, keys.take(order), pc.if_else(gone, pa.scalar(None, pa.binary()), values), timestamps, was_stored
    )
