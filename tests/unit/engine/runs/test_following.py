"""Promises of `--as NAME --from APP`: a second version reads what the first has read, and takes its outputs over without a gap or a repetition."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs import following
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.following import Succession, follow
from streamkit.engine.runs.local import run_next
from streamkit.engine.runs.local_run import run_locally
from streamkit.engine.runs.options import Options
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError, FencedError, OffsetOutOfRangeError, OrphanedStateError
from streamkit.failpoints import armed
from streamkit.state.stores import MemoryStores
from tests.kit.engine_run import DiedError, Run, append, by_key, die, execute, fresh_log, stored, written
from tests.kit.waiting import wait_until

WINDOW = sk.tumbling("1 s", grace="200 ms", retention="1 hour")
OUTPUTS = ("counts", "finals", "copied", "met")
POINTS = ("start.after_commit", "follow.epoch", "commit.before_commit", "follow.led")


def topology(name, aggregate=None):
    """An application with newest and final results, a stream without state, and one that meets a table."""
    app = sk.Topology(name)
    rows = app.stream("in")
    rows.group_by("g").agg(n=F.count("*") if aggregate is None else aggregate, store="counts").to("counts")
    rows.group_by("k").windowed_by(WINDOW).agg(n=F.count("*"), store="windows").emit("final").to("finals")
    rows.filter("v > 1").to("copied")
    rows.join(app.table("more").select("k", w="v"), on="k", how="left").to("met")
    return app


def append_part(log, part, rows=30):
    chance = random.Random(part)
    for topic in ("more", "in"):
        times = sorted(part * 1000 + chance.randrange(900) for _ in range(rows))
        values = [{"k": chance.choice("abc"), "g": chance.choice("xy"), "v": chance.randrange(4), "ts": time} for time in times]
        append(log, topic, values)


def run(log, app, drain=False):
    execute(log, compile(app, log), Run(tasks=2, records_max=11, drain=drain))


def is_level(log, app, leader):
    states = {state.name: state for state in log.catalog.applications.every()}
    return app in states and states[app].positions == states[leader].positions


def follow_along(log, app, leader="t", **how):
    """Follow until the leader's positions are reached, or until it has been taken over."""

    def is_stopped():
        return is_level(log, app.name, leader) and log.catalog.applications.get(leader).successor is None

    return follow(log, compile(app, log), Succession(leader, threads=2, records_max=7, is_stopped=is_stopped, **how))


def sent(log):
    return {topic: by_key(written(log, topic), log.topic(topic).key) for topic in OUTPUTS if topic in log.topics()}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    """Nobody commits beside most tests, so whoever follows would wait in vain."""
    monkeypatch.setattr(following, "WAIT_SECONDS", 0.01)


@pytest.fixture
def log():
    with fresh_log() as log:
        for topic in ("in", "more"):
            log.create_topic(topic, "k string, g string, v int", key="k", partitions=2, config={"retention.ms": "-1"})
        yield log


def uninterrupted(parts, drain=()):
    """All that one application sends of these parts."""
    with fresh_log() as log:
        for topic in ("in", "more"):
            log.create_topic(topic, "k string, g string, v int", key="k", partitions=2, config={"retention.ms": "-1"})
        for part in range(parts):
            append_part(log, part)
            run(log, topology("t"), drain=part in drain)
        return sent(log)


def test_outputs_go_on_without_gap_or_repetition(log):
    """What both versions send together is what one application sends; before it takes over, the second sends nothing."""
    for part in range(2):
        append_part(log, part)
        run(log, topology("t"))
    before = sent(log)
    assert not follow_along(log, topology("t2"))
    assert sent(log) == before and stored(log, "t2", "counts") == stored(log, "t", "counts")
    append_part(log, 2)
    run(log, topology("t"))
    append_part(log, 3)
    log.catalog.applications.hand_over("t2")
    assert follow_along(log, topology("t2"))
    assert follow_along(log, topology("t2"))  # the same command again goes on at once
    run(log, topology("t2"))

    assert sent(log) == uninterrupted(4)


def test_a_leader_that_stands_within_a_frame(log):
    """The second version reads as far into a frame as the first has, and the rest after the take-over."""
    append_part(log, 0)
    planner = start(log.catalog, log.storage, compile(topology("t"), log), records_max=7)
    run_next(planner, stores=MemoryStores())
    assert not follow_along(log, topology("t2"))
    epoch = log.catalog.applications.get("t2").epoch
    log.catalog.applications.hand_over("t2")
    assert follow_along(log, topology("t2"))
    assert log.catalog.applications.get("t2").epoch == epoch
    run(log, topology("t2"))

    found, expected = sent(log), uninterrupted(1)
    last = [{key: rows[-1] for key, rows in one.pop("counts").items()} for one in (found, expected)]
    assert found == expected and last[0] == last[1]  # which newest results there are depends on the cut


