"""
Event times that a column of the records says.

Whoever asks for the order of records asks here: the planner for the cut, readers for order keys. A record that says no time, because
its column is null, out of range or does not decode, moves none: it has the earliest time there is. The step `event_time` refuses it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.engine.epoch.stream_time import UNKNOWN
from streamkit.engine.rows.rows import plain
from streamkit.formats.codec import Codec
from streamkit.formats.format import Format
from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.names import DELETED, TIMESTAMP
from streamkit.plan.event_time import DAY, MILLISECONDS, TEXT, EventTime
from streamkit.plan.program import Input
from streamkit.schema import Schema

DAY_MS = 86_400_000


def columns_for_time(source: Input) -> list[str]:
    """The columns of a topic that its records' times need, beside `_timestamp`."""
    return [] if source.event_time is None else [*source.event_time.columns_read, DELETED]


def event_times(source: Input, batch: pa.RecordBatch) -> Integers:
    """
    The event time of each record, in milliseconds; `UNKNOWN` of those whose column says none.

    A deletion has no columns but those of its key: unless one of these says its time, it has the time under which it was written.
    """
    written: Integers = batch[TIMESTAMP].view(pa.int64()).to_numpy()
    if source.event_time is None or not batch.num_rows:
        return written
    deleted = batch[DELETED].to_numpy(zero_copy_only=False)
    found = times_of(source.event_time, _values(source, batch))
    if not deleted.any() and not source.event_time.part:
        return found
    if source.event_time.part:  # of a topic of bytes, in which null deletes
        deleted = deleted | batch[source.event_time.part].is_null().to_numpy(zero_copy_only=False)
    return np.where(deleted & (found == UNKNOWN), written, found)


def _values(source: Input, batch: pa.RecordBatch) -> pa.Array:
    """The column, or the field within it; null where it does not decode."""
    time = source.event_time
    assert time is not None
    values = plain(batch[time.part or time.column])
    if time.part:
        assert time.format is not None
        codec = _codec(source.topic, time.part, time.format, time.columns)
        decoded = codec.attempt(values, [time.column])
        values = decoded.rows.column(0)
        if decoded.failures:
            fails = np.zeros(len(values), bool)
            fails[list(decoded.failures)] = True
            values = values.take(pa.array(np.arange(len(values)), mask=fails))
    for field in time.fields:
        values = pc.struct_field(values, [field])
    return values


def times_of(time: EventTime, values: pa.Array) -> Integers:
    """
    Values as milliseconds, rounded down.

    `UNKNOWN` for null, for texts of another pattern, for times outside the range of event times, and before 1970 where these count as none.
    """
    if time.type == TEXT:
        values = _read(values, time.pattern)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    if time.type == DAY:
        values = values.cast(pa.int32()).cast(pa.int64())
    numbers = values.view(pa.int64())
    found = (numbers.fill_null(0) if numbers.null_count else numbers).to_numpy(zero_copy_only=False)
    if time.type == DAY:
        found = found * DAY_MS
    elif time.type not in (MILLISECONDS, TEXT):
        found = found // 1000
    known = known & (found >= (0 if time.since_1970 else -TIME_MS_MAX)) & (found <= TIME_MS_MAX)
    return found if known.all() else np.where(known, found, UNKNOWN)


def _read(texts: pa.Array, pattern: str) -> pa.Array:
    """The milliseconds that texts spell; null for others."""
    from streamkit.expressions.ksql.times import read_by_format

    micros, wrong, _ = read_by_format(texts, pattern)
    return pa.array(micros // 1000, pa.int64(), mask=wrong | ~texts.is_valid().to_numpy(zero_copy_only=False))


@lru_cache(maxsize=64)
def _codec(topic: str, part: str, format: Format, columns: Schema) -> Codec:
    return Codec(format, columns, topic, part)
