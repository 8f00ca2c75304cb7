"""Tombstones in streams: a record without a value is a row that says so, and travels as any other."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.rows.rows import rows_of
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import in_turn

SCHEMA = "k string, v int, t array<int>"
LIVE = {"k": "a", "v": 1, "t": [1, 2], "_timestamp": moment(10)}
GONE = {"k": "a", "v": None, "t": None, "_timestamp": moment(20), "_deleted": True}
OTHER = {"k": "b", "v": 2, "t": [], "_timestamp": moment(30)}
CUTS = [{"batching": "one"}, {"batching": "all", "tasks": 3, "partitions": 2}, {"batching": 7, "tasks": 2}]


@pytest.fixture
def app():
    return sk.Topology("tombstones")


@pytest.fixture
def stream(app):
    return app.stream("in", schema=SCHEMA, key="k")


def outcome(app: sk.Topology, *columns: str, rows: Any = (LIVE, GONE, OTHER), **options: Any) -> list[tuple[Any, ...]]:
    """What the topic "out" gets of these rows: columns, and whether the record is a tombstone."""
    with TopologyTestDriver(app, **options) as driver:
        for row in rows:
            driver.pipe("in", [row])
        return [tuple(row[name] for name in (*columns, "_deleted")) for row in driver.read("out")]


def key_and_time(row: dict[str, Any]) -> Any:
    return row["k"], row["_timestamp"]


@pytest.mark.parametrize("options", CUTS, ids=repr)
def test_a_copied_topic_is_the_topic(app, stream, options):
    """Every record is there, deletions too, with its time, in its partition, in the order of its key; with one task at its offset."""
    stream.to("out")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", [{**LIVE, "k": key, "_timestamp": moment(time)} for time, key in enumerate("abcde")])
        driver.pipe("in", [{**GONE, "k": key, "_timestamp": moment(time)} for time, key in enumerate("ace", 10)])
        driver.pipe("in", OTHER)
        copy, original = driver.read("out"), driver.read("in")
        if "tasks" in options:
            copy, original = ([{**row, "_offset": 0} for row in sorted(rows, key=key_and_time)] for rows in (copy, original))
        assert copy == original
        assert driver.newest("out") == driver.newest("in")
        assert driver.metrics()["deletion"] == 0


@pytest.mark.parametrize(
    ("condition", "is_kept"), [("v > 0", False), ("v IS NULL", True), ("k = 'a'", True), ("NOT k = 'a'", False)]
)
def test_a_condition_sees_null_values(app, stream, condition, is_kept):
    """A filter computes its condition on the key and on nulls, and keeps a tombstone if it is true."""
    stream.filter(condition).to("out")
    assert (("a", True) in outcome(app, "k")) == is_kept


def test_computed_columns_are_null(app, stream):
    """A value computed of nothing is null, whatever the expression says; what the key is made of alone, the key keeps."""
    stream.select(k=F.upper("k"), v=F.coalesce("v", F.lit(9)), one=F.lit(1)).to("out")
    assert outcome(app, "k", "v", "one") == [("A", 1, 1, False), ("A", None, None, True), ("B", 2, 1, False)]


def test_an_array_that_is_not_there_makes_one_tombstone(app, stream):
    """An explode passes a tombstone on once, though a record without elements goes, and though its array is made of constants."""
    stream.flat_map(F.explode("t").alias("e")).flat_map(F.posexplode(F.array(F.lit(5), F.lit(6)))).select("e", "pos").to("out")
    live = [("a", e, pos, False) for e in (1, 2) for pos in (0, 1)]
    assert outcome(app, "k", "e", "pos") == [*live, ("a", None, None, True)]


def test_who_looks_is_told(app, stream, capsys):
    """Peek, foreach and print see a tombstone at its place, with its key, None for its values, and the mark; others have no mark."""
    peeked: list[dict[str, Any]] = []
    ended: list[dict[str, Any]] = []
    stream.select("v").peek(peeked.append).foreach(ended.append)
    stream.select("v").print("seen")
    with TopologyTestDriver(app, batching="all") as driver:
        driver.pipe("in", [LIVE, GONE, OTHER])
        driver.metrics()
    assert ended == peeked == [{"k": "a", "v": 1}, {"k": "a", "v": None, "_deleted": True}, {"k": "b", "v": 2}]
    assert capsys.readouterr().out.splitlines()[1] == 'seen: {"k": "a", "v": null, "_deleted": true}'


def test_merged_streams_bring_theirs(app, stream):
    """A merge of a part that has tombstones and one that has none keeps each."""
    stream.filter("v IS NULL").merge(stream.filter("v = 2")).to("out")
    assert outcome(app, "k", "v") == [("a", None, True), ("b", 2, False)]


@pytest.mark.parametrize(("options", "mode"), in_turn(CUTS, ["every", "latest"]), ids=repr)
def test_groups_skip_and_count_them(app, stream, mode, options):
    """No aggregation takes a tombstone, folded in the readers or not; the metric says how many there were."""
    stream.group_by_key().agg(n=F.count("*"), store="n").emit(mode).to("out")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", [LIVE, GONE, OTHER])
        assert {row["k"]: row["n"] for row in driver.store("n").to_arrow().to_pylist()} == {"a": 1, "b": 1}
        assert (driver.metrics()["deletion"], driver.metrics()["null_key"]) == (1, 0)


@pytest.mark.parametrize(("kind", "how"), in_turn(["table", "global_table"], ["left", "inner"]))
def test_joins_skip_and_count_them(app, stream, kind, how):
    """A tombstone meets no row, and gives no result; the metric says how many there were."""
    other = getattr(app, kind)("names", schema="k string, name string", key="k")
    stream.join(other, how=how).to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("names", {"k": "a", "name": "Ann"}, timestamp=1)
        driver.pipe("in", [LIVE, GONE])
        assert driver.read("out", "k", "name") == [{"k": "a", "name": "Ann"}]
        assert driver.metrics()["deletion"] == 1


def test_a_key_made_of_values_is_lost(app, stream):
    """A tombstone that is re-keyed by its values has a null key: a group drops and counts it; a topic gets it as it is."""
    stream.select_key("v").group_by_key().agg(n=F.count("*")).emit("every").to("out")
    stream.select_key("v").to("copy")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [LIVE, GONE])
        assert [(row["v"], row["k"], row["_deleted"]) for row in driver.read("copy")] == [(1, "a", False), (None, None, True)]
        assert (driver.metrics()["null_key"], driver.metrics()["deletion"]) == (1, 0)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("is_moved", [False, True])
def test_a_former_key_is_a_value(app, stream, is_moved, cut):
    """Behind another key the former one is a value, which a tombstone has none of, whoever asks for it: as behind a topic."""
    moved = stream.select_key(z=F.coalesce("k", F.lit("z")))
    moved = moved.repartition() if is_moved else moved
    streams = [
        moved.filter("k IS NOT NULL").map(lambda row: {"said": f"kept {row['k']}"}, "said string", key="said"),
        moved.map(lambda row: {"said": f"given {row['k']}"}, "said string", key="said"),
        moved.select_key(said=F.coalesce("k", F.lit("again null"))).select("said"),
    ]
    streams[0].merge(*streams[1:]).to("out")
    found = sorted(one for one, is_deleted in outcome(app, "said", rows=(LIVE, GONE), **cut) if is_deleted)
    assert found == ["again null", "given None"]


def test_a_batch_without_tombstones_carries_no_mark(app, stream, monkeypatch):
    """Rows of frames without a deletion travel without the column that marks them, so they cost what they cost before."""
    marks: list[bool] = []

    def noted(columns):
        marks.append("_deleted" in columns)
        return rows_of(columns)

    monkeypatch.setattr("streamkit.engine.stage.reader.rows_of", noted)
    stream.to("out")
    outcome(app, "k")
    assert marks == [False, True, False]


@pytest.mark.parametrize("schema", ["n int NOT NULL", "n int"])
def test_a_key_that_may_not_be_null_is_not(app, stream, schema):
    """A topic whose key is NOT NULL does not get a tombstone that lost its key; it is counted."""
    stream.map(lambda row: {"n": row["v"]}, schema, key="n").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", [LIVE, GONE])
        is_kept = schema == "n int"
        assert [row["n"] for row in driver.read("out")] == [1, None][: 1 + is_kept]
        assert driver.metrics()["null_key"] == (not is_kept)