def test_another_version_goes_on_from_all_records(log):
    """What the second version sends from the take-over on is what it would send if it had been there from the beginning."""
    append_part(log, 0)
    run(log, topology("t"))
    log.delete_topic("counts")
    app = topology("t2", F.sum("v"))
    follow_along(log, app)
    log.catalog.applications.hand_over("t2")
    assert follow_along(log, app)
    append_part(log, 1)
    run(log, app)

    totals: dict[str, int] = {}
    for one in written(log, "in"):
        totals[one.row["g"]] = totals.get(one.row["g"], 0) + one.row["v"]
    assert {row["g"]: row["n"] for row in stored(log, "t2", "counts")} == totals


@pytest.mark.parametrize("point", POINTS)
def test_a_second_version_that_dies(log, point):
    """It may die anywhere, before the take-over or behind it, and again: the same command goes on."""
    append_part(log, 0)
    run(log, topology("t"))
    with armed(point, die), suppress(DiedError):
        follow_along(log, topology("t2"))
    append_part(log, 1)
    run(log, topology("t"))
    log.catalog.applications.hand_over("t2")
    for _ in range(2):
        with armed(point, die), suppress(DiedError):
            follow_along(log, topology("t2"))
    assert follow_along(log, topology("t2"))
    append_part(log, 2)
    run(log, topology("t2"))

    assert sent(log) == uninterrupted(3)


def test_what_a_drain_has_closed_stays_closed(log):
    """Windows that the first version has closed without a record give no second final result."""
    append_part(log, 0)
    run(log, topology("t"), drain=True)
    log_before = sent(log)["finals"]
    follow_along(log, topology("t2"))
    log.catalog.applications.hand_over("t2")
    assert follow_along(log, topology("t2"))
    append_part(log, 1)
    run(log, topology("t2"))

    assert sent(log) == uninterrupted(2, drain=(0,))
    assert log_before


def test_both_run_while_one_is_taken_over(log):
    """Both read at once what comes; whenever the take-over is, each record's results are sent once."""
    stopping: list[int] = []
    append_part(log, 0)
    running = run_locally(compile(topology("t"), log), log, Options(max_records_per_epoch=5))
    wanted = Succession("t", threads=1, records_max=5, is_stopped=lambda: bool(stopping))
    with ThreadPoolExecutor(1) as threads:
        follower = threads.submit(follow, log, compile(topology("t2"), log), wanted)
        try:
            for part in range(1, 6):
                append_part(log, part)
                if part == 3:
                    wait_until(lambda: "t2" in [one.name for one in log.catalog.applications.every()], 60)
                    log.catalog.applications.hand_over("t2")
            assert follower.result(120)
        finally:
            stopping.append(1)
    with pytest.raises(FencedError):
        running.wait(60)
    run(log, topology("t2"))

    counts: dict[str, int] = {}
    for one in written(log, "in"):
        counts[one.row["g"]] = counts.get(one.row["g"], 0) + 1
    assert {row["g"]: row["n"] for row in stored(log, "t2", "counts")} == counts
    changes = {group: [dict(values)["n"] for values, _, _ in rows] for (group,), rows in sent(log)["counts"].items()}
    assert {group: rows[-1] for group, rows in changes.items()} == counts
    assert all(rows == sorted(set(rows)) for rows in changes.values())
    assert sorted(map(repr, (one.row for one in written(log, "copied")))) == sorted(
        map(repr, (one.row for one in written(log, "in") if one.row["v"] > 1))
    )


def test_who_may_run(log):
    """Before the take-over the second version cannot write, and after it the first; errors say which one goes on."""
    append_part(log, 0)
    run(log, topology("t"))
    follow_along(log, topology("t2"))

    def begin(name):
        start(log.catalog, log.storage, compile(topology(name), log))

    with pytest.raises(
        ConfigError, match=r"'t2' follows 't' without writing; this start asks for one that runs by itself.*take-over t2"
    ):
        begin("t2")
    with pytest.raises(ConfigError, match=r"'t' runs by itself; this start asks for one that follows 't3'"):
        start(log.catalog, log.storage, compile(topology("t"), log), follows="t3")
    with pytest.raises(ConfigError, match=r"'t2' follows 't' itself, and writes nothing; expected --from t"):
        follow_along(log, topology("t3"), "t2")
    with pytest.raises(ConfigError, match=r"cannot follow itself; expected another name, as in --as t-2 --from t"):
        follow_along(log, topology("t"))
    with pytest.raises(ConfigError, match=r"'t' follows no other one"):
        log.catalog.applications.hand_over("t")
    log.catalog.applications.hand_over("t2")
    log.catalog.applications.hand_over("t2")
    with pytest.raises(ConfigError, match=r"were taken over by 't2'.*streamkit apps reset t"):
        begin("t")
    with pytest.raises(ConfigError, match=r"has been taken over by 't2'; expected --from t2"):
        follow_along(log, topology("t3"))
    assert follow_along(log, topology("t2"))
    with pytest.raises(ConfigError, match=r"'t2' has taken over 't' already"):
        log.catalog.applications.hand_over("t2")
    begin("t2")


