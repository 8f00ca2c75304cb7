"""Bounded jumps of stream time: a record far ahead of its partition moves no time, whatever the cut."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamkit as sk
from streamkit.engine.epoch.order import Backlog, TimesAndOffsets, cut, partition_times, times_before
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.runs.compile import compile
from streamkit.errors import TopologyError
from streamkit.log.slab.extent import Extent
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import Run, append, execute, fresh_log
from tests.kit.sampling import PARTS, TAKES_ALL, examples, seeds

JUMP = 20
SCHEMA = "k string, v int"
IN_2100 = 4_102_444_800_000

frames = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=5), max_size=5)


def times_by_hand(times, time=NO_TIME):
    """The time of a partition at each record, record by record."""
    found = []
    for each in times:
        if time == NO_TIME or each <= time + JUMP:
            time = max(time, each)
        found.append(time)
    return found


@given(st.lists(st.integers(0, 99)), st.sampled_from([NO_TIME, 0, 30]))
def test_a_record_that_jumps_too_far_moves_no_time(times, time):
    """The time of a partition is the largest event time of the records that were not more than the bound ahead of it."""
    assert partition_times(np.array(times, np.int64), time, JUMP).tolist() == times_by_hand(times, time)


def backlog_of(number, partition, start, floor, time):
    extents, offset = [], 0
    for index, times in enumerate(partition):
        extents.append(Extent(number, 0, offset, offset + len(times), "", index, 0, min(times), max(times), len(times)))
        offset += len(times)
    waiting = tuple(extent for extent in extents if extent.next_offset > start)
    return Backlog(0, number, start, waiting, None, floor, time, JUMP)


@examples(100)
@given(st.lists(frames, min_size=1, max_size=3), st.integers(1, 9))
def test_the_order_is_the_same_in_epochs_of_any_size(partitions, limit):
    """Cut into epochs, records are taken in the order of their partitions' times; each frame is told the time before it."""
    flat = [[time for frame in partition for time in frame] for partition in partitions]
    expected = sorted((key, number, offset) for number, own in enumerate(flat) for offset, key in enumerate(times_by_hand(own)))
    starts, times, floor, taken = [0] * len(flat), [NO_TIME] * len(flat), NO_TIME, []

    def records_of(extent: Extent, start: int) -> TimesAndOffsets:
        own = np.array(partitions[extent.topic_id][extent.position], np.int64)
        return own[start - extent.base_offset :], np.arange(start, extent.next_offset, dtype=np.int64)

    while True:
        backlogs = [backlog_of(number, one, starts[number], floor, times[number]) for number, one in enumerate(partitions)]
        found = cut(backlogs, limit, records_of)
        if not found.records:
            break
        for number, backlog in enumerate(backlogs):
            keys = times_by_hand(flat[number])
            before = [keys[max(extent.base_offset, starts[number]) - 1 :][:1] for extent in backlog.extents]
            known = [[time] for time in times_before(backlog, records_of)]
            assert known == [
                one if max(extent.base_offset, starts[number]) else [NO_TIME] for one, extent in zip(before, backlog.extents)
            ]
            taken += [(keys[offset], number, offset) for offset in range(starts[number], found.ends[number])]
        starts, times = list(found.ends), list(found.times)
        floor = max(floor, *found.reached)
    assert sorted(taken) == expected
    assert [key for key, _, _ in taken] == sorted(key for key, _, _ in taken) or limit > 1


def counted(app, mode, max_jump="1 minute"):
    stream = app.stream("in", schema=SCHEMA, key="k", max_jump=max_jump)
    return stream.group_by_key().windowed_by(sk.tumbling("1 s", grace="0 s")).count().emit(mode)


def test_one_record_from_2100_closes_no_window():
    """Without a bound it makes all that follows late; with one it is counted in its own window, and the others go on."""
    for max_jump, expected in (("1 minute", 3), (None, 1)):
        app = sk.Topology("jumps")
        counted(app, "every", max_jump).to("out")
        with TopologyTestDriver(app) as driver:
            for timestamp in (1000, IN_2100, 1500, 1800):
                driver.pipe("in", {"k": "a", "v": 1}, timestamp=timestamp)
            counts = [row["count"] for row in driver.read("out") if row["window_start"].year == 1970]
            assert max(counts) == expected
            assert driver.metrics()["ahead" if max_jump else "late"] == (1 if max_jump else 2)
            if max_jump:
                driver.pipe("in", {"k": "a", "v": 1}, timestamp=IN_2100)
                assert [row["count"] for row in driver.read("out")] == [2]


