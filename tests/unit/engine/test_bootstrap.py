"""Tables that are read to their end of the first start before any stream."""

from __future__ import annotations

import random

import pytest

import streamkit as sk
from streamkit.engine.runs.compile import compile
from streamkit.engine.runs.local import run_available, run_next
from streamkit.engine.runs.start import start
from streamkit.state.stores import MemoryStores
from tests.kit.engine_run import append, fresh_log
from tests.kit.sampling import first

NAMES = "k string, name string"
NEWER, OLDER = 1_000_000, 1


def topology(bootstrap=True):
    """A stream that is joined with a table, and the table's own changes."""
    app = sk.Topology("bootstrapped")
    names = app.table("names", schema=NAMES, key="k", bootstrap=bootstrap)
    labels = app.table("labels", schema="k string, label string", key="k")
    app.stream("in", schema="k string, v int", key="k").join(names, how="left").join(labels, how="left").to("out")
    names.emit("every").to("changes")
    return app


def fill(log, seed=0, commits=1):
    """Two tables whose records are newer than those of the stream; those of one come in several commits."""
    made = random.Random(seed)
    for topic, schema, partitions in (("in", "k string, v int", 3), ("names", NAMES, 2), ("labels", "k string, label string", 1)):
        log.create_topic(topic, schema=schema, key="k", partitions=partitions)
    names = [{"k": made.choice("abc"), "name": f"name {n}", "ts": made.randrange(NEWER, 2 * NEWER)} for n in range(20)]
    names += [{"k": k, "name": f"last of {k}", "ts": NEWER} for k in "abc"]
    for number in range(commits):
        append(log, "names", names[number * len(names) // commits : (number + 1) * len(names) // commits])
    append(log, "labels", [{"k": k, "label": f"label of {k}", "ts": OLDER} for k in "abc"])
    append(log, "in", [{"k": made.choice("abcd"), "v": v, "ts": made.randrange(10, NEWER)} for v in range(30)])


def joined(log):
    return sorted((row["v"], row["k"], row["name"], row["label"]) for row in log.read("out").to_pylist())


def run(log, tasks=1, records_max=None, app=None):
    return run_available(
        start(log.catalog, log.storage, compile(app or topology(), log), tasks=tasks, records_max=records_max),
        stores=MemoryStores(),
    )


def test_older_records_of_streams_meet_the_whole_table():
    """A stream's record from before the table's meets the table's last row; without bootstrap it meets none."""
    for bootstrap, expected in ((True, "last of a"), (False, None)):
        with fresh_log() as log:
            fill(log)
            run(log, app=topology(bootstrap))
            assert {name for _, key, name, _ in joined(log) if key == "a"} == {expected}
            assert {label for _, key, _, label in joined(log) if key == "a"} == {"label of a"}


def test_results_depend_neither_on_tasks_nor_on_the_cut():
    """One by one, all at once and cut at random, with 1, 2, 3 and 7 tasks: the same results, and the same changes of the table."""
    found = []
    for tasks, records_max in first(2, ((1, None), (3, 2), (2, 1), (3, 7), (7, 13))):
        with fresh_log() as log:
            fill(log, seed=1)
            run(log, tasks, records_max)
            changes = sorted(row["name"] for row in log.read("changes").to_pylist())
            found.append((joined(log), changes))
    assert len(found[0][0]) == 30
    assert all(one == found[0] for one in found)


def test_a_restart_goes_on_to_the_same_end():
    """The end is that of the first epoch: what comes later stands in the order of times, though a restart finds it before that end."""
    with fresh_log() as log:
        fill(log)
        program = compile(topology(), log)
        first = run_next(start(log.catalog, log.storage, program, tasks=2, records_max=5))
        assert first is not None and first.end.records == 5
        append(log, "names", [{"k": k, "name": "too new", "ts": 3 * NEWER} for k in "abc"])
        run(log, tasks=2, records_max=5)
        assert {name for _, key, name, _ in joined(log) if key != "d"} == {f"last of {k}" for k in "abc"}
        append(log, "in", [{"k": "a", "v": 100, "ts": 4 * NEWER}])
        run(log, tasks=3)
        assert (100, "a", "too new", "label of a") in joined(log)


def test_the_end_is_a_row_though_files_are_merged():
    """A merge after the first epoch puts rows from both sides of the end into one frame, and the end stays where it was."""
    with fresh_log() as log:
        fill(log, commits=4)
        run_next(start(log.catalog, log.storage, compile(topology(), log), tasks=1, records_max=5))
        topic_id = log.topic("names").id
        (end,) = (end for end in log.end_offsets("names").values() if end)
        for _ in range(5):
            append(log, "names", [{"k": k, "name": "too new", "ts": NEWER} for k in "abc"])
        log.merge("names")
        merged = log.catalog.manifest.cut({topic_id}, {}).of(topic_id, 0)
        assert any(one.base_offset < end < one.next_offset for one in merged)
        run(log, records_max=4)
        assert {name for _, key, name, _ in joined(log) if key != "d"} == {f"last of {k}" for k in "abc"}


def test_an_empty_table_holds_nothing_up():
    """A topic without records has its end at its beginning; the streams go on at once, and later rows are not waited for."""
    with fresh_log() as log:
        for topic, schema in (("in", "k string, v int"), ("names", NAMES), ("labels", "k string, label string")):
            log.create_topic(topic, schema=schema, key="k")
        append(log, "in", [{"k": "a", "v": 1, "ts": 1}])
        assert len(run(log)) == 1
        append(log, "in", [{"k": "a", "v": 2, "ts": 2}])
        append(log, "names", [{"k": "a", "name": "late", "ts": 3}])
        run(log)
        assert [name for _, _, name, _ in joined(log)] == [None, None]


@pytest.mark.parametrize("records_max", [None, 3])
def test_a_bounded_run_reads_the_table_and_the_stream(records_max):
    """A run that stops at what was there reads the table up to there, then the stream, though more came since."""
    with fresh_log() as log:
        fill(log)
        planner = start(log.catalog, log.storage, compile(topology(), log), tasks=1, records_max=records_max)
        until = planner.input_ends()
        append(log, "names", [{"k": "a", "name": "after", "ts": NEWER}])
        before = planner.committed_end()
        taken = 0
        while (end := planner.next_end(before, until)) is not None:
            before, taken = end, taken + end.records
        assert taken == 23 + 3 + 30
