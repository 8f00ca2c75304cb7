"""
What happened, as those saw it to whom it happened: what producers sent and were told, what readers saw, what the log holds.

Processes write their events as lines of JSON, each with one write, so that the file of a killed process is whole but for
its last line. Every row has a number that its producer gives once.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from streamkit.log.log import Log

Row = tuple[int, int]  # producer, number
Place = tuple[str, int]  # topic, partition
OK, FAILED, UNKNOWN, ABORTED = "ok", "failed", "unknown", "aborted"


@dataclass(frozen=True)
class Sent:
    """
    One attempt to send a batch: numbers by topic. Times are those of one monotonic clock, in ns.

    `ok`: acknowledged. `failed`: certainly not written. `unknown`: either. `aborted`: the producer took it back, or would
    have, so it must never be seen. `offsets` has first and next offset by topic and partition, if they were told.
    """

    producer: int
    batch: int
    rows: dict[str, list[int]]
    outcome: str
    begun_ns: int
    ended_ns: int
    offsets: dict[str, dict[str, list[int]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """One snapshot of all topics: where each partition ended, and a checksum of the rows before that."""

    reader: int
    begun_ns: int
    ended_ns: int
    ends: dict[str, dict[str, int]]
    checksums: dict[str, dict[str, int]]


@dataclass
class History:
    """All events, and the rows of each partition with their offsets, in the order in which the log gives them."""

    sent: list[Sent] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    log: dict[Place, list[tuple[int, Row]]] = field(default_factory=dict)


class Journal:
    """Events of one process, appended to a file."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, **event: Any) -> None:
        os.write(self._descriptor, (json.dumps(event) + "\n").encode())

    def sent(self, event: Sent) -> None:
        self.write(sent=asdict(event))

    def seen(self, event: Seen) -> None:
        self.write(seen=asdict(event))


def now_ns() -> int:
    return time.monotonic_ns()


def checksum_of(rows: Iterable[Row]) -> int:
    """The checksum of rows in their order."""
    checksum = 0
    for row in rows:
        checksum = checksum_with(row, checksum)
    return checksum


def checksum_with(row: Row, checksum: int) -> int:
    """The checksum of rows, and one more after them."""
    return zlib.crc32(b"%d,%d;" % row, checksum)


def read_journals(folder: Path) -> History:
    """What all processes wrote; an attempt without an end is unknown."""
    history = History()
    for file in sorted(folder.glob("*.jsonl")):
        begun: dict[str, Any] | None = None
        for event in _events(file):
            if "begun" in event:
                begun = event["begun"]
            elif "sent" in event:
                history.sent.append(Sent(**event["sent"]))
                begun = None
            elif "seen" in event:
                history.seen.append(Seen(**event["seen"]))
        if begun is not None:
            history.sent.append(Sent(**begun))
    return history


def _events(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def rows_of(log: Log, topic: str, ends: dict[int, int] | None = None) -> dict[int, list[tuple[int, Row]]]:
    """The rows of a topic before the given ends, with their offsets, by partition."""
    found: dict[int, list[tuple[int, Row]]] = {partition: [] for partition in log.end_offsets(topic)}
    table = log.read(topic, columns=["producer", "number"], end=ends)
    columns = (table[name].to_pylist() for name in ("_partition", "_offset", "producer", "number"))
    for partition, offset, producer, number in zip(*columns):
        found[partition].append((offset, (producer, number)))
    return found