def test_time_goes_on_step_by_step():
    """Steps of at most the bound move time as far as they go; the window is final once, with all its records."""
    app = sk.Topology("jumps")
    counted(app, "final").to("out")
    with TopologyTestDriver(app) as driver:
        for timestamp in (500, 70_000, 600, 50_000, 110_001, 100_000, 160_000):
            driver.pipe("in", {"k": "a", "v": 1}, timestamp=timestamp)
        found = [(row["window_start"].timestamp(), row["count"]) for row in driver.read("out")]
        assert found == [(0.0, 2), (50.0, 1), (70.0, 1), (100.0, 1), (110.0, 1)]
        assert driver.metrics()["ahead"] == 2


def everything(app):
    stream = app.stream("in", schema=SCHEMA, key="k", max_jump=f"{JUMP} ms")
    other = app.stream("others", schema=SCHEMA, key="k")
    grouped = stream.group_by("k")
    for name, window in (("tumbling", sk.tumbling("5 ms", grace="2 ms")), ("session", sk.session("3 ms", grace="2 ms"))):
        for mode in ("every", "final"):
            grouped.windowed_by(window).count().emit(mode).to(f"{name}_{mode}")
    stream.join(other.rename(v="w"), within=sk.within("5 ms", grace="2 ms"), how="outer").to("joined")
    stream.merge(other).group_by_key().windowed_by(sk.sliding("4 ms", grace="2 ms")).count().emit("every").to("sliding_every")


TOPICS = {
    **{f"{name}_{mode}": ("count", "window_start") for name in ("tumbling", "session") for mode in ("every", "final")},
    "joined": ("v", "w"),
    "sliding_every": ("count", "window_start"),
}


def run(rows, tasks, records_max):
    """Run the rows, drain, and read everything that was written."""
    app = sk.Topology("jumps")
    everything(app)
    with fresh_log() as log:
        log.create_topic("in", schema=SCHEMA, key="k", partitions=2)
        log.create_topic("others", schema=SCHEMA, key="k", partitions=1)
        for topic in ("in", "others"):
            append(log, topic, [row for number, row in enumerate(rows) if (number % 3 == 0) == (topic == "others")])
        execute(log, compile(app, log), Run(tasks=tasks, records_max=records_max))
        wanted = {name: (*columns, "k", "_timestamp") for name, columns in TOPICS.items()}
        return {name: sorted(map(str, log.read(name).select(columns).to_pylist())) for name, columns in wanted.items()}


def test_results_depend_neither_on_tasks_nor_on_the_cut():
    """All at once, and in small epochs with other tasks: windows, joins and final results are the same, drained at the end."""
    made = random.Random(5)
    times = [max(0, n + made.randrange(-3, 3) + made.choice((0, 0, 0, 0, 15, 50, 3000))) for n in range(50 if TAKES_ALL else 34)]
    rows = [{"k": made.choice("abc"), "v": number, "ts": time} for number, time in enumerate(times)]
    expected = run(rows, 1, None)
    assert all(expected.values())
    assert run(rows, 3, 9 if TAKES_ALL else 11) == expected


def test_a_restart_goes_on_with_the_times_of_partitions():
    """What a partition had reached is kept by the catalog: after a restart the same records are too far ahead."""
    app = sk.Topology("jumps")
    counted(app, "final").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "v": 1}, timestamp=1000)
        driver.restart(tasks=2)
        driver.pipe("in", {"k": "a", "v": 2}, timestamp=IN_2100)
        assert driver.read("out") == [] and driver.metrics()["ahead"] == 1


def keys_of_two_partitions(log):
    """A key of each partition of a topic with two."""
    log.create_topic("scratch", schema=SCHEMA, key="k", partitions=2)
    append(log, "scratch", [{"k": key, "v": 0, "ts": 0} for key in "abcdef"])
    found = {row["_partition"]: row["k"] for row in log.read("scratch").to_pylist()}
    return found[0], found[1]


@pytest.mark.parametrize("part", PARTS)
def test_which_records_are_ahead_follows_from_their_partition(part):
    """
    Records of two bounded topics and of one that is not come in the order of their times, and an epoch is cut at any record of them.

    Which are ahead, and what is final, is what the rule of each partition says by hand, though others had nothing waiting, or went further.
    """
    for seed in seeds(2):
        found, final = found_and_final(seed)
        assert found == final, f"seed {seed}"


