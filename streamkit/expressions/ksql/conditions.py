"""Conditions and branches: AND, OR, NOT, BETWEEN, IN, CASE and IS NULL."""

from __future__ import annotations

from functools import reduce

from streamkit.data_type import has_map
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import (
    Invocation,
    RuleError,
    counted,
)
from streamkit.expressions.ksql.nested_failures import null_nested
from streamkit.expressions.ksql.operators import listed_as_one_type, operator, sign_of
from streamkit.expressions.ksql.signature import ksql_type, needs_more_digits, widened
from streamkit.plan.expression import TypedExpression


def _logic(name: str) -> None:
    def rule(call: Invocation) -> TypedExpression:
        return call.of(name, *(_condition(call, value) for value in call.values))

    operator(name)(rule)


def _condition(call: Invocation, value: TypedExpression) -> TypedExpression:
    if value.type != "boolean":
        raise RuleError(f"{sign_of(call)} takes conditions; found {ksql_type(value.type)}")
    return value


for _name in ("and", "or", "not"):
    _logic(_name)


@operator("between")
def _between_rule(call: Invocation) -> TypedExpression:
    value, lower, upper = counted(call, 3)
    return call.of("and", call.of("ksql_ge", value, lower), call.of("ksql_le", value, upper))


@operator("in")
def _in_rule(call: Invocation) -> TypedExpression:
    """Null is in no list, and no member that is null is found."""
    value, *members = (one for place, one in enumerate(call.values) if not place or one.type != "void")
    if members and (needs_more_digits(one.type for one in call.values) or any(has_map(one.type) for one in call.values)):
        return reduce(lambda one, other: call.of("or", one, other), [call.of("ksql_eq", value, one) for one in members])
    values = [
        one if one.type == given.type else null_nested(one)
        for one, given in zip(listed_as_one_type(call, call.values), call.values, strict=True)
    ]
    return call.of("coalesce", call.of("in", *values), literal(False, "boolean"))


@operator("when")
def _case_rule(call: Invocation) -> TypedExpression:
    """Conditions and values in turn, then perhaps the value of ELSE; the values are of the very same type, and nothing converts them."""
    values = call.values
    conditions = [_condition(call, one) for one in values[0 : len(values) - 1 : 2]]
    others = [*values[1::2], *([values[-1]] if len(values) % 2 else [])]
    types = {one.type: None for one in others if one.type != "void"}
    if len(types) != 1:
        found = f"values of the types {', '.join(map(ksql_type, types))}" if types else "no value but NULL"
        raise RuleError(f"CASE has {found}; expected one type behind each THEN and ELSE, so cast some of them")
    results = [widened(call, one, next(iter(types))) for one in others]
    pairs = [part for pair in zip(conditions, results) for part in pair]
    return call.of("when", *pairs, *results[len(conditions) :])


@operator("isnull")
def _isnull_rule(call: Invocation) -> TypedExpression:
    return call.of("isnull", *counted(call, 1))


@operator("isnotnull")
def _isnotnull_rule(call: Invocation) -> TypedExpression:
    return call.of("isnotnull", *counted(call, 1))


@operator("concat_operator")
def _concat_rule(call: Invocation) -> TypedExpression:
    return call.of("ksql_concat", *call.values)
