"""Windows by hand: their bounds, when they close, what is late, and what final results do downstream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.operators import fold
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.plan.operators.fold import Fold
from streamkit.plan.windows import WindowKind
from tests.kit.engine_run import Run, append, execute, fresh_log, metric, ran, stored, values, written
from tests.kit.sampling import TAKES_ALL, first

WINDOWS = 1_000 if TAKES_ALL else 300  # that a record is in
TOPICS = {"clicks": "user string, n bigint"}
CUTS = first(2, [Run(tasks=2, records_max=1), Run(tasks=3), Run(tasks=1), Run(tasks=3, records_max=2, splits=2)])
CUTS_LEFT_OPEN = [Run(tasks=run.tasks, records_max=run.records_max, splits=run.splits, drain=False) for run in CUTS]


def counted(window: WindowKind, *modes: str) -> sk.Topology:
    app = sk.Topology("counted")
    counts = app.stream("clicks").group_by_key().windowed_by(window).agg(n=F.count("*"), store="counts")
    for mode in modes:
        counts.emit(mode).to(mode)
    return app


def clicks(*times: int, user: str = "a") -> dict[str, list[dict[str, object]]]:
    return {"clicks": [{"user": user, "n": ts, "ts": ts} for ts in times]}


@pytest.mark.parametrize("run", CUTS_LEFT_OPEN, ids=repr)
@pytest.mark.parametrize(("now", "late"), [(14, 0), (15, 1)])
def test_a_window_closes_when_stream_time_reaches_its_end_and_grace(run: Run, now: int, late: int) -> None:
    """With grace 5, [0, 10) takes a record at stream time 14; at 15 it has closed, its result is out, and the record is late."""
    app = counted(sk.tumbling("10 ms", grace="5 ms"), "every", "final")
    with ran(app, TOPICS, clicks(1, now, 2), run) as log:
        assert metric(log, "counted", "late") == late
        assert values(log, "final", "window_start", "window_end", "n") == ([(0, 10, 1)] if late else [])
        assert values(log, "every", "window_start", "n") == [(0, 1), (10, 1)] + ([] if late else [(0, 2)])


@pytest.mark.parametrize("run", CUTS, ids=repr)
def test_hopping_windows_decide_one_by_one(run: Run) -> None:
    """A record at 8 is late for [0, 10), which closed at 12, and in time for [5, 15)."""
    app = counted(sk.hopping("10 ms", "5 ms", grace="2 ms"), "every", "final")
    with ran(app, TOPICS, clicks(3, 12, 8), run) as log:
        assert metric(log, "counted", "late") == 1
        assert values(log, "every", "window_start", "n") == [(0, 1), (5, 1), (10, 1), (5, 2)]
        assert sorted(values(log, "final", "window_start", "n")) == [(0, 1), (5, 2), (10, 1)]


@pytest.mark.parametrize("run", CUTS, ids=repr)
def test_windows_at_and_before_1970(run: Run) -> None:
    """Windows are aligned to 1970, and none crosses it: a time is in those that lie on its side and hold it."""
    app = counted(sk.hopping("10 ms", "5 ms", grace="20 ms"), "final")
    with ran(app, TOPICS, clicks(-12, -5, -1, 0, 4, 5), run) as log:
        assert sorted(values(log, "final", "window_start", "window_end", "n")) == [
            (-20, -10, 1), (-15, -5, 1), (-10, 0, 2), (0, 10, 3), (5, 15, 1),
        ]  # fmt: skip


def test_the_time_of_a_result_is_the_newest_of_its_records() -> None:
    """A result carries the largest event time of its group, also when an older record came last."""
    with ran(counted(sk.tumbling("10 ms", grace="5 ms"), "every", "final"), TOPICS, clicks(1, 7, 3)) as log:
        assert [emitted.timestamp for emitted in written(log, "every")] == [1, 7, 7]
        assert [emitted.timestamp for emitted in written(log, "final")] == [7]


def test_a_jump_of_time_loses_no_result() -> None:
    """Windows whose retention ends in the very epoch that closes them are emitted all the same, and are gone from the store."""
    app = counted(sk.tumbling("10 ms", grace="0 ms"), "final")
    with ran(app, TOPICS, clicks(1, 11, 1_000_000), Run(drain=False)) as log:
        assert values(log, "final", "window_start", "n") == [(0, 1), (10, 1)]
        assert [row["window_start"] for row in stored(log, "counted", "counts")] == [1_000_000]


@pytest.mark.parametrize("run", CUTS_LEFT_OPEN, ids=repr)
def test_retention_keeps_closed_windows_readable(run: Run) -> None:
    """A window stays in the store until its start plus retention is reached, though its result went out long before."""
    app = counted(sk.tumbling("10 ms", grace="0 ms", retention="30 ms"), "final")
    with ran(app, TOPICS, clicks(1, 12, 29), run) as log:
        assert [row["window_start"] for row in stored(log, "counted", "counts")] == [0, 10, 20]
    with ran(app, TOPICS, clicks(1, 12, 30), run) as log:
        assert [row["window_start"] for row in stored(log, "counted", "counts")] == [10, 30]


def test_a_drain_closes_every_window_for_good() -> None:
    """What comes after a drain finds its window closed: it is late, and no window gives a second result."""
    with fresh_log() as log:
        log.create_topic("clicks", TOPICS["clicks"], key="user", partitions=1)
        program = compile(counted(sk.tumbling("10 ms", grace="5 ms"), "final"), log)
        append(log, "clicks", clicks(1)["clicks"])
        assert len(execute(log, program, Run())) == 2
        assert execute(log, program, Run()) == []
        append(log, "clicks", clicks(2, 100)["clicks"])
        execute(log, program, Run())
        assert values(log, "final", "window_start", "n") == [(0, 1), (100, 1)]
        assert metric(log, "counted", "late") == 1


@pytest.mark.parametrize("times", [range(5_000, 5_020), [*range(5_000, 5_020), *range(4_000, 4_020)]], ids=["in time", "late"])
def test_records_in_many_windows_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch, times: Sequence[int]) -> None:
    """Records in a thousand windows each are never spread out all at once, and what is folded in parts is counted once."""
    combined: list[int] = []

    def watched(operator: Fold, batch: pa.RecordBatch, *rest: Any) -> pa.RecordBatch:
        combined.append(batch.num_rows)
        return _combined(operator, batch, *rest)

    _combined = fold._combined
    monkeypatch.setattr(fold, "WINDOW_ROWS", 5_000)
    monkeypatch.setattr(fold, "_combined", watched)
    app = counted(sk.hopping("1000 ms", "1 ms", grace="0 ms"), "final")
    with ran(app, TOPICS, clicks(*times), Run(tasks=2)) as log:
        found = dict(values(log, "final", "window_start", "n"))

    assert max(combined) <= 5_000
    assert len([rows for rows in combined if rows > 1_000]) >= 4
    assert {start: n for start, n in found.items() if start >= 4_020} == {
        start: min(start + 1_000, 5_020) - max(start, 5_000) for start in range(4_020, 5_020)
    }


@pytest.mark.parametrize("rows", first(1, [WINDOWS, 10**6, 2 * WINDOWS]))
def test_windows_behind_a_join_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Behind a join too, where a kernel has the windows, they are spread out in parts; whatever the parts, results are the same."""
    monkeypatch.setattr(fold, "WINDOW_ROWS", rows)
    app = sk.Topology("counted")
    joined = app.stream("clicks").join(app.table("users"), on="user")
    window = sk.hopping(f"{WINDOWS} ms", "1 ms", grace="0 ms")
    joined.group_by("city").windowed_by(window).agg(n=F.count("*"), store="counts").emit("final").to("final")
    given = {**clicks(*range(5_000, 5_020)), "users": [{"user": "a", "city": "Oslo", "ts": 0}]}
    with ran(app, {**TOPICS, "users": "user string, city string"}, given, Run(tasks=2)) as log:
        found = dict(values(log, "final", "window_start", "n"))

    assert found == {start: min(start + WINDOWS, 5_020) - max(start, 5_000) for start in range(5_001 - WINDOWS, 5_020)}


