"""Aggregates: what group_by(...).agg(...) folds."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, given, given_constant, given_text, recorded
from streamkit.plan.expression import Call, Literal

__all__ = [
    "any_value",
    "approx_count_distinct",
    "approx_percentile",
    "array_agg",
    "avg",
    "bottom_k",
    "collect_list",
    "collect_set",
    "count",
    "count_distinct",
    "count_if",
    "first",
    "first_value",
    "last",
    "last_value",
    "max",
    "max_by",
    "mean",
    "median",
    "min",
    "min_by",
    "percentile",
    "percentile_approx",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "top_k",
    "var_pop",
    "var_samp",
    "variance",
]


def count(column: Column | str) -> Column:
    """How many values are not null; of "*", how many rows."""
    return Column(Call("count", (Literal(1),))) if isinstance(column, str) and column == "*" else recorded("count", column)


def count_if(column: Column | str) -> Column:
    """In how many rows the condition is true."""
    return recorded("count_if", column)


def sum(column: Column | str) -> Column:
    """The sum of the values that are not null."""
    return recorded("sum", column)


def avg(column: Column | str) -> Column:
    """The mean of the values that are not null."""
    return recorded("avg", column)


def min(column: Column | str) -> Column:
    """The smallest value."""
    return recorded("min", column)


def max(column: Column | str) -> Column:
    """The largest value."""
    return recorded("max", column)


def max_by(col: Column | str, ord: Column | str, k: int | None = None) -> Column:
    """
    The value of `col` where `ord` is largest; of several such records that of the last.

    With `k` the values of the `k` records in which `ord` is largest, as `top_k` gives them.
    """
    return recorded("max_by", col, ord) if k is None else top_k(col, k, by=ord)


def min_by(col: Column | str, ord: Column | str, k: int | None = None) -> Column:
    """
    The value of `col` where `ord` is smallest; of several such records that of the last.

    With `k` the values of the `k` records in which `ord` is smallest, as `bottom_k` gives them.
    """
    return recorded("min_by", col, ord) if k is None else bottom_k(col, k, by=ord)


def first(col: Column | str, ignorenulls: bool = False) -> Column:
    """The value of the first record in the order of time; with `ignorenulls` of the first in which it is not null."""
    return recorded("first", col, constant(ignorenulls))


def last(col: Column | str, ignorenulls: bool = False) -> Column:
    """The value of the last record in the order of time; with `ignorenulls` of the last in which it is not null."""
    return recorded("last", col, constant(ignorenulls))


def first_value(col: Column | str, ignoreNulls: bool | Column | None = None) -> Column:
    """As `first`."""
    return recorded("first", col, *map(given_text, given(ignoreNulls)))


def last_value(col: Column | str, ignoreNulls: bool | Column | None = None) -> Column:
    """As `last`."""
    return recorded("last", col, *map(given_text, given(ignoreNulls)))


def any_value(col: Column | str, ignoreNulls: bool | Column | None = None) -> Column:
    """The value of some record: here of the first."""
    return recorded("first", col, *map(given_text, given(ignoreNulls)))


def collect_list(col: Column | str) -> Column:
    """The values that are not null as an array, in the order of time; an error beyond 100,000 of them."""
    return recorded("collect_list", col)


def collect_set(col: Column | str) -> Column:
    """The distinct values that are not null as an array, in the order in which they came first; an error beyond 100,000 of them."""
    return recorded("collect_set", col)


def count_distinct(col: Column | str, *cols: Column | str) -> Column:
    """How many distinct values there are, or combinations of values, none of which is null; exact, and an error beyond 100,000."""
    return recorded("count_distinct", col, *cols)


def approx_count_distinct(col: Column | str, rsd: float | None = None) -> Column:
    """About how many distinct values there are; `rsd` is the relative standard deviation of the estimate, 0.05 unless given."""
    return recorded("approx_count_distinct", col, *given_constant(rsd))


def stddev_samp(col: Column | str) -> Column:
    """The standard deviation of a sample; null of fewer than two values."""
    return recorded("stddev_samp", col)


def stddev_pop(col: Column | str) -> Column:
    """The standard deviation of a whole population."""
    return recorded("stddev_pop", col)


def var_samp(col: Column | str) -> Column:
    """The variance of a sample; null of fewer than two values."""
    return recorded("var_samp", col)


def var_pop(col: Column | str) -> Column:
    """The variance of a whole population."""
    return recorded("var_pop", col)


def top_k(col: Column | str, k: int, by: Column | str | None = None) -> Column:
    """
    The `k` largest values in falling order as an array; with `by` those of the records in which `by` is largest.

    Where `by` is equal, the smallest values come first; a struct is ordered by its fields, from the first on. Records in which `by` (or
    without it, the value) is null do not count. PySpark has no such function.

        views.group_by("site").agg(top=F.top_k(F.struct("page", "views"), 3, by="views"))
    """
    return recorded("top_k", col, constant(k), *given(by))


def bottom_k(col: Column | str, k: int, by: Column | str | None = None) -> Column:
    """The `k` smallest values in rising order as an array; with `by` those of the records in which `by` is smallest. Else as `top_k`."""
    return recorded("bottom_k", col, constant(k), *given(by))


def percentile_approx(col: Column | str, percentage: Column | float | Sequence[float], accuracy: Column | int = 10000) -> Column:
    """
    The smallest value that is not below so large a share of all (0.0 to 1.0), in the column's type; an array for several shares.

    Exact for up to `accuracy` distinct values in a group. Beyond that the value may be off, relative to itself, by about the logarithm
    (base 2) of the largest magnitude over the smallest, divided by `accuracy`. It depends neither on the order nor on the cut.

        latencies.group_by("page").agg(p=F.percentile_approx("ms", [0.5, 0.99]))
    """
    return recorded("percentile_approx", col, _numbers(percentage), given_text(accuracy))


def percentile(col: Column | str, percentage: Column | float | Sequence[float], frequency: Column | int = 1) -> Column:
    """
    The exact value below which so large a share of all lies, as a double between the two values around it; an array for several shares.

    An error beyond 100,000 distinct values. A `frequency` other than 1 is refused.
    """
    is_once = isinstance(frequency, int) and frequency == 1
    return recorded("percentile", col, _numbers(percentage), *(() if is_once else (given_text(frequency),)))


def median(col: Column | str) -> Column:
    """The exact middle value as a double; an error beyond 100,000 distinct values."""
    return recorded("median", col)


def _numbers(told: Column | float | Sequence[float]) -> object:
    """A percentage, or several as an array."""
    return Column(Call("array", tuple(constant(one) for one in told))) if isinstance(told, (list, tuple)) else given_text(told)


mean = avg
approx_percentile = percentile_approx
array_agg = collect_list
std = stddev = stddev_samp
variance = var_samp
