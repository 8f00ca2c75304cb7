"""Promises of a start whose topology makes a store of other rows: what follows from rows goes on only if these are made as before."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.start import start
from streamkit.errors import OrphanedStateError
from tests.kit.engine_run import Run, append, execute, fresh_log, stored
from tests.kit.sampling import TAKES_ALL

ROWS = [{"k": "a", "g": "x", "v": 1, "ts": 1}, {"k": "b", "g": "x", "v": 2, "ts": 2}, {"k": "c", "g": "y", "v": 3, "ts": 3}]
WITHIN = sk.within("5 s", grace="1 s")


def doubled(row):
    return {"g": row["g"], "v": row["v"] * 2}


def negated(row):
    return {"g": row["g"], "v": -row["v"]}


def scaled(by):
    return lambda row: {"g": row["g"], "v": row["v"] * by}


def grouped(table):
    return table.group_by("g").agg(n=F.count("*"), total=F.sum("v"), least=F.min("v"), store="s").to("out")


def folded(factor):
    def add(state, row):
        return {"total": state["total"] + factor * row["v"]}

    def subtract(state, row):
        return {"total": state["total"] - factor * row["v"]}

    return lambda app: app.table("in").group_by("g").aggregate({"total": 0}, add, subtract, "total bigint", store="s").to("out")


def times(by):
    """A function of values that captured the factor."""
    return F.udf("int")(lambda value: value * by)


def of_values(shape):
    """What is made of a stream by such a function, before and after another value was captured."""
    return [lambda app, by=by: shape(app.stream("in"), times(by)).to("out") for by in (2, 3)]


def windowed(groups, window=None):
    return groups.windowed_by(window or sk.tumbling("1 s", grace="0 s"))


def one_more(state, row):
    return {"n": state["n"] + 1}


def two_more(state, row):
    return {"n": state["n"] + 2}


def count_of_one(app):
    app.stream("in").group_by(h=F.col("v")).cogroup(one_more).aggregate({"n": 0}, "n int", store="s").to("out")


def counts_of_two(group, topic="more"):
    """A count of two streams, the second of which is grouped as `group` says."""
    return lambda app: app.stream("in").group_by(h=F.col("v")).cogroup(one_more).cogroup(
        group(app.stream(topic)), one_more).aggregate({"n": 0}, "n int", store="s").to("out")  # fmt: skip


def kept(make):
    return lambda app: app.stream("more").join(make(app.table("in")).select("k", "g", "v"), suffix="_2").to("out")


def passed_on(record, context):
    context.forward({"k": record["k"], "g": record["g"], "v": record["v"]})


def left_out(record, context):
    pass


def counted(app, *topics):
    streams = [app.stream(topic) for topic in topics]
    merged = streams[0].merge(*streams[1:]) if len(streams) > 1 else streams[0]
    merged.group_by("g").agg(n=F.count("*"), store="s").to("out")


def processed(size, kind="window"):
    class Kept(sk.Processor):
        def init(self, context):
            self.store = context.store("s")

        def process(self, record):
            if kind == "window":
                self.store.put(record.key, {"n": 1}, record.timestamp // 10 * 10)

    store = sk.window_store("s", key="k string", value="n int", size=size, retention="1 day")
    return lambda app: app.stream("in").process(Kept, "n int", stores=[store], name="p").to("out")


def joined(how, other="more"):
    def make(app):
        table = app.table("in", store="in-there").join(app.table(other, store="other").select("k", h="g"), on="k", how=how)
        table.group_by("g").agg(n=F.count("*"), store="s").to("out")

    return make


def by_foreign_key(on, how):
    return lambda app: app.table("in").join(app.table("more").select("k", h="v"), on={on: "k"}, how=how, store="s").to("out")


def streams_joined(left, right):
    return lambda app: app.stream(left).join(app.stream(right).select("k", z="v"), within=WITHIN, name="s").to("out")


def of_global(
    make=lambda table: table, topic="more", how="inner", on="g", kept=lambda app, rows: rows.to_table(store="s").to("out")
):
    """Stored rows that met those of a global table."""

    def declare(app):
        table = make(app.global_table(topic)).select("k", z="v", h="g")
        kept(app, app.stream("in").join(table, on={on: "k"}, how=how))

    return declare


def global_filters(kept):
    return [of_global(lambda table, least=least: table.filter(f"v > {least}"), kept=kept) for least in (1, 2)]


def global_topics(kept):
    return [of_global(topic=topic, kept=kept) for topic in ("more", "third")]


REFUSED: dict[str, Any] = {
    "a filter": [lambda app, least=least: grouped(app.table("in").filter(f"v > {least}")) for least in (1, 2)],
    "no filter": [lambda app: grouped(app.table("in").filter("v > 1")), lambda app: grouped(app.table("in"))],
    "a column": [lambda app, by=by: grouped(app.table("in").with_columns(v=F.col("v") * by)) for by in (1, 2)],
    "a column of columns": [
        lambda app, by=by: grouped(app.table("in").with_columns(w=F.col("v") * by).with_columns(v=F.col("w") + 1)) for by in (1, 2)
    ],
    "a group": [lambda app, f=f: app.table("in").group_by(h=f("g")).agg(n=F.count("*"), store="s").to("out") for f in (F.upper, F.lower)],
    "a computed group": [lambda app, f=f: grouped(app.table("in").with_columns(g=f("g"))) for f in (F.upper, F.lower)],
    "a function": [lambda app, f=f: grouped(app.table("in").map_values(f, "g string, v int")) for f in (doubled, negated)],
    "what a function captures": [lambda app, by=by: grouped(app.table("in").map_values(scaled(by), "g string, v int")) for by in (2, 3)],
    "a condition": [lambda app, f=f: grouped(app.table("in").filter(f)) for f in (lambda row: row["v"] > 1, lambda row: row["v"] > 2)],
    "an adder": [folded(1), folded(2)],
    "a function in an aggregate": of_values(lambda rows, f: rows.group_by("g").agg(n=F.sum(f("v")), store="s")),
    "a function in a condition of an aggregate": of_values(lambda rows, f: rows.group_by("g").agg(n=F.count_if(f("v") > 5), store="s")),
    "a function of batches in an aggregate": [
        lambda app, by=by: app.stream("in").group_by("g").agg(
            n=F.sum(F.pandas_udf("bigint")(lambda values: values * by)("v")), store="s").to("out") for by in (2, 3)],
    "another function of that name in an aggregate": [
        lambda app, f=f: app.stream("in").group_by("g").agg(n=F.collect_list(F.udf("int")(f)("v")), store="s").to("out")
        for f in (lambda value: value + 1, lambda value: value - 1)],
    "a function in one of two aggregates": of_values(
        lambda rows, f: rows.group_by("g").agg(n=F.count("*"), most=F.max_by("k", f("v")), store="s")),
    "a function in an aggregate of windows": of_values(
        lambda rows, f: windowed(rows.group_by("g")).agg(n=F.sum(f("v")), store="s").emit("final")),
    "a function in an aggregate of sessions": of_values(
        lambda rows, f: windowed(rows.group_by("g"), sk.session("1 s", grace="0 s")).agg(n=F.collect_list(f("v")), store="s")),
    "a function in an aggregate of sliding windows": of_values(
        lambda rows, f: windowed(rows.group_by("g"), sk.sliding("1 s", grace="0 s")).agg(n=F.avg(f("v")), store="s")),
    "a function in group_by": of_values(lambda rows, f: rows.group_by(h=f("v")).agg(n=F.count("*"), store="s")),
    "a function in group_by of windows": of_values(lambda rows, f: windowed(rows.group_by(h=f("v"))).agg(n=F.count("*"), store="s")),
    "a function in group_by of reduce": of_values(lambda rows, f: rows.group_by(h=f("v")).reduce(lambda a, b: b, store="s")),
    "a function in group_by of a second stream": [counts_of_two(lambda rows, by=by: rows.group_by(j=times(by)("v"))) for by in (2, 3)],
    "an expression in group_by of a second stream": [
        counts_of_two(lambda rows, by=by: rows.group_by(j=F.col("v") * by)) for by in (2, 3)],
    "a column in group_by of a second stream": [counts_of_two(lambda rows, by=by: rows.group_by(by)) for by in ("v", "w")],
    "rows of a table": [kept(lambda table, least=least: table.filter(f"v > {least}")) for least in (1, 2)],
    "columns of a table": [kept(lambda table, by=by: table.with_columns(v=F.col("v") * by)) for by in (1, 2)],
    "to_table": [lambda app, least=least: app.stream("in").filter(f"v > {least}").to_table(store="s").to("out") for least in (1, 2)],
    "a processor without a store": [
        lambda app, f=f: app.stream("in").process(f, "g string, v int").to_table(store="s").to("out") for f in (passed_on, left_out)],
    "another topic": [lambda app, topic=topic: counted(app, topic) for topic in ("in", "more")],
    "another topic of two": [lambda app, topic=topic: counted(app, "in", topic) for topic in ("more", "third")],
    "another topic of a table": [lambda app, topic=topic: app.table(topic, store="s").to("out") for topic in ("in", "more")],
    "sides that change places": [streams_joined("in", "more"), streams_joined("more", "in")],
    "a store of a processor": [processed("10 ms"), processed("20 ms")],
    "another kind of operator": [
        lambda app: app.stream("in", max_jump="1 hour").group_by("g").windowed_by(sk.tumbling("1 s", grace="0 s")).agg(
            n=F.count("*"), store="s").to("out"),
        lambda app: app.table("in").group_by("g").agg(n=F.count("*"), store="s").to("out-of-table"),
    ],
    "a join": [joined("inner"), joined("left")],
    "a joined table": [joined("left"), joined("left", "third")],
    "a foreign key": [by_foreign_key("g", "inner"), by_foreign_key("k", "inner")],
    "a filter of a global table": global_filters(lambda app, rows: rows.to_table(store="s").to("out")),
    "a global table before one with history": global_filters(lambda app, rows: rows.to_table(versioned="1 day", store="s").to("out")),
    "a global table before a group of a table": global_filters(lambda app, rows: grouped(rows.to_table(store="kept"))),
    "a global table before one that is joined": global_filters(
        lambda app, rows: app.stream("third").join(rows.to_table(), on="k", suffix="_2").to("out")),
    "a global table before a foreign key": global_filters(
        lambda app, rows: rows.to_table().join(app.table("third").select("k", y="v"), on={"g": "k"}, store="s").to("out")),
    "a global table before a merge": global_filters(
        lambda app, rows: rows.select("g", "v", "w").merge(app.stream("third")).to_table(store="s").to("out")),
    "a column of a global table": [of_global(lambda table, by=by: table.with_columns(v=F.col("v") * by)) for by in (1, 2)],
    "a function of a global table": [
        of_global(lambda table, f=f: table.map_values(f, "g string, v int")) for f in (doubled, negated)],
    "the topic of a global table": global_topics(lambda app, rows: rows.to_table(store="s").to("out")),
    "how a global table is joined": [of_global(how=how) for how in ("left", "inner")],
    "a column by which a global table is joined": [of_global(on=on) for on in ("g", "k")],
    "a global table that comes": [
        lambda app: app.stream("in").to_table(store="s").to("out"),
        of_global(kept=lambda app, rows: rows.select("g", "v", "w").to_table(store="s").to("out"))],
    "the topic of a global table before a count": global_topics(
        lambda app, rows: rows.group_by("h").agg(n=F.count("*"), store="s").to("out")),
    "the topic of a global table before windows": global_topics(
        lambda app, rows: rows.group_by("h").windowed_by(sk.tumbling("1 s", grace="0 s")).agg(n=F.count("*"), store="s").to("out")),
    "the topic of a global table before a join of streams": global_topics(
        lambda app, rows: rows.join(app.stream("third").select("k", y="v"), within=WITHIN, name="s").to("out")),
    "how a foreign key joins": [by_foreign_key("g", "inner"), by_foreign_key("g", "left")],
}  # fmt: skip
OFTEN = [*REFUSED][::3]  # those of which an ordinary run tries that the old topology goes on
FINE: dict[str, Any] = {
    "another reader": [
        lambda app: grouped(app.table("in")),
        lambda app: (grouped(app.table("in")), app.table("in").select("w", "v").to_stream().to("read")),
    ],
    "a filter of a stream": [lambda app: counted(app, "in"), lambda app: app.stream("in").filter("v > 1").group_by("g").agg(
        n=F.count("*"), store="s").to("out")],
    "a filter of a global table before a count": global_filters(
        lambda app, rows: rows.group_by("h").agg(n=F.count("*"), store="s").to("out")),
    "a column of a global table that nobody keeps": [
        of_global(lambda table, by=by: table.with_columns(w=F.col("v") * by)) for by in (1, 2)],
    "a function before an aggregate": of_values(lambda rows, f: rows.with_columns(w=f("v")).group_by("g").agg(n=F.count("*"), store="s")),
    "functions that fold a stream": [
        lambda app, f=f: app.stream("in").group_by("g").aggregate({"n": 0}, f, "n int", store="s").to("out") for f in (one_more, two_more)],
    "functions that reduce a stream": [
        lambda app, f=f: app.stream("in").group_by("g").reduce(f, store="s").to("out") for f in (lambda a, b: b, lambda a, b: a)],
    "functions that fold sessions, and make one of two": [
        lambda app, f=f: windowed(app.stream("in").group_by("g"), sk.session("1 s", grace="0 s")).aggregate(
            {"n": 0}, f, "n int", merge=f, store="s").to("out") for f in (one_more, two_more)],
    "a topic more of a cogroup": [count_of_one, counts_of_two(lambda rows: rows.group_by(j=times(2)("v")))],
    "a topic less of a cogroup": [counts_of_two(lambda rows: rows.group_by(j=times(2)("v"))), count_of_one],
    "one more topic": [lambda app: counted(app, "in"), lambda app: counted(app, "in", "more")],
    "one topic less": [lambda app: counted(app, "in", "more"), lambda app: counted(app, "in")],
    "another name of a column": [
        lambda app: grouped(app.table("in").with_columns(x=F.col("v") * 2).select("k", "g", v="x")),
        lambda app: grouped(app.table("in").with_columns(y=F.col("v") * 2).drop("v").rename({"y": "v"})),
    ],
    "the same function": [lambda app: grouped(app.table("in").map_values(scaled(2), "g string, v int"))] * 2,
    "a join of another kernel": [
        lambda app: grouped(app.table("in", store="there")),
        lambda app: (
            grouped(table := app.table("in", store="there")),
            app.stream("more").join(table, on="k", suffix="_2").select_key(h=F.col("g")).join(table, on={"h": "k"}, suffix="_3").to("joined"),
        ),
    ],
}  # fmt: skip


@pytest.fixture
def log():
    with fresh_log() as log:
        for topic in ("in", "more", "third"):
            log.create_topic(topic, "k string, g string, v int, w int", key="k", partitions=1)
            append(log, topic, [{**row, "w": 0} for row in ROWS])
        yield log


def topology(make):
    app = sk.Topology("t")
    make(app)
    return app


def run(log, make):
    execute(log, compile(topology(make), log), Run(drain=False))


def held(log):
    return {name: stored(log, "t", name) for name in log.catalog.applications.get("t").stores if not name.endswith("-members")}


@pytest.mark.parametrize("name", REFUSED)
def test_other_rows_are_refused_and_the_way_on_is_right(log, name):
    """A store of other rows is refused before anything has changed; the old topology goes on, and the advice gives what a fresh start gives."""
    before, now = REFUSED[name]
    run(log, before)
    there, state = held(log), log.catalog.applications.get("t")
    with pytest.raises(OrphanedStateError) as refused:
        start(log.catalog, log.storage, compile(topology(now), log))
    assert log.catalog.applications.get("t") == state
    if TAKES_ALL or name in OFTEN:
        run(log, before)
        assert held(log) == there
    assert re.search(r"app\.drop_store\(('[^)]*')\)|Declare it as before", str(refused.value))


@pytest.mark.parametrize("name", FINE)
def test_what_makes_the_same_rows_goes_on(log, name):
    """Who else reads a topic, how columns are called on the way, and the steps before an aggregation of a stream, may change."""
    before, now = FINE[name]
    run(log, before)
    there = held(log)
    run(log, now)
    after = held(log)
    assert there and {store: after[store] for store in there if store != "s" or "topic" not in name} == {
        store: rows for store, rows in there.items() if store != "s" or "topic" not in name
    }


def test_functions_that_another_python_compiled_are_known_by_their_names(log):
    """Their digests hold within a version of Python: after an upgrade of Python the state goes on."""
    before, _now = REFUSED["a function"]
    run(log, before)
    as_of_another_python(log)
    there = held(log)
    run(log, lambda app: grouped(app.table("in").map_values(renamed(negated), "g string, v int")))
    assert held(log) == there


@pytest.mark.parametrize("name", ["a function in an aggregate", "a function in group_by"])
def test_functions_in_aggregates_that_another_python_compiled_are_known_by_their_names(log, name):
    """After an upgrade of Python the digests of such functions tell nothing, and the state goes on."""
    before, now = REFUSED[name]
    run(log, before)
    there = held(log)
    as_of_another_python(log)
    run(log, now)
    assert held(log) == there


def as_of_another_python(log):
    """The program of before is as another version of Python compiled it."""
    program = json.loads(log.catalog.applications.program_of("t"))
    state = log.catalog.applications.get("t")
    other = json.dumps({**program, "python": "2.7"})
    log.catalog.write(lambda one: one.execute("UPDATE application SET program = ? WHERE id = ?", (other, state.id)))


def renamed(function):
    """A function that is called `doubled`, and has the code of another."""
    return type(function)(function.__code__, function.__globals__, "doubled")


def with_windows(app):
    app.stream("in").group_by("g").windowed_by(sk.tumbling("1 s", grace="0 s")).agg(n=F.count("*"), store="s").to("out")


MADE_AGAIN = {
    "rows that met a global table": lambda app: (
        app.stream("more").join(app.global_table("in").select("k", z="v"), on="k").to_table(store="met").to("out")
    ),
    "a count of rows that met a global table": lambda app: (
        app.stream("more").join(app.global_table("in").select("k", z="v"), on="k").group_by("k").agg(n=F.count("*")).to("out")
    ),
    "a table": lambda app: app.table("in", store="s").to("out"),
    "to_table": lambda app: app.stream("in").to_table(store="s").to("out"),
    "a group": lambda app: grouped(app.table("in")),
    "a joined table": kept(lambda table: table),
    "a join of tables": joined("left"),
    "a foreign key": by_foreign_key("g", "left"),
    "a count": lambda app: counted(app, "in"),
    "a count of two": lambda app: counted(app, "more", "in"),
    "windows": with_windows,
    "a join of streams": streams_joined("more", "in"),
    "a processor": processed("10 ms"),
    "suppress": lambda app: app.table("in").suppress(until=sk.time_limit("1 day"), name="s").to("out"),
    "history": lambda app: app.table("in", versioned="1 day", store="s").to("out"),
}


@pytest.mark.parametrize("name", MADE_AGAIN)
def test_rows_of_a_topic_that_was_made_again_are_refused(log, name):
    """A topic of the same name is another one: no store adds its records to rows of the former."""
    make = MADE_AGAIN[name]
    run(log, make)
    log.delete_topic("in")
    log.create_topic("in", "k string, g string, v int, w int", key="k", partitions=1)
    append(log, "in", [{"k": "z", "g": "z", "v": 9, "w": 0, "ts": 9}])
    before = log.catalog.applications.get("t")
    for _ in range(2 if TAKES_ALL else 1):
        with pytest.raises(OrphanedStateError, match="has rows of records of 'in', deleted since"):
            start(log.catalog, log.storage, compile(topology(make), log))
        assert log.catalog.applications.get("t") == before
    log.catalog.applications.reset("t")
    run(log, make)


def test_what_has_no_rows_of_a_topic_goes_on_when_it_is_made_again(log):
    """Steps without stores, such as joins with global tables, and stores that hold nothing read the topic that is there."""

    def make(app):
        app.stream("in").filter("v > 0").to("copied")
        app.stream("in").filter("v > 100").group_by("g").agg(n=F.count("*"), store="empty").to("counted")
        app.stream("more").join(app.global_table("third").select("k", z="v"), on="k").to("out")

    run(log, make)
    for topic in ("in", "third"):
        log.delete_topic(topic)
        log.create_topic(topic, "k string, g string, v int, w int", key="k", partitions=1)
        append(log, topic, [{"k": "z", "g": "z", "v": 900, "w": 0, "ts": 9}])
    run(log, make)
    assert [row["n"] for row in held(log)["empty"]] == [1]


def test_the_advice_for_another_topic_works(log):
    """A table that is read from another topic is not told to take the former one's store, which the next start would refuse."""
    run(log, lambda app: app.stream("third").join(app.table("in"), on="k", suffix="_2").to("out"))
    (there,) = held(log)
    other = lambda app: app.stream("third").join(app.table("more"), on="k", suffix="_2").to("out")  # noqa: E731
    with pytest.raises(OrphanedStateError) as refused:
        start(log.catalog, log.storage, compile(topology(other), log))
    assert "Write " not in str(refused.value) and f"app.drop_store({there!r})" in str(refused.value)
    run(log, lambda app: (other(app), app.drop_store(there)))
    (now,) = held(log).values()
    assert {row["k"] for row in now} == {"a", "b", "c"}


def test_a_refusal_of_a_join_of_streams_names_the_types_of_columns(log):
    """Its stores keep lists of rows, which nobody declared."""

    def make(type):
        values = lambda app: app.stream("in").select("k", v=F.col("v").cast(type))  # noqa: E731
        within = sk.within("1 s", grace="0 s")
        return lambda app: values(app).join(app.stream("more").select("k", w="v"), within=within).to(f"out-{type}")

    run(log, make("int"))
    with pytest.raises(OrphanedStateError, match="the column 'v' was int, and is bigint"):
        start(log.catalog, log.storage, compile(topology(make("bigint")), log))
