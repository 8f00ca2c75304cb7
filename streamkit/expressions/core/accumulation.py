"""
Sums, minima and maxima of a column: per group, or running within each group.

Null is neutral. Floating-point sums add one value after the other, in the order of the rows. NaN is the greatest value, as in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import isqrt
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import AnyArray, Integers, Mask
from streamkit.expressions.core.groups import Groups
from streamkit.expressions.core.same_numbers import ones
from streamkit.log.values.columns import DECIMAL, canonical, fixed_array, fixed_dtype, fixed_values, valid_rows

FEW_CODES = 8
COUNTED_SHARE = 4  # up to so many times the rows, they are counted in a table with a place for each group


@dataclass(frozen=True, eq=False)
class Runs:
    """The rows that each row of the result combines, in their order: `order[start:end]`, with a start and an end for each."""

    order: Integers
    starts: Integers
    ends: Integers

    @property
    def owners(self) -> Integers | None:
        """Which row of the result each row goes into; None if some go into several."""
        sizes = self.ends - self.starts
        if int(sizes.sum()) != len(self.order):
            return None
        owners = np.empty_like(self.order)
        owners[self.order[self.places(sizes)]] = np.repeat(np.arange(len(sizes)), sizes)
        return owners

    def places(self, sizes: Integers) -> Integers:
        """The places in `order` of the rows of all runs, of these sizes, one run behind the other."""
        return np.arange(int(sizes.sum())) + np.repeat(self.starts - np.cumsum(sizes) + sizes, sizes)


class Accumulator(Protocol):
    """How rows are combined: values by a ufunc, from a neutral value; or the rows themselves, if no ufunc can do it."""

    def __call__(self, ufunc: np.ufunc, values: AnyArray, neutral: Any) -> AnyArray: ...

    @property
    def runs(self) -> Runs: ...


@dataclass(frozen=True, eq=False)
class _PerGroup:
    groups: Groups

    def __call__(self, ufunc: np.ufunc, values: AnyArray, neutral: Any) -> AnyArray:
        groups = self.groups
        if len(values) == groups.size == 1:
            alone: AnyArray = ufunc(np.full(1, neutral, values.dtype), values)
            return alone
        if ufunc is np.add and values.dtype == np.float64 and len(values):
            return np.bincount(groups.codes, weights=values, minlength=groups.size)[groups.used]
        if ufunc is np.add and ones.share(values):
            return np.bincount(groups.codes, minlength=groups.size)[groups.used].astype(np.int64, copy=False)
        if ufunc is np.maximum and _never_fall(values):
            return values[groups.rows]
        totals = np.full(groups.size, neutral, values.dtype)
        ufunc.at(totals, groups.codes, values)
        return totals[groups.used]

    @cached_property
    def runs(self) -> Runs:
        order = stable_order(self.groups.codes)
        codes, used = self.groups.codes[order], self.groups.used
        return Runs(order, np.searchsorted(codes, used, "left"), np.searchsorted(codes, used, "right"))


def _never_fall(values: AnyArray) -> bool:
    """Whether no integer is less than the one before, as event times often are not: then the greatest so far is the last."""
    return values.dtype.kind in "iu" and bool((values[1:] >= values[:-1]).all())


@dataclass(frozen=True, eq=False)
class _WithinGroups:
    order: Integers
    starts: Integers
    sizes: Integers

    def __call__(self, ufunc: np.ufunc, values: AnyArray, neutral: Any) -> AnyArray:
        if ufunc is np.maximum and _never_fall(values):
            return values
        if ufunc is np.add and ones.share(values):
            return self.turns.numbers
        return self.turns.accumulated(ufunc, values)

    @cached_property
    def turns(self) -> _Turns:
        return _Turns.of(self.order, self.starts, self.sizes)

    @cached_property
    def runs(self) -> Runs:
        starts, ends = np.empty_like(self.order), np.empty_like(self.order)
        starts[self.order] = np.repeat(self.starts, self.sizes)
        ends[self.order] = np.arange(1, len(self.order) + 1)
        return Runs(self.order, starts, ends)


@dataclass(frozen=True, eq=False)
class _AfterRows:
    """As within groups, but after some of the rows alone."""

    within: _WithinGroups
    rows: Integers

    def __call__(self, ufunc: np.ufunc, values: AnyArray, neutral: Any) -> AnyArray:
        return self.within(ufunc, values, neutral)[self.rows]

    @cached_property
    def runs(self) -> Runs:
        every = self.within.runs
        return Runs(every.order, every.starts[self.rows], every.ends[self.rows])


@dataclass(frozen=True, eq=False)
class _Turns:
    """
    Rows laid out by turns: the first rows of all groups side by side, then the second ones, groups with more rows in front.

    So what each turn adds to the one before is one addition of neighbours. `places` has the place of each row; `turns` has the turns of
    the rows `order`, from 0 on; the groups of turn i are `sizes[i]`. Few groups have many rows: these stand behind, one after the
    other, from `tail` on, each up to the next of `ends`.
    """

    places: Integers
    order: Integers
    turns: Integers
    sizes: Integers
    tail: int
    ends: Integers

    @classmethod
    def of(cls, order: Integers, starts: Integers, sizes: Integers) -> _Turns:
        is_long = sizes > isqrt(len(order)) + 16
        short = sizes[~is_long]
        largest = int(short.max()) if len(short) else 0
        groups_of_turn = len(short) - np.cumsum(np.bincount(short, minlength=largest + 1))[:-1]
        begins = np.concatenate([[0], np.cumsum(groups_of_turn)])
        ends = begins[-1] + np.cumsum(sizes[is_long])
        seats = np.empty(len(sizes), np.int64)
        by_size = np.empty(len(short), np.int64)
        by_size[stable_order(largest - short)] = np.arange(len(short))
        seats[~is_long], seats[is_long] = by_size, ends - sizes[is_long]
        turns, seat = _counted(starts, sizes), _repeated(seats, starts, sizes)
        if is_long.any():
            of_long = np.repeat(is_long, sizes)
            seat += np.where(of_long, turns, begins[np.where(of_long, 0, turns)])
        else:
            seat += begins[turns]
        places = np.empty(len(order), np.int64)
        places[order] = seat
        return cls(places, order, turns, groups_of_turn, int(begins[-1]), ends)

    @cached_property
    def numbers(self) -> Integers:
        """The turn of each row, from 1 on."""
        numbers = np.empty(len(self.order), np.int64)
        numbers[self.order] = self.turns + 1
        return numbers

    def accumulated(self, ufunc: np.ufunc, values: AnyArray) -> AnyArray:
        """The running totals of each group, strictly from its first row to its last."""
        totals = np.empty_like(values)
        totals[self.places] = values
        before, here = 0, int(self.sizes[0]) if len(self.sizes) else 0
        for groups in self.sizes[1:].tolist():
            turn = totals[here : here + groups]
            ufunc(totals[before : before + groups], turn, out=turn)
            before, here = here, here + groups
        begin = self.tail
        for end in self.ends.tolist():
            run = totals[begin:end]
            ufunc.accumulate(run, out=run)
            begin = end
        return totals[self.places]


def _counted(starts: Integers, sizes: Integers) -> Integers:
    """0, 1, 2 and so on for each group, so many numbers as it has rows."""
    steps = np.ones(int(sizes.sum()), np.int64)
    steps[starts] = 1 - np.concatenate([[1], sizes[:-1]])
    return np.cumsum(steps, out=steps)


def _repeated(values: Integers, starts: Integers, sizes: Integers) -> Integers:
    """The value of each group as often as it has rows; for small groups a sum of steps is faster than `np.repeat`."""
    steps = np.zeros(int(sizes.sum()), np.int64)
    steps[starts] = np.diff(values, prepend=0)
    return np.cumsum(steps, out=steps)


def first_rows(is_there: Mask, accumulate: Accumulator) -> Integers:
    """The first of the rows that each result combines for which `is_there`; -1 if there is none."""
    runs = accumulate.runs
    places = np.flatnonzero(is_there[runs.order])
    return _rows_at(places, np.searchsorted(places, runs.starts), runs)


def last_rows(is_there: Mask, accumulate: Accumulator) -> Integers:
    """As `first_rows`, of the last ones."""
    runs = accumulate.runs
    places = np.flatnonzero(is_there[runs.order])
    return _rows_at(places, np.searchsorted(places, runs.ends) - 1, runs)


def _rows_at(places: Integers, found: Integers, runs: Runs) -> Integers:
    """The rows at some of the `places`, where these lie within the runs."""
    if not len(places):
        return np.full(len(found), -1, np.int64)
    place = places[np.clip(found, 0, len(places) - 1)]
    is_inside = (found >= 0) & (found < len(places)) & (place >= runs.starts) & (place < runs.ends)
    return np.where(is_inside, runs.order[place], -1)


def chosen(column: pa.Array, rows: Integers) -> pa.Array:
    """The values of some rows; null where a row is -1."""
    return column.take(pa.array(rows, mask=rows < 0))


def per_group(groups: Groups) -> Accumulator:
    """One value for each group, in the order of `groups.rows`."""
    return _PerGroup(groups)


def within_groups(codes: Integers, rows: Integers | None = None) -> Accumulator:
    """One value for each row, or for each of `rows`: the rows of its group up to and including it, combined."""
    order = stable_order(codes)
    sizes = _sizes(codes, order)
    within = _WithinGroups(order, np.cumsum(sizes) - sizes, sizes)
    return within if rows is None else _AfterRows(within, rows)


def _sizes(codes: Integers, order: Integers) -> Integers:
    """How many rows each group has, groups in order."""
    if len(codes) and codes.max() < COUNTED_SHARE * len(codes):
        counts = np.bincount(codes)
        return counts[counts > 0]
    return np.diff(np.flatnonzero(np.diff(codes[order], prepend=-1)), append=len(codes))


@np.errstate(invalid="ignore", over="ignore")  # infinity and NaN are values
def accumulated(column: pa.Array, function: str, accumulate: Accumulator) -> pa.Array:
    """
    The column's "sum", "min" or "max", as the accumulator groups its rows, in the column's own type.

    A sum takes counts (bigint) and double columns, and is 0 over nothing; a minimum takes any type, and is null over nothing.
    Sums that may pass 64 bits are those of `aggregates.total`.
    """
    column, type_name = canonical(column)
    if function == "sum":
        return _sum(column, type_name, accumulate)
    valid = valid_rows(column)
    some = None if valid is None else accumulate(np.maximum, valid.view(np.uint8), 0).view(np.bool_)
    if type_name == "void" or column.null_count == len(column):
        return pa.nulls(0 if some is None else len(some), column.type)
    dtype = fixed_dtype(type_name)
    if dtype is None or dtype == DECIMAL:
        return _extreme_by_rank(column, function, accumulate, valid, some)
    values = fixed_values(column, type_name)
    return fixed_array(_extreme(values, function, accumulate, valid), type_name, some)


def _sum(column: pa.Array, type_name: str, accumulate: Accumulator) -> pa.Array:
    values = _or_neutral(fixed_values(column, type_name), valid_rows(column), np.zeros((), fixed_dtype(type_name)))
    return pa.array(accumulate(np.add, values, np.zeros((), values.dtype)))


def _extreme(values: AnyArray, function: str, accumulate: Accumulator, valid: Mask | None) -> AnyArray:
    """The smallest or largest of numbers; undefined where there is none."""
    ufunc: np.ufunc = np.maximum if function == "max" else np.minimum
    if values.dtype.kind != "f":
        limits = np.iinfo(values.dtype)
        neutral: float = limits.min if function == "max" else limits.max
    elif function == "max":
        neutral = -np.inf
    else:
        ufunc, neutral = np.fmin, np.nan  # takes NaN for the greatest
    return accumulate(ufunc, _or_neutral(values, valid, neutral), neutral)


def _extreme_by_rank(column: pa.Array, function: str, accumulate: Accumulator, valid: Mask | None, some: Mask | None) -> pa.Array:
    """As `_extreme`, of values that numpy cannot compare: their ranks are compared."""
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    ranks = np.empty(len(order), np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    ranks_of_rows = ranks[encoded.indices.fill_null(0).to_numpy()]
    extreme = pa.array(_extreme(ranks_of_rows, function, accumulate, valid), mask=None if some is None else ~some)
    return encoded.dictionary.take(order).take(extreme)


def _or_neutral(values: AnyArray, valid: Mask | None, neutral: Any) -> AnyArray:
    if valid is None:
        return values
    filled = values.copy()
    filled[~valid] = neutral
    return filled


def grouped_order(codes: AnyArray, count: int) -> tuple[Integers, list[int]]:
    """Row numbers in the order of the codes, which are below `count`, and where those of each code begin, and the last end."""
    if count <= FEW_CODES:  # to look for each of them takes a fifth of what it takes to sort
        rows = [np.flatnonzero(codes == code) for code in range(count)]
        return np.concatenate(rows), list(accumulate(map(len, rows), initial=0))
    return np.argsort(codes, kind="stable"), [0, *np.cumsum(np.bincount(codes, minlength=count)).tolist()]


def stable_order(codes: Integers) -> Integers:
    """Row numbers in the order of the codes, which are not negative; numpy sorts 16 bits at a time in linear time."""
    if len(codes) == 0 or (greatest := int(codes.max())) >> 32:
        return np.argsort(codes, kind="stable")
    if greatest < FEW_CODES:
        return grouped_order(codes, greatest + 1)[0]
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    high = (codes >> 16).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")] if high.any() else order
