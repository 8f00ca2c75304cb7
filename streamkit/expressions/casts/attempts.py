"""The try_ forms: null where an operation fails. What fails in its arguments still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.conditionals import if_else
from streamkit.data_type import apart_in_any_case, atomic_types, entry_of, is_nested, normalise_type, to_arrow
from streamkit.errors import EvaluationError, SchemaError
from streamkit.expressions.casts.nested_casts import convert_nested, inner_pairs
from streamkit.expressions.core.coercion import cast_to, is_numeric
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.failing_rows import FailingRowsError
from streamkit.expressions.core.operation import (
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
from streamkit.expressions.core.recording import recorded
from streamkit.expressions.core.rows import Rows, broadcast, scatter
from streamkit.expressions.core.spark_text import spark_text, text_of
from streamkit.plan.expression import Expression, TypedExpression
from streamkit.recast import recast

__all__ = ["try_add", "try_divide", "try_mod", "try_multiply", "try_subtract"]

_NEVER_NULL = (  # what Spark's try_cast gives no null for: days beyond the range are an error, bytes that are no text a text of another kind
    ("date", "timestamp"), ("date", "timestamp_ntz"), ("binary", "string"),
)  # fmt: skip
Noting = Callable[[Rows, np.ndarray, str], None]
_DIVISIONS = ("divide", "remainder", "pmod", "integral_divide")


def attempted(call: Invocation, inner: TypedExpression) -> TypedExpression:
    """An operation that gives null where it would fail; itself if it cannot fail."""
    if inner.name not in OPERATIONS or not OPERATIONS[inner.name].fails(inner):
        return inner
    return TypedExpression("try", inner.type, (inner,))


def _enter_attempt(name: str, attempts: str) -> None:
    """Enter a function that gives null where the one that it `attempts` would fail."""

    @function(name)
    def rule(call: Invocation) -> TypedExpression:
        inner = call.of(attempts, *call.values)
        if all(is_numeric(type) or type == "void" for type in call.types):
            return attempted(call, inner)
        return TypedExpression("try_all", inner.type, (inner,)) if can_fail(inner) else inner


def try_add(left: Column | str, right: Column | str) -> Column:
    """The sum; null where it does not fit."""
    return recorded("try_add", left, right)


_enter_attempt("try_add", "add")


def try_subtract(left: Column | str, right: Column | str) -> Column:
    """The difference; null where it does not fit."""
    return recorded("try_subtract", left, right)


_enter_attempt("try_subtract", "subtract")


def try_multiply(left: Column | str, right: Column | str) -> Column:
    """The product; null where it does not fit."""
    return recorded("try_multiply", left, right)


_enter_attempt("try_multiply", "multiply")


def try_divide(left: Column | str, right: Column | str) -> Column:
    """The quotient; null where the divisor is 0."""
    return recorded("try_divide", left, right)


_enter_attempt("try_divide", "divide")


def try_mod(left: Column | str, right: Column | str) -> Column:
    """The remainder; null where the divisor is 0."""
    return recorded("try_mod", left, right)


_enter_attempt("try_mod", "remainder")


@function("try_cast")
def _try_cast_rule(call: Invocation) -> TypedExpression:
    value, type = call.values
    try:
        wanted = apart_in_any_case(normalise_type(str(type.value)))
    except SchemaError as error:
        raise RuleError(str(error)) from None
    cast = cast_to(value, wanted)
    if cast.name != "cast":
        return cast
    if reason := OPERATIONS["cast"].refuse(cast):
        raise NoTranslationError(reason)
    if not OPERATIONS["cast"].fails(cast) or (value.type, wanted) in _NEVER_NULL:
        return cast
    if (value.type, wanted) == ("string", "timestamp"):
        return TypedExpression("try_cast_time", wanted, (value,))
    if not is_nested(value.type):
        return attempted(call, cast)
    _check_nested(call, value.type, wanted)
    return TypedExpression("try_cast_nested", wanted, (value,))


@spark_text("try_cast")
def _try_cast_text(arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"TRY_CAST({texts[0]} AS {text_of(arguments[1])})" if len(texts) == 2 else None


def _check_nested(call: Invocation, source: str, target: str) -> None:
    """RuleError where keys of maps could become null; NoTranslationError where a time zone decides, as in a cast."""
    if call.zone != "UTC" and "timestamp" in atomic_types(source) ^ atomic_types(target):
        raise NoTranslationError(
            f"a try_cast of {source} to {target} depends on the time zone; cast the elements with transform()"
        )
    for one, other in inner_pairs(source, target) or ():
        if is_nested(one):
            _check_nested(call, one, other)
    keys = (entry_of(source) or ("", ""))[0], (entry_of(target) or ("", ""))[0]
    if keys[0] and OPERATIONS["cast"].fails(_cast_of(*keys)):
        raise RuleError(f"the keys of a map cannot be null, as a try_cast of {keys[0]} to {keys[1]} can; found {source}")


def _cast_of(source: str, target: str) -> TypedExpression:
    """A cast of values of a type, whatever gives them."""
    return TypedExpression("cast", target, (TypedExpression("column", source, (), "value"),))


@operation("try_cast_nested", nullable=always_nullable)
def _try_cast_nested(expression: TypedExpression, value: Datum) -> Datum:
    """The value as another type, in which what does not fit is null by itself: an element, a value of a map, a field."""
    if isinstance(value, pa.Scalar):
        return _tried(pa.repeat(value, 1), expression.arguments[0].type, expression.type)[0]
    return _tried(value, expression.arguments[0].type, expression.type)


def _tried(values: pa.Array, source: str, target: str) -> pa.Array:
    if is_nested(source) and source != target:
        return convert_nested(values, source, target, _tried)
    return _computed(_cast_of(source, target), [values], len(values)) if len(values) else pa.nulls(0, to_arrow(target))


@operation("try", lazy=True, nullable=always_nullable)
def _try(expression: TypedExpression, rows: Rows) -> Datum:
    """The value of the operation, null in the rows that fail."""
    (inner,) = expression.arguments
    found = rows.arguments_of(inner)
    if found is None:
        return pa.scalar(None, to_arrow(expression.type))
    values = [broadcast(value, rows.count) for value in found]
    if inner.name in _DIVISIONS:
        zero = pc.equal(values[1], pa.scalar(0, values[1].type))
        values[1] = pc.if_else(zero, pa.scalar(None, values[1].type), values[1])
    return _computed(inner, values, rows.count)


@operation("try_all", lazy=True, nullable=always_nullable)
def _try_all(expression: TypedExpression, rows: Rows) -> Datum:
    """The value of an expression, null in the rows in which any part of it fails."""
    return null_where_failing(expression.arguments[0], rows)


def null_where_failing(inner: TypedExpression, rows: Rows, noting: Noting | None = None) -> Datum:
    """
    The value of an expression, null in the rows in which any part of it fails; `noting` is told these rows, their numbers and why.

    What an operation says of its failing rows is used, else they are searched for by halves.
    """
    sound = np.ones(rows.count, bool)
    while sound.any():
        part = rows if sound.all() else rows.where(pa.array(sound))
        try:
            found = part.value(inner)
        except EvaluationError as error:
            if (failed := _failed_rows(error, part)) is None:
                found = _by_halves(inner, part, noting)
            else:
                if noting:
                    noting(part, np.flatnonzero(failed), str(error))
                sound[np.flatnonzero(sound)[failed]] = False
                continue
        return found if sound.all() else scatter(broadcast(found, part.count), pa.array(sound))
    return pa.nulls(rows.count, to_arrow(inner.type))


def _failed_rows(error: EvaluationError, rows: Rows) -> np.ndarray | None:
    """Which of the rows fail for a part of an expression; None if the error does not say."""
    if rows.count == 1:
        return np.ones(1, bool)
    part = error.__cause__.part if isinstance(error.__cause__, FailingRowsError) else None
    if part is None or (places := part.rows.places_in(rows)) is None:
        return None
    failed = np.zeros(rows.count, bool)
    failed[places[part.failed]] = True
    return failed


def _by_halves(inner: TypedExpression, rows: Rows, noting: Noting | None) -> pa.Array:
    places = np.arange(rows.count)
    halves = (pa.array(places < rows.count // 2), pa.array(places >= rows.count // 2))
    parts = [broadcast(null_where_failing(inner, rows.where(half), noting), half.true_count) for half in halves]
    return pa.concat_arrays(parts)


def _computed(inner: TypedExpression, values: list[pa.Array], count: int) -> pa.Array:
    """The results of rows, null where a row fails; the failing rows are known from the error, or searched for by halves."""
    layout = to_arrow(inner.type)
    try:
        found = OPERATIONS[inner.name].compute(inner, *values)
        found = broadcast(found, count)
        return recast(found, layout)
    except FailingRowsError as error:
        kept = [if_else(error.rows, pa.scalar(None, value.type), value) for value in values]
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