def test_null_keys_are_counted_apart_from_late_ones() -> None:
    """A record without a key is dropped before anyone asks whether it is late."""
    rows = {"clicks": [{"user": "a", "n": 1, "ts": 100}, {"user": None, "n": 1, "ts": 1}]}
    with ran(counted(sk.hopping("10 ms", "5 ms", grace="0 ms"), "final"), TOPICS, rows) as log:
        assert metric(log, "counted", "null_key") == 1
        assert metric(log, "counted", "late") == 0


@pytest.mark.parametrize("run", CUTS, ids=repr)
def test_final_results_are_grouped_again(run: Run) -> None:
    """Final results feed a second group in another kernel, each once, however the epochs were cut."""
    app = sk.Topology("regrouped")
    first = app.stream("clicks").group_by_key().windowed_by(sk.tumbling("10 ms", grace="5 ms")).agg(n=F.count("*"))
    second = first.emit("final").group_by("n").agg(users=F.count("*"), store="second")
    second.emit("every").to("every")
    rows = {
        "clicks": [
            {"user": user, "n": 0, "ts": ts} for ts, user in [(1, "a"), (2, "b"), (3, "a"), (14, "c"), (40, "a"), (4, "b")]
        ]
    }
    with ran(app, TOPICS, rows, run) as log:
        assert sorted(values(log, "every", "n", "users")) == [(1, 1), (1, 2), (1, 3), (2, 1)]
        assert metric(log, "regrouped", "late") == 1


