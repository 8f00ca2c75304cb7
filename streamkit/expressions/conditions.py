"""Comparisons, three-valued logic, nulls and branches."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import to_arrow
from streamkit.expressions.literals import to_scalar
from streamkit.expressions.operation import Datum, operation, reads, replacement
from streamkit.expressions.rows import Rows, broadcast
from streamkit.plan.expression import TypedExpression

reads("Between", "Nvl", "NullIf", "Nvl2", functions=("between", "nvl", "ifnull", "nullif", "nvl2"))(replacement)


def has_nan(value: Datum) -> bool:
    """Whether NaN may be among the values; a null slot may count, which only costs time."""
    if not pa.types.is_floating(value.type):
        return False
    if isinstance(value, pa.Scalar):
        return value.is_valid and bool(np.isnan(value.as_py()))
    numbers = np.frombuffer(value.buffers()[1], value.type.to_pandas_dtype())[value.offset : value.offset + len(value)]
    return len(numbers) > 0 and bool(np.isnan(np.max(numbers)))


@operation("eq", catalyst="EqualTo")
def _eq(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    """NaN equals NaN, as in Spark; null if one side is."""
    equal = pc.equal(left, right)
    return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right))) if has_nan(left) and has_nan(right) else equal


@operation("lt", catalyst="LessThan")
def _lt(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    """NaN is greater than any other number, as in Spark."""
    less = pc.less(left, right)
    return pc.or_(less, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right))) if has_nan(right) else less


@operation("le", catalyst="LessThanOrEqual")
def _le(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    less = pc.less_equal(left, right)
    return pc.or_(less, pc.is_nan(right)) if has_nan(right) else less


@operation("gt", catalyst="GreaterThan")
def _gt(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    return _lt(expression, right, left)


@operation("ge", catalyst="GreaterThanOrEqual")
def _ge(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    return _le(expression, right, left)


@operation("eq_null_safe", catalyst="EqualNullSafe", strict=False)
def _eq_null_safe(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    """Null equals null and nothing else."""
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.coalesce(_eq(expression, left, right), both_null)


@operation("not", catalyst="Not")
def _not(_: TypedExpression, value: Datum) -> Datum:
    return pc.invert(value)


@operation("isnull", catalyst="IsNull", strict=False)
def _isnull(_: TypedExpression, value: Datum) -> Datum:
    return pc.is_null(value)


@operation("isnotnull", catalyst="IsNotNull", strict=False)
def _isnotnull(_: TypedExpression, value: Datum) -> Datum:
    return pc.is_valid(value)


@operation("isnan", catalyst="IsNaN", strict=False)
def _isnan(_: TypedExpression, value: Datum) -> Datum:
    return pc.coalesce(pc.is_nan(value), pa.scalar(False))


@operation("and", catalyst="And", lazy=True)
def _and(expression: TypedExpression, rows: Rows) -> Datum:
    """False as soon as one side is; the right side is not evaluated where the left is false."""
    return _logical(expression, rows, pc.and_kleene, decided=False)


@operation("or", catalyst="Or", lazy=True)
def _or(expression: TypedExpression, rows: Rows) -> Datum:
    """True as soon as one side is; the right side is not evaluated where the left is true."""
    return _logical(expression, rows, pc.or_kleene, decided=True)


def _logical(expression: TypedExpression, rows: Rows, combine: Callable[[Datum, Datum], Datum], decided: bool) -> Datum:
    left, right = expression.arguments
    first = rows.value(left)
    if isinstance(first, pa.Scalar) and first.as_py() is decided:
        return first
    undecided = pc.fill_null(pc.invert(first) if decided else first, True)
    return combine(first, rows.value_where(right, broadcast(undecided, rows.count)))


@operation("coalesce", catalyst="Coalesce", lazy=True)
def _coalesce(expression: TypedExpression, rows: Rows) -> Datum:
    """The first value that is not null; later ones are not evaluated."""
    result = rows.value(expression.arguments[0])
    for argument in expression.arguments[1:]:
        if result.is_valid if isinstance(result, pa.Scalar) else not result.null_count:
            break
        other = rows.value_where(argument, broadcast(pc.is_null(result), rows.count))
        result = other if isinstance(result, pa.Scalar) else pc.coalesce(result, other)
    return result


@operation("case", catalyst=("If", "CaseWhen"), lazy=True)
def _case(expression: TypedExpression, rows: Rows) -> Datum:
    """Conditions and values in turn, then perhaps the value of `else`; each is evaluated only for rows that reach it."""
    arguments = expression.arguments
    undecided = pa.repeat(pa.scalar(True), rows.count)
    result: Datum = pa.scalar(None, to_arrow(expression.type))
    for condition, value in zip(arguments[0::2], arguments[1::2], strict=False):
        holds = pc.fill_null(rows.value_where(condition, undecided), False)
        chosen = pc.and_(undecided, holds)
        result = pc.if_else(chosen, rows.value_where(value, chosen), result)
        undecided = pc.and_not(undecided, holds)
    if len(arguments) % 2:
        result = pc.if_else(undecided, rows.value_where(arguments[-1], undecided), result)
    return result


@operation("in", catalyst="In", lazy=True)
def _in(expression: TypedExpression, rows: Rows) -> Datum:
    """True if equal to one; null if the value is null, or if it is equal to none and one is null."""
    value, *members = expression.arguments
    needle = rows.value(value)
    if not members:
        return pc.if_else(pc.is_null(needle), pa.scalar(None, pa.bool_()), pa.scalar(False))
    if all(member.name == "literal" for member in members) and not pa.types.is_floating(needle.type):
        return _in_literals(needle, members)
    result: Datum = pc.if_else(pc.is_null(needle), pa.scalar(None, pa.bool_()), pa.scalar(False))
    for member in members:
        undecided = pc.and_(pc.is_valid(needle), pc.invert(pc.fill_null(result, False)))
        found = _eq(expression, needle, rows.value_where(member, broadcast(undecided, rows.count)))
        result = pc.or_kleene(result, found)
    return result


def _in_literals(needle: Datum, members: list[TypedExpression]) -> Datum:
    known = pa.array([scalar for member in members if (scalar := to_scalar(member.value, member.type)).is_valid], needle.type)
    found = pc.is_in(needle, value_set=known)
    if len(known) < len(members):
        found = pc.if_else(found, pa.scalar(True), pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_null(needle), pa.scalar(None, pa.bool_()), found)


@operation("greatest", catalyst="Greatest", strict=False)
def _greatest(expression: TypedExpression, *values: Datum) -> Datum:
    """The largest value, nulls skipped, NaN the largest."""
    return reduce(lambda one, other: _pick(one, other, _lt(expression, one, other)), values)


@operation("least", catalyst="Least", strict=False)
def _least(expression: TypedExpression, *values: Datum) -> Datum:
    """The smallest value, nulls skipped."""
    return reduce(lambda one, other: _pick(one, other, _gt(expression, one, other)), values)


def _pick(one: Datum, other: Datum, is_other: Datum) -> Datum:
    return pc.if_else(pc.coalesce(is_other, pc.is_null(one)), other, one)
