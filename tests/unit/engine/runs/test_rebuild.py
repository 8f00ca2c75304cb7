"""Promises of `--rebuild`: stores get what a run from the beginning would give them, once, and nothing is sent again."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.evolution.replaying import names_together, replayed_program
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_next
from streamkit.engine.runs.local_run import run_locally
from streamkit.engine.runs.options import Options
from streamkit.engine.runs.preview import preview
from streamkit.engine.runs.rebuild import Rebuild, RebuildStoppedError, rebuild_stores
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError, FencedError, OffsetOutOfRangeError, OrphanedStateError, TopologyError
from streamkit.failpoints import armed
from streamkit.names import changelog_topic
from streamkit.plan.program_change import STORES
from streamkit.state.stores import MemoryStores
from tests.kit.engine_run import DiedError, Run, append, by_key, die, execute, fresh_log, stored, written
from tests.kit.waiting import wait_until

HOUR = sk.tumbling("1 s", grace="200 ms", retention="1 hour")
MINUTE = sk.tumbling("500 ms", grace="200 ms", retention="1 hour")
POINTS = (
    "start.after_commit",
    "replay.epoch",
    "commit.before_commit",
    "replay.ended",
    "migration.slab_durable",
    "migration.after_commit",
    "replay.adopted",
)


def sum_of(version):
    """What the versions of most topologies differ by."""
    return F.sum("v") if version == 1 else F.sum(F.col("v") * 2)


def sums(app, version):
    rows = app.stream("in").group_by("g")
    return rows.agg(n=sum_of(version), store="one").to("out")


def filtered(app, version):
    rows = app.stream("in").filter(F.col("v") >= version - 1).group_by("g")
    return rows.agg(n=F.count("*"), store="one").to("out")


def windows(app, version):
    rows = app.stream("in").group_by("g").windowed_by(HOUR if version == 1 else MINUTE)
    return rows.agg(n=F.count("*"), store="one").to("out")


def finals(app, version):
    rows = app.stream("in").group_by("g").windowed_by(HOUR)
    return rows.agg(n=sum_of(version), store="one").emit("final").to("out")


def sessions(app, version):
    rows = app.stream("in").group_by("g").windowed_by(sk.session("20 ms" if version == 1 else "40 ms", grace="1 s"))
    return rows.agg(n=F.count("*"), store="one").to("out")


def sliding(app, version):
    rows = app.stream("in").group_by("g").windowed_by(sk.sliding("20 ms" if version == 1 else "40 ms", grace="1 s"))
    return rows.agg(n=F.count("*"), store="one").to("out")


def met(app, version):
    """A stream meets a table, and is counted: the table keeps its own store."""
    joined = app.stream("in").join(app.table("more", store="kept").select("k", w="v"), on="k", how="left")
    return joined.group_by("w").agg(n=sum_of(version), store="one").to("out")


def processed(app, version):
    class Adding(sk.Processor):
        def init(self, context):
            self.context, self.store = context, context.store("one")

        def process(self, record):
            known = self.store.get(record["k"])
            row = {"n": record["v"] * version + (0 if known is None else known["n"])}
            self.store.put(record["k"], row)
            self.context.forward(row)

    store = sk.key_value_store("one", key="k string", value="n int")
    return app.stream("in").process(Adding, "n int", stores=[store], name="p").to("out")


def function(app, version):
    def total(state, row):
        return {"n": state["n"] + (row["v"] or 0) * version}

    return app.stream("in").group_by("g").aggregate({"n": 0}, total, "n bigint", store="one").to("out")


def pairs(app, version):
    within = sk.within("30 ms", grace="1 s")
    left = app.stream("in").filter(F.col("v") >= version - 1).select("v")
    return left.join(app.stream("more").select(w="v"), within=within, name="one").select("v", "w").to("out")


def result_groups(app, version):
    """A group of the results of an aggregation: both are rebuilt together."""
    counts = app.stream("in").filter(F.col("v") >= version - 1).group_by("g").agg(n=F.count("*"), store="one")
    return counts.group_by("n").agg(m=F.count("*"), store="groups").to("out")


def grouped(app, version):
    table = app.table("more", store="kept").filter(F.col("v") >= version - 1)
    return table.group_by("g").agg(n=F.count("*"), total=F.sum("v"), store="one").to("out")


CHANGED = {
    "another aggregate": sums,
    "a filter": filtered,
    "other windows": windows,
    "final results": finals,
    "sessions": sessions,
    "sliding windows": sliding,
    "a table that is met": met,
    "a processor": processed,
    "a function": function,
    "a join of streams": pairs,
    "groups of results": result_groups,
    "a group of a table": grouped,
}
NAMED = {"a join of streams": ("one-left",), "groups of results": ("one", "groups"), "a group of a table": ("one", "kept")}


def topology(make, version, beside=True):
    """A version of a topology; what stands beside it goes on."""
    app = sk.Topology("t")
    make(app, version)
    if beside:
        app.stream("in").group_by("k").agg(n=F.count("*"), store="beside").to("counted")
    return app


def create(log):
    for topic, partitions in {"in": 2, "more": 2}.items():
        log.create_topic(topic, "k string, g string, v int", key="k", partitions=partitions, config={"retention.ms": "-1"})


def append_part(log, part, rows=40):
    """Rows of both topics, the later the higher the part; some are late, and some delete."""
    chance = random.Random(part)
    for topic in ("more", "in"):
        times = sorted(part * 1000 + chance.randrange(900) for _ in range(rows))
        append(log, topic, [_row(chance, time - 30 * chance.randrange(2), topic) for time in times])


def _row(chance, time, topic):
    values = {"g": chance.choice("abc"), "v": chance.choice([0, 1, 2, 3])}
    return {"k": chance.choice("abcdef"), **values, "ts": time, "deleted": topic == "more" and chance.random() < 0.2}


def run(log, app, tasks=1, drain=False):
    execute(log, compile(app, log), Run(tasks=tasks, drain=drain))


def rebuild(log, app, *stores, **how):
    rebuild_stores(log, compile(app, log), Rebuild(stores, threads=2, **how))


def held(log):
    """What all stores have."""
    return {name: sorted(map(repr, stored(log, "t", name))) for name in log.catalog.applications.get("t").stores}


def sent(log):
    """What went to the output, by key."""
    return by_key(written(log, "out"), log.topic("out").key)


@pytest.fixture
def log():
    with fresh_log() as log:
        create(log)
        yield log


def from_the_beginning(make, parts, drain=(), version=2):
    """What stores hold after each part, and what was sent with each, if the version had always been there."""
    found, before = [], dict[Any, Any]()
    with fresh_log() as log:
        create(log)
        for part in parts:
            append_part(log, part)
            run(log, topology(make, version), drain=part in drain)
            now = sent(log)
            found.append((held(log), {key: rows[len(before.get(key, [])) :] for key, rows in now.items()}))
            before = now
    return found


def since(before, now):
    """What was sent since, by key."""
    found = {key: rows[len(before.get(key, [])) :] for key, rows in now.items()}
    return {key: rows for key, rows in found.items() if rows}


@pytest.mark.parametrize("name", CHANGED)
def test_a_rebuilt_store_is_as_if_it_had_always_been_there(log, name):
    """Stores hold what a run of the new topology from the beginning gives; nothing is sent again, and later results are those of that run."""
    make, named = CHANGED[name], NAMED.get(name, ("one",))
    for part in range(2):
        append_part(log, part)
        run(log, topology(make, 1), tasks=2)
    before = sent(log)
    rebuild(log, topology(make, 2), *named, records_max=7)
    expected = from_the_beginning(make, range(3))
    assert held(log) == expected[1][0]
    assert sent(log) == before

    append_part(log, 2)
    run(log, topology(make, 2), tasks=3)
    assert held(log) == expected[2][0]
    assert since(before, sent(log)) == {key: rows for key, rows in expected[2][1].items() if rows}


def test_an_application_that_stands_within_a_frame(log):
    """What it has not read yet of a frame is not read for it either, and counts once when it goes on."""
    append_part(log, 0)
    planner = start(log.catalog, log.storage, compile(topology(sums, 1), log), records_max=7)
    run_next(planner, stores=MemoryStores())
    read = log.catalog.applications.get("t").positions
    told: list[tuple[int, int]] = []
    rebuild(log, topology(sums, 2), "one", records_max=5, tell=lambda *numbers: told.append(numbers))
    assert told == [(0, 7), (5, 7), (7, 7)]
    assert log.catalog.applications.get("t").positions == read
    run(log, topology(sums, 2))
    assert held(log) == from_the_beginning(sums, range(1))[0][0]


def test_a_new_aggregate_has_the_records_of_before(log):
    """An aggregation of a stream that comes later begins empty, unless it is rebuilt; the one beside it is left alone."""

    def app(has_more):
        app = topology(sums, 1)
        if has_more:
            app.stream("in").group_by("g").agg(most=F.max("v"), store="more-of-it").to("more-out")
        return app

    append_part(log, 0)
    run(log, app(False))
    texts = {one.name: one.text for one in preview(log.catalog, compile(app(True), log), rebuild=["more-of-it"]).of(STORES)}
    assert texts["more-of-it"].startswith("filled again from its topics") and texts["one"] == ""
    before = held(log)
    rebuild(log, app(True), "more-of-it")
    run(log, app(True))

    newest: dict[str, int] = {}
    for row in written(log, "in"):
        newest[row.row["g"]] = max(newest.get(row.row["g"], 0), row.row["v"])
    assert {row["g"]: row["most"] for row in stored(log, "t", "more-of-it")} == newest
    assert {name: rows for name, rows in held(log).items() if name != "more-of-it"} == before
    assert written(log, "more-out") == []


def test_others_change_in_the_same_start(log):
    """A store that gets an aggregate in the same start goes on with what it had, and a table that comes then is filled."""

    def app(version):
        app = sk.Topology("t")
        sums(app, version)
        more = {"most": F.max("v")} if version == 2 else {}
        app.stream("in").group_by("k").agg(n=F.count("*"), **more, store="beside")
        app.stream("more").to("copied")
        if version == 2:
            app.table("more", store="kept")
        return app

    append_part(log, 0)
    run(log, app(1))
    before = {row["k"]: row["n"] for row in stored(log, "t", "beside")}
    rebuild(log, app(2), "one")
    newest = {row.row["k"]: None if row.deleted else row.row["v"] for row in written(log, "more")}
    assert {row["k"]: (row["n"], row["most"]) for row in stored(log, "t", "beside")} == {
        key: (count, None) for key, count in before.items()
    }
    assert {row["k"]: row["v"] for row in stored(log, "t", "kept")} == {
        key: value for key, value in newest.items() if value is not None
    }
    assert held(log)["one"] == from_the_beginning(sums, range(1))[0][0]["one"]
    append_part(log, 1)
    run(log, app(2))
    assert held(log)["one"] == from_the_beginning(sums, range(2))[1][0]["one"]


def test_copies_of_a_table_are_rebuilt_with_it(log):
    """A table that joins of two kernels look up has a copy in one of them, which nobody needs to name."""

    def make(app, version):
        table = app.stream("more").filter(F.col("v") >= version - 1).select("k", w="v").to_table(store="kept")
        met = app.stream("in").join(table, on="k", how="left").group_by("g").agg(n=F.sum("w"), store="one")
        rows = met.to_stream().select("n", "g").with_columns(k=F.lit("a")).select_key("k")
        return rows.join(table, on="k", how="left", name="second").select("n", "w").to("out")

    append_part(log, 0)
    run(log, topology(make, 1))
    stores = list(log.catalog.applications.get("t").stores)
    rebuild(log, topology(make, 2), "kept", "one")
    append_part(log, 1)
    run(log, topology(make, 2))
    assert any("-for-" in name for name in stores)
    assert held(log) == from_the_beginning(make, range(2))[1][0]


def test_dead_letters_are_not_sent_again(log):
    """Records that make a step fail are left out again, and stay where they went first."""

    def make(app, version):
        def divided(row):
            return {"w": 6 * version // row["v"], "g": row["g"]}

        rows = app.stream("in").map_values(divided, "w int, g string", on_error=sk.dead_letter("broken"))
        rows.group_by("g").agg(n=F.sum("w"), store="one").to("out")

    append_part(log, 0)
    run(log, topology(make, 1))
    before = log.end_offsets("broken")
    rebuild(log, topology(make, 2), "one")
    assert held(log) == from_the_beginning(make, range(1))[0][0]
    assert log.end_offsets("broken") == before and sum(before.values()) > 0


def test_it_works_in_epochs_and_tells_how_far_it_is(log):
    """A replay takes as many records an epoch as a run does; who waits hears how many of how many have been read again."""
    append_part(log, 0)
    run(log, topology(sums, 1))
    told: list[tuple[int, int]] = []
    rebuild(log, topology(sums, 2), "one", records_max=9, tell=lambda *numbers: told.append(numbers))

    assert told == [(done, 40) for done in (0, 9, 18, 27, 36, 40)]
    assert [state.name for state in log.catalog.applications.every()] == ["t"]
    assert changelog_topic("t.rebuild", "one") not in log.topics(internal=True)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("again", ["the same", "the topology of before"])
def test_a_rebuild_that_dies_loses_nothing(log, point, again):
    """It may die anywhere: the same command comes to its end, or the topology of before goes on, as far as nothing was taken over."""
    for part in range(2):
        append_part(log, part)
        run(log, topology(sums, 1))
    before = held(log), sent(log)
    with armed(point, die), pytest.raises(DiedError):
        rebuild(log, topology(sums, 2), "one", records_max=15)
    is_taken_over = point in ("migration.after_commit", "replay.adopted")

    if again == "the same":
        with armed(point, die), suppress(DiedError):
            rebuild(log, topology(sums, 2), "one", records_max=15)
        rebuild(log, topology(sums, 2), "one", records_max=15)
        assert held(log) == from_the_beginning(sums, range(2))[1][0]
        assert sent(log) == before[1]
    elif not is_taken_over:
        assert (held(log), sent(log)) == before
        append_part(log, 2)
        run(log, topology(sums, 1))
        assert held(log) == from_the_beginning(sums, range(3), version=1)[2][0]
    else:
        with pytest.raises(OrphanedStateError):
            start(log.catalog, log.storage, compile(topology(sums, 1), log))
        run(log, topology(sums, 2))
        assert held(log) == from_the_beginning(sums, range(2))[1][0]
    run(log, topology(sums, 1 if again != "the same" and not is_taken_over else 2))
    assert [state.name for state in log.catalog.applications.every()] == ["t"]


def test_a_rebuild_that_died_goes_on_where_it_was(log):
    """What has been read again is not read a third time, unless the topology or the stores are others."""
    append_part(log, 0)
    run(log, topology(sums, 1))

    def first_told(version, *stores):
        told = []
        with armed("replay.ended", die), suppress(DiedError):
            rebuild(log, topology(sums, version), *stores, tell=lambda *numbers: told.append(numbers))
        return told[0]

    assert [first_told(2, "one"), first_told(2, "one"), first_told(2, "one", "beside"), first_told(1, "one")] == [
        (0, 40),
        (0, 0),
        (0, 40),
        (0, 40),
    ]


def test_a_stopped_rebuild(log):
    """It stops between two epochs, and leaves the application as it was."""
    append_part(log, 0)
    run(log, topology(sums, 1))
    before = held(log)
    told: list[tuple[int, int]] = []
    with pytest.raises(RebuildStoppedError, match="stopped after 10 of 40 records; t is unchanged"):
        rebuild(
            log,
            topology(sums, 2),
            "one",
            records_max=5,
            is_stopped=lambda: len(told) > 2,
            tell=lambda *numbers: told.append(numbers),
        )
    assert held(log) == before


def test_another_start_fences_a_rebuild(log):
    """Whoever starts the application while its stores are rebuilt goes on, and the rebuild changes nothing."""
    append_part(log, 0)
    run(log, topology(sums, 1))

    def started(done, total):
        if done == 5:
            run(log, topology(sums, 1))

    with pytest.raises(FencedError, match="has started while its stores were rebuilt"):
        rebuild(log, topology(sums, 2), "one", records_max=5, tell=started)
    assert held(log) == from_the_beginning(sums, range(1), version=1)[0][0]


def test_two_rebuilds_at_once(log):
    """The later one goes on; the first is fenced, also when it has read everything."""
    append_part(log, 0)
    run(log, topology(sums, 1))
    app = topology(sums, 2)
    has_begun: list[int] = []

    def rebuild_again() -> None:
        if not has_begun:
            has_begun.append(1)
            rebuild(log, app, "one")

    with armed("replay.ended", rebuild_again), pytest.raises(FencedError):
        rebuild(log, app, "one")
    run(log, app)
    assert held(log) == from_the_beginning(sums, range(1))[0][0]


def test_a_running_application_is_fenced(log):
    """A run of the application ends when its stores are rebuilt; what it has read is read again."""
    append_part(log, 0)
    running = run_locally(compile(topology(sums, 1), log), log, Options())
    append_part(log, 1)
    wait_until(lambda: running.status()["epoch"], 60)
    rebuild(log, topology(sums, 2), "one")
    with pytest.raises(FencedError):
        running.wait(60)
    run(log, topology(sums, 2))
    assert held(log) == from_the_beginning(sums, range(2))[1][0]


@pytest.mark.parametrize("is_drained", [True, False])
def test_what_was_closed_without_a_record_stays_closed(log, is_drained):
    """Windows that a drain has closed give no second final result, whether it was the last thing that the application did or not."""
    append_part(log, 0)
    run(log, topology(finals, 1), drain=True)
    if not is_drained:
        append(log, "in", [{"k": "a", "g": "late", "v": 1, "ts": 890}, {"k": "a", "g": "next", "v": 1, "ts": 2500}])
        run(log, topology(finals, 1))
    before = sent(log)
    rebuild(log, topology(finals, 2), "one")
    append(log, "in", [{"k": "a", "g": "late", "v": 1, "ts": 900}, {"k": "a", "g": "end", "v": 1, "ts": 9000}])
    run(log, topology(finals, 2), drain=True)

    starts = {key[0]: [dict(values)["window_start"] for values, _, _ in rows] for key, rows in since(before, sent(log)).items()}
    assert starts == ({"end": [9000]} if is_drained else {"end": [9000], "next": [2000]})


def test_windows_of_a_new_store_close_with_a_drain(log):
    """A new store of an application that was drained has no open windows of records that were read before."""

    def app(version):
        app = topology(finals, 1)
        if version == 2:
            rows = app.stream("in").group_by("g").windowed_by(HOUR)
            rows.agg(n=F.count("*"), store="more-of-it").emit("final").to("more-out")
        return app

    append_part(log, 0)
    run(log, app(1), drain=True)
    rebuild(log, app(2), "more-of-it")
    append(log, "in", [{"k": "a", "g": "a", "v": 1, "ts": 9000}])
    run(log, app(2), drain=True)
    assert [one.row["window_start"] for one in written(log, "more-out")] == [9000]


def test_a_longer_grace_opens_no_window_again(log):
    """Windows that the grace of before has closed stay closed if the store is rebuilt with a longer one."""

    def app(grace, version):
        app = sk.Topology("t")
        rows = app.stream("in").group_by("g").windowed_by(sk.tumbling("1 s", grace=grace, retention="1 hour"))
        rows.agg(n=sum_of(version), store="one").emit("final").to("out")
        return app

    append(log, "in", [{"k": "a", "g": "a", "v": 1, "ts": time} for time in (100, 1300, 2100)])
    run(log, app("200 ms", 1))
    assert [one.row["window_start"] for one in written(log, "out")] == [0]
    rebuild(log, app("5 s", 2), "one")
    append(log, "in", [{"k": "a", "g": "a", "v": 1, "ts": 90_000}])
    run(log, app("5 s", 2))

    starts = [one.row["window_start"] for one in written(log, "out")]
    assert starts == [0, 1000, 2000]


def test_a_longer_retention_keeps_its_windows(log):
    """Maintenance deletes no change of a window that the rebuilt store keeps for longer than the store before."""

    def app(retention):
        app = sk.Topology("t")
        rows = app.stream("in").group_by("g").windowed_by(sk.tumbling("100 ms", grace="100 ms", retention=retention))
        rows.agg(n=F.count("*"), store="one").to("out")
        return app

    append(log, "in", [{"k": "a", "g": f"g{number}", "v": 1, "ts": number * 200} for number in range(50)])
    run(log, app("1 s"))
    log.maintain()
    rebuild(log, app("1 hour"), "one")
    log.maintain()
    assert len(stored(log, "t", "one")) == 50
    append(log, "in", [{"k": "a", "g": "end", "v": 1, "ts": 10_000}])
    run(log, app("1 hour"))
    log.maintain()
    assert len(stored(log, "t", "one")) == 51


def test_stores_without_a_log(log):
    """A new store without a log is filled, by a replay whose stores have logs; one that is there cannot be, since its old rows are not known."""

    def app(has_more):
        app = topology(sums, 1)
        if has_more:
            app.stream("in").group_by("g").agg(n=F.count("*"), store="more-of-it")
            app.disable_logging("more-of-it")
        return app

    append_part(log, 0)
    run(log, app(False))
    program = compile(app(True), log)
    assert program.unlogged == ("more-of-it",)
    assert replayed_program(program, {"more-of-it"}).unlogged == ()
    rebuild(log, app(True), "more-of-it")
    assert sum(row["n"] for row in stored(log, "t", "more-of-it")) == 40
    before = log.catalog.applications.get("t")
    with pytest.raises(OrphanedStateError, match="has no log, so a start cannot know which of its rows to delete"):
        rebuild(log, app(True), "more-of-it")
    assert log.catalog.applications.get("t") == before


def test_a_dropped_store_goes_with_the_run_behind(log):
    """What the topology drops is there as long as the program of before may go on."""

    def app(version):
        app = sk.Topology("t")
        rows = app.stream("in").group_by("g")
        rows.agg(n=F.count("*"), store="old" if version == 1 else "new").to("out")
        if version == 2:
            app.drop_store("old")
        return app

    append_part(log, 0)
    run(log, app(1))
    before = stored(log, "t", "old")
    with armed("replay.ended", die), pytest.raises(DiedError):
        rebuild(log, app(2), "new")
    run(log, app(1))
    assert stored(log, "t", "old") == before
    rebuild(log, app(2), "new")
    run(log, app(2))
    assert list(log.catalog.applications.get("t").stores) == ["new"]
    assert sorted(map(repr, stored(log, "t", "new"))) == sorted(map(repr, before))


REFUSED = {
    "unknown": (sums, ("two",), "no store 'two' in the topology of 't' to rebuild; it has beside, one"),
    "what follows from it": (result_groups, ("one",), "cannot be rebuilt without 'groups'.*--rebuild one --rebuild groups"),
    "what it follows from": (result_groups, ("groups",), "cannot be rebuilt without 'one'.*--rebuild groups --rebuild one"),
    "its table": (grouped, ("one",), "cannot be rebuilt without 'kept'.*--rebuild one --rebuild kept"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_rebuilt_alone_is_refused(log, name):
    """The error names what there is, or what must be rebuilt together, and nothing has changed."""
    make, named, message = REFUSED[name]
    append_part(log, 0)
    run(log, topology(make, 1))
    before = log.catalog.applications.get("t")
    with pytest.raises(ConfigError, match=message):
        rebuild(log, topology(make, 1), *named)
    assert log.catalog.applications.get("t") == before


def test_a_schedule_of_the_clock_is_refused(log):
    """No replay brings back when the clock has called a processor."""

    class Ticking(sk.Processor):
        def init(self, context):
            context.store("one")
            context.schedule("1 s", "wall_clock", lambda time: None)

        def process(self, record):
            pass

    app = sk.Topology("t")
    store = sk.key_value_store("one", key="k string", value="n int")
    app.stream("in").process(Ticking, "n int", stores=[store], name="p").to("out")
    program = compile(app, log)
    append_part(log, 0)
    execute(log, program, Run(drain=False))
    with pytest.raises(ConfigError, match="p is called by the clock"):
        rebuild_stores(log, program, Rebuild(("one",)))


def test_records_that_retention_has_deleted(log):
    """They are missed loudly, with the first offset that is left, before anything has changed; or the rest is taken if that is accepted."""
    for part in range(2):
        append_part(log, part)
        run(log, topology(sums, 1))
    log.delete_records("in", {0: 5, 1: 0}, force=True)
    earliest = log.catalog.manifest.start_offsets(log.topic("in").id)[0]
    before = log.catalog.applications.get("t")
    assert earliest > 0
    with pytest.raises(
        OffsetOutOfRangeError, match=rf"topic in, partition 0.*before {earliest}, the first offset that is left.*--accept-loss"
    ):
        rebuild(log, topology(sums, 2), "one")
    assert log.catalog.applications.get("t") == before
    rebuild(log, topology(sums, 2), "one", accepts_loss=True)
    left: dict[str, int] = {}
    for row in written(log, "in"):
        left[row.row["g"]] = left.get(row.row["g"], 0) + 2 * row.row["v"]
    assert {row["g"]: row["n"] for row in stored(log, "t", "one")} == left


def test_records_that_compaction_has_removed(log):
    """A stream misses them, and a table that was met; a table that only tables follow has what it needs."""

    def app(make, version):
        return topology(make, version, beside=False)

    log.alter_topic("more", config={"cleanup.policy": "compact"})
    append_part(log, 0)

    def counted(app, version):
        return app.stream("more").group_by("g").agg(n=F.count("*"), total=sum_of(version), store="one").to("counts")

    run(log, app(counted, 1))
    log.compact("more")
    with pytest.raises(OffsetOutOfRangeError, match="compaction has removed some of them, though each one counts"):
        rebuild(log, app(counted, 2), "one")
    rebuild(log, app(counted, 2), "one", accepts_loss=True)

    log.catalog.applications.reset("t")
    run(log, app(met, 1))
    with pytest.raises(OffsetOutOfRangeError, match=r"topic more.*compaction has removed"):
        rebuild(log, app(met, 2), "one")

    log.catalog.applications.reset("t")
    log.delete_topic("out")
    run(log, app(grouped, 1))
    rebuild(log, app(grouped, 2), "one", "kept")
    rows = stored(log, "t", "kept")
    assert sum(row["n"] for row in stored(log, "t", "one")) == sum(row["v"] >= 1 for row in rows)


def test_an_application_that_has_read_nothing(log):
    """There is nothing to fill: the first start begins with the beginning of its topics, whatever it is asked to rebuild."""
    rebuild(log, topology(sums, 2), "one")
    assert log.catalog.applications.every() == []
    append_part(log, 0)
    run(log, topology(sums, 2))
    assert held(log) == from_the_beginning(sums, range(1))[0][0]


def held_back(app, version):
    """Updates that wait for another time: which ones were given nobody knows."""
    sums = app.stream("in").group_by("g").agg(n=F.sum("v"), store="one")
    return sums.suppress(until=sk.time_limit(f"{version} s"), name="held").to("out")


def joined_earlier(app, version):
    """Rows without a partner that wait less long."""
    within = sk.within("30 ms" if version == 1 else "10 ms", grace="1 s")
    rows = app.stream("in").select("v").join(app.stream("more").select(w="v"), within=within, how="left", name="one")
    return rows.select("v", "w").to("out")


@pytest.mark.parametrize("name", [*CHANGED, "another time limit", "a join that waits less long"])
def test_a_refusal_recommends_a_rebuild_that_is_done(log, name):
    """A start that is refused, because a store holds something else, names the options that fill it again; none if that is refused, too."""
    make = {**CHANGED, "another time limit": held_back, "a join that waits less long": joined_earlier}[name]
    append_part(log, 0)
    run(log, topology(make, 1))
    try:
        start(log.catalog, log.storage, compile(topology(make, 2), log))
        return  # it goes on
    except OrphanedStateError as error:
        text = str(error)
    stores = re.findall(r"--rebuild ([\w-]+)", text)
    if name in CHANGED:
        assert "or fill it again from its topics by --rebuild" in text
        rebuild(log, topology(make, 2), *stores)
        start(log.catalog, log.storage, compile(topology(make, 2), log))
        return
    assert stores == [] and "fill it again" not in text
    if name == "another time limit":
        assert "how long it holds rows back from the first update on was 1 second, and is 2 seconds" in text
    every = names_together(compile(topology(make, 2), log), [{"another time limit": "held"}.get(name, "one-left")])
    with pytest.raises(OrphanedStateError, match="some results twice, or not at all"):
        rebuild(log, topology(make, 2), *every)


@pytest.mark.parametrize("wrong", [5, "one", [5], ["one", None], True])
def test_what_is_rebuilt_is_a_list_of_names(log, wrong):
    """Anything else is refused with what was given."""
    with pytest.raises(ConfigError, match=re.escape(f"rebuild={wrong!r}") + ".*expected (a list of )?names of stores"):
        sk.run(topology(sums, 2), log=log, engine="local", trigger="available_now", rebuild=wrong)


def test_the_name_of_the_rebuild_is_no_name_of_a_topology():
    """An application that fills stores again is called after the other one, so no topology may be."""
    with pytest.raises(TopologyError, match=re.escape("does not end with .rebuild")):
        sk.Topology("t.rebuild")


def test_a_log_on_disk(tmp_path):
    """Local stores go on behind a rebuild, and what the replay had there is removed."""
    with sk.open_log(tmp_path / "log") as log:
        create(log)
        for part in range(2):
            append_part(log, part)
            sk.run(topology(sums, 1), log=log, engine="local", drain=False, trigger="available_now").wait()
        sk.run(topology(sums, 2), log=log, engine="local", trigger="available_now", rebuild=["one"]).wait()
        assert held(log) == from_the_beginning(sums, range(2))[1][0]
        append_part(log, 2)
        sk.run(topology(sums, 2), log=log, engine="local", trigger="available_now").wait()
        assert held(log) == from_the_beginning(sums, range(3))[2][0]
        assert [one.name for one in (tmp_path / "log" / "stores").iterdir()] == ["t"]
        assert log.fsck(deep=True).is_clean
