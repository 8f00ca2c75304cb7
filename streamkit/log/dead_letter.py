"""
Dead letters: records that could not be processed, with what went wrong, as rows of a topic.

`record` holds the record itself as an Arrow IPC stream of one row: its columns, and `_timestamp`, `_deleted` and `_headers`. So every
type survives. The stream's schema has the id of the record's topic, for a topic that is deleted and made again has the name alone in
common. `key` and `value` show it as JSON, for people and for other programs. Where no record is to blame (a result that
time brought, say), `record` is the row that came to the step, `is_whole` is false, and topic, partition and offset are null.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from streamkit.log.slab.frame import HEADERS_TYPE
from streamkit.log.values.python_values import python_values
from streamkit.names import HEADERS, OFFSET, PARTITION
from streamkit.schema import Schema

SCHEMA = Schema.parse(
    "topic string, partition int, offset bigint, timestamp timestamp, key string, value string, record binary NOT NULL, "
    "is_whole boolean NOT NULL, error string NOT NULL, message string NOT NULL, operator string NOT NULL, line string, "
    "attempt int NOT NULL, application string NOT NULL"
)
ATTEMPT_HEADER = "__streamkit.errors.attempt"  # which attempt a record is that was sent again; the first has none
UNKNOWN_ID = 0  # of the topic of a dead letter that does not say it, as those of earlier versions
_TOPIC_ID = b"streamkit.topic.id"  # in the metadata of the stream's schema
RecordOrigin: TypeAlias = tuple[str, int, int, int]  # the topic's name and its id, the partition, the offset


class DescribedTopic(Protocol):
    """A topic, as far as its columns say what it holds."""

    @property
    def schema(self) -> Schema: ...


@dataclass(frozen=True)
class DeadLetter:
    """
    A record that could not be processed, wherever its description was written.

    `place` is (partition, offset) in the dead-letter topic; `topic`, `partition` and `offset` are the record's own place. `record` is the
    row itself. `attempt` counts from 1. `timestamp` is its event time. `topic_id` is the id that the topic had.
    """

    place: tuple[int, int]
    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: Any
    key: str | None
    value: str | None
    record: pa.RecordBatch
    is_whole: bool
    error: str
    message: str
    operator: str
    line: str | None
    attempt: int
    application: str
    topic_id: int = UNKNOWN_ID

    @property
    def origin(self) -> RecordOrigin | None:
        """The record's own place; None if it is not one that can be sent again."""
        if not self.is_whole or self.topic is None or self.partition is None or self.offset is None:
            return None
        return self.topic, self.topic_id, self.partition, self.offset

    def again(self) -> pa.RecordBatch:
        """The record as it was, as a row for a producer; its header says which attempt it is."""
        names = self.record.schema.names
        before = (self.record[HEADERS][0].as_py() if HEADERS in names else None) or ()
        kept = [header for header in before if header["key"] != ATTEMPT_HEADER]
        attempt = {"key": ATTEMPT_HEADER, "value": str(self.attempt + 1).encode()}
        columns = {name: self.record[name] for name in names} | {HEADERS: pa.array([[*kept, attempt]], HEADERS_TYPE)}
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def is_dead_letter_topic(topic: DescribedTopic) -> bool:
    """Whether a topic has the columns of dead letters."""
    return {(column.name, column.type) for column in topic.schema} == {(column.name, column.type) for column in SCHEMA}


def dead_letters_of(rows: pa.RecordBatch) -> Iterator[DeadLetter]:
    """The dead letters in rows of their topic, which come with `_partition` and `_offset`."""
    for row in _rows(rows.select([*SCHEMA.names, PARTITION, OFFSET])):
        place = (row.pop(PARTITION), row.pop(OFFSET))
        record = decoded(row["record"])
        yield DeadLetter(
            place, **{**row, "record": record, "topic_id": int((record.schema.metadata or {}).get(_TOPIC_ID, UNKNOWN_ID))}
        )


def encoded(record: pa.RecordBatch) -> bytes:
    """A row as an Arrow IPC stream; what lies beside it in memory stays behind."""
    record = record.take([0])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, record.schema) as writer:
        writer.write_batch(record)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def decoded(content: bytes) -> pa.RecordBatch:
    """The row of an Arrow IPC stream."""
    with pa.ipc.open_stream(content) as stream:
        return stream.read_next_batch()


def of_topic(record: pa.RecordBatch, topic_id: int) -> pa.RecordBatch:
    """The row of a record, which says the id of its topic."""
    return record.replace_schema_metadata({_TOPIC_ID: str(topic_id)})


def attempt_of(record: pa.RecordBatch) -> int:
    """Which attempt a record is: the number in its header, 1 without one that is a number."""
    headers = record[HEADERS][0].as_py() if HEADERS in record.schema.names else None
    for header in reversed(headers or ()):
        if header["key"] == ATTEMPT_HEADER and (header["value"] or b"").isdigit():
            return max(1, min(int(header["value"]), 2**31 - 1))
    return 1


def shown(record: pa.RecordBatch, names: list[str]) -> str | None:
    """Columns of a row as JSON; None if it has none of them."""
    columns = record.select([name for name in names if name in record.schema.names])
    return json_text(_rows(columns)[0]) if columns.num_columns else None


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    values = zip(*map(python_values, batch.columns), strict=True)
    return [dict(zip(batch.schema.names, row, strict=True)) for row in values]


def json_text(value: Any) -> str:
    """A value as a line of JSON: moments and numbers that JSON has not are texts, bytes are in base 64."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """A value as JSON has it: moments and what JSON has no type for as text, bytes in base 64."""
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else str(_plain(name)): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, dt.date | dt.time) else str(value)
