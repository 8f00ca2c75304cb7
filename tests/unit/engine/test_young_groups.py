"""Promises to an application whose tables get groups: a group that is younger than its table begins with the rows that this has."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.start import start
from streamkit.errors import EvaluationError, OrphanedStateError
from streamkit.failpoints import armed
from streamkit.plan.program_change import ADDED, GONE, REFUSED, SAME, STORES
from tests.kit.engine_run import DiedError, Run, append, die, execute, fresh_log, stored, written
from tests.kit.sampling import TAKES_ALL

POINTS = ("start.after_commit", "storage.after_fsync", "migration.slab_durable", "commit.before_commit", "migration.after_commit")


def add(state, row):
    return {"n": state["n"] + 1, "total": state["total"] + (row["v"] or 0)}


def subtract(state, row):
    return {"n": state["n"] - 1, "total": state["total"] - (row["v"] or 0)}


def doubled(row):
    return {"g": row["g"], "v": None if row["v"] is None else 2 * row["v"]}


GROUPS = {
    "sums": lambda table: table.group_by("g").agg(n=F.count("*"), total=F.sum("v"), mean=F.avg("v"), store="s"),
    "members": lambda table: table.group_by("g").agg(
        low=F.min("v"), most=F.top_k("v", 2), kinds=F.count_distinct("v"), store="s"
    ),
    "functions": lambda table: table.group_by("g").aggregate({"n": 0, "total": 0}, add, subtract, "n int, total bigint", store="s"),
    "by an expression": lambda table: table.group_by(h=F.upper("g")).agg(n=F.count("*"), store="s"),
    "by its key": lambda table: table.group_by("k").agg(n=F.count("*"), total=F.sum("v"), store="s"),
    "behind a filter": lambda table: table.filter("v > 0").group_by("g").agg(n=F.count("*"), total=F.sum("v"), store="s"),
    "behind columns": lambda table: table.with_columns(w=F.col("v") * 3).drop("v").group_by("g").agg(total=F.sum("w"), store="s"),
    "behind a function": lambda table: table.map_values(doubled, "g string, v bigint").group_by("g").agg(
        total=F.sum("v"), store="s"
    ),
}  # fmt: skip


def topology(grouped=None, is_joined=False):
    """A kept table, with a group or without, and perhaps a join of another kernel that looks the table up in a copy."""
    app = sk.Topology("t")
    table = app.table("in", store="rows")
    table.to("copied")
    if grouped is not None:
        GROUPS[grouped](table).emit("every").to("out")
    if is_joined:
        joined = app.stream("other").join(table, on="k", how="left", suffix="_2").select_key(h=F.col("g"))
        joined.join(table, on={"h": "k"}, how="left", suffix="_3").to("joined")
    return app


def create(log):
    log.create_topic("in", "k string, g string, v bigint", key="k", partitions=2)
    log.create_topic("other", "k string, g string", key="k", partitions=1)


def append_part(log, part):
    chance = random.Random(part)
    times = sorted(chance.randrange(part * 1000, part * 1000 + 900) for _ in range(40))
    append(log, "in", [row(chance, time) for time in times])


def row(chance, time):
    value = chance.choice([None, -2, 1, 2, 3])
    return {
        "k": chance.choice("abcdefgh"),
        "g": chance.choice(["x", "y", "z", None]),
        "v": value,
        "ts": time,
        "deleted": chance.random() < 0.2,
    }


def run(log, app, tasks=1):
    execute(log, compile(app, log), Run(tasks=tasks, drain=False))


def held(log, name="s"):
    return sorted(stored(log, "t", name), key=repr)


def results(log):
    return Counter(map(repr, written(log, "out")))


@pytest.fixture
def log():
    with fresh_log(on_disk=True) as log:
        create(log)
        append_part(log, 0)
        yield log


@pytest.mark.parametrize("grouped", GROUPS)
def test_a_group_that_comes_to_a_table_goes_on_as_if_it_had_been_there(log, grouped):
    """Its first start fills it with the table's rows; from then on state and results are those of a group that was always there."""
    with fresh_log() as other:
        create(other)
        append_part(other, 0)
        run(other, topology(grouped))
        run(log, topology())
        start(log.catalog, log.storage, compile(topology(grouped), log))
        assert held(log) and all(row in held(other) for row in held(log))
        earlier = results(other)
        for part in (1, 2) if TAKES_ALL else (1,):
            append_part(log, part)
            append_part(other, part)
            run(log, topology(grouped), tasks=part + 1)
            run(other, topology(grouped))

        assert results(log) == results(other) - earlier
        assert all(row in held(other) for row in held(log))


