"""Promises to an application whose stored rows get columns, or lose some: they go on, with null where nothing was known."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.start import start
from streamkit.errors import OrphanedStateError
from streamkit.failpoints import armed
from streamkit.plan.program_change import CHANGED, REFUSED, STORES
from tests.kit.engine_run import DiedError, Run, append, die, execute, fresh_log, stored, written
from tests.kit.sampling import TAKES_ALL

NARROW, WIDE = "k string, g string, v bigint", "k string, c string, g string, v bigint"
GRACE = {"grace": "1 hour"}
WINDOW = sk.tumbling("10 s", **GRACE)
FROM_RECORDS = "stored rows get it from the records read before"  # of tables
POINTS = ("start.after_commit", "storage.after_fsync", "migration.slab_durable", "commit.before_commit", "migration.after_commit")


def newest(one, other):
    return other


def joined(app, table):
    return app.stream("other").join(table, on="k", how="left")


def suppressed(app, **until):
    return app.stream("in").to_table(store="rows").suppress(until=sk.time_limit("30 s"))


VERBS = {
    "table": lambda app: joined(app, app.table("in", store="s")),
    "windowed table": lambda app: app.stream("in").group_by_key().windowed_by(WINDOW).reduce(newest).suppress(
        until=sk.time_limit("1 s")
    ).emit("every"),
    "versioned table": lambda app: app.stream("other").join(app.table("in", versioned="30 s"), on="k", grace="5 s", how="left"),
    "waiting records": lambda app: app.stream("in").join(app.table("other", versioned="30 s"), on="k", grace="5 s", how="left"),
    "to_table": lambda app: app.stream("in").to_table(store="s").emit("every"),
    "filter": lambda app: joined(app, app.table("in").filter("v > 0")),
    "suppress": lambda app: suppressed(app).emit("every"),
    "reduce": lambda app: app.stream("in").group_by_key().reduce(newest, store="s").emit("every"),
    "reduce, windows": lambda app: app.stream("in").group_by_key().windowed_by(WINDOW).reduce(newest).emit("final"),
    "reduce, sessions": lambda app: app.stream("in").group_by_key().windowed_by(sk.session("2 s", **GRACE)).reduce(newest).emit(
        "every"
    ),
    "reduce, sliding": lambda app: app.stream("in").group_by_key().windowed_by(sk.sliding("2 s", **GRACE)).reduce(newest).emit(
        "every"
    ),
    "stream join": lambda app: app.stream("in").join(app.stream("other"), within=sk.within("5 s", **GRACE)),
    "outer stream join": lambda app: app.stream("in").join(app.stream("other"), within=sk.within("5 s", **GRACE), how="outer"),
    "self join": lambda app: app.stream("in").join(app.stream("in"), within=sk.within("5 s", **GRACE), suffix="_2"),
    "table join": lambda app: app.table("in").join(app.table("other"), how="outer", store="s").emit("every"),
    "foreign key": lambda app: app.table("in").join(app.table("groups"), on={"g": "g"}, how="left").emit("every"),
    "group of a table": lambda app: app.table("in").group_by("g").agg(n=F.count("*"), total=F.sum("v"), store="s").emit("every"),
    "table looked up twice": lambda app: joined(app, app.table("in", store="s")).select_key(h="g").join(
        app.table("in", store="s"), on={"h": "k"}, how="left", suffix="_2"
    ),
}  # fmt: skip


@pytest.fixture
def log():
    with fresh_log(on_disk=True) as log:
        create(log, NARROW)
        yield log


def create(log, schema):
    log.create_topic("in", schema, key="k", partitions=1)
    log.create_topic("other", "k string, w bigint", key="k", partitions=1)
    log.create_topic("groups", "g string, x bigint", key="g", partitions=1)


def topology(verb, to="out"):
    """The operator of a verb; what its results hold does not depend on the columns there are."""
    app = sk.Topology("t")
    rows = VERBS[verb](app)
    rows.to(to)
    return app


def rows_of(part, has_values=False):
    """Rows of a part; with values in the new column, or with null."""
    chance = random.Random(part)
    found = []
    for ts in sorted(chance.randrange(part * 20_000, part * 20_000 + 15_000) for _ in range(25)):
        row = {"k": chance.choice("abcd"), "g": chance.choice("xy"), "v": chance.randrange(-3, 9), "ts": ts}
        found.append({**row, "c": chance.choice("pqr") if has_values else None})
    return found


def put(log, *rows):
    """Append to the topic `in`, null in columns that rows do not have; only columns that it has."""
    names = log.topic("in").schema.names
    append(log, "in", [{"ts": row["ts"], **{name: row.get(name) for name in names}} for row in rows])


def append_part(log, part, has_values=False):
    put(log, *rows_of(part, has_values))
    chance = random.Random(-1 - part)
    times = sorted(chance.randrange(part * 20_000, part * 20_000 + 15_000) for _ in range(10))
    append(log, "other", [{"k": chance.choice("abcd"), "w": number, "ts": time} for number, time in enumerate(times)])
    append(log, "groups", [{"g": chance.choice("xyz"), "x": number, "ts": time} for number, time in enumerate(times[:3])])


def held(log):
    """What all stores hold."""
    return {name: sorted(stored(log, "t", name), key=repr) for name in log.catalog.applications.get("t").stores}


def outcome(log, verb, is_altered):
    """The results of the second part, and a third one in torture, and what the stores hold, where the column came between the first two or was always there."""
    create(log, NARROW if is_altered else WIDE)
    append_part(log, 0)
    execute(log, compile(topology(verb), log), Run(tasks=2, drain=False))
    if is_altered:
        log.alter_topic("in", schema=WIDE)
    program = compile(topology(verb, "later"), log)
    if is_altered:
        assert_plan_shows_a_column(preview(log.catalog, program))
    start(log.catalog, log.storage, program)
    at_start = held(log)
    last = 2 if TAKES_ALL else 1
    for part in range(1, last + 1):
        append_part(log, part, True)
        execute(log, program, Run(tasks=part + 1, drain=part == last))
    return at_start, held(log), sorted(map(repr, written(log, "later")))


@pytest.mark.parametrize("verb", VERBS)
def test_a_column_that_an_input_gets_is_null_in_what_was_stored(verb):
    """An unchanged program goes on as if the column had been there, and null, from the beginning: stores and results are the same. A plan shows it."""
    with fresh_log() as altered, fresh_log() as wide:
        found, expected = outcome(altered, verb, True), outcome(wide, verb, False)

    assert any(rows for rows in found[0].values())
    assert found == expected


def assert_plan_shows_a_column(found):
    """`streamkit plan` says which stores change, and what becomes of their rows; it does not refuse."""
    changed = [one for one in found.of(STORES) if one.fate == CHANGED]

    assert not found.refusals
    assert changed and all(
        "'c' was added" in one.text and ("null there until they are written again" in one.text or FROM_RECORDS in one.text)
        for one in changed
    )


def with_store(store, keep):
    def take(record, context):
        kept = context.store("s")
        context.forward({"k": record["k"], "all": str(seen(kept))})
        keep(kept, record)

    app = sk.Topology("t")
    app.stream("in").process(take, "k string, all string", stores=[store]).to("out")
    return app


def seen(kept):
    """What a store has, whatever its kind."""
    return kept.all() if hasattr(kept, "all") else kept.get("a")


PUTS = {
    "key value": (
        lambda value: sk.key_value_store("s", key="k string", value=value),
        lambda store, row, value: store.put(row["k"], value),
    ),
    "window": (
        lambda value: sk.window_store("s", key="k string", value=value, size="1 s", retention="1 day"),
        lambda store, row, value: store.put(row["k"], value, row.timestamp),
    ),
    "duplicates": (
        lambda value: sk.window_store("s", key="k string", value=value, size="1 s", retention="1 day", retain_duplicates=True),
        lambda store, row, value: store.put(row["k"], value, row.timestamp),
    ),
    "session": (
        lambda value: sk.session_store("s", key="k string", value=value, retention="1 day"),
        lambda store, row, value: store.put(row["k"], row.timestamp, row.timestamp, value),
    ),
    "versioned": (
        lambda value: sk.versioned_store("s", key="k string", value=value, history_retention="1 day"),
        lambda store, row, value: store.put(row["k"], value, row.timestamp),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", PUTS)
def test_stores_of_processors_take_columns_and_lose_them(log, kind):
    """Entries that were put before have null in a column that came, and nothing of one that went; what stays is as it was."""
    declare, keep = PUTS[kind]
    put(log, {"k": "a", "v": 1, "ts": 1})
    before = with_store(declare("n int, gone string"), lambda store, row: keep(store, row, {"n": row["v"], "gone": "g"}))
    execute(log, compile(before, log), Run(drain=False))
    now = with_store(declare("m array<int>, n int"), lambda store, row: keep(store, row, {"n": row["v"], "m": [7]}))
    started(log, now)
    assert [(row["k"], row["n"], row["m"], "gone" in row) for row in stored(log, "t", "s")] == [("a", 1, None, False)]
    put(log, {"k": "a", "v": 2, "ts": 5_000})
    execute(log, compile(now, log), Run(drain=False))

    assert "{'m': None, 'n': 1}" in written(log, "out")[-1].row["all"]
    assert [(row["n"], row["m"]) for row in stored(log, "t", "s")][-1] == (2, [7])


def counted(schema, initial):
    def add(state, row):
        return {**state, "n": state["n"] + 1, **({"m": (state["m"] or 0) + row["v"]} if "m" in initial else {})}

    app = sk.Topology("t")
    app.stream("in").group_by_key().aggregate(initial, add, schema, store="s").emit("every").to(f"out-{len(initial)}")
    return app


def test_state_of_functions_takes_columns(log):
    """A column that is added to an aggregation's schema is null in the state that its function is given first."""
    put(log, {"k": "a", "v": 5, "ts": 1})
    execute(log, compile(counted("n int", {"n": 0}), log), Run(drain=False))
    put(log, {"k": "a", "v": 5, "ts": 2})
    execute(log, compile(counted("n int, m bigint", {"n": 0, "m": 0}), log), Run(drain=False))

    assert stored(log, "t", "s") == [{"k": "a", "n": 2, "m": 5}]


