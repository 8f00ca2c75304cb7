"""
An application whose stores are rebuilt, again and again, gives what its twin gives that never is: with drains, and with records between.

Or a rebuild is refused, since a replay cannot know what a drain, or a full buffer, has given early, or which partitions were read late. Behind
another drain it never is.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs import following
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.following import Succession, follow
from streamkit.engine.runs.rebuild import Rebuild, rebuild_stores
from streamkit.errors import OrphanedStateError
from streamkit.log.log import Log
from streamkit.plan.program import Program
from tests.kit.engine_run import Run, append, execute, fresh_log, moment, written
from tests.kit.sampling import first
from tests.unit.engine.runs.test_waiting_results import BEHIND, WINDOWS, Version
from tests.unit.engine.runs.test_waiting_results import STORES as WAITING_STORES
from tests.unit.engine.runs.test_waiting_results import topology as waiting

LIMITS = ("every count", "few at once", "counts of windows")
SKEWED = "skewed sessions"  # of partitions whose times are apart
WINDOWED = ("windowed topic", "windowed topic")
KINDS = (*LIMITS, *LIMITS, *WINDOWED, "limit", "closing", "join", "versioned", *WINDOWS, *BEHIND, *[SKEWED] * 4)
SEEDS = range(4 * len(KINDS))
STORES = {
    **WAITING_STORES,
    **dict.fromkeys(LIMITS, ("A", "S")),
    "windowed topic": ("W", "S"),
    "counts of windows": ("A", "B", "S"),
}
STEPS = 7
SIZE_S = 10


def topology(kind: str, wait_s: int, name: str, rows_max: int | None = 1) -> sk.Topology:
    app, wait = sk.Topology(name), f"{wait_s} s"
    if kind == "windowed topic":
        table = app.table("windows", windowed=sk.tumbling(f"{SIZE_S} s", grace=wait), store="W")
        table.suppress(until=sk.window_closes(), name="S").emit("every").to("out")
        return app
    if kind == SKEWED:
        sessions = sk.session("4 s", grace=f"{wait_s // 10} s", retention="1 hour")
        rows = app.stream("in").with_columns(g=F.col("n") % 2)
        rows.group_by("g").windowed_by(sessions).agg(c=F.max("n"), store="A").emit("final").to("out")
        return app
    if kind not in LIMITS:
        return waiting(kind, Version(wait_s), name)
    rows = app.stream("in")
    if kind == "counts of windows":
        windows = sk.tumbling("10 s", grace="5 s", retention="1 hour")
        finals = rows.group_by("k").windowed_by(windows).agg(c=F.max("n"), store="A").emit("final")
        table = finals.group_by("k").agg(c=F.max("c"), n=F.count("*"), store="B")
    else:
        table = rows.group_by("k").agg(c=F.max("n"), n=F.count("*"), store="A")
    bound = rows_max if kind == "few at once" else None
    table.suppress(until=sk.time_limit(wait), max_rows=bound, name="S").emit("every").to("out")
    return app


def records(kind: str, chance: random.Random, clock_s: int) -> list[dict[str, Any]]:
    """Some records, of some keys, whose times go on from there but for some late ones; a row of a windowed topic is of a window near it."""
    rows, behind_s = [], chance.choice([0, 3, 6, 12]) if kind == SKEWED else 0
    for number in range(chance.choice([1, 2, 4, 9])):
        time_s = clock_s + number * chance.choice([0, 1, 3]) - chance.choice([0, 0, 0, 4])
        k = chance.choice("abcdefgh"[: 8 if kind == SKEWED else chance.choice([1, 3, 8])])
        time_s -= behind_s if k in "dfgh" else 0  # of one of the partitions
        row = {"k": k, "n": clock_s + number, "ts": time_s * 1000}
        if kind == "windowed topic":
            start = (time_s // SIZE_S - chance.choice([0, 0, 1])) * SIZE_S * 1000
            row |= {"window_start": moment(start), "window_end": moment(start + SIZE_S * 1000)}
        rows.append(row)
    return rows


class Twin:
    """A log with an application; `name` is the one that goes on."""

    def __init__(self, log: Log, kind: str, wait_s: int) -> None:
        self.log, self.kind, self.wait_s, self.name = log, kind, wait_s, "t"
        self.rows_max: int | None = 1
        partitions = 2 if kind == SKEWED else 1
        for topic in ("in", "ahead", "none", "names"):
            log.create_topic(topic, "k string, n bigint", key="k", partitions=partitions, config={"retention.ms": "-1"})
        columns = "k string, window_start timestamp, window_end timestamp, n bigint"
        log.create_topic("windows", columns, key=["k", "window_start", "window_end"], partitions=1)

    @property
    def program(self) -> Program:
        """With few key groups, of which each has several keys."""
        program = compile(topology(self.kind, self.wait_s, self.name, self.rows_max), self.log)
        return replace(program, key_groups=4, changelog_partitions=2)

    def send(self, rows: list[dict[str, Any]]) -> None:
        append(self.log, "windows" if self.kind == "windowed topic" else "in", rows)

    def run(self, *, drain: bool = False, records_max: int | None = None) -> None:
        execute(self.log, self.program, Run(drain=drain, records_max=records_max))

    def rebuild(self) -> None:
        rebuild_stores(self.log, self.program, Rebuild(STORES.get(self.kind, ("A",)), records_max=20))

    def follow(self) -> None:
        """Let another version take over; if it is refused, all is as it was."""
        leader, self.name = self.name, f"{self.name}-2"
        program, looks = self.program, iter(range(6))
        try:
            follow(self.log, program, Succession(leader, is_stopped=lambda: next(looks, None) is None))
        except OrphanedStateError:
            if self.name in [one.name for one in self.log.catalog.applications.every()]:
                self.log.catalog.applications.reset(self.name)
            self.name = leader
            raise
        self.log.catalog.applications.hand_over(self.name)
        assert follow(self.log, program, Succession(leader))

    def given(self) -> Counter[str]:
        """What came, but for when: a rebuild may give what is due in another order of the same epoch."""
        rows = written(self.log, "out") if "out" in self.log.topics() else []
        if self.kind in (
            *BEHIND,
            "counts of windows",
        ):  # read again, windows take what was late for them when a drain had closed them
            return Counter(one.row["k"] for one in rows)
        if self.kind == SKEWED:  # a session may have a record more that was late for it
            return Counter(str((one.row["g"], one.row["window_start"], one.row["window_end"])) for one in rows)
        return Counter(str((sorted(one.row.items()), one.timestamp, one.deleted)) for one in rows)


@pytest.mark.parametrize("seed", first(len(KINDS), SEEDS))
def test_a_rebuilt_application_gives_what_its_twin_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was drained, read, and rebuilt: the same comes, or a rebuild is refused until the application is drained."""
    monkeypatch.setattr(following, "WAIT_SECONDS", 0.01)
    chance, kind = random.Random(seed), KINDS[seed % len(KINDS)]
    with fresh_log() as log, fresh_log() as other:
        wait_s, clock_s = chance.choice([5, 20]), 100
        rebuilt, twin = Twin(log, kind, wait_s), Twin(other, kind, wait_s)
        for step in range(STEPS):
            rows = records(kind, chance, clock_s)
            clock_s += chance.choice([2, 3, 8] if kind == SKEWED else [2, 8, 8, 30])
            is_drained, records_max = chance.random() < (0.1 if kind == SKEWED else 0.3), chance.choice([1, None])
            for one in (rebuilt, twin):
                one.send(rows)
                one.run(drain=is_drained, records_max=records_max)
            if step and chance.random() < 0.5:
                fill = rebuilt.follow if chance.random() < 0.2 else rebuilt.rebuild
                try:
                    fill()
                except OrphanedStateError as error:
                    if "Drain the application as it was" not in str(error):
                        continue
                    for one in (rebuilt, twin):
                        one.run(drain=True)
                    fill()
            assert rebuilt.given() == twin.given(), "what is read again gives nothing"
        last = records(kind, chance, clock_s + 1000)
        for one in (rebuilt, twin):
            one.send(last)
            one.run()
            one.run(drain=True)
        assert rebuilt.given() == twin.given()


