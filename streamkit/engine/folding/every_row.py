"""
Rows folded one by one: the state of a group after each of its rows, and a result for each.

Many rows are folded a piece at a time: but for the numbers of groups, what is made on the way has the size of a piece. The
states of groups go on from one to the next. Every aggregate adds a row to the state before it (`aggregates.running`), so pieces
change no result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.folding.changes import previous_of_code, with_old_values
from streamkit.engine.folding.group_state import (
    GroupStates,
    Updated,
    as_numbers,
    decoded,
    lifted,
    rows_of_results,
    sorted_groups,
    stored_states,
)
from streamkit.engine.folding.windows import RowsInWindows, turns
from streamkit.engine.rows.place import place_columns
from streamkit.engine.rows.rows import OptionalBatch, concatenate, numbers
from streamkit.engine.stage.context import Context
from streamkit.expressions.aggregates import per_aggregate, result, running
from streamkit.expressions.core.groups import group
from streamkit.names import KEY_GROUP, TIMESTAMP, WINDOW
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.operators.aggregate import Aggregate

PIECE_ROWS = (1 << 16, 1 << 19)  # at least and at most
PIECE_SHARE = 2  # between them a piece has one of so many parts of the records that came
NUMBERS_MAX = 1 << 62  # of groups
STATES_SHARE = 2  # up to so many times the groups, states are kept that newer ones have replaced
TABLE_SHARE = 2  # up to so many times the rows, ranks stand in a table that has the numbers of groups as places


@dataclass(frozen=True, eq=False)
class Before:
    """The states of groups before rows are folded in: which groups have one; of these, in order, the largest event times and the state columns."""

    known: Mask
    timestamps: Integers
    states: list[pa.Array]

    @classmethod
    def stored(cls, operator: Aggregate, values: pa.BinaryArray) -> Before:
        """What is stored of each group; null is nothing."""
        return cls(values.is_valid().to_numpy(zero_copy_only=False), *decoded(operator, values.drop_null()))

    @cached_property
    def places(self) -> Integers:
        """Where the state of each group stands; -1 if it has none."""
        return np.where(self.known, np.cumsum(self.known) - 1, -1)

    def columns(self) -> list[pa.Array]:
        """The state columns, with a row for each group: null if it has none."""
        places = pa.array(self.places, mask=~self.known)
        return [column.take(places) for column in self.states]


@dataclass(eq=False)
class Newest:
    """
    The newest states of groups, which `put` replaces.

    What is replaced stays until there is as much of it as there are groups, since letting it go copies all states.
    """

    places: Integers
    timestamps: Integers
    states: list[pa.Array]

    @classmethod
    def of_before(cls, before: Before) -> Newest:
        return cls(before.places, before.timestamps, before.states)

    def of(self, groups: Integers) -> Before:
        """The states of some groups."""
        places = self.places[groups]
        known = places >= 0
        return Before(known, *self._at(places[known]))

    def put(self, groups: Integers, newest: GroupStates) -> None:
        """From now on these groups have these states."""
        self.places[groups] = len(self.timestamps) + np.arange(len(groups))
        self.timestamps = np.concatenate([self.timestamps, newest.timestamps])
        self.states = [pa.concat_arrays([old, new.cast(old.type)]) for old, new in zip(self.states, newest.states, strict=True)]
        if len(self.timestamps) > STATES_SHARE * len(self.places):
            self._let_go()

    def _let_go(self) -> None:
        known = self.places >= 0
        self.timestamps, self.states = self._at(self.places[known])
        self.places[known] = np.arange(len(self.timestamps))

    def _at(self, places: Integers) -> tuple[Integers, list[pa.Array]]:
        return self.timestamps[places], [column.take(pa.array(places)) for column in self.states]


@dataclass(frozen=True, eq=False)
class FoundGroups:
    """The groups that rows fall into, sorted by state key: their states before, and for each row the position of its group."""

    keys: pa.BinaryArray
    groups: GroupStates
    before: Before
    ranks: Integers

    def updated(self, newest: GroupStates) -> Updated:
        """The groups with their newest states."""
        return Updated(self.keys, self.groups.with_states(newest.timestamps, newest.states), self.before.known)


@dataclass(frozen=True, eq=False)
class EachRow:
    """Rows that were folded one by one: what is folded of its group after each row, each group's newest state, and the results by mode."""

    after: GroupStates
    newest: GroupStates
    results: dict[str, OptionalBatch]


