"""
Variance and standard deviation, of a sample and of a population: doubles, from count, mean and the sum of squared distances to it.

Means and distances are merged as such (Chan, Golub and LeVeque), since sums of squares cancel out where values lie far from zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Doubles, Integers
from streamkit.expressions.aggregates.function import AggregateFunction, AggregateResult, States, register, takes
from streamkit.expressions.core.accumulation import Accumulator, Runs, within_groups
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.recording import recorded
from streamkit.plan.expression import TypedAggregate
from streamkit.schema import SchemaColumn

__all__ = ["std", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance"]

Moments = tuple[Integers, Doubles, Doubles]  # counts, means, sums of squared distances


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    kinds = (("count", "bigint"), ("mean", "double"), ("squares", "double"))
    return tuple(SchemaColumn(f"{aggregate.name}.{part}", kind) for part, kind in kinds)


def _lift(_: TypedAggregate, argument: pa.Array | None, rows: int) -> list[pa.Array]:
    assert argument is not None, "a variance is of something"
    means = argument.fill_null(0.0)
    with np.errstate(invalid="ignore"):
        squares = means.to_numpy() - means.to_numpy()  # infinity has no distance to itself
    return [argument.is_valid().cast(pa.int64()), means, pa.array(squares)]


@np.errstate(invalid="ignore", over="ignore")  # infinity and NaN are values
def _merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
    counts, means, squares = (column.fill_null(0).to_numpy() for column in states)
    runs = accumulate.runs
    is_disjoint = (runs.ends - runs.starts).sum() == len(runs.order)
    merged = _of_groups if is_disjoint else _row_by_row
    return list(map(pa.array, merged((counts, means, squares), runs, accumulate)))


def _of_groups(moments: Moments, runs: Runs, accumulate: Accumulator) -> Moments:
    """Each row goes into one result."""
    counts, means, squares = moments
    totals = accumulate(np.add, counts, 0)
    sums = accumulate(np.add, np.where(counts > 0, counts * means, 0.0), 0.0)
    mean = np.divide(sums, totals, out=np.zeros(len(totals)), where=totals > 0)
    owners = np.empty(len(counts), np.int64)
    results = np.argsort(runs.starts, kind="stable")  # within groups these are in the order of rows, not in that of groups
    owners[runs.order] = np.repeat(results, (runs.ends - runs.starts)[results])
    alone = (counts > 0) & (counts == totals[owners])
    mean[owners[alone]] = means[alone]  # a quotient may be another number
    distances = np.where(alone, 0.0, means - mean[owners])
    return totals, mean, accumulate(np.add, np.where(counts > 0, squares + counts * distances * distances, 0.0), 0.0)


def _row_by_row(moments: Moments, runs: Runs, _: Accumulator) -> Moments:
    """The rows up to each, strictly one after the other: so a loop, which gives the same however the rows are cut."""
    counts, means, squares = (part[runs.order].tolist() for part in moments)
    starts = set(runs.starts.tolist())
    for row in range(len(counts)):
        if row in starts or not counts[row - 1]:
            continue
        before, here = counts[row - 1], counts[row]
        together, distance = before + here, means[row] - means[row - 1] if here else 0.0
        if not together:  # the last was taken away
            counts[row], means[row], squares[row] = 0, 0.0, 0.0
            continue
        means[row] = means[row - 1] + distance * here / together
        squares[row] = squares[row - 1] + squares[row] + distance * distance * before * here / together
        counts[row] = together
    found = np.array(counts, np.int64), np.array(means, np.float64), np.array(squares, np.float64)
    places = np.empty(len(runs.order), np.int64)
    places[runs.order] = np.arange(len(places))
    return found[0][places], found[1][places], found[2][places]


def _subtract(left: States, right: States) -> list[pa.Array]:
    """As a merge with values whose number is negative."""
    counts, means, squares = right
    negative = [pc.negate(counts), means, pc.negate(squares)]
    both = [pa.concat_arrays(pair) for pair in zip(left, negative, strict=True)]
    rows = len(left[0])
    after = _merge(both, within_groups(np.tile(np.arange(rows), 2)))
    return [column.slice(rows) for column in after]


def _result(_: TypedAggregate, states: States, less: int, finish: Callable[[Doubles], Doubles]) -> AggregateResult:
    """The squares divided by the count, or by one less for a sample; null where that is not positive."""
    counts, _means, squares = (column.fill_null(0).to_numpy() for column in states)
    divisors = counts - less
    squares = np.where(squares < 0, 0.0, squares)  # as rows that were taken away may leave it
    values = finish(np.divide(squares, divisors, out=np.zeros(len(counts)), where=divisors > 0))
    return AggregateResult(pa.array(values, mask=divisors <= 0))


def _entered(name: str, less: int, finish: Callable[[Doubles], Doubles], *functions: str) -> AggregateFunction:
    result = partial(_result, less=less, finish=finish)
    return register(
        AggregateFunction(
            name, takes("double", "double"), _state_columns, _lift, _merge, result, subtract=_subtract, functions=functions
        )
    )


def var_samp(col: Column | str) -> Column:
    """The variance of a sample; null for fewer than two values."""
    return recorded("var_samp", col)


variance = var_samp


VAR_SAMP = _entered("var_samp", 1, np.abs, "variance")


def var_pop(col: Column | str) -> Column:
    """The variance of a whole population."""
    return recorded("var_pop", col)


VAR_POP = _entered("var_pop", 0, np.abs)


def stddev_samp(col: Column | str) -> Column:
    """The standard deviation of a sample; null for fewer than two values."""
    return recorded("stddev_samp", col)


std = stddev = stddev_samp


STDDEV_SAMP = _entered("stddev_samp", 1, np.sqrt, "stddev", "std")


def stddev_pop(col: Column | str) -> Column:
    """The standard deviation of a whole population."""
    return recorded("stddev_pop", col)


STDDEV_POP = _entered("stddev_pop", 0, np.sqrt)