def _with_waiting_rows(log: Log, rows_max: int | None) -> Twin:
    """Twelve rows have come of which so many may wait."""
    twin = Twin(log, "few at once", 20)
    twin.rows_max = rows_max
    twin.send([{"k": key, "n": 1, "ts": 1000} for key in "abcdefghijkl"])
    twin.run()
    return twin


@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize(("before", "now"), [(1, 50), (1, None), (None, 1)])
def test_another_bound_of_an_earlier_start(
    before: int | None, now: int | None, is_followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start may change how many rows may wait; what is read again behind it is compared, however much has come since."""
    monkeypatch.setattr(following, "WAIT_SECONDS", 0.01)
    with fresh_log() as log:
        twin = _with_waiting_rows(log, before)
        twin.rows_max = now
        twin.run()
        for time_s in (2, 3):
            twin.send([{"k": "z", "n": 1, "ts": time_s * 1000}])
            twin.run()
        with pytest.raises(OrphanedStateError, match="some results twice, or not at all"):
            (twin.follow if is_followed else twin.rebuild)()
        twin.run(drain=True)
        (twin.follow if is_followed else twin.rebuild)()
        twin.run(drain=True)
        assert {one.row["k"] for one in written(log, "out")} == set("abcdefghijklz")
        assert all(count == 1 for count in twin.given().values())


@pytest.mark.parametrize("later_s", [(30,), (30, 31, 32, 33)])
def test_a_wait_that_a_drain_ended(later_s: Sequence[int]) -> None:
    """The record that ends a wait in a replay began one behind the drain, and what it made is held back; that is known however much comes after."""
    with fresh_log() as log:
        twin = Twin(log, "every count", 20)
        twin.send([{"k": "a", "n": 0, "ts": 0}])
        twin.run(drain=True)
        for number, time_s in enumerate(later_s):
            twin.send([{"k": "b" if number else "a", "n": number, "ts": time_s * 1000}])
            twin.run()
        with pytest.raises(
            OrphanedStateError,
            match="1 of the rows that wait in it would not wait any more, or since another moment, and 0 other rows",
        ):
            twin.rebuild()
        twin.run(drain=True)
        twin.rebuild()
        assert [one.row["n"] for one in written(log, "out") if one.row["k"] == "a"] == [1, 2]


@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize(("before", "now"), [(1, 50), (1, None), (50, 1), (None, 1)])
def test_another_bound_is_refused(
    before: int | None, now: int | None, is_followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which rows have come early since too many waited depends on how many may."""
    monkeypatch.setattr(following, "WAIT_SECONDS", 0.01)
    with fresh_log() as log:
        twin = _with_waiting_rows(log, before)
        twin.rows_max = now
        with pytest.raises(OrphanedStateError, match="leave max_rows and when_full as they were"):
            (twin.follow if is_followed else twin.rebuild)()
        twin.rows_max = before
        (twin.follow if is_followed else twin.rebuild)()
        twin.run(drain=True)
        assert len(twin.given()) == twin.given().total() == 12


def test_windows_that_a_longer_grace_holds_back() -> None:
    """A row of a window that a rebuild with a longer grace has closed is held back, and a second rebuild would give it to nobody."""
    with fresh_log() as log:
        twin = Twin(log, "windowed topic", 5)

        def send(*rows: tuple[str, int, int]) -> None:
            bounds = [
                {"window_start": moment(start * 1000), "window_end": moment((start + SIZE_S) * 1000)} for _, start, _ in rows
            ]
            twin.send([{"k": k, "n": at, "ts": at * 1000} | both for (k, _, at), both in zip(rows, bounds, strict=True)])
            twin.run()

        send(("a", 10, 16), ("z", 20, 26))
        twin.wait_s = 60
        twin.rebuild()
        send(("b", 10, 28), ("a", 10, 29))
        with pytest.raises(OrphanedStateError, match="2 of the rows that wait in it would not wait any more"):
            twin.rebuild()
        send(("y", 190, 200))
        twin.rebuild()
        twin.run(drain=True)
        assert sorted(one.row["n"] for one in written(log, "out")) == [16, 26, 28, 29, 200]


@pytest.mark.parametrize("is_followed", [True, False])
def test_a_session_that_a_late_partition_would_extend(is_followed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read again, a record of a partition that was late extends a session that has been given; so it is refused until none is open."""
    monkeypatch.setattr(following, "WAIT_SECONDS", 0.01)
    with fresh_log() as log:
        twin = Twin(log, SKEWED, 5)
        for k, n, time_s in (("a", 0, 35), ("a", 1, 40), ("d", 2, 38)):
            twin.send([{"k": k, "n": n, "ts": time_s * 1000}])
            twin.run()
        fill = twin.follow if is_followed else twin.rebuild
        with pytest.raises(OrphanedStateError, match="1 open sessions would begin at another record, so they"):
            fill()
        twin.run(drain=True)
        fill()
        twin.send([{"k": k, "n": 4, "ts": 60_000} for k in "ad"])
        twin.run(drain=True)
        sessions = sorted((one.row["window_start"], one.row["window_end"]) for one in written(log, "out") if one.row["g"] == 0)
        assert sessions == [(35_000, 35_000), (38_000, 38_000), (60_000, 60_000)]


def test_a_wait_that_began_behind_a_late_partition() -> None:
    """Read again, a record of a late partition comes before what waited was given, so what it made would be given to nobody."""
    with fresh_log() as log:
        log.create_topic("in", "k string, n bigint", key="k", partitions=2)
        app = sk.Topology("t")
        table = app.stream("in").group_by("n").agg(c=F.count("*"), store="A")
        table.suppress(until=sk.time_limit("10 s"), name="S").emit("every").to("out")
        program = compile(app, log)
        for k, n, time_s in (("a", 1, 1), ("a", 2, 12), ("d", 1, 6)):
            append(log, "in", [{"k": k, "n": n, "ts": time_s * 1000}])
            execute(log, program, Run(drain=False))
        with pytest.raises(
            OrphanedStateError,
            match=r"1 of the rows that wait in it would not wait any more.*partitions were not read at the same pace",
        ):
            rebuild_stores(log, program, Rebuild(("A", "S")))
        execute(log, program, Run(drain=True))
        rebuild_stores(log, program, Rebuild(("A", "S")))
        assert sorted((one.row["n"], one.row["c"]) for one in written(log, "out")) == [(1, 1), (1, 2), (2, 1)]