def counts(**aggregates):
    app = sk.Topology("t")
    app.stream("in").group_by_key().agg(store="n", **aggregates).suppress(until=sk.time_limit("10 s")).emit("every").to(
        f"out-{len(aggregates)}"
    )
    return app


def test_rows_that_are_held_back_take_aggregates(log):
    """A suppress behind an aggregation that gets another aggregate gives what it held back with null there."""
    put(log, {"k": "a", "v": 5, "ts": 1})
    execute(log, compile(counts(n=F.count("*")), log), Run(drain=False))
    put(log, {"k": "b", "v": 6, "ts": 20_000})
    execute(log, compile(counts(n=F.count("*"), most=F.max("v")), log), Run(drain=False))

    assert [one.row for one in written(log, "out-2")] == [{"k": "a", "n": 1, "most": None}]


@pytest.mark.parametrize("point", POINTS if TAKES_ALL else POINTS[::2])
def test_a_start_that_dies_leaves_rows_that_go_on(log, point):
    """After a start that died anywhere the rows are what they were, or are to be; the next brings them forward once."""
    append_part(log, 0)
    execute(log, compile(topology("outer stream join"), log), Run(drain=False))
    before = held(log)
    log.alter_topic("in", schema=WIDE)
    program = compile(topology("outer stream join", "later"), log)
    epoch = log.catalog.applications.get("t").epoch
    with armed(point, die), pytest.raises(DiedError):
        start(log.catalog, log.storage, program, tasks=2)
    assert point == "migration.after_commit" or held(log) == before
    with armed(point, die), suppress(DiedError):
        start(log.catalog, log.storage, program, tasks=2)
    start(log.catalog, log.storage, program, tasks=2)
    start(log.catalog, log.storage, program, tasks=2)

    assert log.catalog.applications.get("t").epoch == epoch + 1
    assert any("c" in row for rows in held(log).values() for row in rows)


