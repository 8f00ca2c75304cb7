"""STDDEV_SAMP, which is the variance in ksqlDB, STDDEV_SAMPLE, which is the deviation, and CORRELATION."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import AnyArray, Doubles, Integers, Mask
from streamkit.data_type import fields_of
from streamkit.expressions.aggregates.count import COUNT_ENDING
from streamkit.expressions.aggregates.function import AggregateFunction, AggregateResult, States, argument_type, by_column
from streamkit.expressions.aggregates.ksql.signature import entered, typed_by
from streamkit.expressions.aggregates.variance import STDDEV_SAMP, VAR_SAMP
from streamkit.expressions.core.accumulation import Accumulator, within_groups
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.schema import SchemaColumn

_NUMBERS = ("int", "bigint", "double")
_TWO = "double, double -> double"
SUMS = ("number", "x", "y", "xx", "yy", "xy")


def _deviation(name: str, effect: str, finish: Callable[[Doubles], Doubles], earlier: AggregateFunction) -> None:
    """
    Enter an aggregate of the count, the sum and the squared distances to the mean, as ksqlDB has it to the last digit; 0 of fewer than two.

    Its argument is a struct. State of an `earlier` version, whose argument is the value, had the mean in place of the sum.
    """

    def state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
        if (fields := fields_of(argument_type(aggregate))) is None:
            return earlier.state_columns(aggregate)
        kinds = ((COUNT_ENDING, "bigint"), (".sum", fields[0][1]), (".squares", "double"))
        return tuple(SchemaColumn(f"{aggregate.name}{ending}", kind) for ending, kind in kinds)

    def result(aggregate: TypedAggregate, states: States) -> AggregateResult:
        if fields_of(argument_type(aggregate)) is None:
            return AggregateResult(earlier.result(aggregate, states).values.fill_null(0.0))
        counts, _sums, squares = (column.fill_null(0).to_numpy() for column in states)
        with np.errstate(invalid="ignore"):  # rows that were taken away may leave less than nothing, as in ksqlDB
            values = finish(squares / np.maximum(counts - 1, 1))
        return AggregateResult(pa.array(np.where(counts < 2, 0.0, values)))

    signatures = tuple(f"{type} -> double" for type in _NUMBERS)
    entered(
        name,
        effect,
        signatures,
        typed_by(*signatures, arguments=_alone),
        state_columns,
        _lift_number,
        _merge_moments,
        result,
        subtract=_without_moments,
        is_nullable=False,
    )


def _alone(call: Invocation, gives: str) -> tuple[TypedExpression, str]:
    """The value in a struct, null where it is."""
    value = call.typed(0)
    struct = call.of("named_struct", literal("value", "string"), value)
    return call.of("if", call.of("isnotnull", value), struct, literal(None, "void")), gives


def _lift_number(_: TypedAggregate, argument: pa.Array | None, rows: int) -> list[pa.Array]:
    assert argument is not None, "a deviation is of something"
    values = pc.struct_field(argument, [0])
    there = pc.if_else(argument.is_valid(), values, pa.scalar(0, values.type)).fill_null(pa.scalar(0, values.type))
    return [argument.is_valid().cast(pa.int64()), there, pa.array(np.zeros(rows))]


@np.errstate(invalid="ignore", over="ignore", divide="ignore")  # infinity and NaN are values, and integers wrap as Java's
def _merge_moments(states: States, accumulate: Accumulator) -> list[pa.Array]:
    """
    The rows of each result, one after the other.

    What a row adds to the squared distances depends on the count and the sum before it alone (Youngs and Cramer), and these are running sums. So all
    rows are found at once, unless some are states of several rows that come behind others, as where sessions become one.
    """
    runs = accumulate.runs
    counts, sums, squares = (column.fill_null(0).to_numpy()[runs.order] for column in states)
    begins = np.zeros(len(counts), bool)
    begins[np.unique(runs.starts[runs.starts < runs.ends])] = True
    if (begins | ((np.abs(counts) <= 1) & (squares == 0))).all():
        reached = _of_rows(counts, sums, squares, begins)
    else:
        reached = _of_states(counts, sums, squares, begins)
    places = np.where(runs.starts < runs.ends, runs.ends - 1, -1)
    nothing = (np.append(part, np.zeros(1, part.dtype)) for part in reached)  # at the last place, for a result of no rows
    return [pa.array(part[places], state.type) for part, state in zip(nothing, states, strict=True)]


def _of_rows(counts: Integers, sums: AnyArray, squares: Doubles, begins: Mask) -> tuple[Integers, AnyArray, Doubles]:
    """The states after each row, where all rows but those that begin a result are single ones, added or taken away."""
    within = within_groups(np.cumsum(begins))
    after: Integers = within(np.add, counts, 0)
    totals: AnyArray = within(np.add, sums, 0).astype(sums.dtype)
    before, total = np.roll(after, 1), np.roll(totals, 1)
    values = np.where(counts < 0, -sums, sums)
    wide: type[np.generic] = np.float64 if sums.dtype == np.float64 else np.int64
    deltas = (values.astype(wide) * (before + 1) - (total + values).astype(wide)).astype(np.float64)
    steps = deltas * deltas / np.where(counts < 0, after * (after + 1), after * (after - 1))
    counted = np.where(counts < 0, after > 0, (counts > 0) & (before > 0))
    distances = np.where(begins, squares, np.where(counted, np.where(counts < 0, -steps, steps), 0.0))
    reached: Doubles = within(np.add, distances, 0.0)
    return after, totals, reached


def _of_states(counts: Integers, sums: AnyArray, squares: Doubles, begins: Mask) -> tuple[Integers, AnyArray, Doubles]:
    """As `_of_rows`, where states of several rows are put together (Chan, Golub and LeVeque): by a loop, since each needs the one before."""
    counts, sums, squares = counts.copy(), sums.copy(), squares.copy()
    for row in np.flatnonzero(~begins).tolist():
        if not row:
            continue
        pair = slice(row - 1, row + 1)
        count, other = counts[pair].tolist()
        if abs(other) <= 1 and squares[row] == 0:
            after = _of_rows(counts[pair], sums[pair], squares[pair], np.array([True, False]))
            counts[row], sums[row], squares[row] = (part[1] for part in after)
            continue
        distance = 0.0
        if count and other and count + other:
            apart = float(sums[row - 1]) / count - float(sums[row]) / other
            distance = count * other * apart * apart / (count + other)
        counts[row], sums[row], squares[row] = (
            counts[pair].sum(),
            sums[pair].sum(dtype=sums.dtype),
            squares[pair].sum() + distance,
        )
    return counts, sums, squares


def _without_moments(left: States, right: States) -> list[pa.Array]:
    """As a merge with rows whose number is negative."""
    counts, sums, squares = right
    negative = [pc.negate(counts), pc.negate(sums), pc.negate(squares)]
    both = [pa.concat_arrays([one, other.cast(one.type)]) for one, other in zip(left, negative, strict=True)]
    rows = len(left[0])
    return [column.slice(rows) for column in _merge_moments(both, within_groups(np.tile(np.arange(rows), 2)))]


_deviation("stddev_samp", "The variance of the values as a sample; 0 of fewer than two.", lambda found: found, VAR_SAMP)
_deviation("stddev_sample", "The standard deviation of the values as a sample; 0 of fewer than two.", np.sqrt, STDDEV_SAMP)


def _pair(call: Invocation, gives: str) -> tuple[TypedExpression, str]:
    """Both values in a struct, null where one is."""
    one, other = call.values
    there = call.of("and", call.of("isnotnull", one), call.of("isnotnull", other))
    struct = call.of("named_struct", literal("x", "string"), one, literal("y", "string"), other)
    return call.of("if", there, struct, literal(None, "void")), gives


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    kinds = ("bigint", *["double"] * (len(SUMS) - 1))
    return tuple(SchemaColumn(f"{aggregate.name}.{name}", kind, nullable=False) for name, kind in zip(SUMS, kinds))


def _lift(_: TypedAggregate, argument: pa.Array | None, _rows: int) -> list[pa.Array]:
    assert argument is not None, "a correlation is of two values"
    x, y = (pc.if_else(argument.is_valid(), pc.struct_field(argument, [place]), 0.0).fill_null(0.0) for place in (0, 1))
    return [argument.is_valid().cast(pa.int64()), x, y, pc.multiply(x, x), pc.multiply(y, y), pc.multiply(x, y)]


def _subtract(left: States, right: States) -> list[pa.Array]:
    return [pc.subtract(one, other) for one, other in zip(left, right, strict=True)]


def _correlation(_: TypedAggregate, states: States) -> AggregateResult:
    """NaN of fewer than two rows, and where all values of one side are equal."""
    number, x, y, xx, yy, xy = (column.fill_null(0).to_numpy().astype(np.float64) for column in states)
    with np.errstate(all="ignore"):
        found = (number * xy - x * y) / np.sqrt((number * xx - x * x) * (number * yy - y * y))
    return AggregateResult(pa.array(np.where(number < 2, np.nan, found)))


entered(
    "correlation",
    "The correlation of two columns; NaN of fewer than two rows.",
    tuple(f"{type}, {type} -> double" for type in _NUMBERS),
    typed_by(_TWO, arguments=_pair),
    _state_columns,
    _lift,
    by_column(*["sum"] * len(SUMS)),
    _correlation,
    columns=2,
    subtract=_subtract,
    is_nullable=False,
)
