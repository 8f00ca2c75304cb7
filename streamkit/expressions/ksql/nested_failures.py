"""Parts of an expression that are null where they fail, while the rest of it goes on: what ksqlDB casts on its way into a function."""

from __future__ import annotations

from dataclasses import replace

from streamkit.expressions.core.operation import OPERATIONS, can_fail
from streamkit.plan.expression import TypedExpression
from streamkit.plan.on_error import NULL_NESTED


def null_nested(value: TypedExpression) -> TypedExpression:
    """The value, null in the rows in which it fails; itself if it cannot fail, or is so already."""
    value = failing_together(value)
    return TypedExpression(NULL_NESTED, value.type, (value,)) if can_fail(value) else value


def failing_together(value: TypedExpression) -> TypedExpression:
    """A value that is null where it fails, without the parts of it that are so by themselves, if their null makes it null anyway."""
    if value.name == NULL_NESTED:
        return failing_together(value.arguments[0])
    operation = OPERATIONS.get(value.name)
    if operation is None or not operation.strict:
        return value
    arguments = tuple(map(failing_together, value.arguments))
    same = all(one is other for one, other in zip(arguments, value.arguments, strict=True))
    return value if same else replace(value, arguments=arguments)