def kept(*columns, to, **computed):
    app = sk.Topology("t")
    app.stream("in").select(*columns, **computed).to_table(store="s").emit("every").to(to)
    return app


def started(log, app):
    start(log.catalog, log.storage, compile(app, log))


def test_columns_that_the_program_keeps_come_and_go(log):
    """A column that is left out is dropped from stored rows; kept again, it has its values, which are made of the records read before."""
    put(log, *rows_of(0))
    execute(log, compile(kept("g", "v", to="one"), log), Run(drain=False))
    before = held(log)["s"]
    started(log, kept("v", to="two"))
    assert held(log)["s"] == sorted(({"k": row["k"], "v": row["v"]} for row in before), key=repr)
    started(log, kept("g", "v", to="three"))
    assert held(log)["s"] == sorted(({"k": row["k"], "g": row["g"], "v": row["v"]} for row in before), key=repr)


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (lambda: kept(h=F.col("g"), v=F.col("v"), to="two"), "'g' was removed: string; the column 'h' was added.*may be a removed part"),
        (lambda: kept("g", v=F.col("v").cast("int"), to="two"), "the column 'v' was bigint, and is int"),
        (lambda: kept("g", "v", later=F.col("required"), to="two"), "'later' was added: int.*'later' is NOT NULL, and the rows that are stored"),
    ],
    ids=["renamed", "other type", "not null"],
)  # fmt: skip
def test_other_columns_are_refused(log, now, why):
    """A column that may have been renamed, one of another type, and one that must not be null, are refused, and plan and error say why."""
    log.delete_topic("in")
    log.create_topic("in", f"{NARROW}, required int not null", key="k", partitions=1)
    execute(log, compile(kept("g", "v", to="one"), log), Run(drain=False))

    with pytest.raises(OrphanedStateError, match=why):
        started(log, now())
    (shown,) = preview(log.catalog, compile(now(), log)).of(STORES)
    assert shown.fate == REFUSED


