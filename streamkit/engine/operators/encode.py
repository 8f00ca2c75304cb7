"""Encode: rows of columns as the bytes of an opaque topic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.engine.epoch.event_time import times_of
from streamkit.engine.epoch.stream_time import UNKNOWN
from streamkit.engine.rows.rows import OptionalBatch, deletions_of, numbers, plain, record_columns, rows_of, with_one_key
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.errors import EvaluationError, SchemaError
from streamkit.formats.codec import Codec
from streamkit.formats.decoded import halved
from streamkit.formats.format import Format
from streamkit.names import DELETED, TIMESTAMP
from streamkit.plan.decoding import KEY
from streamkit.plan.event_time import EventTime
from streamkit.plan.naming import step_of
from streamkit.plan.operators.decode import VALUE
from streamkit.plan.operators.encode import Encode
from streamkit.schema import Schema


@kernel(Encode)
def encode(operator: Encode, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """The rows as key and value bytes; EvaluationError about the first that its format cannot hold, SchemaError if a registry refuses their schema."""
    (batch,) = inputs
    assert batch is not None
    deleted = deletions_of(batch)
    times = {} if operator.time is None else {TIMESTAMP: _times(operator.time, batch, deleted)}
    keyed = with_one_key(batch, operator.key.names)  # equal keys must have the same bytes
    columns = {
        KEY: _encoded(operator, context, KEY, keyed, _has_key(operator, batch)),
        VALUE: _encoded(operator, context, VALUE, batch, ~deleted),
    }
    marks = {DELETED: batch[DELETED]} if DELETED in batch.schema.names else {}
    return rows_of({**columns, **record_columns(batch), **times, **marks})


def _times(time: EventTime, batch: pa.RecordBatch, deleted: Mask) -> pa.Array:
    """The times that a column says, of deletions their own; EvaluationError about the first row without one."""
    values = plain(batch[time.column])
    for name in time.fields:
        values = pc.struct_field(values, [name])
    found = times_of(time, values)
    missing = np.flatnonzero((found == UNKNOWN) & ~deleted)
    if len(missing):
        since = " from 1970 on" if time.since_1970 else ""
        reason = f"the column {time} has no time{since}, and records are written under it"
        raise EvaluationError(reason, batch.slice(int(missing[0]), 1))
    return pa.array(np.where(found == UNKNOWN, numbers(batch, TIMESTAMP), found))


def _has_key(operator: Encode, batch: pa.RecordBatch) -> Mask:
    """Which rows have a key: mostly those with a column of it that is not null."""
    found = np.full(batch.num_rows, operator.writes_nulls)
    for name in operator.key.names:
        found |= batch[name].is_valid().to_numpy(zero_copy_only=False)
    return found


def _encoded(operator: Encode, context: Context, part: str, batch: pa.RecordBatch, present: Mask) -> pa.Array:
    """The bytes of the rows that are present, null for the others."""
    if not present.any():
        return pa.nulls(batch.num_rows, pa.binary())
    numbers = np.flatnonzero(present)
    format, columns = (operator.keys, operator.key) if part == KEY else (operator.format, operator.value)
    rows = rows_of({name: plain(batch[name]) for name in columns.names}).take(pa.array(numbers))
    codec = _codec(operator.format.topic or operator.topic, part, format, columns)
    _check_schema(operator, context, part, codec, rows)
    try:
        found = codec.encode(rows)
    except SchemaError as error:
        row, reason = _refused(codec, rows, error)
        reason = f"the {part} cannot be written: {reason}"
        raise EvaluationError(reason, batch.slice(int(numbers[row]), 1)) from error
    if present.all():
        return found
    return found.take(pa.array(np.cumsum(present) - 1, mask=~present))


def _check_schema(operator: Encode, context: Context, part: str, codec: Codec, rows: pa.RecordBatch) -> None:
    """SchemaError with the user's line if the registry refuses the schema: that would be so for each row, so none is left out for it."""
    try:
        codec.check_schema(rows)
    except SchemaError as error:
        place = context.program.place_of(operator.id)
        line = f"\n  at {place}" if place else ""
        raise SchemaError(f"{step_of(operator.id)}: the {part} cannot be written: {error}{line}") from error


def _refused(codec: Codec, rows: pa.RecordBatch, error: SchemaError) -> tuple[int, str]:
    """The first row that cannot be written, and why; the error itself if there is none by itself."""
    if error.rows:
        return error.rows[0], str(error).removeprefix(f"row {error.rows[0]}: ")

    def reads(start: int, end: int) -> str | None:
        try:
            codec.encode(rows.slice(start, end - start))
        except SchemaError as found:
            return str(found)
        return None

    refused = halved(rows.num_rows, reads, 1)
    if not refused:
        raise error
    return next(iter(refused.items()))


@lru_cache(maxsize=64)
def _codec(topic: str, part: str, format: Format, columns: Schema) -> Codec:
    return Codec(format, columns, topic, part)
