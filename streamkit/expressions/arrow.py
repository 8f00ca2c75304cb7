"""
Evaluates typed expressions on Arrow batches, as Spark would under ANSI rules.

Operations know no session: a time zone other than UTC stands in the expression (`session_zone`).

What each operation does stands with its family: conditions, numbers, strings, times, casts, arrays, maps, structs, lambdas, JSON.
Names that are in none have no translation; `refusal` says so before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from streamkit.data_type import to_arrow
from streamkit.expressions import (
    arrays,
    assertions,
    attempts,
    bits,
    casts,
    conditions,
    dates,
    encodings,
    format_strings,
    formatted_times,
    hashes,
    intervals,
    json_functions,
    lambdas,
    maps,
    mathematics,
    number_formats,
    numbers,
    python_functions,
    regular_expressions,
    rounding,
    strings,
    structs,
    substrings,
    time_sequences,
    times,
    urls,
    zoned_times,
)
from streamkit.expressions.operation import FUNCTIONS, OPERATIONS
from streamkit.expressions.rows import Rows, broadcast, plain
from streamkit.plan.expression import TypedExpression

FAMILIES = (
    conditions,
    numbers,
    strings,
    dates,
    substrings,
    regular_expressions,
    encodings,
    hashes,
    urls,
    times,
    formatted_times,
    zoned_times,
    intervals,
    casts,
    python_functions,
    arrays,
    maps,
    structs,
    lambdas,
    json_functions,
    rounding,
    mathematics,
    bits,
    attempts,
    format_strings,
    number_formats,
    assertions,
    time_sequences,
)  # importing them registers their operations


def evaluate(expression: TypedExpression, batch: pa.RecordBatch) -> pa.Array:
    """
    The expression's value in each row: a plain array as long as the batch, of the Arrow type of `expression.type`.

    Columns may be dictionary-encoded. Raises EvaluationError where Spark would fail: overflow, division by zero, a cast
    of a value that does not fit; the message names the expression, the row and its values.
    """
    rows = Rows.of(batch)
    rows.share(expression)
    return plain(broadcast(rows.value(expression), batch.num_rows), to_arrow(expression.type))


def evaluate_all(columns: Iterable[tuple[str, TypedExpression]], batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Named expressions as `evaluate` gives them; a user's function that several of them call runs once."""
    rows = Rows.of(batch)
    arrays = {}
    for name, expression in columns:
        rows.share(expression)
        arrays[name] = plain(broadcast(rows.value(expression), batch.num_rows), to_arrow(expression.type))
    return arrays


def mask(predicate: TypedExpression, batch: pa.RecordBatch) -> pa.BooleanArray:
    """In which rows the predicate is true; null counts as false, so the mask has no nulls. Errors as `evaluate`."""
    selected = evaluate(predicate, batch)
    return selected.fill_null(False) if selected.null_count else selected


def function_names() -> frozenset[str]:
    """What people call the operations by: names of pyspark.sql.functions, and some of operators."""
    return frozenset(FUNCTIONS)


def refusal(expression: TypedExpression) -> str | None:
    """Why the expression itself (not its arguments) has no translation; None if it has one."""
    if expression.name in ("column", "literal", "lambda"):
        return None
    operation = OPERATIONS.get(expression.name)
    return operation.refuse(expression) if operation else "it has no Arrow translation"
