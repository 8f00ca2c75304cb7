"""Records that are late for all their windows: where they go, with what, and that nothing of it depends on how the work is cut."""

from __future__ import annotations

import random
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import TAKES_ALL, combined, in_turn

Row = dict[str, Any]
SCHEMA = "user string, v bigint"
CUTS = (
    [(2, 2), (3, 7), (2, "one"), (7, "all"), (1, "one")] if TAKES_ALL else [(2, 4), (3, 9)]
)  # tasks, and which records an epoch takes
SIZE_MS, ADVANCE_MS, GRACE_MS = 10, 4, 3


def events(seed: int, count: int = 40) -> list[Row]:
    """Records at random, many of them late."""
    chance, now, found = random.Random(seed), 100, []
    for number in range(count):
        now += chance.choice([0, 1, 5, 20])
        user = chance.choice(["ann", "bob", "cat", None])
        found.append({"user": user, "v": number, "ts": now - chance.choice([0, 0, 5, 12, 40])})
    return found


def late_rows(topology: sk.Topology, rows: list[Row], tasks: int, batching: Any) -> tuple[list[tuple[Any, ...]], int]:
    """What the topic of late records holds, and how often a record was late for a window."""
    with TopologyTestDriver(topology, tasks=tasks, batching=batching) as driver:
        piped = [{"user": row["user"], "v": row["v"], "_timestamp": moment(row["ts"])} for row in rows]
        for begin in range(0, len(piped), 3):
            driver.pipe("events", piped[begin : begin + 3])
        found = driver.read_all("late")
        return sorted((row["v"], row["user"], *map(ms, bounds(row)), ms(row["_timestamp"])) for row in found), driver.metrics()[
            "late"
        ]


def bounds(row: Row) -> list[Any]:
    return [row["window_start"], row["window_end"]]


def ms(moment: Any) -> int:
    milliseconds: int = round(moment.timestamp() * 1000)
    return milliseconds


@pytest.mark.parametrize(("mode", "seed"), combined(["final", "every"], range(2), together=1))
def test_late_records(seed: int, mode: str) -> None:
    """A record that is late for all its windows goes to the topic once, with the bounds of the last one; others do not."""
    app, rows = sk.Topology("late"), events(seed)
    window = sk.hopping(f"{SIZE_MS} ms", f"{ADVANCE_MS} ms", grace=f"{GRACE_MS} ms")
    stream = app.stream("events", schema=SCHEMA, key="user")
    stream.group_by_key().windowed_by(window, late_to="late").agg(n=F.count("*")).emit(mode).to("out")
    wanted, time, partly = [], 0, 0
    for row in rows:
        time = max(time, row["ts"])
        if row["user"] is None:
            continue
        start = row["ts"] // ADVANCE_MS * ADVANCE_MS
        closed = [one + SIZE_MS + GRACE_MS <= time for one in range(start, row["ts"] - SIZE_MS, -ADVANCE_MS)]
        partly += any(closed) and not all(closed)
        if all(closed):
            wanted.append((row["v"], row["user"], start, start + SIZE_MS, row["ts"]))
    assert len(wanted) > 3
    assert partly > 0
    for tasks, batching in CUTS:
        assert late_rows(app, rows, tasks, batching)[0] == sorted(wanted), (tasks, batching)


def test_every_record_is_in_a_window_or_late() -> None:
    """Of tumbling windows, records in results and late ones together are all there are; a computed group comes along."""
    app, rows = sk.Topology("all"), [row for row in events(3) if row["user"]]
    stream = app.stream("events", schema=SCHEMA, key="user")
    window = sk.tumbling("10 ms", grace="0 ms", retention="1 day")
    grouped = stream.group_by(F.upper("user").alias("name")).windowed_by(window, late_to="late")
    grouped.agg(n=F.count("*"), store="windows")
    found, late = late_rows(app, rows, 3, "all")
    assert len(found) == late > 0
    with TopologyTestDriver(app) as driver:
        for row in rows:
            driver.pipe("events", {"user": row["user"], "v": row["v"]}, timestamp=row["ts"])
        late_names = {(row["user"].upper(), row["name"]) for row in driver.read_all("late")}
        assert all(upper == name for upper, name in late_names)
        assert len(rows) - late == sum(driver.store("windows").to_arrow()["n"].to_pylist())


def test_times_before_1970() -> None:
    """The last window before 1970 ends by then; a record in no window at all is not late."""
    app = sk.Topology("early")
    window = sk.hopping("10 ms", "4 ms", grace="0 ms")
    stream = app.stream("events", schema=SCHEMA, key="user")
    stream.group_by_key().windowed_by(window, late_to="late").agg(n=F.count("*"), store="n")
    rows = [{"user": "ann", "v": number, "ts": time} for number, time in enumerate([50, -1, -5, 3])]
    assert late_rows(app, rows, 1, "all")[0] == [(2, "ann", -12, -2, -5), (3, "ann", 0, 10, 3)]


def test_a_column_of_that_name_is_refused() -> None:
    """A stream with a column `window_start` would lose it: refused at the user's line."""
    app = sk.Topology("twice")
    stream = app.stream("events", schema="user string, window_start bigint", key="user")
    stream.group_by_key().windowed_by(sk.tumbling("10 ms", grace="0 ms"), late_to="late").agg(n=F.count("*"))
    with pytest.raises(TopologyError, match=r"late_to adds the column 'window_start'.*rename it before\n  at .*test_late"):
        sk.compile(app)


