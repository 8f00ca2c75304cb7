"""The try_ forms: null where an operation fails. What fails in its arguments still fails."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import normalise_type, to_arrow
from streamkit.errors import EvaluationError, SchemaError
from streamkit.expressions.coercion import cast_to, is_numeric
from streamkit.expressions.operation import (
    OPERATIONS,
    Datum,
    Invocation,
    NoTranslationError,
    RuleError,
    always_nullable,
    can_fail,
    function,
    operation,
)
from streamkit.expressions.rows import Rows, broadcast
from streamkit.plan.expression import TypedExpression

_ATTEMPTS = {
    "try_add": "add", "try_subtract": "subtract", "try_multiply": "multiply", "try_divide": "divide", "try_mod": "remainder",
}  # fmt: skip
_DIVISIONS = ("divide", "remainder", "pmod", "integral_divide")


class FailingRowsError(pa.ArrowInvalid):  # type: ignore[misc]
    """Some rows fail; `rows` says which, so that they need not be searched for."""

    def __init__(self, message: str, rows: pa.BooleanArray) -> None:
        super().__init__(message)
        self.rows = rows


def attempted(call: Invocation, inner: TypedExpression) -> TypedExpression:
    """An operation that gives null where it would fail; itself if it cannot fail."""
    if inner.name not in OPERATIONS or not OPERATIONS[inner.name].fails(inner):
        return inner
    return TypedExpression("try", inner.type, (inner,))


def _try_rule(name: str) -> None:
    @function(name)
    def rule(call: Invocation) -> TypedExpression:
        inner = call.of(_ATTEMPTS[name], *call.values)
        if all(is_numeric(type) or type == "void" for type in call.types):
            return attempted(call, inner)
        return TypedExpression("try_all", inner.type, (inner,)) if can_fail(inner) else inner


for _name in _ATTEMPTS:
    _try_rule(_name)


@function("try_cast")
def _try_cast_rule(call: Invocation) -> TypedExpression:
    value, type = call.values
    try:
        wanted = normalise_type(str(type.value))
    except SchemaError as error:
        raise RuleError(str(error)) from None
    if call.zone != "UTC" and "timestamp" in (value.type, wanted) and value.type != wanted:
        raise NoTranslationError(
            f"try_cast between {value.type} and {wanted} in the time zone {call.zone} is not there yet; use try_to_timestamp"
        )
    cast = cast_to(value, wanted)
    if cast.name != "cast":
        return cast
    if reason := OPERATIONS["cast"].refuse(cast):
        raise NoTranslationError(reason)
    return attempted(call, cast)


@operation("try", lazy=True, nullable=always_nullable)
def _try(expression: TypedExpression, rows: Rows) -> Datum:
    """The value of the operation, null in the rows that fail."""
    (inner,) = expression.arguments
    values = [broadcast(rows.value(argument), rows.count) for argument in inner.arguments]
    if inner.name in _DIVISIONS:
        zero = pc.equal(values[1], pa.scalar(0, values[1].type))
        values[1] = pc.if_else(zero, pa.scalar(None, values[1].type), values[1])
    return _computed(inner, values, rows.count)


@operation("try_all", lazy=True, nullable=always_nullable)
def _try_all(expression: TypedExpression, rows: Rows) -> Datum:
    """The value of an expression, null in the rows in which any part of it fails."""
    (inner,) = expression.arguments
    try:
        return rows.value(inner)
    except EvaluationError:
        if rows.count <= 1:
            return pa.nulls(rows.count, to_arrow(expression.type))
    places = np.arange(rows.count)
    halves = (pa.array(places < rows.count // 2), pa.array(places >= rows.count // 2))
    return pa.concat_arrays([broadcast(_try_all(expression, rows.where(half)), half.true_count) for half in halves])


def _computed(inner: TypedExpression, values: list[pa.Array], count: int) -> pa.Array:
    """The results of rows, null where a row fails; the failing rows are known from the error, or searched for by halves."""
    layout = to_arrow(inner.type)
    try:
        found = OPERATIONS[inner.name].compute(inner, *values)
        found = broadcast(found, count)
        return found if found.type == layout else found.cast(layout)
    except FailingRowsError as error:
        kept = [pc.if_else(error.rows, pa.scalar(None, value.type), value) for value in values]
        return _computed(inner, kept, count)
    except pa.ArrowInvalid:
        if count == 1:
            return pa.nulls(1, layout)
    half = count // 2
    parts = [
        _computed(inner, [value.slice(start, size) for value in values], size)
        for start, size in ((0, half), (half, count - half))
    ]
    return pa.concat_arrays(parts)


def failing(message: str, rows: pa.BooleanArray | np.ndarray) -> FailingRowsError:
    """The error of a kernel that knows which rows fail."""
    return FailingRowsError(message, rows if isinstance(rows, pa.Array) else pa.array(rows))