def test_a_group_takes_the_rows_of_a_table_that_is_copied_in_the_same_start(log):
    """A table that the same start lets another kernel look up, and whose rows get a column, fills copy and group with the rows it has."""
    run(log, topology())
    log.alter_topic("in", schema="k string, c string, g string, v bigint")
    app = topology("sums", is_joined=True)
    app = with_other_outputs(app)
    start(log.catalog, log.storage, compile(app, log))
    rows = held(log, "rows")

    counts = Counter(row["g"] for row in rows if row["g"] is not None)
    assert {row["g"]: row["n"] for row in held(log)} == counts
    copies = [name for name in log.catalog.applications.get("t").stores if name.startswith("rows-for-")]
    assert copies and all(held(log, name) == rows for name in copies)


def with_other_outputs(app):
    """The topology without the copied topic, whose columns are those of before."""
    del app._sinks[next(sink for sink in app.sinks if sink.subject == "copied")]
    return app


def failing(row):
    if row["g"] == "z":
        raise ValueError("no z")
    return {"g": row["g"]}


def test_a_function_that_fails_on_the_table_s_rows_changes_nothing(log):
    """A start whose fill fails says which function did; the program of before goes on, and so does one that is put right."""
    run(log, topology())
    app = topology()
    app.table("in", store="rows").map_values(failing, "g string").group_by("g").agg(n=F.count("*"), store="s").to("failing")
    with pytest.raises(EvaluationError, match="no z"):
        start(log.catalog, log.storage, compile(app, log))
    append_part(log, 1)
    assert {one.name: one.fate for one in preview(log.catalog, compile(topology(), log)).of(STORES)} == {"rows": SAME, "s": GONE}
    run(log, topology())
    start(log.catalog, log.storage, compile(topology("sums"), log))

    assert {row["g"]: row["n"] for row in held(log)} == Counter(row["g"] for row in held(log, "rows") if row["g"] is not None)


@pytest.mark.parametrize("point", POINTS if TAKES_ALL else POINTS[::2])
def test_a_start_that_dies_fills_groups_once(log, point):
    """Wherever a start died, the next fills the groups, once; the program of before can go on in between."""
    run(log, topology())
    program = compile(topology("sums"), log)
    for _ in range(2):
        with armed(point, die), suppress(DiedError):
            start(log.catalog, log.storage, program)
    start(log.catalog, log.storage, program)
    start(log.catalog, log.storage, program)

    assert {row["g"]: row["n"] for row in held(log)} == Counter(row["g"] for row in held(log, "rows") if row["g"] is not None)


def test_a_plan_says_that_a_group_is_filled(log):
    """`streamkit plan` says of which rows a group begins."""
    run(log, topology())
    found = preview(log.catalog, compile(topology("members"), log))
    texts = {one.name: (one.fate, one.text) for one in found.of(STORES)}

    assert not found.refusals
    assert texts["s"] == texts["s-members"] == (ADDED, "filled with what follows from the rows of rows")


def groups_of_groups(app, is_grouped):
    counts = app.table("in", store="rows").group_by("g").agg(n=F.count("*"), store="counts")
    return counts.group_by("n").agg(m=F.count("*"), store="s") if is_grouped else counts


def groups_of_results(app, is_grouped):
    counts = app.stream("in").group_by("g").agg(n=F.count("*"), store="counts")
    return counts.group_by("n").agg(m=F.count("*"), store="s") if is_grouped else counts


def groups_of_history(app, is_grouped):
    table = app.table("in", versioned="1 day", store="rows")
    return table.group_by("g").agg(n=F.count("*"), store="s") if is_grouped else table


def groups_of_windows(app, is_grouped):
    windows = app.stream("in").group_by("g").windowed_by(sk.tumbling("1 s", grace="1 day")).agg(n=F.count("*"), store="counts")
    return windows.group_by("n").agg(m=F.count("*"), store="s") if is_grouped else windows