class OtherStates(Protocol):
    """The states of aggregates that are made otherwise than by folding rows."""

    @property
    def folded(self) -> Sequence[TypedAggregate]:
        """The aggregates that are folded."""
        ...

    def completed(self, groups: GroupStates, rows: Integers) -> GroupStates:
        """The groups after these rows, which have the states that are folded, with the states of all aggregates."""
        ...


def groups_of_rows(operator: Aggregate, batch: pa.RecordBatch) -> GroupStates:
    """Each row as a group of its own, with the state of the row alone."""
    states = lifted(operator.aggregates, batch)
    windows = numbers(batch, WINDOW) if operator.window else None
    return GroupStates(
        [batch[name] for name in operator.key], windows, numbers(batch, TIMESTAMP), states, numbers(batch, KEY_GROUP)
    )


def find_groups(operator: Aggregate, rows: GroupStates, context: Context) -> FoundGroups:
    """The groups of rows, and what is stored of them."""
    codes, first = _codes(rows)
    keys, groups, rank_of_code = sorted_groups(operator, rows.take(first), context)
    return FoundGroups(keys, groups, _stored(operator, keys, groups, context), rank_of_code[codes])


def _stored(operator: Aggregate, keys: pa.BinaryArray, groups: GroupStates, context: Context) -> Before:
    return Before.stored(operator, stored_states(operator, keys, groups, context))


def each_result(
    operator: Aggregate,
    batch: pa.RecordBatch,
    rows: GroupStates,
    before: Before,
    ranks: Integers,
    gives: Mask | None = None,
    others: OtherStates | None = None,
) -> EachRow:
    """
    Fold row by row: the states after each row, those of each group after its last, and the results, by mode.

    `rows` has the state of each row of the batch alone, `ranks` the position of its group among those of `before`. `gives` says which
    rows give a result; None: all do. `others` are states that are not folded; then `rows` has only those that are.
    """
    folded = _running(operator, operator.aggregates if others is None else others.folded, rows, before, ranks)
    last = np.full(len(before.known), -1, np.int64)
    last[ranks] = np.arange(batch.num_rows)  # of several rows of a group the last one is written last
    gives_each = operator.gives_each
    after = others.completed(folded, np.arange(batch.num_rows)) if others is not None and gives_each else folded
    newest = after.states_at(last)
    if not gives_each:
        return EachRow(folded, newest if others is None else others.completed(newest, last), {})
    if gives is not None and not gives.all():
        after, batch, ranks = after.take(np.flatnonzero(gives)), batch.filter(pa.array(gives)), ranks[gives]
    every = rows_of_results(operator, after, place_columns(batch))
    each: dict[str, OptionalBatch] = {"every": every}
    if WITH_OLD_VALUES in operator.modes:
        each[WITH_OLD_VALUES] = _with_old_values(operator, every, ranks, before)
    return EachRow(folded, newest, each)


def _with_old_values(operator: Aggregate, every: pa.RecordBatch, ranks: Integers, stored: Before) -> pa.RecordBatch:
    """Each result as two rows: the result of its group before it, then itself."""
    before = {one.name: result(one, own) for one, own in per_aggregate(operator.aggregates, stored.states)}
    # What a result replaces is that of the row of its group before it, or what was stored, which stands in front of the results.
    previous = previous_of_code(ranks)
    replaced = np.where(previous >= 0, previous + len(stored.timestamps), stored.places[ranks])
    values = {name: pa.concat_arrays([column, every[name].cast(column.type)]) for name, column in before.items()}
    return with_old_values(every, values, replaced)


