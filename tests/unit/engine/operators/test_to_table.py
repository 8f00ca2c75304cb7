"""to_table: the newest record per key of a stream, in the order of the stream."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import in_turn

SCHEMA = "k string, v int"
ROWS = [
    {"k": "a", "v": 1, "_timestamp": moment(10)},
    {"k": "b", "v": 2, "_timestamp": moment(20)},
    {"k": None, "v": 3, "_timestamp": moment(30)},
    {"k": "a", "v": 4, "_timestamp": moment(5)},  # older than what it replaces: the order of offsets counts
    {"k": "b", "v": None, "_timestamp": moment(40), "_deleted": True},
]
CUTS = [{"batching": "one"}, {"batching": "all", "tasks": 7}, {"batching": 3, "tasks": 2}, {"tasks": 3}]


@pytest.fixture
def app():
    return sk.Topology("kept")


@pytest.fixture
def stream(app):
    return app.stream("in", schema=SCHEMA, key="k")


def held(driver, store):
    return sorted((row["k"], row["v"]) for row in driver.store(store).to_arrow().to_pylist())


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_the_newest_record_of_each_key_is_kept(app, stream, options):
    """A later record replaces an earlier one, even with an older time; a tombstone deletes; a null key is dropped, and counted."""
    stream.to_table(store="newest").emit("every").to("changes")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", ROWS)
        assert held(driver, "newest") == [("a", 4)]
        found = [(row["k"], row["v"], row["_deleted"]) for row in driver.read("changes")]
        assert [one for one in found if one[0] == "a"] == [("a", 1, False), ("a", 4, False)]
        assert [one for one in found if one[0] == "b"] == [("b", 2, False), ("b", None, True)]
        assert driver.metrics()["null_key"] == 1


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_a_computed_stream_becomes_a_table_by_its_new_key(app, stream, options):
    """Behind select_key the records move by that key first."""
    stream.filter("v > 0").select_key(even=F.col("v") % 2 == 0).to_table(store="by_even")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", ROWS)
        rows = {row["even"]: (row["k"], row["v"]) for row in driver.store("by_even").to_arrow().to_pylist()}
        assert rows == {False: (None, 3), True: ("a", 4)}


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_it_joins_as_any_table(app, stream, options):
    """A stream meets the record of its own place; tables of streams join each other, filter and map."""
    table = stream.to_table().filter("v <> 2")
    stream.select(w=F.col("v")).join(table, how="left").to("met")
    table.rename(v="left_v").join(stream.select_key("k").select(v=F.col("v") * 10).to_table(store="tens"), how="left").to("both")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", ROWS)
        met = [(row["k"], row["w"], row["v"]) for row in driver.read("met")]
        assert sorted(met, key=repr) == [("a", 1, 1), ("a", 4, 4), ("b", 2, None), (None, 3, None)]
        assert {key: row["v"] for key, row in driver.newest("both").items()} == {"a": 40}


def test_final_results_become_a_table(app, stream):
    """A table of the results of windows has the windows in its key."""
    windows = stream.group_by_key().windowed_by(sk.tumbling("10 ms", grace="0 s")).count().emit("final")
    windows.to_table(store="results")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [ROWS[0], ROWS[1], ROWS[2]])
        driver.drain()
        rows = driver.store("results").to_arrow().to_pylist()
        assert sorted((row["k"], row["count"]) for row in rows) == [("a", 1), ("b", 1)]


def test_a_store_outlives_a_restart(app, stream):
    """What was kept comes back from the changelog, by another number of tasks."""
    stream.to_table(store="newest")
    with TopologyTestDriver(app, tasks=2) as driver:
        driver.pipe("in", ROWS[:2])
        driver.crash()
        driver.restore(tasks=5)
        driver.pipe("in", ROWS[3])
        assert held(driver, "newest") == [("a", 4), ("b", 2)]


def test_a_table_needs_a_key(app):
    """A stream without a key has no newest record per key."""
    app.stream("in", schema=SCHEMA).to_table(store="s")
    with pytest.raises(TopologyError, match="the stream has none; expected select_key"):
        sk.compile(app)


@pytest.mark.parametrize(
    ("options", "kept", "deletions"),
    [
        (options, *one)
        for options, one in in_turn(CUTS, [({"store": "newest"}, 1), ({}, 3), ({"store": "newest", "versioned": "1 day"}, 3)])
    ],
    ids=repr,
)
def test_a_filter_behind_a_store_with_a_name_knows_what_was_there(app, stream, kept, deletions, options):
    """As of a topic's table: with store= rows that the filter never kept are not deleted, without it, or with history, each change is told."""
    stream.to_table(**kept).filter("v > 5").to_stream().to("changes")
    with TopologyTestDriver(app, **options) as driver:
        for number, value in enumerate([1, 7, 2, 3]):
            driver.pipe("in", {"k": "a", "v": value, "_timestamp": moment(10 * number)})
        found = [row["_deleted"] for row in driver.read("changes")]
        assert (found.count(True), found.count(False)) == (deletions, 1)