def counted(app: sk.Topology, window: Any, is_by_function: bool) -> None:
    """A topology that counts the records of each group and window, and gives the final counts and the late records."""
    stream = app.stream("events", schema=SCHEMA, key="user")
    grouped = stream.group_by(F.upper("user").alias("name")).windowed_by(window, late_to="late")
    if is_by_function:
        counts = grouped.aggregate({"n": 0}, lambda state, row: {"n": state["n"] + 1}, "n bigint", merge=added)
    else:
        counts = grouped.agg(n=F.count("*"))
    counts.emit("final").to("out")


def added(one: Row, other: Row) -> Row:
    return {"n": one["n"] + other["n"]}


@pytest.mark.parametrize(("is_by_function", "seed"), combined([False, True], range(2), together=1))
def test_late_for_sessions(seed: int, is_by_function: bool) -> None:
    """Each record is in one session or in the topic, with its own time as bounds; which one depends neither on tasks nor on the cut."""
    app, rows = sk.Topology("sessions"), [row for row in events(seed, 24) if row["user"]]
    counted(app, sk.session("6 ms", grace="3 ms"), is_by_function)
    wanted, late = late_rows(app, rows, *CUTS[0])
    assert len(wanted) == late > 2
    assert all(start == end == time for _, _, start, end, time in wanted)
    for tasks, batching in CUTS[1:]:
        assert late_rows(app, rows, tasks, batching) == (wanted, late), (tasks, batching)
    with TopologyTestDriver(app, batching="all") as driver:
        for row in rows:
            driver.pipe("events", {"user": row["user"], "v": row["v"]}, timestamp=row["ts"])
        driver.drain()
        assert sum(row["n"] for row in driver.read("out")) + late == len(rows)
        assert {row["name"] for row in driver.read("late")} == {user.upper() for _, user, *_ in wanted}


def test_a_late_record_of_a_session_has_its_headers_and_columns() -> None:
    """Columns that no aggregate reads come along, and so do headers; a record that touches an open session is not late."""
    app = sk.Topology("whole")
    stream = app.stream("events", schema="user string, v bigint, note string", key="user")
    window = sk.session("10 ms", grace="5 ms")
    stream.group_by_key().windowed_by(window, late_to="late").count(store="n")
    with TopologyTestDriver(app) as driver:
        driver.pipe("events", {"user": "ann", "v": 1, "note": "first"}, timestamp=100)
        driver.pipe("events", {"user": "ann", "v": 2, "note": "touches"}, timestamp=90)
        driver.pipe("events", {"user": "bob", "v": 3, "note": "late"}, timestamp=80, headers={"trace": b"1"})
        (row,) = driver.read("late")
        assert (row["user"], row["v"], row["note"], ms(row["window_end"])) == ("bob", 3, "late", 80)
        assert driver.log.read("late", ["_headers"])["_headers"].to_pylist() == [[{"key": "trace", "value": b"1"}]]
        assert driver.store("n").to_arrow()["count"].to_pylist() == [2]


@pytest.mark.parametrize(("is_by_function", "seed"), combined([False, True], range(2), together=1))
def test_late_for_sliding_windows(seed: int, is_by_function: bool) -> None:
    """A record is late if the window that begins at it has closed; those before 1970 are in no window, and not late."""
    app, rows = sk.Topology("sliding"), [row for row in events(seed, 24) if row["user"]]
    counted(app, sk.sliding(f"{SIZE_MS} ms", grace=f"{GRACE_MS} ms"), is_by_function)
    rows.append({"user": "ann", "v": 99, "ts": -5})
    wanted, time = [], 0
    for row in rows:
        time = max(time, row["ts"])
        if row["ts"] + SIZE_MS < time - GRACE_MS and row["ts"] >= 0:
            wanted.append((row["v"], row["user"], row["ts"], row["ts"] + SIZE_MS, row["ts"]))
    assert len(wanted) > 2
    for tasks, batching in CUTS:
        assert late_rows(app, rows, tasks, batching)[0] == sorted(wanted), (tasks, batching)


@pytest.mark.parametrize(("window", "key"), in_turn([sk.tumbling, sk.sliding, sk.session], ["user", "v", "other"]))
def test_late_records_of_any_group_keep_their_key(window: Any, key: str) -> None:
    """Whatever column windows are grouped by, late records go to the topic with the columns and the key of the stream."""
    app = sk.Topology("late")
    stream = app.stream("events", schema="user string, v bigint, other string", key="user")
    stream.group_by(key).windowed_by(window("10 ms", grace="0 ms"), late_to="late").agg(n=F.count("*")).emit("every").to("out")
    with TopologyTestDriver(app, tasks=3) as driver:
        for moment in (0, 100, 1):
            driver.pipe("events", {"user": "ann", "v": 1, "other": "x"}, timestamp=moment)
        (found,) = driver.read("late", "user", "v", "other")
        assert list(found.values()) == ["ann", 1, "x"]
        assert driver.log.topic("late").key == ("user",)
