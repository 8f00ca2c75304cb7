"""
What fails is null, and the rows that failed are noted for the processing log.

Of a column that is an expression as a whole; of an element of ARRAY[…], MAP(…) and STRUCT(…); and of a cast, or of an argument that is itself a
call, around which the expression goes on (`NULL_NESTED`). A group key fails as a whole, whatever its parts are, and so does a condition;
but a part of a condition that is a BOOLEAN is false.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from streamkit.conditionals import if_else
from streamkit.expressions.casts.attempts import null_where_failing
from streamkit.expressions.core.failing_rows import FailedRows, note
from streamkit.expressions.core.operation import Datum, Invocation, always_nullable, can_fail, counted, function, operation
from streamkit.expressions.core.rows import Rows, broadcast
from streamkit.expressions.core.spark_text import spark_text, unseen
from streamkit.expressions.ksql.nested_failures import failing_together, null_nested
from streamkit.expressions.ksql.times_of_day import retyped
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import shown_text, typed_text
from streamkit.plan.on_error import FALSE_NESTED, NULL_NESTED, NULL_ON_FAILURE

NULL_INSIDE = "ksql_null_inside"  # an element
NULL_AS_A_WHOLE = "ksql_null_as_a_whole"  # null if any part fails
FALSE_ON_FAILURE = "ksql_false_on_failure"  # a condition


@function(NULL_ON_FAILURE)
def _rule(call: Invocation) -> TypedExpression:
    """The value as a column keeps it; what cannot fail stays as it is."""
    return _attempt(retyped(*counted(call, 1)))


@function(NULL_INSIDE)
def _inner_rule(call: Invocation) -> TypedExpression:
    return _attempt(*counted(call, 1))


@function(NULL_NESTED)
def _nested_rule(call: Invocation) -> TypedExpression:
    return null_nested(*counted(call, 1))


@function(NULL_AS_A_WHOLE)
def _whole_rule(call: Invocation) -> TypedExpression:
    """The value as a column keeps it; null if any part of it fails."""
    (value,) = counted(call, 1)
    return _attempt(retyped(_changed(value, lambda inner: inner)))


@function(FALSE_ON_FAILURE)
def _condition_rule(call: Invocation) -> TypedExpression:
    """A condition, null where it fails; only parts that are BOOLEAN are false by themselves, since ksqlDB has that instead of null there."""

    def changed(inner: TypedExpression) -> TypedExpression:
        return TypedExpression(FALSE_NESTED, inner.type, (inner,)) if inner.type == "boolean" else inner

    (value,) = counted(call, 1)
    return _attempt(_changed(value, changed))


def _changed(value: TypedExpression, change: Callable[[TypedExpression], TypedExpression]) -> TypedExpression:
    """The expression with `change` applied to each part that may fail apart from the rest."""
    arguments = tuple(_changed(one, change) for one in value.arguments)
    if value.name == NULL_NESTED:
        return change(arguments[0])
    same = all(one is other for one, other in zip(arguments, value.arguments, strict=True))
    return value if same else replace(value, arguments=arguments)


def _attempt(value: TypedExpression) -> TypedExpression:
    value = failing_together(value)
    return TypedExpression(NULL_ON_FAILURE, value.type, (value,)) if can_fail(value) else value


@operation(NULL_ON_FAILURE, lazy=True, nullable=always_nullable)
def _null_on_failure(expression: TypedExpression, rows: Rows) -> Datum:
    """The value of the expression, null in the rows in which any part of it fails; these are noted."""
    return _noting(expression, rows)[0]


@operation(NULL_NESTED, lazy=True, nullable=always_nullable)
def _null_nested(expression: TypedExpression, rows: Rows) -> Datum:
    return _noting(expression, rows)[0]


@operation(FALSE_NESTED, lazy=True, nullable=always_nullable)
def _false_nested(expression: TypedExpression, rows: Rows) -> Datum:
    """The value of the expression, false in the rows in which any part of it fails; these are noted."""
    found, failed = _noting(expression, rows)
    return if_else(pa.array(failed), pa.scalar(False), broadcast(found, rows.count)) if failed.any() else found


def _noting(expression: TypedExpression, rows: Rows) -> tuple[Datum, np.ndarray]:
    """The value of what a call is of, null in the rows that fail, and which these are."""
    (inner,) = expression.arguments
    failing = np.zeros(rows.count, bool)

    def noting(part: Rows, failed: np.ndarray, reason: str) -> None:
        if (own := part.places_in(rows)) is not None:
            failing[own[failed]] = True
        if (places := part.places_in()) is not None:
            note(FailedRows(typed_text(inner), shown_text(inner), places[failed], reason))

    return null_where_failing(inner, rows, noting), failing


spark_text(NULL_ON_FAILURE, NULL_INSIDE, NULL_NESTED, NULL_AS_A_WHOLE, FALSE_ON_FAILURE)(unseen)
