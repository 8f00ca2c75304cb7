"""Rows that made an operator fail, as rows of a dead-letter topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamkit.engine.epoch.stream_time import UNKNOWN
from streamkit.engine.rows.place import OPERATORS
from streamkit.engine.rows.rows import brought_by_time, own_columns, plain, rows_of
from streamkit.errors import EvaluationError
from streamkit.log.dead_letter import SCHEMA, attempt_of, encoded, of_topic, shown
from streamkit.log.slab.slab import read_rows
from streamkit.names import DELETED, HEADERS, INPUT, KEY_GROUP, OFFSET, ORDER, PARTITION, TIMESTAMP
from streamkit.plan.function_digest import type_name
from streamkit.plan.naming import step_of
from streamkit.plan.operator import Operator

if TYPE_CHECKING:
    from streamkit.engine.stage.context import Context

MICROSECONDS = 1000
_PLACE = (TIMESTAMP, ORDER, INPUT, PARTITION, OFFSET, KEY_GROUP)


@dataclass(frozen=True)
class OperatorFailure:
    """A row that made an operator fail, as a batch of its own, and how; of a call by schedule, a row with its time and place."""

    row: pa.RecordBatch
    error: EvaluationError


def dead_letters(operator: Operator, failures: Sequence[OperatorFailure], context: Context) -> pa.RecordBatch:
    """A row of a dead-letter topic for each failure, at the place of the row that failed."""
    letters = [_letter(operator, failure, context) for failure in failures]
    columns = {column.name: pa.array([letter[column.name] for letter in letters], column.arrow.type) for column in SCHEMA}
    names = [name for name in _PLACE if name in failures[0].row.schema.names]
    places = {name: pa.concat_arrays([plain(failure.row[name]) for failure in failures]) for name in names}
    times = pa.array([letter["timestamp"] // MICROSECONDS for letter in letters], pa.int64())
    return rows_of({**columns, **places, TIMESTAMP: times})


def _letter(operator: Operator, failure: OperatorFailure, context: Context) -> dict[str, Any]:
    cause = failure.error.__cause__
    is_own = cause is None or isinstance(cause, pa.ArrowException | EvaluationError)
    return {
        **_record(failure, context),
        "error": type_name(failure.error if is_own else cause),
        "message": str(failure.error),
        "operator": step_of(operator.id),
        "line": _line(operator, failure, context),
        "application": context.program.application,
    }


def _line(operator: Operator, failure: OperatorFailure, context: Context) -> str | None:
    """Where the expression that failed is written, or else the step."""
    place = context.program.place_of(operator.id, failure.error.expression)
    return place.partition("\n")[0].partition(", in the text given at ")[0] or None


def _record(failure: OperatorFailure, context: Context) -> dict[str, Any]:
    """The record that the row comes from, whole; the row itself if it comes from none. A call by schedule has no record."""
    row = failure.row
    found = original(row, context) if failure.error.call is None else None
    record = found
    if record is None:  # the columns by which the engine knows a row's place are no part of it
        record = rows_of({name: plain(row[name]) for name in [*own_columns(row), TIMESTAMP]})
    time = row if found is None or row[TIMESTAMP][0].as_py() != UNKNOWN else found
    letter = {
        "record": encoded(record),
        "is_whole": found is not None,
        "attempt": attempt_of(record),
        "timestamp": time[TIMESTAMP].cast(pa.int64())[0].as_py() * MICROSECONDS,
    }
    if found is None:
        return {**letter, **dict.fromkeys(("topic", "partition", "offset", "key")), "value": shown(record, own_columns(record))}
    source = context.program.inputs[row[INPUT][0].as_py()]
    is_deleted = bool(record[DELETED][0].as_py())
    values = [] if is_deleted else [name for name in source.schema.names if name not in source.key]
    place = {"topic": source.topic, "partition": row[PARTITION][0].as_py(), "offset": row[OFFSET][0].as_py()}
    return {**letter, **place, "key": shown(record, list(source.key)), "value": shown(record, values)}


def original(row: pa.RecordBatch, context: Context) -> pa.RecordBatch | None:
    """The whole record that a row comes from, with its time and headers; None for what no record of the epoch made."""
    if INPUT not in row.schema.names or brought_by_time(row).any():
        return None
    number, partition, offset = (row[name][0].as_py() for name in (INPUT, PARTITION, OFFSET))
    if not 0 <= number < min(len(context.program.inputs), OPERATORS):
        return None
    source = context.program.inputs[number]
    columns = [*source.schema.names, TIMESTAMP, DELETED, HEADERS]
    for piece in context.known_slices():
        if (piece.input, piece.partition) == (number, partition) and piece.start <= offset < piece.end:
            for extent in piece.extents:
                if extent.base_offset <= offset < extent.next_offset:
                    found, _ = read_rows(context.storage, extent, offset, offset + 1, columns, source)
                    return of_topic(found, extent.topic_id) if found.num_rows else None
    return None
