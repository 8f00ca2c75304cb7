"""Promises of tables that come to topics which the application has read: they have the rows of before, or the start is refused."""

from __future__ import annotations

import json
import random

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.start import start
from streamkit.errors import OrphanedStateError
from streamkit.plan.program_change import STORES
from tests.kit.engine_run import Run, append, execute, fresh_log, stored, written
from tests.kit.sampling import TAKES_ALL, first, in_turn

WINDOW = sk.tumbling("1 s", grace="1 day")


def both(row):
    return {"w": (row["v"] or 0) * 2, "h": row["g"]}


def fails(row):
    return {"w": 1 // row["v"]}


def looked_up(make, on="k", **how):
    """A stream that looks a table up."""
    return lambda app: app.stream("in").join(make(app), on=on, how="left", suffix="_2", **how).to("out")


def joined(app):
    left = app.table("more").select(w="v")
    return left.join(app.table("words").select("k", x="v"), on="k", how="outer").group_by("x").agg(n=F.count("*")).to("out")


def by_foreign_key(app):
    left = app.table("more").select("g", w="v")
    return left.join(app.table("words").select("k", x="v"), on={"g": "k"}, how="left").group_by("x").agg(n=F.count("*")).to("out")


def results_joined(app):
    counts = app.stream("in").group_by("g").agg(n=F.count("*"), store="counts")
    return counts.join(app.table("words").select("k", x="v"), on={"g": "k"}).to_stream().to("out")


ADDED = {
    "a table": looked_up(lambda app: app.table("more")),
    "columns": looked_up(lambda app: app.table("more").select(w="v")),
    "a filter": looked_up(lambda app: app.table("more").filter("v > 1")),
    "a function": looked_up(lambda app: app.table("more").map_values(both, "w bigint, h string")),
    "bootstrap": looked_up(lambda app: app.table("more", bootstrap=True)),
    "a store": lambda app: app.table("more", store="kept"),
    "history": looked_up(lambda app: app.table("more", versioned="1 day")),
    "history and grace": looked_up(lambda app: app.table("more", versioned="1 day"), grace="1 hour"),
    "to_table": lambda app: app.stream("more").filter("v > 0").to_table(store="kept"),
    "another key": lambda app: app.stream("more").filter("g IS NOT NULL").select_key("g").to_table(store="kept"),
    "merged": lambda app: app.stream("more").merge(app.stream("words")).to_table(store="kept"),
    "JSON": looked_up(lambda app: app.table("opaque", value_format="json", schema="key string, v int", key="key"), on={"k": "key"}),
    "joined": joined,
    "a foreign key": by_foreign_key,
    "results": results_joined,
    "rows that fail": lambda app: app.stream("more").map_values(fails, "w int", on_error="skip").to_table(store="kept"),
}  # fmt: skip
TOPICS = ("in", "more", "words", "opaque")
READ = {"JSON": ("in", "opaque"), "results": ("in", "words")} | dict.fromkeys(("merged", "joined", "a foreign key"), TOPICS[:3])


def topology(name=None, before="stream", dropped=(), topics=TOPICS):
    """A topology that reads these topics, as streams or as tables, with the table of that name or without."""
    app = sk.Topology("t")
    for topic in ("in",) if name == "bootstrap" else [topic for topic in topics if topic != "opaque"]:
        (app.stream(topic) if before == "stream" else app.table(topic, store=f"{topic}-there")).to(f"copied-{topic}")
    if "opaque" in topics and name != "JSON":
        app.stream("opaque").to("copied-opaque")
    app.stream("in").group_by("g").agg(n=F.count("*"), store="counts").to("counted")
    if name is not None:
        ADDED[name](app)
    if name == "bootstrap" and before == "table":
        dropped = tuple(f"{topic}-there" for topic in topics if topic in ("more", "words"))
    if dropped:
        app.drop_store(*dropped)
    return app


def create(log):
    for topic, partitions in {"in": 2, "more": 2, "words": 1}.items():
        log.create_topic(topic, "k string, g string, v int", key="k", partitions=partitions)
    log.create_topic("opaque", "key binary, value binary", key="key", partitions=2)


def append_part(log, part):
    chance = random.Random(part)
    for topic in ("words", "more", "in"):
        times = sorted(part * 1000 + chance.randrange(900) for _ in range(30))
        append(log, topic, [_row(chance, time) for time in times])
    documents = [json.dumps({"v": chance.randrange(9)}).encode() for _ in range(20)]
    append(log, "opaque", [{"key": chance.choice("abcdef").encode(), "value": one, "ts": part * 1000 + 950} for one in documents])


def _row(chance, time):
    values = {"g": chance.choice(["a", "b", "c", None]), "v": chance.choice([None, 0, 1, 2, 3])}
    return {"k": chance.choice("abcdef"), **values, "ts": time, "deleted": chance.random() < 0.2}


def run(log, app, tasks=1):
    execute(log, compile(app, log), Run(tasks=tasks, drain=False))


def held(log, but=()):
    """What all stores have, but some, without groups that nobody is in."""
    stores = set(log.catalog.applications.get("t").stores) - {*but}
    rows = {name: sorted(map(repr, stored(log, "t", name))) for name in stores if not name.endswith(("-members", "-waiting"))}
    return {name: [row for row in found if "'n': 0" not in row] for name, found in rows.items()}


@pytest.fixture
def log():
    with fresh_log() as log:
        create(log)
        append_part(log, 0)
        yield log


@pytest.mark.parametrize(("name", "before"), in_turn(list(ADDED), ["stream", "table"]))
def test_a_table_that_comes_later_is_that_of_a_fresh_application(log, name, before):
    """Over topics that are read already, as streams or tables, a new table has what it would have if it had always been there."""
    topics = TOPICS if TAKES_ALL else READ.get(name, TOPICS[:2])
    run(log, topology(before=before, topics=topics), tasks=2)
    app = topology(name, before, topics=topics)
    texts = {one.name: one.text for one in preview(log.catalog, compile(app, log)).of(STORES)}
    run(log, app, tasks=3)
    filled = held(log, but=("counts", "in-there", "more-there", "words-there"))
    assert any(text.startswith("filled with") for text in texts.values())
    append_part(log, 1)
    run(log, app)
    gone_on = held(log)
    log.catalog.applications.reset("t")
    run(log, app)

    assert gone_on == held(log)
    assert any(filled.values())


@pytest.mark.parametrize("name", first(2, ["history", "a foreign key", "a table", "to_table"]))
def test_a_table_that_comes_back_has_all_rows(log, name):
    """A table that was dropped, while its topic was read on or not at all, comes back with the rows of now."""
    run(log, topology(name))
    stores = set(log.catalog.applications.get("t").stores) - {"counts"}
    run(log, topology(dropped=tuple(stores)))
    append_part(log, 1)
    run(log, topology(dropped=tuple(stores)))
    run(log, topology(name))
    found = held(log)
    log.catalog.applications.reset("t")
    run(log, topology(name))

    assert found == held(log)


def test_a_record_meets_the_filled_table(log):
    """What comes behind the start finds the rows of before it; also those of records that a compaction has thinned out."""
    run(log, topology())
    run(log, topology("columns"))
    newest = {row["k"]: row["v"] for row in stored(log, "t", "select-more") for row in [{"k": row["k"], "v": row["w"]}]}
    append(log, "in", [{"k": key, "g": None, "v": 0, "ts": 5000} for key in "abcdef"])
    run(log, topology("columns"))

    assert {row.row["k"]: row.row["w"] for row in written(log, "out") if row.timestamp == 5000} == {
        key: newest.get(key) for key in "abcdef"
    }


def test_a_column_that_a_table_gets_has_its_values(log):
    """A column that comes to a kept table, and a group by it that comes in the same start, are made of the records read before."""

    def app(has_more):
        app = sk.Topology("t")
        columns = {"w": "v", "h": "g"} if has_more else {"w": "v"}
        table = app.table("more").select("k", **{name: F.col(column) for name, column in columns.items()})
        app.stream("in").join(table, on="k", how="left").select("w").to("out")
        if has_more:
            app.stream("words").join(table, on="k", how="left").select("h").to("looked-up")
            table.filter("h IS NOT NULL").group_by("h").agg(n=F.count("*"), store="groups")
        return app

    run(log, app(False), tasks=2)
    plan = preview(log.catalog, compile(app(True), log))
    assert any("stored rows get it from the records read before" in one.text for one in plan.of(STORES))
    run(log, app(True), tasks=3)
    found = held(log)
    log.catalog.applications.reset("t")
    run(log, app(True))
    assert found == held(log)


@pytest.mark.parametrize(
    "later",
    [
        lambda app, windows: windows.join(app.stream("in").group_by("g").windowed_by(WINDOW).agg(m=F.max("v"), store="n")).to("out"),
        lambda app, windows: windows.filter("n > 0").to_stream().select("n", "g").select_key("g").to_table(store="n").to("out"),
    ],
    ids=["joined", "kept"],
)  # fmt: skip
def test_a_table_that_cannot_be_filled_is_refused(log, later):
    """What follows from results that no store tells is refused, by the start and by the plan, before anything has changed."""

    def app(with_later):
        app = sk.Topology("t")
        windows = app.stream("in").group_by("g").windowed_by(WINDOW).agg(n=F.count("*"), store="windows")
        windows.to("counted")
        if with_later:
            later(app, windows)
        return app

    run(log, app(False))
    before = log.catalog.applications.get("t")
    program = compile(app(True), log)
    with pytest.raises(OrphanedStateError, match="has already read rows of windows that it should have"):
        start(log.catalog, log.storage, program)
    assert log.catalog.applications.get("t") == before
    assert preview(log.catalog, program).refusals


@pytest.mark.parametrize(("table", "how"), in_turn(["table", "global_table"], ["inner", "left"]))
def test_a_table_of_records_that_met_another_is_refused(log, table, how):
    """It is not known which rows the records met when they came, neither of a table nor of a global table."""

    def app(is_kept):
        app = sk.Topology("t")
        met = app.stream("in").join(getattr(app, table)("more").select("k", w="v"), on="k", how=how)
        (met.to_table(store="kept") if is_kept else met).to("out")
        return app

    run(log, app(False))
    with pytest.raises(OrphanedStateError, match="it is not known which rows a table had"):
        start(log.catalog, log.storage, compile(app(True), log))
    run(log, app(False))


LIMIT = sk.time_limit("100 ms")
BEHIND = {
    "a group": lambda rows, app: rows.filter("g IS NOT NULL").group_by("g").agg(n=F.count("*"), store="kept").to("out"),
    "a group of a part": lambda rows, app: rows.select("v").filter("v > 0").group_by("v").agg(n=F.count("*"), store="kept").to("out"),
    "a join": lambda rows, app: app.stream("in").join(rows.select(w="v"), on="k").to("out"),
    "a join of tables": lambda rows, app: rows.select(w="v").join(
        app.table("words").select("k", x="v"), on="k", store="kept").to_stream().to("out"),
    "a foreign key": lambda rows, app: rows.select("g").join(
        app.table("words").select("k", x="v"), on={"g": "k"}, store="kept").to_stream().to("out"),
    "to_table": lambda rows, app: rows.emit("every").to_table(store="kept").to("out"),
}  # fmt: skip
ABOVE = {
    "a table": lambda app: app.table("more"),
    "a kept table": lambda app: app.table("more", store="there"),
    "a filter": lambda app: app.table("more").filter("v > 0"),
    "to_table": lambda app: app.stream("more").to_table(store="there"),
}


@pytest.mark.parametrize(("above", "behind"), in_turn([*ABOVE], [*BEHIND]))
def test_what_stands_behind_a_new_suppress_over_rows_read_before_is_refused(log, above, behind):
    """It is not known what the suppress would have given by then. Without rows read before it goes on, and so does the suppress alone."""

    def app(is_suppressed, is_kept):
        app = sk.Topology("t")
        app.stream("words").merge(app.stream("more")).to("copied")
        table = ABOVE[above](app)
        rows = table.suppress(until=LIMIT, name="held") if is_suppressed else table
        if is_kept:
            BEHIND[behind](rows, app)
        elif is_suppressed:
            rows.to("out")
        return app

    run(log, app(False, False))
    before = log.catalog.applications.get("t")
    with pytest.raises(
        OrphanedStateError, match="it is not known which of these rows 'held', which is also new, would have passed on by now"
    ):
        start(log.catalog, log.storage, compile(app(True, True), log))
    assert log.catalog.applications.get("t") == before
    assert preview(log.catalog, compile(app(True, True), log)).refusals
    log.catalog.applications.reset("t")
    run(log, app(True, True))
    assert held(log)["held"]


@pytest.mark.parametrize("behind", first(1, ["a group", "a join", "to_table"]))
def test_other_rows_in_front_of_a_suppress_are_refused(log, behind):
    """What it holds back, and what stands behind it, are of the rows in front of it: other steps there are refused, the same go on."""

    def app(least):
        app = sk.Topology("t")
        BEHIND[behind](app.table("more").filter(f"v > {least}").suppress(until=LIMIT, name="held"), app)
        return app

    run(log, app(0))
    with pytest.raises(OrphanedStateError, match=r"'held'.* the source of its rows was .*v > 0.*, and is .*v > 1"):
        start(log.catalog, log.storage, compile(app(1), log))
    run(log, app(0))


TABLES = {
    "a filter": lambda app: app.table("words", store="there").filter("v IS NOT NULL"),
    "a table": lambda app: app.table("words", store="there"),
    "to_table": lambda app: app.stream("words").to_table(store="there"),
    "history": lambda app: app.table("words", versioned="1 day", store="there"),
}
CHANGED = {
    "a filter": lambda table: table.to_stream().filter("v > 1").to_table(store="kept"),
    "another key": lambda table: table.to_stream().select_key("g").to_table(store="kept"),
    "more keys": lambda table: table.to_stream().select_key("k", "g").to_table(store="kept"),
    "a computed key": lambda table: table.to_stream().select(F.upper("k").alias("k"), "v").select_key("k").to_table(store="kept"),
    "merged": lambda table: table.to_stream().merge(table.topology.stream("words")).to_table(store="kept"),
    "several rows": lambda table: table.to_stream().flat_map(lambda row: [{"k": f"{row['v']}", "v": 1}], "k string, v int").to_table(),
    "a branch": lambda table: table.to_stream().split().branch("v > 1", "high").default("low")["high"].to_table(store="kept"),
    "rows that fail": lambda table: table.map_values(fails, "w int", on_error="skip").to_stream().to_table(store="kept"),
    "a group": lambda table: table.to_stream().filter("v > 1").to_table().group_by("g").agg(n=F.count("*"), store="groups"),
    "an equal key": lambda table: table.to_stream().select("v").to_table(store="kept"),
}  # fmt: skip


def behind(source, step):
    """A table that is there, and with a step a table of the stream of its changes."""
    app = sk.Topology("t")
    table = source(app)
    table.to_stream().to("changes")
    if step is not None:
        step(table).to("out")
    return app


@pytest.mark.parametrize(
    ("source", "step"), [pair for pair in in_turn(list(TABLES), list(CHANGED)) if pair != ("a filter", "rows that fail")]
)
def test_a_table_of_changes_has_those_of_before(log, source, step):
    """Behind `to_stream()` a row that a later change left out is still there, as if the table had always been followed."""
    run(log, behind(TABLES[source], None))
    run(log, behind(TABLES[source], CHANGED[step]))
    filled = held(log)
    log.catalog.applications.reset("t")
    run(log, behind(TABLES[source], CHANGED[step]))
    assert filled == held(log)
    assert all(filled.values())


def results(app):
    return app.stream("words").group_by("k").agg(v=F.last("v"), g=F.last("g"), store="there")


@pytest.mark.parametrize(("step", "why"), in_turn(["a filter", "another key", "a group"], ["results", "compacted"]))
def test_changes_that_are_not_known_any_more_are_refused(log, why, step):
    """Those of an aggregation, and of a topic that keeps the newest records only; before anything has changed."""
    if why == "compacted":
        log.delete_topic("words")
        log.create_topic("words", "k string, g string, v int", key="k", partitions=1, config={"cleanup.policy": "compact"})
        append_part(log, 1)
    source = results if why == "results" else TABLES["a table"]
    run(log, behind(source, None))
    with pytest.raises(OrphanedStateError, match="follows from every change of the table 'there'"):
        run(log, behind(source, CHANGED[step]))
    run(log, behind(source, CHANGED["an equal key"]))
    assert [row["k"] for row in stored(log, "t", "kept")] == [row["k"] for row in stored(log, "t", "there")]


def test_a_group_of_a_kept_table_is_made_of_its_rows(log):
    """Steps of tables need no former changes, so that a compacted topic is no hindrance."""
    log.delete_topic("words")
    log.create_topic("words", "k string, g string, v int", key="k", partitions=1, config={"cleanup.policy": "compact"})
    append_part(log, 1)
    run(log, behind(TABLES["a filter"], None))
    run(log, behind(TABLES["a filter"], lambda table: table.filter("v > 1").group_by("g").agg(n=F.count("*"), store="groups")))
    rows = [row["g"] for row in stored(log, "t", "there") if row["v"] is not None and row["v"] > 1]
    assert {row["g"]: row["n"] for row in stored(log, "t", "groups")} == {g: rows.count(g) for g in rows if g is not None}


def count_change(state, row):
    return {"n": state["n"] + 1, "last": row["v"]}


def leave(state, row):
    return state


FUNCTIONS = {
    "of a table": lambda app: app.table("words").group_by("g").aggregate({"n": 0}, count_change, leave, "n int, last int", store="there"),
    "of a table, reduced": lambda app: (
        app.table("words").select("g", n=F.lit(1), last="v").group_by("g").reduce(lambda one, other: {**other, "n": one["n"] + 1}, leave, store="there")
    ),
    "of a stream": lambda app: app.stream("words").group_by("g").aggregate({"n": 0}, count_change, "n int, last int", store="there"),
}  # fmt: skip
BEHIND_FUNCTIONS = {
    "a group": lambda table: table.group_by("n").agg(m=F.count("*"), last=F.max("last"), store="groups"),
    "a join": lambda table: table.join(table.topology.table("more").select("k", x="v"), on={"g": "k"}, store="joined"),
    "a table": lambda table: table.to_stream().select("n").to_table(store="kept"),
    "a stream": lambda table: table.topology.stream("more").join(table.rename(g="h"), on={"g": "h"}, how="left", suffix="_2"),
}


@pytest.mark.parametrize(("source", "step"), in_turn(list(FUNCTIONS), list(BEHIND_FUNCTIONS)))
def test_results_of_functions_come_from_their_store(log, source, step):
    """What comes behind them has the results that there are: functions may count changes, so that other calls give others."""
    run(log, behind(FUNCTIONS[source], None))
    if step != "a stream":
        run(log, behind(FUNCTIONS[source], BEHIND_FUNCTIONS[step]))
        append_part(log, 2)
    else:
        append(log, "more", [{"k": "a", "g": g, "v": 1, "ts": 5000} for g in "abc"])
    run(log, behind(FUNCTIONS[source], BEHIND_FUNCTIONS[step]))
    found, rows = groups_held(log), last_rows(log)
    log.catalog.applications.reset("t")
    log.delete_topic("out")
    run(log, behind(FUNCTIONS[source], BEHIND_FUNCTIONS[step]))
    assert (found, rows) == (groups_held(log), last_rows(log))
    assert step != "a stream" or any(n is not None for _, n in rows)


def groups_held(log):
    """As `held`, without groups of groups that nobody is in."""
    return {name: [row for row in rows if "'m': 0" not in row] for name, rows in held(log).items()}


def last_rows(log):
    """What the records of the last moment met."""
    rows = [row for row in log.read("out").to_pylist() if row["_timestamp"].timestamp() == 5]
    return sorted((row["g"], row["n"]) for row in rows if {"g", "n"} <= row.keys())
