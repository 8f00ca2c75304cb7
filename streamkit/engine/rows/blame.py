"""Finds the record that an error is about: its topic, partition, offset and key, and the user's line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from streamkit.engine.rows.place import OPERATORS, has_place
from streamkit.engine.rows.rows import brought_by_time, plain
from streamkit.errors import EvaluationError
from streamkit.expressions.core.failing_rows import first_failure
from streamkit.names import INPUT, OFFSET, PARTITION
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program


def with_record(
    error: EvaluationError,
    operator: Operator,
    program: Program,
    inputs: Sequence[pa.RecordBatch | None],
    run: Callable[[pa.RecordBatch], object],
    whole: Callable[[pa.RecordBatch], pa.RecordBatch | None],
) -> EvaluationError:
    """
    The error of the first row that fails, with the record that it is about, and the line that declared the step.

    `run` runs the operator on some of the rows, without effects; with it that row is found, unless the error says which it is about. The
    record is left out if rows carry no place, or if the error does not come from one row. `whole` reads the record that a row comes from,
    for its key.
    """
    rows = [batch for batch in inputs if batch is not None]
    record = ""
    if error.row is not None:
        record = _record(program, error.row, whole)
    elif len(rows) == 1 and has_place(rows[0]) and (first := first_failure(rows[0], run)) is not None:
        row, error = first
        record = _record(program, row, whole)
    place = program.place_of(operator.id, error.expression)
    found = type(error)(f"{record}{error}" + (f"\n  at {place}" if place else ""), expression=error.expression)
    found.is_placed = bool(record)
    found.__cause__ = error
    return found


def _record(program: Program, row: pa.RecordBatch, whole: Callable[[pa.RecordBatch], pa.RecordBatch | None]) -> str:
    if not row.num_rows or not has_place(row):  # rows to be folded have none yet: they are read again with their places
        return ""
    if brought_by_time(row).any():  # what failed is no record, such as a punctuation or a final result
        return ""
    number = row[INPUT][0].as_py()
    if not 0 <= number < min(len(program.inputs), OPERATORS):
        return ""
    source = program.inputs[number]
    keyed = row if set(source.key).issubset(row.schema.names) else whole(row) or row
    key = [f"{name} = {plain(keyed[name])[0].as_py()!r}" for name in source.key if name in keyed.schema.names]
    place = f"topic {source.topic}, partition {row[PARTITION][0].as_py()}, offset {row[OFFSET][0].as_py()}"
    return f"{place}, key {', '.join(key)}: " if key else f"{place}: "
