"""Stream time belongs to an operator: that of the stream inputs that feed it, and of nothing else."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.epoch.stream_time import NO_TIME, committed_times, of_expired, of_input, of_store, of_windows, order_reached
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.log.catalog.applications import ApplicationState
from streamkit.plan.windows import Windowing
from tests.kit.engine_run import append, fresh_log, metric, values

MINUTE_MS = 60_000
TOPICS = {"in": "k string, v bigint", "other": "k string, v bigint", "names": "k string, name string"}


def counted(stream):
    window = sk.tumbling("10 s", grace="5 s")
    return stream.group_by_key().windowed_by(window).agg(n=F.count("*"), store="counts")


def with_an_unrelated_table(app):
    app.table("names", store="unrelated")
    return app.stream("in")


def with_a_joined_table(app):
    return app.stream("in").join(app.table("names"), how="left").select("v")


def with_a_joined_global_table(app):
    return app.stream("in").join(app.global_table("names"), how="left").select("v")


def with_another_stream(app):
    app.stream("other").to("copy")
    return app.stream("in")


def with_another_aggregation(app):
    window = sk.tumbling("1 s", grace="0 s")
    app.stream("other").group_by_key().windowed_by(window).agg(n=F.count("*"), store="others").emit("final").to("copy")
    return app.stream("in")


def merged(app):
    return app.stream("in").merge(app.stream("other"))


def run(build, *, records_max=None, mode="every"):
    """Three records a second apart, each followed by records of all other topics from a minute later; what is counted, what is late."""
    with fresh_log() as log:
        for name, schema in TOPICS.items():
            log.create_topic(name, schema, key="k", partitions=1)
        app = sk.Topology("app")
        counted(build(app)).emit(mode).to("out")
        planner = start(log.catalog, log.storage, compile(app, log), records_max=records_max)
        for ts in (1000, 2000, 3000):
            append(log, "in", [{"k": "a", "v": 1, "ts": ts}])
            append(log, "other", [{"k": "z", "v": 1, "ts": ts + MINUTE_MS}])
            append(log, "names", [{"k": "a", "name": "x", "ts": ts + MINUTE_MS}])
            run_available(planner)
        return values(log, "out", "k", "n"), metric(log, "app", "late")


@pytest.mark.parametrize("records_max", [None, 1])
@pytest.mark.parametrize(
    "build",
    [
        with_an_unrelated_table,
        with_a_joined_table,
        with_a_joined_global_table,
        with_another_stream,
        with_another_aggregation,
    ],
)
def test_other_inputs_make_no_record_late(build, records_max):
    """A table that is kept, joined or global, and a faster stream that does not reach the operator, leave its windows open."""
    assert run(build, records_max=records_max) == ([("a", 1), ("a", 2), ("a", 3)], 0)


def test_every_stream_that_feeds_an_operator_moves_its_time():
    """A merge gives the operator both streams: the faster one makes the next records of the other late."""
    found, late = run(merged)

    assert [row for row in found if row[0] == "a"] == [("a", 1)]
    assert late == 2


def test_an_operator_s_time_is_the_largest_of_its_inputs_and_its_store():
    """What the store had reached counts, whatever inputs feed it now; inputs that do not feed it do not."""
    window = Windowing(10, 10, 0, (0, 2), "w")
    times = {of_input(7): 5, of_input(8): 90, of_input(9): 6}

    assert of_windows(times, window, (7, 8, 9)) == 6
    assert of_windows({**times, of_store("w"): 8}, window, (7, 8, 9)) == 8
    assert of_windows({}, window, (7, 8, 9)) == NO_TIME
    assert order_reached({**times, of_store("w"): 1000}) == 90


def test_a_restart_goes_on_from_the_committed_times():
    """A new generation has the times of each input and store, so that what was late before it is late behind it."""
    with fresh_log() as log:
        for name, schema in TOPICS.items():
            log.create_topic(name, schema, key="k", partitions=1)
        app = sk.Topology("app")
        counted(with_an_unrelated_table(app)).emit("every").to("out")
        program = compile(app, log)
        append(log, "in", [{"k": "a", "v": 1, "ts": 1000}, {"k": "a", "v": 1, "ts": 40_000}])
        append(log, "names", [{"k": "a", "name": "x", "ts": 10**9}])
        planner = start(log.catalog, log.storage, program)
        run_available(planner)
        before = planner.committed_end().times
        append(log, "in", [{"k": "a", "v": 1, "ts": 29_999}, {"k": "a", "v": 1, "ts": 30_000}])
        again = start(log.catalog, log.storage, program)

        assert again.committed_end().times == before
        ids = {name: log.topic(name).id for name in TOPICS}
        kept = {of_input(ids["in"]): 40_000, of_input(ids["names"]): 10**9, of_store("counts"): 40_000}
        expired = of_expired(log.topic("app-counts-changelog").id)
        assert before == {**kept, expired: 40_000 - program.changelog_retention_ms("counts")}
        run_available(again)
        assert (values(log, "out", "n"), metric(log, "app", "late")) == ([(1,), (1,), (1,)], 1)


def test_a_catalog_of_before_had_one_time_for_all():
    """An application that committed one stream time goes on from it, for each of its inputs and stores."""
    old = ApplicationState.__new__(ApplicationState)
    for name, value in {"metrics": {}, "stream_time_ms": 77, "stores": {"w": None}}.items():
        object.__setattr__(old, name, value)

    assert committed_times(old, (3, 4)) == {of_input(3): 77, of_input(4): 77, of_store("w"): 77}
    object.__setattr__(old, "stream_time_ms", None)
    assert committed_times(old, (3, 4)) == {}
