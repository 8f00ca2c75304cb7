"""Functions of nulls."""

from __future__ import annotations

from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation
from streamkit.expressions.ksql.function import formula
from streamkit.expressions.ksql.operators import listed_as_one_type
from streamkit.plan.expression import TypedExpression


@formula("coalesce", "T* -> T")
def _coalesce(call: Invocation) -> TypedExpression:
    """The first value that is not null."""
    return call.of("coalesce", *call.values)


@formula("ifnull", "T, T -> T")
def _ifnull(call: Invocation) -> TypedExpression:
    """The value, or the second one where it is null."""
    return call.of("coalesce", *call.values)


@formula("nullif", "T, T -> T")
def _nullif(call: Invocation) -> TypedExpression:
    """Null where both values are equal, else the first one."""
    value, other = listed_as_one_type(call, call.values)
    return call.of("when", call.of("ksql_eq", value, other), literal(None, value.type), value)


@formula("as_value", "T -> T")
def _as_value(call: Invocation) -> TypedExpression:
    """The value as it is: a key column that is to be a value column too."""
    return call.typed(0)
