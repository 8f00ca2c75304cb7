"""STDDEV_SAMP, which is the variance in ksqlDB, STDDEV_SAMPLE, which is the deviation, and CORRELATION."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.aggregates.function import AggregateFunction, AggregateResult, States, by_column
from streamkit.expressions.aggregates.ksql.signature import entered, typed_by
from streamkit.expressions.aggregates.variance import STDDEV_SAMP, VAR_SAMP
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.schema import SchemaColumn

_NUMBERS = ("int", "bigint", "double")
_ONE, _TWO = "double -> double", "double, double -> double"
SUMS = ("number", "x", "y", "xx", "yy", "xy")


def _of_sample(name: str, effect: str, like: AggregateFunction) -> None:
    """Enter an aggregate that is another one, but 0 of fewer than two values."""

    def result(aggregate: TypedAggregate, states: States) -> AggregateResult:
        return AggregateResult(like.result(aggregate, states).values.fill_null(0.0))

    entered(
        name,
        effect,
        tuple(f"{type} -> double" for type in _NUMBERS),
        typed_by(_ONE),
        like.state_columns,
        like.lift,
        like.merge,
        result,
        subtract=like.subtract,
        is_nullable=False,
    )


_of_sample("stddev_samp", "The variance of the values as a sample; 0 of fewer than two.", VAR_SAMP)
_of_sample("stddev_sample", "The standard deviation of the values as a sample; 0 of fewer than two.", STDDEV_SAMP)


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
