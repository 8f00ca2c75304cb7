"""
Dead letters of connectors: bytes of a key and a value, and Connect's headers `__connect.errors.*`, which say what failed.

Those of a sink name a record of the log, which a replay can send again. Those of a source do so if it reads topics of the log. The
header `topic.id` says of which topic a record is, since another system may have one of the same name: it is empty where nothing says it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from streamkit.chunks import one_batch
from streamkit.errors import OffsetOutOfRangeError
from streamkit.log.dead_letter import UNKNOWN_ID, DeadLetter, attempt_of
from streamkit.log.log import Log
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP, TOPIC

PREFIX = "__connect.errors."
COLUMNS = (KEY, VALUE, HEADERS)
_PLACES = (TOPIC, PARTITION, OFFSET)


def has_connect_dead_letters(log: Log, name: str) -> bool:
    """Whether a topic is one of bytes whose first record has Connect's headers."""
    topic = log.topic(name)
    if topic.format is None or topic.format.name != "bytes":
        return False
    first = next(iter(log.scan(name, [HEADERS])), None)
    return first is not None and bool(_said(first[HEADERS][0].as_py()))


def connect_dead_letters_of(log: Log, rows: pa.RecordBatch) -> Iterator[DeadLetter]:
    """The dead letters in rows of their topic, which come with `_partition`, `_offset` and `_timestamp`."""
    for number, row in enumerate(rows.to_pylist()):
        said = _said(row[HEADERS])
        topic, partition, offset = said.get("topic"), _integer(said.get("partition")), _integer(said.get("offset"))
        found = _record(log, topic, said.get("topic.id"), partition, offset)
        record = rows.slice(number, 1).select([KEY, VALUE]) if found is None else found
        yield DeadLetter(
            place=(row[PARTITION], row[OFFSET]),
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp=row[TIMESTAMP],
            key=_text(row[KEY]),
            value=_text(row[VALUE]),
            record=record,
            is_whole=found is not None,
            error=said.get("exception.class.name", "unknown"),
            message=said.get("exception.message", ""),
            operator=said.get("stage", ""),
            line=None,
            attempt=1 if found is None else attempt_of(found),
            topic_id=_integer(said.get("topic.id")) or UNKNOWN_ID,
            application=said.get("connector.name", ""),
        )


def _record(
    log: Log, topic: str | None, topic_id: str | None, partition: int | None, offset: int | None
) -> pa.RecordBatch | None:
    """The record of the log that a dead letter names; None if it is not there, or if its topic is another one of that name."""
    if topic is None or partition is None or offset is None or topic not in log.topics():
        return None
    declared = log.topic(topic)
    if not 0 <= partition < declared.partitions or topic_id not in (None, str(declared.id)):
        return None
    try:
        found = log.read(topic, [*declared.schema.names, DELETED, HEADERS], [partition], offset, offset + 1)
    except OffsetOutOfRangeError:
        return None
    kept = found.select([*declared.schema.names, TIMESTAMP, DELETED, HEADERS])
    return one_batch(kept) if kept.num_rows else None


def _said(headers: Any) -> Mapping[str, str]:
    """What Connect's headers say, by name without the prefix."""
    named = [(header["key"], header["value"]) for header in headers or ()]
    return {name.removeprefix(PREFIX): _text(value) or "" for name, value in named if name.startswith(PREFIX)}


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="backslashreplace")


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
