"""
SUM and AVG as ksqlDB has them: 0 over nothing, and sums of whole numbers wrap.

The sum of a type has that type. A sum of decimals that has too many digits for its type is null.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import decimal_of, to_arrow
from streamkit.expressions.aggregates import sum as spark
from streamkit.expressions.aggregates.count import count_column, counted
from streamkit.expressions.aggregates.function import AggregateResult, States, argument_type, by_column
from streamkit.expressions.aggregates.ksql.signature import WITH_ORDER, entered, known_as, typed_by
from streamkit.expressions.aggregates.total import exact_total
from streamkit.expressions.core.accumulation import Accumulator
from streamkit.expressions.core.operation import Invocation
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.schema import SchemaColumn

_NUMBERS = ("int -> int", "bigint -> bigint", "double -> double", "decimal -> decimal")
_LISTS = ("array<int> -> int", "array<bigint> -> bigint", "array<double> -> double")
_MERGE_PLAIN = by_column("sum", "sum")


def _is_decimal(aggregate: TypedAggregate) -> bool:
    return decimal_of(argument_type(aggregate)) is not None


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    if _is_decimal(aggregate):
        return spark.total_and_count(aggregate)
    kept = "double" if argument_type(aggregate) == "double" else "bigint"
    return SchemaColumn(f"{aggregate.name}.sum", kept, nullable=False), count_column(aggregate)


def _lift(aggregate: TypedAggregate, argument: pa.Array | None, rows: int) -> list[pa.Array]:
    assert argument is not None, "a sum is of something"
    if _is_decimal(aggregate):
        return spark.lift(aggregate, argument, rows)
    kept = _state_columns(aggregate)[0].arrow.type
    return [argument.fill_null(pa.scalar(0, argument.type)).cast(kept), counted(argument, rows)]


def _merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
    return _MERGE_PLAIN(states, accumulate) if len(states) == 2 else spark.merge(states, accumulate)


def _subtract(left: States, right: States) -> list[pa.Array]:
    if len(left) > 2:
        return spark.subtract(left, right)
    return [pc.subtract(one, other) for one, other in zip(left, right, strict=True)]


def _result(aggregate: TypedAggregate, states: States) -> AggregateResult:
    filled = [column.fill_null(0) if column.null_count else column for column in states]
    if _is_decimal(aggregate):
        return AggregateResult(_decimals(filled, to_arrow(aggregate.type)))
    total = filled[0]
    if aggregate.type == "int":
        return AggregateResult(pa.array(total.to_numpy().astype(np.int32)))
    return AggregateResult(total)


def _decimals(states: States, type: pa.DataType) -> pa.Array:
    most = 10 ** (type.precision - type.scale)
    totals, carries = states[0], states[1].to_numpy()
    rows = range(len(totals))
    found = [exact_total(states[:2], row) if carries[row] else totals[row].as_py() for row in rows]
    return pa.array([one if one is not None and -most < one < most else None for one in found], type)


def _typed_sum(call: Invocation, gives: str) -> tuple[TypedExpression, str]:
    value = call.typed(0)
    return value, value.type if gives == "decimal" else gives


entered(
    "sum",
    "The sum of the values; 0 if there is none.",
    _NUMBERS,
    typed_by(*_NUMBERS, arguments=_typed_sum),
    _state_columns,
    _lift,
    _merge,
    _result,
    subtract=_subtract,
)
entered(
    "sum_list",
    "The sum of the elements of all arrays.",
    _LISTS,
    typed_by(*_LISTS, arguments=lambda call, gives: (call.build(TypedExpression("ksql_sum_of_list", gives, call.values)), gives)),
    _state_columns,
    _lift,
    _merge,
    _result,
    subtract=_subtract,
)


def _mean(aggregate: TypedAggregate, states: States) -> AggregateResult:
    """The wrapped sum divided by the count."""
    total, counts = (column.fill_null(0).to_numpy() for column in states)
    if argument_type(aggregate) == "int":
        total = total.astype(np.int32)
    means = np.divide(total.astype(np.float64), counts, out=np.zeros(len(counts)), where=counts > 0)
    return AggregateResult(pa.array(means))


_MEANS = ("int -> double", "bigint -> double", "double -> double")
entered(
    "avg",
    "The mean of the values; 0 if there is none.",
    _MEANS,
    typed_by(*_MEANS),
    _state_columns,
    _lift,
    _merge,
    _mean,
    subtract=_subtract,
    is_nullable=False,
)
known_as("count", "count", "How many values are not null; of *, how many rows.", "any -> bigint")
known_as("min", "min", "The least value.", *(f"{type} -> {type}" for type in WITH_ORDER))
known_as("max", "max", "The greatest value.", *(f"{type} -> {type}" for type in WITH_ORDER))
known_as("count_distinct", "count_distinct", "How many distinct values there are, exactly.", "T -> bigint")
