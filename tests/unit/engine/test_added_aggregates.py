"""Promises to an application whose aggregations get aggregates, or lose some: what stays goes on, and what is new begins with the start."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.start import start
from streamkit.errors import FencedError, OrphanedStateError
from streamkit.failpoints import armed
from streamkit.plan.program_change import CHANGED
from tests.kit.engine_run import DiedError, Run, append, die, execute, fresh_log, stored, written
from tests.kit.sampling import TAKES_ALL

SIZE_MS, GAP_MS, SPAN_MS = 10_000, 1_000, 60_000
KEYS = ("a", "b", "c", "d", "e")
LONG = {"grace": "1 hour", "retention": "2 hours"}
WINDOWS = {
    "none": None,
    "tumbling": sk.tumbling("10 seconds", **LONG),
    "session": sk.session("1 second", **LONG),
}  # fmt: skip
AGGREGATES_OF_V = {
    "n": (lambda: F.count("*"), len),
    "there": (lambda: F.count("v"), len),
    "low": (lambda: F.min("v"), lambda values: min(values, default=None)),
    "total": (lambda: F.sum("v"), lambda values: sum(values) if values else None),
    "mean": (lambda: F.avg("v"), lambda values: sum(values) / len(values) if values else None),
    "begin": (lambda: F.first("v"), lambda values: values[0] if values else None),
    "every": (lambda: F.collect_list("v"), list),
}
STARTS = [  # the aggregates of each start, by name
    ("n",),
    ("low", "n", "every"),
    ("mean", "begin", "low"),
    ("n", "total", "low"),
]
POINTS = (
    "start.before_commit",
    "start.after_commit",
    "storage.after_fsync",
    "migration.slab_durable",
    "commit.before_commit",
    "migration.after_commit",
)


@pytest.fixture
def log():
    with fresh_log(on_disk=True) as log:
        log.create_topic("in", "k string, v bigint", key="k", partitions=1)
        yield log


def topology(names, windows="none", mode="latest"):
    app = sk.Topology("t")
    groups = app.stream("in").group_by_key()
    if (kind := WINDOWS[windows]) is not None:
        groups = groups.windowed_by(kind)
    groups.agg(store="s", **{name: AGGREGATES_OF_V[name][0]() for name in names}).emit(mode).to(f"out-{'-'.join(names)}")
    return app


def rows_of(part):
    """Records in the order of their times, so that the first is the first whatever the epochs; each part over the whole span."""
    chance = random.Random(part)
    times = sorted(chance.sample(range(SPAN_MS), 25))
    return [{"k": chance.choice(KEYS), "v": chance.randrange(-50, 50), "ts": time} for time in times]


def expected(rows, since, windows):
    """What the store holds: `rows` have the number of their start, `since` says with which one each aggregate began."""
    found = []
    for members in grouped(rows, windows):
        values = {name: [row["v"] for row in members if row["start"] >= begun] for name, begun in since.items()}
        found.append((members[0]["k"], {name: AGGREGATES_OF_V[name][1](values[name]) for name in sorted(since)}))
    return sorted(found, key=repr)


def grouped(rows, windows):
    """The records of each group, in the order in which they were taken."""
    if windows == "session":
        return [sorted(one, key=lambda row: row["place"]) for key in KEYS for one in sessions([r for r in rows if r["k"] == key])]
    groups: dict[Any, list[Any]] = {}
    for row in rows:
        groups.setdefault((row["k"], row["ts"] // SIZE_MS if windows == "tumbling" else 0), []).append(row)
    return list(groups.values())


def sessions(rows):
    found: list[list[Any]] = []
    for row in sorted(rows, key=lambda row: row["ts"]):
        if found and row["ts"] - found[-1][-1]["ts"] <= GAP_MS:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def held(log, names):
    return sorted(((row["k"], {name: row[name] for name in sorted(names)}) for row in stored(log, "t", "s")), key=repr)


def taken(number, before):
    return [{**row, "start": number, "place": len(before) + place} for place, row in enumerate(rows_of(number))]


def begun(since, names, number):
    """With which start each aggregate began; one that was away in between begins again."""
    return {name: since.get(name, number) for name in names}


@pytest.mark.parametrize("windows", WINDOWS)
def test_aggregates_that_are_added_begin_with_the_start(log, windows):
    """Whatever start adds and leaves out: what stays has seen all records, what is new those since; with other tasks, and started twice."""
    rows: list[Any] = []
    since: dict[str, int] = {}
    for number, names in enumerate(STARTS):
        since = begun(since, names, number)
        program = compile(topology(names, windows), log)
        start(log.catalog, log.storage, program, tasks=number % 3 + 1)
        assert held(log, names) == expected(rows, since, windows)
        rows += taken(number, rows)
        append(log, "in", rows_of(number))
        execute(log, program, Run(tasks=number % 2 + 1, drain=False))

        assert held(log, names) == expected(rows, since, windows)


@pytest.mark.parametrize("windows", ["tumbling", "session"])
def test_windows_that_are_open_close_with_the_aggregates_they_have(log, windows):
    """A window that was open at the start comes out final with the new aggregate of the records since, and null without any."""
    append(log, "in", rows_of(0))
    execute(log, compile(topology(("n",), windows, "final"), log), Run(drain=False))
    append(log, "in", rows_of(1)[:10])
    execute(log, compile(topology(("n", "low", "there"), windows, "final"), log), Run())
    rows = taken(0, [])
    rows += taken(1, rows)[:10]
    found = [(one.row["k"], {name: one.row[name] for name in ("low", "n", "there")}) for one in written(log, "out-n-low-there")]

    assert sorted(found, key=repr) == expected(rows, {"n": 0, "low": 1, "there": 1}, windows)
    assert any(row["low"] is None for _, row in found)


@pytest.mark.parametrize("point", POINTS if TAKES_ALL else POINTS[::2])
def test_a_start_that_dies_leaves_state_that_goes_on(log, point):
    """After a start that died anywhere the state is what it was, or is to be; the next, which may die there again, brings it forward once."""
    names, rows = ("low", "n"), taken(0, [])
    append(log, "in", rows_of(0))
    execute(log, compile(topology(("n",), "session"), log), Run(drain=False))
    program = compile(topology(names, "session"), log)
    before = log.catalog.applications.get("t")
    with armed(point, die), pytest.raises(DiedError):
        start(log.catalog, log.storage, program, tasks=2)
    assert held(log, ("n",)) == expected(rows, {"n": 0}, "session")
    with armed(point, die), suppress(DiedError):
        start(log.catalog, log.storage, program, tasks=2)
    start(log.catalog, log.storage, program, tasks=2)
    start(log.catalog, log.storage, program, tasks=2)
    after = log.catalog.applications.get("t")
    assert (after.epoch, after.positions, after.stream_time_ms) == (before.epoch + 1, before.positions, before.stream_time_ms)
    append(log, "in", rows_of(1))
    rows += taken(1, rows)
    execute(log, program, Run(tasks=2, drain=False))

    assert held(log, names) == expected(rows, {"n": 0, "low": 1}, "session")


def test_the_program_of_before_goes_on_where_a_start_died(log):
    """A start that died before its epoch has changed no state: the program of before goes on as if nothing had been."""
    append(log, "in", rows_of(0))
    execute(log, compile(topology(("n",)), log), Run(drain=False))
    with armed("migration.slab_durable", die), pytest.raises(DiedError):
        start(log.catalog, log.storage, compile(topology(("low", "n")), log))
    append(log, "in", rows_of(1))
    execute(log, compile(topology(("n",)), log), Run(drain=False))

    rows = taken(0, [])
    assert held(log, ("n",)) == expected(rows + taken(1, rows), {"n": 0}, "none")


def begin(log, program):
    start(log.catalog, log.storage, program)


def test_a_start_that_another_overtook_is_fenced(log):
    """Of two starts that compare with the same state, the later does not take for the old layout what the first has changed."""
    append(log, "in", rows_of(0))
    execute(log, compile(topology(("n",)), log), Run(drain=False))
    late, first = (compile(topology(names), log) for names in (("n", "low"), ("total", "n")))
    turns = iter([lambda: begin(log, first), lambda: None])
    with (
        armed("start.before_commit", lambda: next(turns)()),  # noqa: PLW0108  # each time another
        pytest.raises(FencedError, match="has started with another program"),
    ):
        start(log.catalog, log.storage, late)

    assert held(log, ("n", "total")) == expected(taken(0, []), {"n": 0, "total": 1}, "none")


def test_a_plan_says_what_comes_and_goes(log):
    """`streamkit plan` shows each aggregate that comes or goes, and what becomes of its state."""
    execute(log, compile(topology(("n", "mean")), log), Run(drain=False))
    found = preview(log.catalog, compile(topology(("n", "low")), log))
    (store,) = found.of("stores")

    assert (store.fate, found.refusals) == (CHANGED, ())
    assert "'mean' was removed: avg(v)" in store.text and "state is dropped" in store.text
    assert "'low' was added: min(v)" in store.text and "begins with the records from now on" in store.text


@pytest.mark.parametrize("point", POINTS)
def test_a_program_counts_once_its_state_goes_on(log, point):
    """The catalog remembers the program of a start that adds an aggregate with the conversion: where that dies before, the one before alone."""
    first, second = (compile(topology(names), log) for names in (("n",), ("low", "n")))
    append(log, "in", rows_of(0))
    execute(log, first, Run(drain=False))
    state = log.catalog.applications.get("t")

    def known():
        return [one.text for one in log.catalog.applications.programs(state.id)]

    with armed(point, die), suppress(DiedError):
        start(log.catalog, log.storage, second)
    is_done = point == "migration.after_commit"
    assert known() == ([second.text] * is_done + [first.text])
    start(log.catalog, log.storage, second)
    assert known() == [second.text, first.text]


def sliding(**aggregates):
    app = sk.Topology("t")
    windows = sk.sliding("5 seconds", grace="1 hour")
    app.stream("in").group_by_key().windowed_by(windows).agg(store="s", **aggregates).emit("latest").to(
        f"slides-{len(aggregates)}"
    )
    return app


def test_sliding_windows_go_on(log):
    """Sliding windows have what they would have if the new aggregate's argument had been null before the start."""
    for number, app in enumerate((sliding(n=F.count("*")), sliding(low=F.min("v"), n=F.count("*")))):
        append(log, "in", rows_of(number))
        execute(log, compile(app, log), Run(tasks=number + 1, drain=False))
    with fresh_log() as other:
        other.create_topic("in", "k string, v bigint", key="k", partitions=1)
        append(other, "in", [{**row, "v": None} for row in rows_of(0)])
        append(other, "in", rows_of(1))
        execute(other, compile(sliding(low=F.min("v"), n=F.count("*")), other), Run(drain=False))

        assert sorted(stored(log, "t", "s"), key=repr) == sorted(stored(other, "t", "s"), key=repr)
        assert {row["low"] is None for row in stored(log, "t", "s")} == {True, False}


def test_groups_of_tables_take_no_more_aggregates(log):
    """Where rows leave groups again, one that an added aggregate never saw would be taken out of it: it is refused."""
    log.create_topic("tables", "k string, g string, v bigint", key="k", partitions=1)

    def of_table(**aggregates):
        app = sk.Topology("t")
        app.table("tables", store="rows").group_by("g").agg(store="s", **aggregates).to(f"sums-{len(aggregates)}")
        return app

    execute(log, compile(of_table(n=F.count("*")), log), Run(drain=False))
    with pytest.raises(OrphanedStateError, match=r"'total' was added.*would have to subtract rows that it never added"):
        start(log.catalog, log.storage, compile(of_table(n=F.count("*"), total=F.sum("v")), log))