def both_at_once(app, is_grouped):
    table = app.table("in", store="rows")
    return groups_of_groups(app, True) if is_grouped else table


def groups_of_joined(app, is_grouped):
    table = app.table("in", store="rows")
    joined = table.join(app.table("other").select("k", h=F.col("g")), on="k", how="left")
    return joined.group_by("h").agg(n=F.count("*"), low=F.min("v"), store="s") if is_grouped else table


def populated(groups):
    """Those with members: a group that all have left before it was filled is not there."""
    return [one for one in groups if one.get("n" if "m" not in one else "m")]


def with_group(grouped, is_grouped):
    app = sk.Topology("t")
    grouped(app, is_grouped).emit("every").to(f"out-{is_grouped}")
    return app


@pytest.mark.parametrize("grouped", [groups_of_groups, groups_of_results, groups_of_history, both_at_once, groups_of_joined])
def test_a_group_of_what_follows_from_rows_is_filled(log, grouped):
    """Whatever its table is made of, a new group goes on as one of a fresh application that has read the same records."""
    append(log, "other", [{"k": "a", "g": "p", "ts": 5}, {"k": "b", "g": "q", "ts": 6}])
    run(log, with_group(grouped, False), tasks=2)
    run(log, with_group(grouped, True), tasks=3)
    filled = held(log)
    append_part(log, 1)
    run(log, with_group(grouped, True))
    gone_on = held(log)
    log.catalog.applications.reset("t")
    run(log, with_group(grouped, True))

    assert filled and populated(gone_on) == populated(held(log))


def test_a_group_that_cannot_be_filled_is_refused(log):
    """A group of windows, whose results no store tells, is refused before anything has changed; plan and error say so."""
    run(log, with_group(groups_of_windows, False))
    before = log.catalog.applications.get("t")
    program = compile(with_group(groups_of_windows, True), log)

    with pytest.raises(
        OrphanedStateError,
        match=r"the store 's' of 't' is new, and the application .* rows of counts that it should have: it would begin without",
    ) as caught:
        start(log.catalog, log.storage, program)
    assert f"\n  at {__file__}:" in str(caught.value)
    assert log.catalog.applications.get("t") == before
    found = preview(log.catalog, program)
    assert {one.name: one.fate for one in found.of(STORES)}["s"] == REFUSED
    assert found.refusals == (str(caught.value),)
    log.catalog.applications.reset("t")
    run(log, with_group(groups_of_windows, True))
    assert held(log)


def test_a_group_beside_a_table_that_begins_too_is_not_refused(log):
    """A table that had no rows, and one that begins with the start, need no filling: group and table see the same rows."""
    app = sk.Topology("t")
    app.stream("in").to("other-copy")
    run(log, app)
    append_part(log, 1)
    run(log, topology("sums"))
    assert Counter({row["g"]: row["n"] for row in held(log)}) == Counter(
        row["g"] for row in held(log, "rows") if row["g"] is not None
    )


def test_another_grouping_takes_the_place_of_one(log):
    """Groups of tables take no other aggregate; under another store, with the one before dropped, they have it of all rows."""

    def app(store, **aggregates):
        app = sk.Topology("t")
        app.table("in", store="rows").group_by("g").agg(store=store, **aggregates).to(f"out-{store}-{len(aggregates)}")
        return app

    run(log, app("s", n=F.count("*")))
    with pytest.raises(OrphanedStateError, match=r"under another name they begin .* app\.drop_store\('s'\) deletes this one"):
        start(log.catalog, log.storage, compile(app("s", n=F.count("*"), most=F.max("v")), log))
    changed = app("s2", n=F.count("*"), most=F.max("v"))
    changed.drop_store("s")
    run(log, changed)
    rows = [row for row in held(log, "rows") if row["g"] is not None]

    assert set(log.catalog.applications.get("t").stores) == {"rows", "s2", "s2-members"}
    assert {row["g"]: row["n"] for row in held(log, "s2")} == Counter(row["g"] for row in rows)
    assert all(
        row["most"] == max(one["v"] for one in rows if one["g"] == row["g"] and one["v"] is not None) for row in held(log, "s2")
    )
