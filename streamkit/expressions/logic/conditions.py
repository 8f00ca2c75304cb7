"""Comparisons, three-valued logic, nulls and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit import conditionals
from streamkit.conditionals import if_else
from streamkit.data_type import INTEGERS, array_of, decimal_of, element_of, fields_of, has_map, struct_of, to_arrow
from streamkit.errors import TopologyError
from streamkit.expressions.core.coercion import (
    Combine,
    cast_to,
    common_type,
    wider_common,
    wider_common_without_strings,
    wider_decimal,
)
from streamkit.expressions.core.column import Column, to_literal
from streamkit.expressions.core.elements import booleans, validity
from streamkit.expressions.core.literals import literal, to_scalar
from streamkit.expressions.core.numbers import promoted
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, check_count, function, never_null, operation
from streamkit.expressions.core.ordering import joint_keys
from streamkit.expressions.core.recording import recorded
from streamkit.expressions.core.rows import Rows, broadcast
from streamkit.expressions.core.spark_text import spark_text
from streamkit.plan.expression import Call, ComputedConstant, Expression, TypedExpression
from streamkit.plan.location import user_location

__all__ = [
    "coalesce",
    "equal_null",
    "greatest",
    "ifnull",
    "isnan",
    "isnotnull",
    "isnull",
    "least",
    "nullif",
    "nvl",
    "nvl2",
    "when",
]

MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def comparison(name: str) -> Callable[[Invocation], TypedExpression | None]:
    """The rule of a comparison: texts are read as what they are compared with, numbers are compared as their common type."""

    def rule(call: Invocation) -> TypedExpression | None:
        left, right = compared(call, name)
        if left.type != right.type and unnamed(left.type) == unnamed(right.type):
            right = call.cast(right, left.type)
        if left.type != right.type:
            raise RuleError(
                f"the types of the operands do not go together: {call.types[0]} and {call.types[1]}; cast one of them"
            )
        if has_map(left.type):
            raise RuleError(f"values of {left.type} cannot be compared, since maps have no order")
        return TypedExpression(name, "boolean", (left, right))

    return rule


def unnamed(type: str) -> str:
    """The type with fields named by their places: structs of equal types are compared whatever the names."""
    if element := element_of(type):
        return array_of(unnamed(element))
    if fields := fields_of(type):
        return struct_of((f"_{place}", unnamed(inner)) for place, (_, inner) in enumerate(fields))
    return type


def compared(call: Invocation, name: str) -> tuple[TypedExpression, TypedExpression]:
    """The operands of a comparison as one type."""
    left, right = call.values if len(call.arguments) == 2 else promoted(call)
    if name in MIRRORED and (bounds := _integer_bounds(left, right, name)):
        left, right = bounds
    elif name in MIRRORED and (bounds := _integer_bounds(right, left, MIRRORED[name])):
        right, left = bounds
    left, right = promoted(replace(call, arguments=(left, right)))
    digits = decimal_of(left.type), decimal_of(right.type)
    if digits[0] and digits[1] and left.type != right.type:
        wider = wider_decimal(digits[0], digits[1])
        return call.cast(left, wider), call.cast(right, wider)
    return left, right


def _integer_bounds(value: TypedExpression, bound: TypedExpression, name: str) -> tuple[TypedExpression, TypedExpression] | None:
    """A comparison of integers with a decimal constant, as one with a whole number, which is much faster; None if it is something else."""
    if value.type not in INTEGERS or bound.name != "literal" or bound.value is None or not decimal_of(bound.type):
        return None
    number = Decimal(bound.value)
    whole = int(number.to_integral_value(ROUND_FLOOR if name in ("gt", "le") else ROUND_CEILING))
    return (value, literal(whole, "bigint")) if -(2**63) <= whole < 2**63 else None


def as_common_type(call: Invocation, values: Sequence[TypedExpression], combine: Combine = wider_common) -> list[TypedExpression]:
    """The values as the one type that all convert to; RuleError if there is none."""
    type = common_type((value.type for value in values), combine)
    if type is None:
        raise RuleError(
            f"{call.name} has values that do not go together: {', '.join(value.type for value in values)}; cast some of them"
        )
    return [call.cast(value, type) for value in values]


def as_condition(call: Invocation, value: TypedExpression) -> TypedExpression:
    """A boolean, or a bare null as one; RuleError if it is something else."""
    if value.type not in ("boolean", "void"):
        raise RuleError(f"{call.name} has a condition of type {value.type}; expected boolean")
    return cast_to(value, "boolean")


@function("ne")
def _ne_rule(call: Invocation) -> TypedExpression:
    return call.of("not", call.of("eq", *call.values))


@function("between")
def _between_rule(call: Invocation) -> TypedExpression:
    value, lower, upper = call.values
    once = ComputedConstant.of(value)  # Spark computes it once, and gives it a name
    return call.of("and", call.of("ge", once, lower), call.of("le", once, upper))


@spark_text("between")
def _between_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"({texts[0]} BETWEEN {texts[1]} AND {texts[2]})" if len(texts) == 3 else None


def nvl(value: Column | str, default: Column | str) -> Column:
    """`default` where the value is null."""
    return recorded("nvl", value, default)


ifnull = nvl


@function("nvl", "ifnull")
def _nvl_rule(call: Invocation) -> TypedExpression:
    check_count(call, 2)
    return call.of("coalesce", *call.values)


def nullif(value: Column | str, other: Column | str) -> Column:
    """Null where both values are equal, else the first."""
    return recorded("nullif", value, other)


@function("nullif")
def _nullif_rule(call: Invocation) -> TypedExpression:
    check_count(call, 2)
    value, other = call.values
    return call.of("when", call.of("eq", ComputedConstant.of(value), other), literal(None, value.type), value)


def nvl2(value: Column | str, not_null: Column | str, null: Column | str) -> Column:
    """`not_null` where the value is not null, else `null`."""
    return recorded("nvl2", value, not_null, null)


@function("nvl2")
def _nvl2_rule(call: Invocation) -> TypedExpression:
    check_count(call, 3)
    value, not_null, null = call.values
    return call.of("when", call.of("isnotnull", value), not_null, null)


def _logical_rule(call: Invocation) -> TypedExpression:
    left, right = promoted(call)
    return TypedExpression(call.name, "boolean", (as_condition(call, left), as_condition(call, right)))


def _coalesce_rule(call: Invocation) -> TypedExpression:
    if not call.arguments:
        raise RuleError("coalesce() takes 1 or more arguments; found 0")
    values = as_common_type(call, call.values)
    return TypedExpression("coalesce", values[0].type, tuple(values))


def _case_rule(call: Invocation) -> TypedExpression:
    """Conditions and values in turn, then perhaps the value of `else`."""
    values = call.values
    if len(values) < 2 or (call.name == "if" and len(values) != 3):
        raise RuleError(f"{call.name}() takes a condition and its value; found {len(values)} arguments")
    conditions = [as_condition(call, condition) for condition in values[0 : len(values) - 1 : 2]]
    results = as_common_type(call, [*values[1::2], *([values[-1]] if len(values) % 2 else [])])
    pairs = [part for pair in zip(conditions, results) for part in pair]
    return TypedExpression("case", results[0].type, (*pairs, *results[len(conditions) :]))


def _in_rule(call: Invocation) -> TypedExpression:
    values: Sequence[TypedExpression] = call.values
    if common_type(value.type for value in values) is None:
        type = common_type(unnamed(value.type) for value in values)  # names of fields do not count, as in a comparison
        values = values if type is None else [call.cast(value, type) for value in values]
    values = as_common_type(call, values)
    if has_map(values[0].type):
        raise RuleError(f"values of {values[0].type} cannot be compared, since maps have no order")
    return TypedExpression("in", "boolean", tuple(values))


def _extreme_rule(call: Invocation) -> TypedExpression:
    if len(call.arguments) < 2:
        raise RuleError(f"{call.name}() takes 2 or more arguments; found {len(call.arguments)}")
    values = as_common_type(call, call.values, wider_common_without_strings)
    if has_map(values[0].type):
        raise RuleError(f"values of {values[0].type} cannot be compared, since maps have no order")
    return TypedExpression(call.name, values[0].type, tuple(values))


def _null_without_else(expression: TypedExpression, nullable: Sequence[bool]) -> bool:
    values = [*nullable[1::2], *(nullable[-1:] if len(nullable) % 2 else [True])]
    return any(values)


def _all_null(_: TypedExpression, nullable: Sequence[bool]) -> bool:
    return all(nullable)


def has_nan(value: Datum) -> bool:
    """Whether NaN may be among the values; a null slot may count, which only costs time."""
    if not pa.types.is_floating(value.type):
        return False
    if isinstance(value, pa.Scalar):
        return value.is_valid and bool(np.isnan(value.as_py()))
    numbers = np.frombuffer(value.buffers()[1], value.type.to_pandas_dtype())[value.offset : value.offset + len(value)]
    return len(numbers) > 0 and bool(np.isnan(np.max(numbers)))


def _by_keys(compare: Callable[[np.ndarray, np.ndarray], np.ndarray], left: Datum, right: Datum) -> Datum:
    """Arrays and structs compared by their keys."""
    count = next((len(value) for value in (left, right) if isinstance(value, pa.Array)), None)
    one, other = (broadcast(value, 1 if count is None else count) for value in (left, right))
    result = booleans(compare(*joint_keys(one, other)), validity(one) & validity(other))
    return result[0] if count is None else result


def _unknown(left: Datum, right: Datum) -> Datum:
    """Nulls for values without a type, which Arrow does not compare."""
    count = next((len(value) for value in (left, right) if isinstance(value, pa.Array)), None)
    return pa.scalar(None, pa.bool_()) if count is None else pa.nulls(count, pa.bool_())


@operation("eq", rule=comparison("eq"))
def _eq(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    """NaN equals NaN, as in Spark; null if one side is."""
    if pa.types.is_null(left.type):
        return _unknown(left, right)
    if pa.types.is_nested(left.type):
        return _by_keys(np.equal, left, right)
    equal = pc.equal(left, right)
    return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right))) if has_nan(left) and has_nan(right) else equal


@operation("lt", rule=comparison("lt"))
def _lt(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    """NaN is greater than any other number, as in Spark."""
    if pa.types.is_null(left.type):
        return _unknown(left, right)
    if pa.types.is_nested(left.type):
        return _by_keys(np.less, left, right)
    less = pc.less(left, right)
    return pc.or_(less, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right))) if has_nan(right) else less


@operation("le", rule=comparison("le"))
def _le(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    if pa.types.is_null(left.type):
        return _unknown(left, right)
    if pa.types.is_nested(left.type):
        return _by_keys(np.less_equal, left, right)
    less = pc.less_equal(left, right)
    return pc.or_(less, pc.is_nan(right)) if has_nan(right) else less


@operation("gt", rule=comparison("gt"))
def _gt(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    return _lt(expression, right, left)


@operation("ge", rule=comparison("ge"))
def _ge(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    return _le(expression, right, left)


def equal_null(left: Column | str, right: Column | str) -> Column:
    """True where both values are equal, or both are null; never null."""
    return recorded("equal_null", left, right)


@operation("eq_null_safe", rule=comparison("eq_null_safe"), functions=("equal_null",), strict=False, nullable=never_null)
def _eq_null_safe(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
    """Null equals null and nothing else."""
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.coalesce(_eq(expression, left, right), both_null)


@operation("not", takes="boolean", gives="boolean")
def _not(_: TypedExpression, value: Datum) -> Datum:
    return pc.invert(value)


def isnull(column: Column | str) -> Column:
    """True where the value is null."""
    return recorded("isnull", column)


@operation("isnull", takes="any", gives="boolean", strict=False, nullable=never_null)
def _isnull(_: TypedExpression, value: Datum) -> Datum:
    return pc.is_null(value)


@spark_text("isnull")
def _isnull_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"({texts[0]} IS NULL)" if len(texts) == 1 else None


def isnotnull(column: Column | str) -> Column:
    """True where the value is not null."""
    return recorded("isnotnull", column)


@operation("isnotnull", takes="any", gives="boolean", strict=False, nullable=never_null)
def _isnotnull(_: TypedExpression, value: Datum) -> Datum:
    return pc.is_valid(value)


@spark_text("isnotnull")
def _isnotnull_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"({texts[0]} IS NOT NULL)" if len(texts) == 1 else None


def isnan(column: Column | str) -> Column:
    """True where the value is NaN."""
    return recorded("isnan", column)


@operation("isnan", takes="double|float", gives="boolean", strict=False, nullable=never_null)
def _isnan(_: TypedExpression, value: Datum) -> Datum:
    return pc.coalesce(pc.is_nan(value), pa.scalar(False))


@operation("and", rule=_logical_rule, lazy=True)
def _and(expression: TypedExpression, rows: Rows) -> Datum:
    """False as soon as one side is; the right side is not evaluated where the left is false."""
    return _logical(expression, rows, pc.and_kleene, decided=False)


@operation("or", rule=_logical_rule, lazy=True)
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


def coalesce(*columns: Column | str) -> Column:
    """The first value that is not null."""
    return recorded("coalesce", *columns)


@operation("coalesce", rule=_coalesce_rule, lazy=True, nullable=_all_null)
def _coalesce(expression: TypedExpression, rows: Rows) -> Datum:
    """The first value that is not null; later ones are not evaluated."""
    result = rows.value(expression.arguments[0])
    for argument in expression.arguments[1:]:
        if result.is_valid if isinstance(result, pa.Scalar) else not result.null_count:
            break
        other = rows.value_where(argument, broadcast(pc.is_null(result), rows.count))
        result = other if isinstance(result, pa.Scalar) else conditionals.coalesce(result, other)
    return result


def when(condition: Column, value: object) -> Column:
    """`value` where the condition is true; add branches with `.when(...)` and `.otherwise(...)`."""
    if not isinstance(condition, Column):
        raise TopologyError(f"the condition of when() must be a column; found {condition!r}", user_location())
    return Column(Call("when", (condition.expression, to_literal(value))))


@operation("case", rule=_case_rule, functions=("when", "if"), lazy=True, nullable=_null_without_else)
def _case(expression: TypedExpression, rows: Rows) -> Datum:
    """Conditions and values in turn, then perhaps the value of `else`; each is evaluated only for rows that reach it."""
    arguments = expression.arguments
    undecided = pa.repeat(pa.scalar(True), rows.count)
    # With `else` each row takes a value from a later branch or from it, unless the first one holds: there is nothing to be null.
    result: Datum | None = None if len(arguments) % 2 else pa.scalar(None, to_arrow(expression.type))
    for condition, value in zip(arguments[0::2], arguments[1::2], strict=False):
        holds = pc.fill_null(rows.value_where(condition, undecided), False)
        chosen = pc.and_(undecided, holds)
        found = rows.value_where(value, chosen)
        result = found if result is None else if_else(chosen, found, result)
        undecided = pc.and_not(undecided, holds)
    if len(arguments) % 2:
        result = if_else(undecided, rows.value_where(arguments[-1], undecided), result)
    return result


@spark_text("when")
def _case_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str:
    branches = "".join(f" WHEN {condition} THEN {value}" for condition, value in zip(texts[0::2], texts[1::2], strict=False))
    return f"(CASE{branches}{f' ELSE {texts[-1]}' if len(texts) % 2 else ''} END)"


@operation("in", rule=_in_rule, lazy=True)
def _in(expression: TypedExpression, rows: Rows) -> Datum:
    """True if equal to one; null if the value is null, or if it is equal to none and one is null."""
    value, *members = expression.arguments
    needle = rows.value(value)
    if not members:
        return pc.if_else(pc.is_null(needle), pa.scalar(None, pa.bool_()), pa.scalar(False))
    if all(member.name == "literal" for member in members) and not (
        pa.types.is_floating(needle.type) or pa.types.is_nested(needle.type)
    ):
        return _in_literals(needle, members)
    result: Datum = pc.if_else(pc.is_null(needle), pa.scalar(None, pa.bool_()), pa.scalar(False))
    for member in members:
        undecided = pc.and_(pc.is_valid(needle), pc.invert(pc.fill_null(result, False)))
        found = _eq(expression, needle, rows.value_where(member, broadcast(undecided, rows.count)))
        result = pc.or_kleene(result, found)
    return result


@spark_text("in")
def _in_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    if not texts:
        return None
    one, *members = texts
    return f"({one} IN ({', '.join(members)}))" if members else "(false)"


def _in_literals(needle: Datum, members: list[TypedExpression]) -> Datum:
    known = pa.array([scalar for member in members if (scalar := to_scalar(member.value, member.type)).is_valid], needle.type)
    found = pc.is_in(needle, value_set=known)
    if len(known) < len(members):
        found = pc.if_else(found, pa.scalar(True), pa.scalar(None, pa.bool_()))
    return pc.if_else(pc.is_null(needle), pa.scalar(None, pa.bool_()), found)


def greatest(*columns: Column | str) -> Column:
    """The largest value; nulls are skipped."""
    return recorded("greatest", *columns)


@operation("greatest", rule=_extreme_rule, strict=False, nullable=_all_null)
def _greatest(expression: TypedExpression, *values: Datum) -> Datum:
    """The largest value, nulls skipped, NaN the largest."""
    return reduce(lambda one, other: _pick(one, other, _lt(expression, one, other)), values)


def least(*columns: Column | str) -> Column:
    """The smallest value; nulls are skipped."""
    return recorded("least", *columns)


@operation("least", rule=_extreme_rule, strict=False, nullable=_all_null)
def _least(expression: TypedExpression, *values: Datum) -> Datum:
    """The smallest value; nulls are skipped."""
    return reduce(lambda one, other: _pick(one, other, _gt(expression, one, other)), values)


def _pick(one: Datum, other: Datum, is_other: Datum) -> Datum:
    return if_else(pc.coalesce(is_other, pc.is_null(one)), other, one)
