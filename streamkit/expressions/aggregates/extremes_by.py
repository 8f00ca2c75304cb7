"""max_by and min_by: the value of the row in which another is largest or smallest; of several such rows that of the last."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import is_nested
from streamkit.expressions.accumulation import Accumulator, chosen
from streamkit.expressions.aggregates.function import AggregateFunction, Merge, Result, States, argument_type, register
from streamkit.expressions.groups import one_zero
from streamkit.expressions.literals import literal
from streamkit.expressions.operation import Invocation, NoTranslationError
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.schema import Column

VALUE, BY = "value", "by"


def _typed(call: Invocation) -> tuple[TypedExpression, str]:
    """Value and order in a struct, null where the order is."""
    value, by = call.values
    if is_nested(by.type):
        raise NoTranslationError(f"{call.name}() by {by.type} has no incremental state; expected a value that holds no others")
    both = call.of("named_struct", literal(VALUE, "string"), value, literal(BY, "string"), by)
    return call.of("if", call.of("isnotnull", by), both, literal(None, "void")), value.type


def _state_columns(aggregate: TypedAggregate) -> tuple[Column, ...]:
    return (Column(f"{aggregate.name}.{aggregate.function}", argument_type(aggregate)),)


def _lift(_: TypedAggregate, argument: pa.Array | None, _rows: int) -> list[pa.Array]:
    return [argument]


def _merge(is_largest: bool) -> Merge:
    def merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
        (column,) = states
        by, rows = pc.struct_field(column, BY), len(column)
        ranks = _ranks(by)
        numbers = (ranks if is_largest else rows - ranks) * (rows + 1) + np.arange(rows)
        numbers[~by.is_valid().to_numpy(zero_copy_only=False)] = -1
        best = accumulate(np.maximum, numbers, -1)
        return [chosen(column, np.where(best < 0, -1, best % (rows + 1)))]

    return merge


def _ranks(by: pa.Array) -> npt.NDArray[np.int64]:
    """A number for each value, equal for equal ones and growing with them; NaN is the greatest."""
    encoded = (one_zero(by) if pa.types.is_floating(by.type) else by).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy().astype(np.int64)
    ranks = np.zeros(len(order) + 1, np.int64)
    ranks[order] = np.arange(len(order))
    of_rows: npt.NDArray[np.int64] = ranks[encoded.indices.fill_null(len(order)).to_numpy()]
    return of_rows


def _result(_: TypedAggregate, states: States) -> Result:
    return Result(pc.struct_field(states[0], VALUE))


MAX_BY = register(AggregateFunction("max_by", _typed, _state_columns, _lift, _merge(True), _result, arity=2, is_ordered=True))
MIN_BY = register(AggregateFunction("min_by", _typed, _state_columns, _lift, _merge(False), _result, arity=2, is_ordered=True))
