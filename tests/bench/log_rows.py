"""The figures of the log alone, as rows of the table."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from streamkit.log.log import Log
from tests.bench.kafka import Kafka
from tests.bench.log import (
    PARTITIONS,
    append_rate,
    open_milliseconds,
    peak_megabytes,
    raw_rate,
    read_rate,
    rows_rate,
    seek_milliseconds,
)
from tests.bench.row import Row

ROUNDS = 3
RECORDS = 4_000_000
ROW_RECORDS = 500_000
SEEK_RECORDS = 10_000_000
SMALL_RECORDS = 2_000_000
BROKER = "Kafka, acks=all, no fsync"


def log_rows(log: Log, broker: Kafka | None, folder: Path) -> Iterator[Row]:
    """Measure; both sides in turn, medians of three rounds."""
    yield from _append(log, broker, folder)
    yield from _read(log, broker)
    yield _below("open a log of 1,000 topics x 4 partitions", open_milliseconds(folder), "< 1000")
    append_rate(log, "long", SEEK_RECORDS, partitions=1)
    by_offset, by_time = seek_milliseconds(log, "long")
    yield _below("seek by offset, 10 M records in the partition", by_offset, "< 5")
    yield _below("seek by time, 10 M records in the partition", by_time, "< 5")
    for work, name in (("append", "append"), ("read", "read"), ("append-lz4", "append, lz4"), ("read", "read, lz4")):
        yield _memory(work, name, SMALL_RECORDS, SEEK_RECORDS, folder)
    yield _memory("rows", "append of Python rows", ROW_RECORDS, 5 * ROW_RECORDS, folder)


def _append(log: Log, broker: Kafka | None, folder: Path) -> Iterator[Row]:
    ours, raw, theirs = [], [], []
    for turn in range(ROUNDS):
        raw.append(raw_rate(folder, RECORDS))
        ours.append(append_rate(log, f"append-{turn}", RECORDS))
        theirs += [] if broker is None else [broker.append(f"append-{turn}", RECORDS, PARTITIONS, "none")]
    yield _rate("durable append from Arrow", ours, "raw write + fsync", raw, ">= 1 M/s or >= 0.35")
    yield _rate("durable append from Arrow", ours, BROKER, theirs, "-")
    rows = [rows_rate(log, f"rows-{turn}", ROW_RECORDS) for turn in range(ROUNDS)]
    yield _rate("durable append of Python rows", rows, BROKER, theirs, ">= 0.2 M/s")


def _read(log: Log, broker: Kafka | None) -> Iterator[Row]:
    append_rate(log, "lz4", RECORDS, compression="lz4")
    if broker is not None:
        broker.append("lz4", RECORDS, PARTITIONS, "lz4")
    for topic, name, wanted in (("append-0", "uncompressed", ">= 15 M/s"), ("lz4", "lz4", ">= 5 M/s")):
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(read_rate(log, topic))
            theirs += [] if broker is None else [broker.read(topic, RECORDS)]
        yield _rate(f"read into Arrow, warm, {name}", ours, "Kafka consumer", theirs, wanted)


def _memory(work: str, name: str, few: int, many: int, folder: Path) -> Row:
    small, large = (peak_megabytes(work, records, folder) for records in (few, many))
    work = f"peak memory, {name} of {many / 1e6:g} M records"
    return Row(work, large, "MiB", f"{few / 1e6:g} M records", small, large / small, "<= 1.2", os.getloadavg()[0])


def _rate(work: str, ours: list[float], against: str, theirs: list[float], wanted: str) -> Row:
    mine = median(ours) / 1e6
    other = median(theirs) / 1e6 if theirs else None
    return Row(work, mine, "M records/s", against, other, mine / other if other else None, wanted, os.getloadavg()[0])


def _below(work: str, value: float, wanted: str) -> Row:
    return Row(work, value, "ms", "-", None, None, wanted, os.getloadavg()[0])