def test_a_take_over_that_has_not_caught_up(log):
    """A start that would write before all is read says that the take-over goes on by the same command."""
    append_part(log, 0)
    run(log, topology("t"))
    with armed("follow.epoch", die), suppress(DiedError):
        follow_along(log, topology("t2"))
    log.catalog.applications.hand_over("t2")
    with pytest.raises(ConfigError, match=r"as before \(--from t\), since it has taken t over and has not read yet what"):
        run(log, topology("t2"))
    assert follow_along(log, topology("t2"))
    run(log, topology("t2"))


def test_a_second_version_begins_again(log):
    """One that is reset follows from the beginning again, and so does the name of one that was taken over."""
    append_part(log, 0)
    run(log, topology("t"))
    follow_along(log, topology("t2"))
    log.catalog.applications.reset("t2")
    follow_along(log, topology("t2", F.sum("v")) if "counts" not in log.topics() else topology("t2"))
    assert is_level(log, "t2", "t")


@pytest.mark.parametrize("is_handed_over", [True, False])
@pytest.mark.parametrize("read_again", [None, 7, 1000])
def test_a_leader_that_is_reset(log, read_again, is_handed_over):
    """However far the leader has read again, the second version neither goes on nor takes over, until it begins again as well."""
    append_part(log, 0)
    run(log, topology("t"))
    follow_along(log, topology("t2"))
    if is_handed_over:
        log.catalog.applications.hand_over("t2")
    log.catalog.applications.reset("t")
    if read_again is not None:
        planner = start(log.catalog, log.storage, compile(topology("t"), log), records_max=read_again)
        run_next(planner, stores=MemoryStores())
    for attempt in (
        lambda: follow_along(log, topology("t2")),
        lambda: log.catalog.applications.hand_over("t2"),
        lambda: run(log, topology("t2")),
    ):
        with pytest.raises(ConfigError, match=r"'t' has been reset since 't2' began to follow it.*`streamkit apps reset t2`"):
            attempt()
    log.catalog.applications.reset("t2")
    run(log, topology("t"))
    assert not follow_along(log, topology("t2"))
    log.catalog.applications.hand_over("t2")
    assert follow_along(log, topology("t2"))
    assert stored(log, "t2", "counts") == stored(log, "t", "counts")


def test_a_leader_that_is_reset_meanwhile(log):
    """A second version that runs notices it at its next look."""
    append_part(log, 0)
    run(log, topology("t"))
    program = compile(topology("t2"), log)
    wanted = Succession("t", records_max=7, tell=lambda: is_level(log, "t2", "t") and log.catalog.applications.reset("t"))
    with pytest.raises(ConfigError, match="has been reset since"):
        follow(log, program, wanted)


def test_records_that_are_gone(log):
    """A second version cannot begin as if it had always been there where topics have lost records, unless that is accepted."""
    append_part(log, 0)
    run(log, topology("t"))
    log.delete_records("in", {0: 3, 1: 0}, force=True)
    with pytest.raises(OffsetOutOfRangeError, match=r"'t2' cannot begin as if it had always been there.*--accept-loss"):
        follow_along(log, topology("t2"))
    follow_along(log, topology("t2"), accepts_loss=True)
    assert sum(row["n"] for row in stored(log, "t2", "counts")) < 30


@pytest.mark.parametrize("is_handed_over", [True, False])
def test_records_that_are_gone_meanwhile(log, is_handed_over):
    """One that has begun before records were deleted is told to begin again, and that works."""
    append_part(log, 0)
    run(log, topology("t"))
    follow_along(log, topology("t2"))
    append_part(log, 1)
    run(log, topology("t"))
    log.delete_records("in", log.catalog.applications.get("t").positions[log.topic("in").id], force=True)
    if is_handed_over:
        log.catalog.applications.hand_over("t2")
    for accepts_loss in (True, False):
        with pytest.raises(
            OffsetOutOfRangeError, match=r"by `streamkit apps reset t2` and then the same command with --accept-loss"
        ):
            follow_along(log, topology("t2"), accepts_loss=accepts_loss)
    log.catalog.applications.reset("t2")
    assert follow_along(log, topology("t2"), accepts_loss=True) == is_handed_over
    assert is_level(log, "t2", "t")


@pytest.mark.parametrize("is_handed_over", [True, False])
def test_a_second_version_that_is_changed(log, is_handed_over):
    """It is told to begin again, and neither to rebuild nor to go by another name, which it could not; and that works."""
    append_part(log, 0)
    run(log, topology("t"))
    follow_along(log, topology("t2"))
    if is_handed_over:
        log.catalog.applications.hand_over("t2")
    changed = topology("t2", F.count("v"))
    with pytest.raises(OrphanedStateError, match=r"by `streamkit apps reset t2` and then this command with --from t\b") as error:
        follow_along(log, changed)
    assert "--rebuild" not in str(error.value) and "another application name" not in str(error.value)
    log.catalog.applications.reset("t2")
    assert follow_along(log, changed) == is_handed_over
