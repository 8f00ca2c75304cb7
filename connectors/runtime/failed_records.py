"""Dead letters of connectors: the record as it was, with Connect's headers that say what failed."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from streamkit.connectors.connector import DEAD_LETTERS
from streamkit.connectors.files.record_lines import json_text
from streamkit.connectors.runtime.pipeline import RecordFailure
from streamkit.connectors.runtime.sound_texts import shown_value
from streamkit.connectors.source import RawRecord
from streamkit.errors import ConfigError
from streamkit.log.connect_dead_letter import PREFIX
from streamkit.log.log import Log
from streamkit.log.topic.formats import KEY, OPAQUE_SCHEMA, VALUE
from streamkit.names import DELETED, HEADERS, LOG_COLUMNS, OFFSET, PARTITION, TIMESTAMP, TOPIC


@dataclass(frozen=True)
class FailedConnector:
    """Whose records failed; `is_raw` if they are `key binary, value binary`."""

    connector: str
    task: int
    class_name: str
    has_headers: bool
    redacted: Any  # takes secrets out of a text


def declare_dead_letters(log: Log, topic: str) -> None:
    """Create the topic unless it is there; ConfigError for one that has columns, or is compacted: a dead letter may be without a key."""
    if topic not in log.topics():
        log.create_topic(topic, format="bytes")
        return
    found = log.topic(topic)
    reason = "has columns" if found.schema != OPAQUE_SCHEMA else "is compacted" if found.is_compacted else None
    if reason is not None:
        raise ConfigError(
            f"found {DEAD_LETTERS}={topic}, and the topic {topic} {reason}: it cannot hold every record that fails; expected a topic of bytes "
            "that is not compacted, or a name that no topic has, which is created"
        )


def dead_letters(
    origin: FailedConnector,
    topic: str,
    rows: pa.Table,
    key: Sequence[str],
    failures: Sequence[RecordFailure],
    *,
    has_nulls: bool = True,
    identities: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """
    The rows to write for failed records: `rows` are those that came in, `topic` where they came from or were bound for.

    `identities` are the ids of topics by `<topic>-<partition>`. Without `has_nulls` a letter leaves out columns that are null: the
    record may not have them, but others that came with it.
    """
    return [
        _letter(origin, topic, _row(rows, failure.row, has_nulls=has_nulls), key, failure, identities) for failure in failures
    ]


def as_read(record: RawRecord | None) -> dict[str, Any]:
    """What a letter has of a record that its source can still say; nothing if it cannot."""
    if record is None:
        return {}
    key, value = record
    return {KEY: key, VALUE: value, DELETED: value is None and key is not None}


def _row(rows: pa.Table, number: int, *, has_nulls: bool) -> dict[str, Any]:
    """A row that may be of anything: texts that are no UTF-8, times of far years."""
    one = rows.slice(number, 1)
    found = {name: shown_value(one[name]) for name in one.column_names}
    return {name: value for name, value in found.items() if has_nulls or value is not None}


def _letter(
    origin: FailedConnector,
    topic: str,
    row: Mapping[str, Any],
    key: Sequence[str],
    failure: RecordFailure,
    identities: Mapping[str, str],
) -> dict[str, Any]:
    place = (str(row.get(TOPIC) or topic), row.get(PARTITION), row.get(OFFSET))
    topic_id = None if place[2] is None else identities.get(f"{place[0]}-{place[1]}", "")
    context = _context(origin, place, topic_id, failure)
    letter = {**_payload(row, key), HEADERS: [*(_pairs(row.get(HEADERS))), *context]}
    return letter if row.get(TIMESTAMP) is None else letter | {TIMESTAMP: row[TIMESTAMP]}


def _payload(row: Mapping[str, Any], key: Sequence[str]) -> dict[str, Any]:
    own = {name: value for name, value in row.items() if name not in (*LOG_COLUMNS, TOPIC)}
    if set(own) == {KEY, VALUE}:
        return {KEY: own[KEY], VALUE: own[VALUE], **({DELETED: True} if own[VALUE] is None and own[KEY] is not None else {})}
    keys = {name: own[name] for name in key if name in own}
    if not row.get(DELETED):
        return {KEY: _json(keys) if keys else None, VALUE: _json(own)}
    if keys and all(value is None for name, value in own.items() if name not in keys):
        return {KEY: _json(keys), VALUE: None, DELETED: True}
    return {KEY: _json(keys) if keys else None, VALUE: _json({**own, DELETED: True})}  # a key alone would not say it all


def _json(values: Mapping[str, Any]) -> bytes:
    return json_text(values).encode()


def _pairs(headers: Any) -> list[tuple[str, bytes | None]]:
    return [tuple(pair.values()) if isinstance(pair, dict) else tuple(pair) for pair in headers or ()]


_ROW = re.compile(r"(^|: )row \d+, ")  # where the record was in its poll; a dead letter has its offset


def class_of(origin: FailedConnector, failure: RecordFailure) -> str:
    """The class that failed: a transform by Connect's name, or the connector's."""
    return getattr(failure.error, "class_name", origin.class_name)


def _context(
    origin: FailedConnector, place: tuple[str, int | None, int | None], topic_id: str | None, failure: RecordFailure
) -> list[tuple[str, bytes]]:
    if not origin.has_headers:
        return []
    error = failure.error
    trace = "".join(traceback.format_exception(error))
    said = {
        "topic": place[0],
        "topic.id": topic_id,
        "partition": place[1],
        "offset": place[2],
        "connector.name": origin.connector,
        "task.id": origin.task,
        "stage": failure.stage,
        "class.name": class_of(origin, failure),
        "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
        "exception.message": origin.redacted(_ROW.sub(r"\1", str(error))),
        "exception.stacktrace": origin.redacted(trace),
    }
    return [(PREFIX + name, str(value).encode(errors="backslashreplace")) for name, value in said.items() if value is not None]
