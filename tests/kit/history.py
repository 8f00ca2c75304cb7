"""
What happened, as those saw it to whom it happened: what producers sent and were told, what readers saw and members of groups
were given, what the log holds.

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

import pyarrow as pa

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


@dataclass(frozen=True)
class Took:
    """Rows of one partition that a poll gave to a member of a group, from the offset `first` on."""

    group: str
    member: str
    topic: str
    partition: int
    first: int
    rows: list[Row]
    begun_ns: int

    @property
    def place(self) -> Place:
        return self.topic, self.partition

    @property
    def offsets(self) -> range:
        return range(self.first, self.first + len(self.rows))


@dataclass(frozen=True)
class Committed:
    """A member was told that its group goes on at this offset of a partition."""

    group: str
    member: str
    topic: str
    partition: int
    offset: int
    ended_ns: int

    @property
    def place(self) -> Place:
        return self.topic, self.partition


@dataclass
class History:
    """
    All events, and the rows of each partition with their offsets, in the order in which the log gives them.

    `positions` is what each group has committed in the end. Of groups that copy what they read, `copies` are the offsets that
    were copied of each partition, in the order of the copies.
    """

    sent: list[Sent] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    log: dict[Place, list[tuple[int, Row]]] = field(default_factory=dict)
    took: list[Took] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    positions: dict[str, dict[Place, int]] = field(default_factory=dict)
    copies: dict[str, dict[Place, list[int]]] = field(default_factory=dict)


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

    def took(self, event: Took) -> None:
        self.write(took=asdict(event))

    def committed(self, event: Committed) -> None:
        self.write(committed=asdict(event))


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
            elif "took" in event:
                history.took.append(Took(**event["took"]))
            elif "committed" in event:
                history.committed.append(Committed(**event["committed"]))
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


def positions_of(log: Log, group: str) -> dict[Place, int]:
    """What a group has committed."""
    found = log.catalog.groups.committed_offsets(group)
    return {
        (log.catalog.topics.get_by_id(topic_id).name, partition): offset
        for topic_id, at in found.items()
        for partition, offset in at.items()
    }


def taken(group: str, member: str, table: pa.Table, begun_ns: int) -> list[Took]:
    """What a poll gave, by partition."""
    found: dict[Place, Took] = {}
    columns = (table[name].to_pylist() for name in ("_topic", "_partition", "_offset", "producer", "number"))
    for topic, partition, offset, producer, number in zip(*columns):
        took = found.setdefault((topic, partition), Took(group, member, topic, partition, offset, [], begun_ns))
        assert offset == took.offsets.stop, f"{member} was given {offset} of {took.place} behind {took.offsets.stop - 1}"
        took.rows.append((producer, number))
    return list(found.values())


def copies_of(rows: Iterable[Took]) -> pa.Table:
    """Rows for the topic that `create_copies` makes: the place of each row that was taken."""
    places = [{"topic": took.topic, "source": took.partition, "place": offset} for took in rows for offset in took.offsets]
    return pa.Table.from_pylist(places, pa.schema([("topic", pa.string()), ("source", pa.int32()), ("place", pa.int64())]))


def create_copies(log: Log, name: str) -> None:
    """A topic for copies, in which those of a partition stay together."""
    log.create_topic(name, "topic string, source int, place bigint", key=["topic", "source"], partitions=2)


def copied(log: Log, name: str) -> dict[Place, list[int]]:
    """The offsets that were copied of each partition."""
    found: dict[Place, list[int]] = {}
    for row in log.read(name).to_pylist():
        found.setdefault((row["topic"], row["source"]), []).append(row["place"])
    return found