def _codes(rows: GroupStates) -> tuple[Integers, Integers]:
    """A number for each row's group, and the first row of each group."""
    columns = [*rows.keys, *([pa.array(rows.windows)] if rows.windows is not None else [])]
    found, _ = group(columns, len(rows.timestamps))
    first = np.full(found.size, -1, np.int64)
    first[found.codes[::-1]] = np.arange(len(found.codes))[::-1]  # written backwards, so that the first row stays
    used = first >= 0  # some numbers may belong to no row; the others close up
    return (np.cumsum(used) - 1)[found.codes], first[used]


def _running(
    operator: Aggregate, folded: Sequence[TypedAggregate], rows: GroupStates, before: Before, ranks: Integers
) -> GroupStates:
    """The states of `folded` after each row: the state of its group before, then the rows up to and with it."""
    # States before are put in front, as if they were first rows of their groups; what comes of these is cut off again.
    known = np.flatnonzero(before.known)
    own = [column for one, columns in per_aggregate(operator.aggregates, before.states) if one in folded for column in columns]
    old = [pa.array(before.timestamps, pa.int64()), *own]
    new = [pa.array(rows.timestamps, pa.int64()), *rows.states]
    added = [column.cast(other.type) for other, column in zip(old, new, strict=True)]
    both = [pa.concat_arrays(pair) for pair in zip(old, added, strict=True)] if len(known) else added
    times, *columns = both
    largest, *running_states = running(np.concatenate([known, ranks]), [times], folded, columns)
    skip = len(known)
    return replace(rows, timestamps=as_numbers(largest)[skip:], states=[column.slice(skip) for column in running_states])


