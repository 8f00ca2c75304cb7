"""
Aggregates as folds: each has a state of one or two columns that starts neutral, and states combine column by column.

    count, count_if   `count`          how many
    sum               `sum`, `count`   of the values that are not null; a sum over none is null
    avg               `sum`, `count`   sum exact: bigint of tinyint to int, decimal(38,0) of bigint, which so cannot overflow
    min, max          `min` or `max`   null over nothing

Sums of float and double are kept as double, of decimals as Spark's decimal with ten more digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import EvaluationError
from streamkit.expressions.accumulation import accumulated, per_group, within_groups
from streamkit.expressions.groups import Codes, Groups, group, one_zero
from streamkit.log.values.columns import DECIMAL, canonical, fixed_array
from streamkit.plan.expression import TypedAggregate
from streamkit.schema import Column, to_arrow

FUNCTIONS = ("count", "count_if", "sum", "avg", "min", "max")
PRECISION_MAX = 38
ZERO = Decimal(0)
_INTEGERS = ("tinyint", "smallint", "int")
_COUNT_DIGITS = 20  # more than any count has


def state_columns(aggregate: TypedAggregate) -> tuple[Column, ...]:
    """The columns in which the state of one aggregate is kept."""
    if aggregate.function in ("count", "count_if"):
        return (Column(f"{aggregate.name}.count", "bigint", nullable=False),)
    if aggregate.function in ("min", "max"):
        return (Column(f"{aggregate.name}.{aggregate.function}", _argument_type(aggregate)),)
    total = Column(f"{aggregate.name}.sum", _sum_type(aggregate), nullable=False)
    return (total, Column(f"{aggregate.name}.count", "bigint", nullable=False))


def combine_functions(aggregate: TypedAggregate) -> tuple[str, ...]:
    """How each state column combines: "sum", "min" or "max"."""
    if aggregate.function in ("min", "max"):
        return (aggregate.function,)
    return ("sum",) * len(state_columns(aggregate))


def lift(aggregate: TypedAggregate, argument: pa.Array | None, rows: int) -> list[pa.Array]:
    """The state of each row alone, as `state_columns` has it; a null argument gives the neutral state."""
    if argument is None:
        return [pa.array(np.ones(rows, np.int64))]
    argument, type_name = canonical(argument)
    if type_name in ("float", "double"):
        argument = one_zero(argument)
    if aggregate.function in ("min", "max"):
        return [argument]
    if aggregate.function == "count_if":
        return [argument.fill_null(False).cast(pa.int64())]
    counts = argument.is_valid().cast(pa.int64()) if argument.null_count else pa.array(np.ones(rows, np.int64))
    return [counts] if aggregate.function == "count" else [_summand(argument, type_name, _sum_type(aggregate)), counts]


def fold(keys: Sequence[pa.Array], states: Sequence[tuple[pa.Array, str]]) -> tuple[list[pa.Array], list[pa.Array]]:
    """
    Combine the states of rows with equal keys: the key columns and the state columns of each group, in no certain order.

    Keys may be dictionary-encoded, which saves hashing; the result's are plain. Null is a key, NaN one key, -0.0 is 0.0.
    Raises EvaluationError when a sum does not fit its type.
    """
    groups, values = group(keys, len(states[0][0] if states else keys[0]))
    accumulate = per_group(groups)
    return values, [accumulated(column, function, accumulate) for column, function in states]


def combine(function: str, left: pa.Array, right: pa.Array) -> pa.Array:
    """Two state columns as one, row by row; null, as for a group that only one side knows, is neutral. Errors as `fold`."""
    rows = len(left)
    groups = Groups.of(np.tile(np.arange(rows), 2), rows)
    return accumulated(pa.concat_arrays([left, right.cast(left.type)]), function, per_group(groups))


def running(codes: Codes, states: Sequence[tuple[pa.Array, str]]) -> list[pa.Array]:
    """
    The state of each row's group after that row, rows taken in order; `codes` number the groups.

    Adds one row after the other, so that it does not matter where a run was cut if it goes on from the state that was reached.
    Raises EvaluationError when a sum does not fit its type.
    """
    accumulate = within_groups(codes)
    return [accumulated(column, function, accumulate) for column, function in states]


def result(aggregate: TypedAggregate, states: Sequence[pa.Array]) -> pa.Array:
    """The aggregate's value from its state, in Spark's type; EvaluationError when a decimal does not fit it."""
    if aggregate.function not in ("sum", "avg"):
        return states[0].cast(to_arrow(aggregate.type))
    total, counts = states
    counts = pc.if_else(pc.equal(counts, 0), pa.scalar(None, pa.int64()), counts)
    if aggregate.function == "sum":
        return pc.if_else(counts.is_valid(), total.cast(to_arrow(aggregate.type)), pa.scalar(None, to_arrow(aggregate.type)))
    if aggregate.type.startswith("decimal"):
        return _decimal_mean(total, counts, aggregate.type)
    return pc.divide(total.cast(pa.float64()), counts.cast(pa.float64(), safe=False))


def _argument_type(aggregate: TypedAggregate) -> str:
    assert aggregate.argument is not None, f"{aggregate.function} takes an argument"
    return aggregate.argument.type


def _sum_type(aggregate: TypedAggregate) -> str:
    if aggregate.function == "sum":
        return aggregate.type
    argument = _argument_type(aggregate)
    if argument in _INTEGERS:
        return "bigint"
    if argument == "bigint":
        return f"decimal({PRECISION_MAX},0)"
    if argument.startswith("decimal"):
        layout = to_arrow(argument)
        return f"decimal({min(layout.precision + 10, PRECISION_MAX)},{layout.scale})"
    return "double"


def _summand(argument: pa.Array, type_name: str, sum_type: str) -> pa.Array:
    if argument.null_count:
        argument = argument.fill_null(pa.scalar(ZERO if pa.types.is_decimal(argument.type) else 0, argument.type))
    if type_name == "bigint" and sum_type.startswith("decimal"):
        return _widened(argument)
    return argument.cast(to_arrow(sum_type))


def _widened(integers: pa.Array) -> pa.Array:
    values = integers.to_numpy()
    decimals = np.empty(len(values), DECIMAL)
    decimals["low"], decimals["high"] = values.view(np.uint64), values >> 63
    return fixed_array(decimals, f"decimal({PRECISION_MAX},0)")


def _decimal_mean(total: pa.Array, counts: pa.Array, type_name: str) -> pa.Array:
    """Divided exactly, then rounded half up, as Spark does."""
    layout = to_arrow(type_name)
    wide_total = total.cast(pa.decimal256(PRECISION_MAX, total.type.scale))
    quotient = pc.divide(wide_total, counts.cast(pa.decimal256(_COUNT_DIGITS, 0)))
    try:
        return pc.round(quotient, layout.scale, "half_towards_infinity").cast(layout)
    except pa.ArrowInvalid as error:
        raise EvaluationError(f"found a mean beyond the range of {type_name}; expected one that fits: {error}") from error
