"""Repartition: records move by their key, and those without one are dropped unless a join wants them."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.testing.driver import TopologyTestDriver

SCHEMA = "k string, v int"
ROWS = [{"k": "a", "v": 1}, {"k": None, "v": 2}, {"k": "b", "v": 3}, {"k": "a", "v": 4}]


@pytest.fixture
def app():
    return sk.Topology("moved")


@pytest.fixture
def stream(app):
    return app.stream("in", schema=SCHEMA, key="k")


def kinds(program, stage):
    return [one.kind for one in program.operators_of(stage)]


@pytest.mark.parametrize("tasks", [1, 2, 3, 7])
def test_rows_move_by_key(app, stream, tasks):
    """What follows runs in a kernel, in the order of each key; a record with a null key is dropped, and counted."""
    stream.repartition().map_values(lambda row: {"w": row["v"]}, "w int").to("out")
    with TopologyTestDriver(app, tasks=tasks, partitions=1) as driver:
        driver.pipe("in", ROWS)
        assert kinds(driver.program, 0) == ["source", "send"]
        assert kinds(driver.program, 1) == ["receive", "repartition", "row_function", "write"]
        rows = driver.read("out")
        assert [row["w"] for row in rows if row["k"] == "a"] == [1, 4] and len(rows) == 3
        assert driver.metrics()["null_key"] == 1


def test_what_groups_by_the_same_key_shares_the_exchange(app, stream):
    """A group by the stream's key behind a repartition needs no exchange of its own; one by another key does."""
    moved = stream.repartition()
    moved.group_by_key().count().emit("every").to("out")
    assert len(sk.compile(app).edges) == 1
    moved.group_by("v").count().emit("every").to("others")
    assert len(sk.compile(app).edges) == 2


@pytest.mark.parametrize(("how", "is_kept"), [("inner", False), ("left", True)])
@pytest.mark.parametrize("kind", ["table", "global_table"])
def test_a_left_join_keeps_null_keys_alive(app, stream, how, is_kept, kind):
    """If a left join follows, however far behind, a repartition keeps records with a null key, which that join gives without a match."""
    names = getattr(app, kind)("names", schema="k string, name string", key="k")
    stream.repartition().filter("v > 0").join(names, how=how).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("names", {"k": "a", "name": "Ann"}, timestamp=1)
        driver.pipe("in", ROWS)
        found = [(row["k"], row["v"], row["name"]) for row in driver.read("out")]
        assert ((None, 2, None) in found) == is_kept
        assert driver.metrics()["null_key"] == (0 if is_kept else 1)


def test_null_keys_go_behind_a_join_that_took_them(app, stream):
    """A repartition behind a left join by the same key has no exchange, and drops them all the same."""
    names = app.table("names", schema="k string, name string", key="k")
    stream.join(names, how="left").repartition().to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROWS)
        assert len(driver.program.edges) == 2
        assert [row["v"] for row in driver.read("out")] == [1, 3, 4]
        assert driver.metrics()["null_key"] == 1


@pytest.mark.parametrize(("own", "expected"), [(None, 5), (2, 2)])
def test_new_topics_have_the_partitions(app, stream, own, expected):
    """A topic behind a repartition has as many partitions as that one says, unless `to` says otherwise."""
    stream.repartition(partitions=5).filter("v > 0").to("out", partitions=own)
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROWS)
        assert driver.log.topic("out").partitions == expected


def test_the_nearest_repartition_counts(app, stream):
    """Of two repartitions, the one nearer to the topic says how many partitions it has."""
    stream.repartition(partitions=5).select_key("v").repartition(partitions=3).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROWS)
        assert driver.log.topic("out").partitions == 3
        assert [row["v"] for row in driver.read("out")] and driver.metrics()["null_key"] == 1


@pytest.mark.parametrize("partitions", [0, "two"])
def test_partitions_are_a_count(stream, partitions):
    """Fewer than one, or no number, is refused."""
    with pytest.raises(TopologyError, match="expected at least 1"):
        stream.repartition(partitions)


def test_a_stream_without_a_key_has_nothing_to_move_by(app):
    """The message says what to do."""
    app.stream("in", schema=SCHEMA).repartition().to("out")
    with pytest.raises(TopologyError, match="the stream has none; expected select_key"):
        sk.compile(app)


def test_a_computed_key_moves_the_records(app, stream):
    """Behind select_key the records move by the new key."""
    stream.select_key(even=F.col("v") % 2 == 0).repartition().to("out")
    with TopologyTestDriver(app, tasks=3) as driver:
        driver.pipe("in", ROWS)
        assert [row["v"] for row in driver.read("out") if row["even"]] == [2, 4]


@pytest.mark.parametrize(("names", "is_kept"), [((None, None), True), (("one", "other"), False)])
def test_repartitions_that_are_alike_are_one_step(app, stream, names, is_kept):
    """Without names two are one, which keeps null keys for the left join behind either; with other names each is for itself."""
    table = app.table("names", schema="k string, name string", key="k")
    stream.repartition(name=names[0]).to("out")
    stream.repartition(name=names[1]).join(table, how="left").to("joined")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROWS)
        assert any(row["k"] is None for row in driver.read("out")) == is_kept
        assert any(row["k"] is None for row in driver.read("joined"))
