"""Sessions and sliding windows by definition, record by record, in plain lists: what the engine must give."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import streamkit as sk
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment, plain

Result = tuple[str, int, int, Any, int]  # key, start, end, value, event time; the value None is a deletion
SCHEMA = "k string, v bigint"


class Record(NamedTuple):
    """A record on its way in."""

    key: str
    value: int
    time: int


class Session(NamedTuple):
    """A session with all its values."""

    start: int
    end: int
    values: tuple[int, ...]


class Sessions:
    """The rules of sessions, over one partition: `every` and `final` are what is given, `open` what is stored."""

    def __init__(self, gap: int, grace: int) -> None:
        self.gap, self.grace = gap, grace
        self.stream_time = -(10**9)
        self.open: dict[str, list[Session]] = {}
        self.every: list[Result] = []
        self.final: list[Result] = []
        self.late = 0

    def take(self, record: Record) -> None:
        before, self.stream_time = self.stream_time, max(self.stream_time, record.time)
        self._close()
        sessions = self.open.setdefault(record.key, [])
        near = [
            one for one in sessions
            if one.end >= record.time - self.gap and one.start <= record.time + self.gap and one.end > before - self.gap - self.grace
        ]  # fmt: skip
        start = min([record.time, *(one.start for one in near)])
        end = max([record.time, *(one.end for one in near)])
        if end < self.stream_time - self.gap - self.grace:
            self.late += 1
            return
        if (start, end) != (record.time, record.time):
            self.every += [(record.key, one.start, one.end, None, one.end) for one in sorted(near, key=lambda one: one.end)]
        sessions[:] = [one for one in sessions if one not in near and (one.start, one.end) != (start, end)]
        sessions.append(Session(start, end, (*(value for one in near for value in one.values), record.value)))
        self.every.append(self._result(record.key, sessions[-1]))

    def drain(self) -> None:
        self.stream_time += self.gap + self.grace + 1
        self._close()

    def _close(self) -> None:
        closed = self.stream_time - self.gap - self.grace
        for key, sessions in self.open.items():
            self.final += [self._result(key, one) for one in sorted(sessions, key=lambda one: one.end) if one.end < closed]
            sessions[:] = [one for one in sessions if one.end >= closed]

    @staticmethod
    def _result(key: str, session: Session) -> Result:
        return (key, session.start, session.end, sorted(session.values), session.end)


def sliding_windows(records: Sequence[Record], difference: int) -> dict[tuple[str, int], list[int]]:
    """The windows of records that are all in time, by key and start, with the values that each holds."""
    windows = {}
    for key in {record.key for record in records}:
        times = {record.time for record in records if record.key == key}
        for start in {max(0, time - difference) for time in times} | {time + 1 for time in times}:
            held = [one.value for one in records if one.key == key and start <= one.time <= start + difference]
            if held:
                windows[key, start] = sorted(held)
    return windows


def random_records(seed: int, count: int, lateness: int, pace: int = 4) -> list[Record]:
    """Records of a few keys, some of which come late by up to `lateness`, with a few long pauses."""
    source, now, records = random.Random(seed), 0, []
    for number in range(count):
        now += 150 if source.random() < 0.03 else source.randint(0, pace)
        time = max(0, now - source.randint(0, lateness)) if source.random() < 0.4 else now
        records.append(Record(source.choice("abcd"), number, time))
    return records


def collect(state: Any, row: Any) -> Any:
    """The values of a window, as a function of users."""
    return {"seen": sorted([*state["seen"], row["v"]])}


def join(one: Any, other: Any) -> Any:
    return {"seen": sorted(one["seen"] + other["seen"])}


def collected(window: Any, modes: Sequence[str], **folding: Any) -> sk.Topology:
    """A topology that collects the values of each window, and gives them in these modes."""
    app = sk.Topology("windows")
    groups = app.stream("in", schema=SCHEMA, key="k").group_by_key().windowed_by(window)
    table = groups.aggregate({"seen": []}, collect, "seen array<bigint>", store="windows", **folding)
    for mode in modes:
        table.emit(mode).to(mode)
    return app


def pipe(driver: TopologyTestDriver, records: Sequence[Record]) -> None:
    driver.pipe("in", [{"k": one.key, "v": one.value, "_timestamp": moment(one.time)} for one in records])


def results(driver: TopologyTestDriver, topic: str, value: str) -> list[Result]:
    """What a topic was given since the last look."""
    return [
        (row["k"], plain(row["window_start"]), plain(row["window_end"]), None if row["_deleted"] else row[value], plain(row["_timestamp"]))
        for row in driver.read(topic)
    ]  # fmt: skip


def stored(driver: TopologyTestDriver, value: str) -> dict[tuple[str, int, int], Any]:
    """What the store holds, by key and bounds."""
    rows = driver.store("windows").to_arrow().to_pylist()
    return {(row["k"], plain(row["window_start"]), plain(row["window_end"])): row[value] for row in rows}