def test_a_required_column_of_listed_rows_is_refused(log):
    """Rows of a stream that wait for others are lists of columns; a NOT NULL one cannot be added to them either."""

    def app(*columns):
        app = sk.Topology("t")
        rows = app.stream("wide").select(*columns)
        rows.join(app.stream("other"), within=sk.within("1 s", **GRACE), name="j").to(f"out-{len(columns)}")
        return app

    log.create_topic("wide", "k string, a int not null, b int not null", key="k", partitions=1)
    execute(log, compile(app("a"), log), Run(drain=False))

    with pytest.raises(OrphanedStateError, match="'b' is NOT NULL"):
        started(log, app("a", "b"))


def test_groups_of_tables_take_no_columns(log):
    """State of an adder and a subtractor takes no column: what was never added would be taken away; the refusal says so."""

    def app(schema, initial):
        def add(state, row):
            return {name: (state[name] or 0) + 1 for name in initial}

        def subtract(state, row):
            return {name: (state[name] or 0) - 1 for name in initial}

        app = sk.Topology("t")
        groups = app.table("in", store="rows").group_by("g")
        groups.aggregate(initial, add, subtract, schema, store="s").to(f"out-{len(initial)}")
        return app

    execute(log, compile(app("n int", {"n": 0}), log), Run(drain=False))

    with pytest.raises(OrphanedStateError, match=r"its functions was .* 'm' was added: int \(under another name"):
        started(log, app("n int, m int", {"n": 0, "m": 0}))