def found_and_final(seed):
    """The final results of both bounded topics, and those that follow by hand."""
    given: list[Counter[tuple[str, int]]] = []
    wanted: list[Counter[tuple[str, int]]] = []
    made = random.Random(seed)
    app = sk.Topology("jumps")
    for name in ("in", "with"):
        stream = app.stream(name, schema=SCHEMA, key="k", max_jump=f"{JUMP} ms")
        stream.group_by_key().windowed_by(sk.tumbling("1 ms", grace="0 s")).count().emit("final").to(f"{name}-out")
    app.stream("others", schema=SCHEMA, key="k").to("copied")
    with fresh_log() as log:
        for name, partitions in (("in", 2), ("with", 1), ("others", 1)):
            log.create_topic(name, schema=SCHEMA, key="k", partitions=partitions)
        keys, now = keys_of_two_partitions(log), 0
        times: dict[tuple[str, int], list[int]] = {}
        records_max = made.choice([None, 1, 3])
        for _ in range(made.randint(3, 25)):
            now += made.choice([0, 1, 5, 5, JUMP - 5, JUMP, JUMP + 1])
            name, partition = made.choice([("in", 0), ("in", 1), ("with", 0), ("others", 0), ("others", 0)])
            times.setdefault((name, partition), []).append(now)
            append(log, name, [{"k": keys[partition], "v": 1, "ts": now}])
            if made.random() < 0.7:
                execute(log, compile(app, log), Run(records_max=records_max, drain=False))
        execute(log, compile(app, log), Run(records_max=records_max, drain=False))
        for name in ("in", "with"):
            own = {place: (one, times_by_hand(one)) for place, one in times.items() if place[0] == name}
            reached = max((by_hand[-1] for _, by_hand in own.values()), default=NO_TIME)
            final = Counter((keys[place[1]], time) for place, (one, _) in own.items() for time in one if time + 1 <= reached)
            found = log.read(f"{name}-out").to_pylist()
            given.append(Counter({(row["k"], round(row["window_start"].timestamp() * 1000)): row["count"] for row in found}))
            wanted.append(final)
    return given, wanted


@pytest.mark.parametrize("records_max", [None, 1])
def test_each_partition_has_a_time_of_its_own(records_max):
    """A record is compared with what its own partition had reached, though others are further, in the same epoch or before."""
    app = sk.Topology("jumps")
    counted(app, "final").to("out")
    with fresh_log() as log:
        log.create_topic("in", schema=SCHEMA, key="k", partitions=2)
        behind, ahead = keys_of_two_partitions(log)
        for key, timestamp in ((behind, 1000), (ahead, 1_000_000), (behind, 1_030_000), (ahead, 1_010_000)):
            append(log, "in", [{"k": key, "v": 1, "ts": timestamp}])
        execute(log, compile(app, log), Run(records_max=records_max, drain=False))
        assert sorted(row["window_start"].timestamp() for row in log.read("out").to_pylist()) == [1.0, 1000.0]


def test_a_bound_that_is_added_later_counts_from_the_stream_time():
    """A partition that was read before its jumps were bounded has the stream time that its topic had committed."""
    with fresh_log() as log:
        log.create_topic("in", schema=SCHEMA, key="k")
        for max_jump, timestamp in ((None, 1000), ("1 minute", 100_000), ("1 minute", 3000), ("1 hour", 200_000)):
            app = sk.Topology("jumps")
            counted(app, "final", max_jump).to("out")
            append(log, "in", [{"k": "a", "v": 1, "ts": timestamp}])
            execute(log, compile(app, log), Run(drain=False))
        starts = [row["window_start"].timestamp() for row in log.read("out").sort_by("window_start").to_pylist()]
        assert starts == [1.0, 3.0, 100.0]


def test_a_bound_is_positive():
    """A bound of no length would stop time for ever, and is refused with the user's line."""
    with pytest.raises(TopologyError, match=r"given max_jump of 0 ms; expected a positive length[\s\S]*test_max_jump.py"):
        sk.Topology("t").stream("in", max_jump="0 s")


def test_what_cannot_have_a_bound_says_so():
    """A topic that is also a table, and a table with history, are refused where they are declared."""
    app = sk.Topology("t")
    app.stream("in", schema=SCHEMA, key="k", max_jump="1 day").to("out")
    app.table("in", schema=SCHEMA, key="k").to("copy")
    with pytest.raises(TopologyError, match=r"the topic is read as a table, too"):
        compile(app)
    app = sk.Topology("t")
    app.stream("in", schema=SCHEMA, key="k", max_jump="1 day").to_table(versioned="1 day").emit("every").to("out")
    with pytest.raises(TopologyError, match=r"a table with history is made of stream\('in', max_jump=…\)"):
        compile(app)
