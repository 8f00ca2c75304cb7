"""Promises to an application whose topology changes between two starts: its state goes on as what it is, or the start says what differs."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.start import start
from streamkit.errors import OrphanedStateError, TopicNotFoundError, TopologyError
from streamkit.plan.program import Program
from streamkit.schema import Schema
from tests.kit.engine_run import Run, append, execute, fresh_log, stored, written

ROW = {"k": "x", "a": 1, "b": 100}
WINDOWS = {"size": "10 seconds", "advance": "5 seconds", "grace": "20 seconds", "retention": "1 minute"}


@pytest.fixture
def log():
    with fresh_log() as log:
        log.create_topic("in", "k string, a bigint, b bigint", key="k", partitions=1)
        log.create_topic("tables", "k string, first bigint, second bigint", key="k", partitions=1)
        yield log


def grouped(mode="latest", key=None, filter="true", **aggregates):
    app = sk.Topology("t")
    rows = app.stream("in").filter(filter)
    groups = rows.group_by(**key) if key else rows.group_by_key()
    groups.agg(store="s", **aggregates).emit(mode).to("out")
    return app


def windowed(**changed):
    """A count in hopping windows; `changed` replaces some of their times."""
    times = {**WINDOWS, **changed}
    app = sk.Topology("t")
    windows = sk.hopping(times.pop("size"), **times)
    app.stream("in").group_by_key().windowed_by(windows).agg(store="s", n=F.count("*")).emit("final").to("out")
    return app


def run(log, app, time):
    append(log, "in", [{**ROW, "ts": time}])
    execute(log, app if isinstance(app, Program) else compile(app, log), Run(drain=False))


def last(log):
    return written(log, "out")[-1].row


@pytest.mark.parametrize("mode", ["latest", "every"])
def test_aggregates_in_another_order_go_on(log, mode):
    """Aggregates are known by their names: state that was kept in another order goes on, start after start, and views show it."""
    orders = [("x", "y", "z"), ("z", "y", "x"), ("y", "x", "z"), ("x", "y", "z")]
    aggregates = {"x": F.sum("a"), "y": F.sum("b"), "z": F.min("b")}
    for number, order in enumerate(orders, start=1):
        run(log, grouped(mode, **{name: aggregates[name] for name in order}), number)
        expected = {"k": "x", "x": number, "y": 100 * number, "z": 100}

        assert last(log) == expected
        assert stored(log, "t", "s") == [expected]


def test_columns_of_a_table_in_another_order_go_on(log):
    """Columns of a kept table are known by their names, whatever their order in the topic and in the store."""
    app = sk.Topology("t")
    app.stream("in").join(app.table("tables", store="s"), on="k").select("first", "second").to("out")
    program = compile(app, log)
    append(log, "tables", [{"k": "x", "first": 1, "second": 2, "ts": 0}])
    run(log, program, 1)
    stores = tuple(replace(store, value=Schema.parse("second bigint, first bigint")) for store in program.stores)
    run(log, replace(program, stores=stores), 2)
    append(log, "tables", [{"k": "y", "first": 3, "second": 4, "ts": 3}])
    run(log, program, 3)

    assert [(one.row["first"], one.row["second"]) for one in written(log, "out")] == [(1, 2)] * 3
    assert sorted(tuple(row.items()) for row in stored(log, "t", "s")) == [
        (("k", "x"), ("first", 1), ("second", 2)),
        (("k", "y"), ("first", 3), ("second", 4)),
    ]


def test_what_is_before_an_aggregation_may_change(log):
    """Another filter in front of an aggregation is no other state, nor is another emission."""
    run(log, grouped(n=F.count("*")), 1)
    run(log, grouped(mode="every", filter="a > 0", n=F.count("*")), 2)

    assert last(log) == {"k": "x", "n": 2}


@pytest.mark.parametrize(
    ("before", "now", "difference"),
    [
        ({"x": F.min("a")}, {"x": F.max("a")}, r"'x' was min\(a\), .* and is max\(a\)"),
        ({"x": F.sum("a")}, {"x": F.sum("b")}, r"'x' was sum\(a\), .* and is sum\(b\)"),
        ({"x": F.sum("a")}, {"x": F.sum(F.col("a") + 1)}, r"'x' was sum\(a\), .* and is sum\(a \+ "),
        ({"x": F.sum("a")}, {"x": F.max("a"), "y": F.sum("b")}, r"'x' was sum\(a\), .* and is max\(a\).*'y' was added: sum\(b\)"),
        ({"x": F.sum("a")}, {"y": F.sum("a")}, r"'x' was removed: sum\(a\).*'y' was added: sum\(a\)"),
        ({"x": F.count("*")}, {"x": F.count("a")}, r"'x' was count\(\*\), .* and is count\(a\)"),
    ],
)  # fmt: skip
def test_other_aggregates_are_refused(log, before, now, difference):
    """A start whose aggregates differ in function, argument or name says what was kept, what is wanted, and what to do; nothing changes."""
    run(log, grouped(**before), 1)
    known = log.catalog.applications.get("t")
    log.delete_topic("out")  # which need not fit
    program = compile(grouped(**now), log)

    with pytest.raises(OrphanedStateError, match=rf"'s' of 't' .*{difference}.*`streamkit apps reset t`"):
        start(log.catalog, log.storage, program)
    assert log.catalog.applications.get("t") == known
    log.catalog.applications.reset("t")
    start(log.catalog, log.storage, program)


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"size": "20 seconds"}, "the size of its windows was 10 seconds, and is 20 seconds"),
        ({"advance": "2 seconds"}, "the advance of its windows was 5 seconds, and is 2 seconds"),
    ],
)
def test_other_windows_are_refused(log, changed, difference):
    """A start whose windows have another size or advance is refused with both; grace and retention may change (`test_changed_grace.py`)."""
    run(log, windowed(), 1)

    with pytest.raises(OrphanedStateError, match=difference):
        start(log.catalog, log.storage, compile(windowed(**changed), log))


def timed(kind, first, second):
    """An operator that keeps times by way of windows that nobody declared by their size."""
    app = sk.Topology("t")
    rows = app.stream("in")
    if kind == "duplicates":
        rows.drop_duplicates(["a"], within=first, grace=second).to("out")
    elif kind == "join":
        within = sk.within(before=first, after="1 s", grace=second)
        rows.join(app.stream("tables"), within=within).select("k", "a", "first").to("out")
    else:
        windows: Any = {
            "session": lambda: sk.session(first, grace=second),
            "sliding": lambda: sk.sliding(first, grace=second),
            "days": lambda: sk.tumbling(first, grace=second, time_zone="Europe/Berlin"),
        }[kind]()
        rows.group_by_key().windowed_by(windows).agg(store="s", n=F.count("*")).emit("final").to("out")
    return app


@pytest.mark.parametrize(
    ("kind", "before", "now", "difference"),
    [
        ("duplicates", "10 s", "20 s", "the time within which it drops duplicates was 10 seconds, and is 20 seconds"),
        (
            "join",
            "10 s",
            "20 s",
            "the time within which records meet was 10 seconds before to 1 second after, and is 20 seconds before to 1 second",
        ),
        ("session", "10 s", "20 s", "the gap of its sessions was 10 seconds, and is 20 seconds"),
        ("sliding", "10 s", "20 s", "the difference of its sliding windows was 10 seconds, and is 20 seconds"),
        ("days", "1 day", "1 week", "the calendar of its windows was 1 day of Europe/Berlin, and is 1 week of Europe/Berlin"),
    ],
)
def test_other_times_are_told_as_they_were_declared(log, kind, before, now, difference):
    """The refusal has the lengths of time that users wrote, and none that the engine made of them."""
    run(log, timed(kind, before, "1 minute"), 1)

    with pytest.raises(OrphanedStateError, match=difference) as error:
        start(log.catalog, log.storage, compile(timed(kind, now, "1 minute"), log))
    assert not re.search(r"[0-9] ms|size of its windows", str(error.value)), error.value


def test_other_groups_are_refused(log):
    """A start that groups by another expression under the same name is refused with both."""
    run(log, grouped(key={"g": F.upper("k")}, n=F.count("*")), 1)

    with pytest.raises(OrphanedStateError, match=r"the key was g string = upper\(k\), and is g string = lower\(k\)"):
        start(log.catalog, log.storage, compile(grouped(key={"g": F.lower("k")}, n=F.count("*")), log))


def test_a_store_that_becomes_a_table_is_refused(log):
    """A name of a store that was an aggregation, and is a kept table now, is refused."""
    run(log, grouped(n=F.count("*")), 1)
    app = sk.Topology("t")
    app.table("tables", store="s")

    with pytest.raises(
        OrphanedStateError, match=rf"kind of operator was aggregate, and is materialize(?s:.*)\n  at {re.escape(__file__)}"
    ):
        start(log.catalog, log.storage, compile(app, log))


KEPT_BY_PROCESSORS = {
    "key value": sk.key_value_store("s", key="k string", value="n int"),
    "window": sk.window_store("s", key="k string", value="n int", size="1 s", retention="1 day"),
    "duplicates": sk.window_store("s", key="k string", value="n int", size="1 s", retention="1 day", retain_duplicates=True),
    "session": sk.session_store("s", key="k string", value="n int", retention="1 day"),
    "versioned": sk.versioned_store("s", key="k string", value="n int", history_retention="1 day"),
}


@pytest.mark.parametrize(("before", "now"), list(itertools.permutations(KEPT_BY_PROCESSORS, 2)))
def test_a_store_of_a_processor_that_becomes_one_of_another_kind_is_refused(log, before, now):
    """Entries of another kind of store are neither lost nor misread: the start says that their keys are others."""
    execute(log, compile(processed(KEPT_BY_PROCESSORS[before]), log), Run(drain=False))

    with pytest.raises(
        OrphanedStateError,
        match=r"'s' of 't' does not hold what the topology now stores.*(layout of its keys|the key) was .*, and is ",
    ):
        start(log.catalog, log.storage, compile(processed(KEPT_BY_PROCESSORS[now]), log))


def processed(store):
    app = sk.Topology("t")
    app.stream("in").process(lambda record, context: None, "k string", stores=[store]).to("out")
    return app


def test_a_store_that_went_is_refused(log):
    """A start without a store that is there is refused, for it would leave the state behind."""
    run(log, grouped(n=F.count("*")), 1)
    app = sk.Topology("t")
    app.table("tables", store="other")

    with pytest.raises(
        OrphanedStateError,
        match=rf"has state in s, .* it has the stores other.*drop_store\('s'\)(?s:.*)\n  it was declared at {re.escape(__file__)}",
    ):
        start(log.catalog, log.storage, compile(app, log))


def two_stores(*names, dropped=()):
    """Counts of the same stream, each kept in a store of its own."""
    app = sk.Topology("t")
    for name in names:
        app.stream("in").group_by_key().count(store=name).emit("every").to(f"out-{name}")
    app.drop_store(*dropped)
    return app


def test_a_store_that_is_dropped_is_deleted_and_all_others_go_on(log):
    """The start deletes its changelog, other stores keep their state, and a new store in its place begins empty."""
    run(log, two_stores("first", "second"), 1)
    changes = {one.name: one.text for one in preview(log.catalog, compile(two_stores("second", dropped=["first"]), log)).changes}
    assert changes["first"] == "as the topology says; deleted with its changelog"
    for time in (2, 3):  # the line may stay
        run(log, two_stores("second", dropped=["first"]), time)
    assert list(log.catalog.applications.get("t").stores) == ["second"]
    with pytest.raises(TopicNotFoundError):
        log.catalog.topics.get("t-first-changelog")
    run(log, two_stores("second", "third", dropped=["first"]), 4)
    run(log, two_stores("second", "third", "first"), 5)
    counts = {name: written(log, f"out-{name}")[-1].row["count"] for name in ("first", "second", "third")}
    assert counts == {"first": 1, "second": 5, "third": 2}


def test_a_store_that_is_there_is_not_dropped(log):
    """drop_store of a store that the topology keeps is an error of that line, and no lost state."""
    with pytest.raises(TopologyError, match=r"drop_store\('first'\) names a store that the topology still has") as caught:
        compile(two_stores("first", dropped=["first"]), log)
    assert caught.value.at is not None and caught.value.at.file == __file__


def table_of_times(*, since_1970, filter=None):
    """A table of the newest records, whose times a column says, and its groups."""
    app = sk.Topology("t")
    records = app.stream("in", timestamp="a", since_1970=since_1970)
    records = records if filter is None else records.filter(filter)
    records.to_table(store="rows").group_by(b="b").agg(store="s", n=F.count("*")).to("out")
    return app


def test_sources_that_leave_out_old_times_as_a_filter_did(log):
    """A table goes on that a filter once kept free of records before 1970, if its source does so now; and only then."""
    before = table_of_times(since_1970=False, filter="unix_millis(_timestamp) >= 0")
    append(log, "in", [{**ROW, "a": 5, "ts": 5}])
    execute(log, compile(before, log), Run(drain=False))

    with pytest.raises(OrphanedStateError, match="the source of its rows was"):
        execute(log, compile(table_of_times(since_1970=False), log), Run(drain=False))

    append(log, "in", [{**ROW, "k": "y", "a": 6, "ts": 6}])
    execute(log, compile(table_of_times(since_1970=True), log), Run(drain=False))
    assert stored(log, "t", "s") == [{"b": 100, "n": 2}]
