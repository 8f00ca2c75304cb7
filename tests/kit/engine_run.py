"""Running a program on a real log, in one process, and reading back what it wrote."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pandas as pd

import streamkit as sk
from streamkit.engine.epoch.report import EpochClaim
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.log.log import Log
from streamkit.plan.program import Program
from streamkit.state.stores import MemoryStores, Stores
from tests.kit.reference import Emitted, Key, Row, Waiting

MEMORY = "/dev/shm"  # a log there costs no disk flushes


class DiedError(BaseException):
    """A process that ended at a failpoint; no engine code catches it."""


def die() -> None:
    raise DiedError


@dataclass(frozen=True)
class Run:
    """How to run: results must depend on none of it."""

    tasks: int = 1
    records_max: int | None = None
    splits: int = 1
    drain: bool = True


@contextmanager
def fresh_log(*, on_disk: bool = False) -> Iterator[Log]:
    """A log in memory, which takes a tenth less time; or in a folder of its own, removed afterwards."""
    if not on_disk:
        with sk.open_log(":memory:") as log:
            yield log
        return
    folder = tempfile.mkdtemp(prefix="streamkit-", dir=MEMORY if os.path.isdir(MEMORY) else None)
    try:
        with sk.open_log(folder) as log:
            yield log
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def moment(milliseconds: int) -> pd.Timestamp:
    return pd.Timestamp(milliseconds, unit="ms", tz="UTC")


def append(log: Log, topic: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append rows in one commit; `ts` is the event time in ms, `deleted` makes a tombstone."""
    if not rows:
        return
    columns = [{k: v for k, v in row.items() if k not in ("ts", "deleted")} for row in rows]
    flags = [{"_timestamp": moment(row["ts"]), "_deleted": row.get("deleted", False)} for row in rows]
    with log.producer() as producer:
        producer.send_batch(topic, [a | b for a, b in zip(columns, flags, strict=True)])


def execute(log: Log, program: Program, run: Run, stores: Stores | None = None) -> list[EpochClaim]:
    """Begin a generation and run what is available, with stores in memory unless others are given: to open RocksDB takes as long as an epoch."""
    planner = start(log.catalog, log.storage, program, tasks=run.tasks, records_max=run.records_max)
    return run_available(planner, drain=run.drain, splits=run.splits, stores=stores or MemoryStores())


def written(log: Log, topic: str) -> list[Emitted]:
    """What a topic holds, by partition and offset; columns that hold times in ms."""
    return [emitted for _, _, emitted in placed(log, topic)]


def placed(log: Log, topic: str) -> list[tuple[int, int, Emitted]]:
    """What a topic holds, with partitions and offsets."""
    names = log.topic(topic).schema.names
    rows = log.read(topic).to_pylist()
    return [
        (
            row["_partition"],
            row["_offset"],
            Emitted({name: plain(row[name]) for name in names}, plain(row["_timestamp"]), bool(row.get("_deleted"))),
        )
        for row in rows
    ]


def waiting(log: Log, topics: Sequence[str], since: Mapping[str, Mapping[int, int]] | None = None) -> list[Waiting]:
    """What topics hold from given offsets on, as the reference takes it; inputs are numbered in the order of `topics`."""
    lanes = []
    for number, topic in enumerate(topics):
        rows = placed(log, topic)
        for partition in log.end_offsets(topic):
            first = (since or {}).get(topic, {}).get(partition, 0)
            lane = [(offset, e.timestamp, e.row, e.deleted) for p, offset, e in rows if p == partition and offset >= first]
            lanes.append(Waiting(number, partition, lane))
    return lanes


def table_rows(log: Log, topic: str) -> dict[Key, Row]:
    """The newest row of each key of a topic."""
    key = log.topic(topic).key
    rows: dict[Key, Row] = {}
    for emitted in written(log, topic):
        place = tuple(emitted.row[name] for name in key)
        rows.pop(place, None)
        if not emitted.deleted:
            rows[place] = emitted.row
    return rows


def stored(log: Log, application: str, name: str) -> list[Row]:
    """What a store holds."""
    rows = log.store(application, name).to_arrow().to_pylist()
    return [{column: plain(value) for column, value in row.items()} for row in rows]


def metric(log: Log, application: str, name: str) -> int:
    """A metric over all epochs and operators."""
    return int(sum(log.catalog.applications.get(application).metrics.get(name, {}).values()))


def by_key(rows: Sequence[Emitted], key: Sequence[str]) -> dict[Key, list[tuple[Any, ...]]]:
    """For each key what was written, in order; a tombstone is its key alone. Without a key, or for a null one, order is free."""
    found: dict[Key, list[tuple[Any, ...]]] = {}
    for emitted in rows:
        place = tuple(emitted.row[name] for name in key)
        values = () if emitted.deleted else tuple(sorted(emitted.row.items()))
        found.setdefault(place, []).append((values, emitted.timestamp, emitted.deleted))
    for place, records in found.items():
        if all(value is None for value in place):
            records.sort(key=repr)
    return found


def plain(value: Any) -> Any:
    """A moment as milliseconds, anything else as it is."""
    return round(pd.Timestamp(value).value / 1_000_000) if hasattr(value, "tzinfo") else value


@contextmanager
def ran(
    app: sk.Topology, topics: Mapping[str, str], rows: Mapping[str, Any], run: Run = Run(), *, on_disk: bool = False
) -> Iterator[Log]:
    """
    A log on which a topology took these rows.

    `topics` has schemas by name; the first column is the key, each topic has one partition. Every row has its time under `ts`.
    """
    with fresh_log(on_disk=on_disk) as log:
        for name, schema in topics.items():
            log.create_topic(name, schema, key=schema.split()[0], partitions=1)
            append(log, name, rows.get(name, []))
        execute(log, compile(app, log), run)
        yield log


def values(log: Log, topic: str, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of a topic, by partition and offset; a tombstone has null values."""
    return [tuple(emitted.row[name] for name in columns) for emitted in written(log, topic)]