def piece_rows(records: int) -> int:
    """
    About how many rows a piece has, once a window.

    The larger it is, the fewer groups are looked up again and again, and the more often keys repeat in a frame. It grows with the
    records that came, which are in memory anyway, and not with their windows, which may be many.
    """
    least, most = PIECE_ROWS
    return max(least, min(most, records // PIECE_SHARE))


@dataclass(eq=False)
class PieceByPiece:
    """
    Rows that are folded row by row, a piece at a time, once.

    `keys`, sorted, are the state keys of all `groups` that rows fall into. `newest` has the states that these have reached; `was_stored`
    says which of them have a stored one.
    """

    operator: Aggregate
    rows: RowsInWindows
    pieces: list[slice]
    numbering: GroupNumbers
    keys: pa.BinaryArray
    groups: GroupStates
    ranks: Callable[[Integers], Integers]
    newest: Newest
    was_stored: Mask

    @classmethod
    def of(cls, operator: Aggregate, rows: RowsInWindows, context: Context) -> PieceByPiece | None:
        """
        The rows with the groups they fall into; None if they are not worth it.

        They are not if they are few, if their groups cannot be numbered, as windows are too far apart, or if windows of one row
        stand between those of another in canonical order.
        """
        if rows.total <= piece_rows(rows.rows.num_rows) or rows.are_mixed:
            return None
        numbering = GroupNumbers.of(operator, rows)
        if numbering is None:
            return None
        pieces = rows.in_pieces(piece_rows(rows.rows.num_rows))
        used = numbering.used(pieces)
        keys, groups, rank_of_used = sorted_groups(operator, numbering.groups(operator, used), context)
        before = _stored(operator, keys, groups, context)
        ranks = _ranks_by_number(numbering, used, rank_of_used)
        return cls(operator, rows, pieces, numbering, keys, groups, ranks, Newest.of_before(before), before.known)

    def all_results(self) -> dict[str, OptionalBatch]:
        """The results after each row, by mode, of all pieces together."""
        pieces = list(self.results())
        return {mode: concatenate([rows for piece in pieces if (rows := piece[mode]) is not None]) for mode in pieces[0]}

    def results(self) -> Iterator[dict[str, OptionalBatch]]:
        """The results after each row, by mode, piece by piece."""
        for piece in self.pieces:
            batch = self.rows.once_a_window(piece)
            own, ranks = _of_piece(self.ranks(self.numbering.of_piece(piece)), len(self.keys))
            rows = groups_of_rows(self.operator, batch)
            each = each_result(self.operator, batch, rows, self.newest.of(own), ranks)
            self.newest.put(own, each.newest)
            yield each.results

    def updated(self) -> Updated:
        """The groups with the states that they have reached: in the end, those behind all rows."""
        reached = self.newest.of(np.arange(len(self.keys)))
        return Updated(self.keys, self.groups.with_states(reached.timestamps, reached.states), self.was_stored)


@dataclass(frozen=True, eq=False)
class GroupNumbers:
    """
    A number for every group that rows may fall into: `width` numbers for each key, one a window from `least` on.

    `keys` numbers the key of each row; `rows_of_keys` has some row of each key, -1 if there is none.
    """

    rows: RowsInWindows
    keys: Integers
    rows_of_keys: Integers
    least: int
    width: int

    @classmethod
    def of(cls, operator: Aggregate, rows: RowsInWindows) -> GroupNumbers | None:
        """The numbers of rows, some of which are in a window; None if there are too many."""
        found, _ = group([rows.rows[name] for name in operator.key], rows.rows.num_rows)
        rows_of_keys = np.full(found.size, -1, np.int64)
        rows_of_keys[found.used] = found.rows
        is_there, apart_ms = rows.windows > 0, rows.apart_ms
        least = int(rows.oldest[is_there].min())
        width = (int((rows.oldest + (rows.windows - 1) * apart_ms)[is_there].max()) - least) // apart_ms + 1
        return cls(rows, found.codes, rows_of_keys, least, width) if found.size * width < NUMBERS_MAX else None

    @property
    def size(self) -> int:
        return len(self.rows_of_keys) * self.width

    def of_piece(self, rows: slice) -> Integers:
        """The numbers of some rows, each once for every window."""
        windows = self.rows.windows[rows]
        oldest = self.keys[rows] * self.width + (self.rows.oldest[rows] - self.least) // self.rows.apart_ms
        return oldest if (windows == 1).all() else np.repeat(oldest, windows) + turns(windows)

    def used(self, pieces: Sequence[slice]) -> Integers:
        """The numbers that occur, sorted."""
        if self.is_dense:
            occurs = np.zeros(self.size, bool)
            for piece in pieces:
                occurs[self.of_piece(piece)] = True
            return np.flatnonzero(occurs)
        return np.unique(np.concatenate([np.unique(self.of_piece(piece)) for piece in pieces]))

    @cached_property
    def is_dense(self) -> bool:
        """Whether a table with a place for each number is small beside the rows."""
        return self.size <= TABLE_SHARE * self.rows.total

    def groups(self, operator: Aggregate, numbers: Integers) -> GroupStates:
        """The groups of these numbers, without states."""
        rows = self.rows_of_keys[numbers // self.width]
        windows = self.least + numbers % self.width * self.rows.apart_ms
        batch = self.rows.rows
        return GroupStates(
            [batch[name].take(pa.array(rows)) for name in operator.key],
            windows if operator.window else None,
            np.zeros(len(numbers), np.int64),
            [],
            as_numbers(batch[KEY_GROUP])[rows],
        )


def _of_piece(ranks: Integers, groups: int) -> tuple[Integers, Integers]:
    """The groups that the rows of a piece fall into, out of so many, and for each row the position of its own among them."""
    occurs = np.zeros(groups, bool)
    occurs[ranks] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[ranks]


def _ranks_by_number(numbering: GroupNumbers, used: Integers, ranks: Integers) -> Callable[[Integers], Integers]:
    """What tells the ranks of numbers, given those of the numbers that are used."""
    if not numbering.is_dense:
        return lambda wanted: ranks[np.searchsorted(used, wanted)]
    table = np.zeros(numbering.size, np.int32)
    table[used] = ranks
    return lambda wanted: table[wanted].astype(np.int64)
