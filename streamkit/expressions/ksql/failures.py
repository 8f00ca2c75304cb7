"""An expression that fails is null in its column, and the rows that failed are noted for the processing log."""

from __future__ import annotations

import numpy as np

from streamkit.expressions.casts.attempts import null_where_failing
from streamkit.expressions.core.failing_rows import FailedRows, note
from streamkit.expressions.core.operation import Datum, Invocation, always_nullable, can_fail, counted, function, operation
from streamkit.expressions.core.rows import Rows
from streamkit.expressions.core.spark_text import spark_text, unseen
from streamkit.expressions.ksql.times_of_day import retyped
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import shown_text, typed_text
from streamkit.plan.on_error import NULL_ON_FAILURE

NULL_INSIDE = "ksql_null_inside"  # the same of a part of an expression


@function(NULL_ON_FAILURE)
def _rule(call: Invocation) -> TypedExpression:
    """The value as a column keeps it; what cannot fail stays as it is."""
    return _attempt(retyped(*counted(call, 1)))


@function(NULL_INSIDE)
def _inner_rule(call: Invocation) -> TypedExpression:
    return _attempt(*counted(call, 1))


def _attempt(value: TypedExpression) -> TypedExpression:
    return TypedExpression(NULL_ON_FAILURE, value.type, (value,)) if can_fail(value) else value


@operation(NULL_ON_FAILURE, lazy=True, nullable=always_nullable)
def _null_on_failure(expression: TypedExpression, rows: Rows) -> Datum:
    """The value of the expression, null in the rows in which any part of it fails; these are noted."""
    (inner,) = expression.arguments

    def noting(part: Rows, failed: np.ndarray, reason: str) -> None:
        if (places := part.places_in()) is not None:
            note(FailedRows(typed_text(inner), shown_text(inner), places[failed], reason))

    return null_where_failing(inner, rows, noting)


spark_text(NULL_ON_FAILURE, NULL_INSIDE)(unseen)
