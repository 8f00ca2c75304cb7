"""Operators, called in trees by the names which they have in each dialect (`add`, `eq`, `in`, `when`), behind `ksql_`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from streamkit.expressions.core.elements import truth
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, function
from streamkit.expressions.core.spark_text import spark_text, unseen
from streamkit.expressions.ksql.casts import converted, is_castable
from streamkit.expressions.ksql.nested_failures import null_nested
from streamkit.expressions.ksql.signature import is_number, ksql_type, widened, wider
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import OF_KSQL

SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "remainder": "%", "negate": "-", "eq": "=", "ne": "<>", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=", "eq_null_safe": "IS DISTINCT FROM", "when": "CASE", "get_item": "[]", "get_field": "->",
}  # fmt: skip
TRUE = ("t", "tr", "tru", "true", "y", "ye", "yes")
FALSE = ("f", "fa", "fal", "fals", "false", "n", "no")
READ_FROM_TEXTS = ("date", "timestamp", "time", "binary")
OPERATORS: set[str] = set()  # the names that have a rule
OperatorRule = Callable[[Invocation], TypedExpression]


def operator(name: str) -> Callable[[OperatorRule], OperatorRule]:
    """Enter the rule of an operator."""
    OPERATORS.add(name)
    spark_text(OF_KSQL + name)(unseen)
    return function(OF_KSQL + name)  # type: ignore[return-value]


def sign_of(call: Invocation) -> str:
    """The operator as people write it."""
    name = call.name.removeprefix(OF_KSQL)
    return SIGNS.get(name, name.upper())


def apart(call: Invocation, left: TypedExpression, right: TypedExpression, hint: str = "cast one of them") -> RuleError:
    """The error of two values that an operator does not take together."""
    return RuleError(f"{sign_of(call)} does not go with {ksql_type(left.type)} and {ksql_type(right.type)}; {hint}")


def as_type(call: Invocation, value: TypedExpression, type: str) -> TypedExpression:
    """A value as another type: widened if that is enough, else cast."""
    if value.type == type:
        return value
    if wider(value.type, type) == type:
        return widened(call, value, type)
    found = converted(call, value, type)
    is_unfit = found.name != "literal" or (type == "boolean" and str(value.value).lower() not in TRUE + FALSE)
    if value.name == "literal" and is_unfit:
        raise RuleError(f"{value.value!r} is no {ksql_type(type)}")
    return found


def flags(found: Datum) -> np.ndarray:
    """Booleans without nulls as numpy has them; a constant as one."""
    return np.array([found.as_py()]) if isinstance(found, pa.Scalar) else truth(found)


def listed_as_one_type(call: Invocation, values: Sequence[TypedExpression]) -> list[TypedExpression]:
    """
    Values as one type: numbers widen, and beside the first value that is not null constants become what it is.

    Beside a time or BYTES texts become that, each null where it fails, as ksqlDB casts them.
    """
    common: str | None = "void"
    for value in values:
        common = common and wider(common, value.type)
    if common is None:
        common = _type_of_list(call, values)
    listed = [as_type(call, value, common) for value in values]
    if common not in READ_FROM_TEXTS:
        return listed
    return [null_nested(one) if given.type == "string" else one for one, given in zip(listed, values, strict=True)]


def _type_of_list(call: Invocation, values: Sequence[TypedExpression]) -> str:
    """The type of a list of values: constants become the type of the first value that is not null, and texts that of a time or BYTES."""
    found = next(value.type for value in values if value.type != "void")
    for value in values:
        read = {found, value.type} - {"string"}
        is_read = len(read) == 1 and read.issubset(READ_FROM_TEXTS)
        common = read.pop() if is_read else wider(found, constant_type(value, found))
        if common is None and not (value.name == "literal" and is_castable(value.type, found)):
            types = ", ".join(ksql_type(one.type) for one in values)
            raise RuleError(f"{sign_of(call)} has values that do not go together: {types}; cast some of them")
        found = common or found
    return found


def constant_type(value: TypedExpression, beside: str) -> str:
    """The type of a value; of a text that is a number, beside a number, the least that holds it."""
    if value.name != "literal" or value.type != "string" or not is_number(beside):
        return value.type
    written = str(value.value).strip()
    if re.fullmatch(r"[+-]?[0-9]+", written):
        return "int" if -(2**31) <= int(written) < 2**31 else "bigint"
    if match := re.fullmatch(r"[+-]?([0-9]*)\.([0-9]*)", written):
        return f"decimal({max(len(match[1].lstrip('0')) + len(match[2]), 1)},{len(match[2])})"
    return "double" if re.fullmatch(r"[+-]?[0-9.]+[eE][+-]?[0-9]+", written) else value.type