@pytest.mark.parametrize("run", CUTS, ids=repr)
def test_final_results_are_in_time_for_windows_of_the_same_size(run: Run) -> None:
    """What comes of closed windows is waited for as long as they were, so that it is not late for the windows it falls into."""
    app = sk.Topology("regrouped")
    window = sk.tumbling("10 ms", grace="5 ms")
    first = app.stream("clicks").group_by_key().windowed_by(window).agg(n=F.count("*"))
    second = first.emit("final").group_by("n").windowed_by(window).agg(users=F.count("*"), store="second")
    second.emit("final").to("out")
    rows = {
        "clicks": [
            {"user": user, "n": 0, "ts": ts} for ts, user in [(1, "a"), (9, "b"), (11, "a"), (12, "a"), (31, "c"), (60, "a")]
        ]
    }
    with ran(app, TOPICS, rows, run) as log:
        assert sorted(values(log, "out", "window_start", "n", "users")) == [(0, 1, 2), (10, 2, 1), (30, 1, 1), (60, 1, 1)]
        assert metric(log, "regrouped", "late") == 0
    with ran(app, TOPICS, {"clicks": rows["clicks"][:5]}, Run(tasks=run.tasks, drain=False)) as log:
        # At 31 the first windows of [0, 10) and [10, 20) have closed at 15 and 25; the second ones close 5 + 1 later, at 21 and 31.
        assert sorted(values(log, "out", "window_start", "n", "users")) == [(0, 1, 2), (10, 2, 1)]
        assert [row["window_start"] for row in stored(log, "regrouped", "second")] == []


@pytest.mark.parametrize("run", CUTS, ids=repr)
def test_final_results_meet_a_table_as_of_their_moment(run: Run) -> None:
    """A final result stands just before the record that closes its window, and meets the table as it is then, however the cut."""
    app = sk.Topology("regrouped")
    first = app.stream("clicks").group_by_key().windowed_by(sk.tumbling("10 ms", grace="5 ms")).agg(n=F.count("*"))
    first.emit("final").join(app.table("users"), on="user", how="left").to("out")
    users = [{"user": "a", "city": city, "ts": ts} for ts, city in [(0, "rome"), (14, "oslo"), (15, "bern"), (60, "bonn")]]
    rows = {**clicks(1, 50), "users": users}
    with ran(app, {**TOPICS, "users": "user string, city string"}, rows, run) as log:
        assert values(log, "out", "window_start", "city") == [(0, "bern"), (50, "bonn")]


def test_two_tables_of_one_stream_close_apart() -> None:
    """Two groupings of one stream have windows of their own, and a drain closes the longest."""
    app = sk.Topology("two")
    stream = app.stream("clicks")
    stream.group_by_key().windowed_by(sk.tumbling("10 ms", grace="0 ms")).agg(n=F.count("*")).emit("final").to("short")
    stream.group_by("n").windowed_by(sk.tumbling("1 hour", grace="1 day")).agg(users=F.count("*")).emit("final").to("long")
    with ran(app, TOPICS, clicks(1, 5, 11)) as log:
        assert values(log, "short", "window_start", "n") == [(0, 2), (10, 1)]
        assert sorted(values(log, "long", "n", "users")) == [(1, 1), (5, 1), (11, 1)]


def test_other_tasks_take_over_open_windows() -> None:
    """Windows opened by two tasks go on under five, and then under one, as if nothing had happened."""
    with fresh_log() as log:
        log.create_topic("clicks", TOPICS["clicks"], key="user", partitions=1)
        program = compile(counted(sk.tumbling("10 ms", grace="5 ms"), "every", "final"), log)
        for tasks, times in [(2, (1, 2)), (5, (3, 12)), (1, (4, 13))]:
            for user in "abcdefgh":
                append(log, "clicks", clicks(*times, user=user)["clicks"])
            run_available(start(log.catalog, log.storage, program, tasks=tasks), drain=tasks == 1)
        assert sorted(values(log, "final", "user", "window_start", "n")) == sorted(
            (user, start_ms, n) for user in "abcdefgh" for start_ms, n in [(0, 4), (10, 2)]
        )
