"""Whether an expression can be null, by Spark's rules, which stand with each operation."""

from __future__ import annotations

from streamkit.expressions.core.operation import OPERATIONS
from streamkit.plan.expression import TypedExpression
from streamkit.schema import Schema


def is_nullable(expression: TypedExpression, schema: Schema) -> bool:
    """Whether the expression can be null in some row of the schema; parameters of lambdas can."""
    if expression.name == "column":
        return expression.value not in schema or schema[expression.value].nullable
    if expression.name == "literal":
        return expression.value is None
    if expression.name == "lambda":
        return is_nullable(expression.arguments[0], schema)
    nullable = [is_nullable(argument, schema) for argument in expression.arguments]
    return OPERATIONS[expression.name].nullable(expression, nullable)
