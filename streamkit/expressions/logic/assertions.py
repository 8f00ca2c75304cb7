"""Failures that a program asks for: raise_error fails in every row that reaches it, assert_true where its condition does not hold."""

from __future__ import annotations

import pyarrow as pa

from streamkit.errors import EvaluationError
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    always,
    always_nullable,
    check_count,
    function,
    operation,
)
from streamkit.expressions.core.recording import given, given_text, recorded
from streamkit.expressions.core.rows import Rows
from streamkit.expressions.logic.conditions import as_condition
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import shown_text

__all__ = ["assert_true", "raise_error"]


def raise_error(message: Column | str) -> Column:
    """An error with the message, a text or a column, in every row for which it is evaluated."""
    return recorded("raise_error", given_text(message))


@operation("raise_error", takes="string", gives="void", lazy=True, fails=always, nullable=always_nullable)
def _raise_error(expression: TypedExpression, rows: Rows) -> Datum:
    """Fail with the message of the first row, if there is a row."""
    if not rows.count:
        return pa.scalar(None, pa.null())
    message = rows.value(expression.arguments[0])
    raise EvaluationError(f"raise_error: {(message[0] if isinstance(message, pa.Array) else message).as_py()}")


def assert_true(condition: Column | str, message: Column | str | None = None) -> Column:
    """Null where the condition holds; an error with the message, a text or a column, where it is false or null."""
    return recorded("assert_true", condition, *given(None if message is None else given_text(message)))


@function("assert_true")
def _assert_true_rule(call: Invocation) -> TypedExpression:
    """Null where the condition holds; where it is false or null, the failure with the message."""
    check_count(call, 1, 2)
    condition = as_condition(call, call.typed(0))
    message = call.typed(1) if len(call.arguments) == 2 else literal(f"'{shown_text(condition)}' is not true!", "string")
    return call.of("if", condition, literal(None, "void"), call.of("raise_error", message))
