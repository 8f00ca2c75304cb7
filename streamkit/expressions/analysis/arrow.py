"""
Evaluates typed expressions on Arrow batches, as Spark would under ANSI rules.

Operations know no session: a time zone other than UTC stands in the expression (`session_zone`).

What each operation does stands with its family, as `families` lists them.
Names that are in none have no translation; `refusal` says so before anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.chunks import is_overflow, one_array
from streamkit.data_type import to_arrow
from streamkit.errors import ColumnTooLargeError, EvaluationError
from streamkit.expressions.analysis import families  # noqa: F401 - enters the operations
from streamkit.expressions.core.failing_rows import forget_notes, notes_so_far
from streamkit.expressions.core.operation import OPERATIONS
from streamkit.expressions.core.rows import FAILURES, Rows, broadcast, plain
from streamkit.expressions.core.sizes import TooLargeError
from streamkit.plan.expression import TypedExpression


def evaluate(expression: TypedExpression, batch: pa.RecordBatch) -> pa.Array:
    """
    The expression's value in each row: a plain array as long as the batch, of the Arrow type of `expression.type`.

    Columns may be dictionary-encoded. Raises EvaluationError where Spark would fail: overflow, division by zero, a cast
    of a value that does not fit; the message names the expression, the row and its values.
    """
    return evaluate_all([("", expression)], batch)[""]


def evaluate_all(columns: Sequence[tuple[str, TypedExpression]], batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """
    Named expressions as `evaluate` gives them; a user's function that several of them call runs once.

    Rows that are too long together are evaluated in two halves, so that no result depends on the rows beside it. A row that is too long
    alone is the failure of its record.
    """
    noted = notes_so_far()
    try:
        return _evaluated(columns, Rows.of(batch))
    except EvaluationError as error:
        if not isinstance(error.__cause__, TooLargeError):
            raise
    except (ColumnTooLargeError, *FAILURES) as error:
        if not is_overflow(error):
            raise
    forget_notes(noted)
    return _evaluated_apart(columns, batch)


def _evaluated_apart(
    columns: Sequence[tuple[str, TypedExpression]], batch: pa.RecordBatch, first: int = 0
) -> dict[str, pa.Array]:
    """As `evaluate_all`, of rows that have shown to be too long; nothing is computed for a row that Spark would skip."""
    noted = notes_so_far()
    try:
        return _evaluated(columns, Rows.of(batch, is_careful=True, first=first))
    except (ColumnTooLargeError, *FAILURES) as error:
        if not is_overflow(error):
            raise
        if batch.num_rows <= 1:
            raise EvaluationError(f"a row alone needs too much memory: {error}") from error
    forget_notes(noted)
    middle = batch.num_rows // 2
    parts = (batch.slice(0, middle), first), (batch.slice(middle), first + middle)
    halves = [_evaluated_apart(columns, part, start) for part, start in parts]
    return {name: one_array(pa.chunked_array([half[name] for half in halves]), name) for name, _ in columns}


def _evaluated(columns: Sequence[tuple[str, TypedExpression]], rows: Rows) -> dict[str, pa.Array]:
    arrays = {}
    for name, expression in columns:
        rows.share(expression)
        arrays[name] = plain(broadcast(rows.value(expression), rows.count), to_arrow(expression.type))
    return arrays


def mask(predicate: TypedExpression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """In which rows the predicate is true; null counts as false, so the mask has no nulls. Errors as `evaluate`."""
    selected = evaluate(predicate, batch)
    return selected.fill_null(False) if selected.null_count else selected


def refusal(expression: TypedExpression) -> str | None:
    """Why the expression itself (not its arguments) has no translation; None if it has one."""
    if expression.name in ("column", "literal", "lambda"):
        return None
    operation = OPERATIONS.get(expression.name)
    return operation.refuse(expression) if operation else "it has no Arrow translation"
