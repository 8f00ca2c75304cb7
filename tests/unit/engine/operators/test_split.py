"""Split: a record goes to the first branch whose condition is true, and to no other."""

from __future__ import annotations

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import ConfigError, TopologyError
from streamkit.testing.driver import TopologyTestDriver

ROWS = [{"k": key, "v": value} for key, value in [("a", 1), ("b", 20), ("a", None), ("c", 300), ("b", 5)]]
CUTS = [{"batching": "one"}, {"batching": "all", "tasks": 7, "partitions": 3}, {"batching": 5, "tasks": 2}, {"tasks": 3}]


@pytest.fixture
def app():
    return sk.Topology("divided")


@pytest.fixture
def stream(app):
    return app.stream("in", schema="k string, v int", key="k")


def values(driver, topic):
    return sorted((row["k"], row["v"]) for row in driver.read(topic) if row["v"] is not None)


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_the_first_true_condition_takes_a_record(app, stream, options):
    """A record that two conditions hold for is in the first branch alone; what none takes is in the default, also where they are null."""
    parts = stream.split().branch(F.col("v") > 100, "large").branch("v > 4", "middle").default("rest")
    assert list(parts) == ["large", "middle", "rest"]
    for name, part in parts.items():
        part.to(name)
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", ROWS)
        assert values(driver, "large") == [("c", 300)]
        assert values(driver, "middle") == [("b", 5), ("b", 20)]
        assert [(row["k"], row["v"]) for row in driver.read("rest")] == [("a", 1), ("a", None)]


def test_without_a_default_the_rest_is_dropped(app, stream):
    """no_default() gives the branches alone; a branch that nobody uses takes its records all the same."""
    parts = stream.split().branch("v > 100", "large").branch("v > 4", "middle").no_default()
    assert list(parts) == ["large", "middle"]
    parts["middle"].to("middle")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROWS)
        assert values(driver, "middle") == [("b", 5), ("b", 20)]
        assert driver.metrics()["written"] == 2


def test_a_condition_is_not_computed_for_what_was_taken(app, stream):
    """A later condition may rely on the earlier ones: it sees only what they left."""
    parts = stream.split().branch("v IS NULL OR v = 1", "odd").branch(100 / (F.col("v") - 1) > 5, "near").default("far")
    for name, part in parts.items():
        part.to(name)
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROWS)
        assert values(driver, "near") == [("b", 5), ("b", 20)]
        assert values(driver, "far") == [("c", 300)]


def test_branches_go_their_own_ways(app, stream):
    """Branches are streams: grouped, merged again, split again; their stores are named after them."""
    parts = stream.split().branch("v > 100", "large").default("rest")
    counts = [part.group_by_key().count() for part in parts.values()]
    for name, table in zip(parts, counts):
        table.emit("every").to(f"counts_{name}")
    inner = parts["rest"].split().branch("v > 4", "middle").default("small")
    parts["large"].merge(inner["middle"]).to("again")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", ROWS)
        assert values(driver, "again") == [("b", 5), ("b", 20), ("c", 300)]
        assert [row["count"] for row in driver.read("counts_rest") if row["k"] == "b"] == [1, 2]
        assert {store.name for store in driver.program.stores} == {"in-large-by-key", "in-rest-by-key"}


def test_a_failing_condition_names_the_record(app, stream):
    """The error has topic, partition, offset and key, and the line of split()."""
    stream.split().branch(F.lit(1) / (F.col("v") - 20) > 0, "x").default("y")["y"].to("out")
    with (
        TopologyTestDriver(app) as driver,
        pytest.raises(Exception, match=r"topic in, partition 0, offset 1, key k = 'b'(.|\n)*test_split"),
    ):
        driver.pipe("in", ROWS)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda stream: stream.split().no_default(), TopologyError, "split\\(\\) has no branches"),
        (lambda stream: stream.split().branch("v > 1", "a").branch("v > 2", "a"), TopologyError, "a branch 'a' already"),
        (lambda stream: stream.split().branch("v > 1", "a").default("a"), TopologyError, "a branch 'a' already"),
        (lambda stream: stream.split().branch("v > 1", "a b"), ConfigError, "branch"),
    ],
)
def test_what_is_no_branch_is_refused(stream, build, error, message):
    """A split needs branches with names of their own."""
    with pytest.raises(error, match=message):
        build(stream)


def test_a_condition_must_be_one(app, stream):
    """A branch on something that is not boolean is refused when the topology is compiled."""
    stream.split().branch(F.col("v") + 1, "a").default("b")["a"].to("out")
    with pytest.raises(TopologyError, match="boolean"):
        sk.compile(app)
