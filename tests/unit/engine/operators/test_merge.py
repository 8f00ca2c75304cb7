"""Merge: the records of several streams, also where one record comes by several of them."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs.compile import compile
from streamkit.testing.driver import TopologyTestDriver
from tests.kit.engine_run import moment
from tests.kit.sampling import in_turn

SCHEMA = "k string, v string"
WAYS: list[dict[str, Any]] = [{"tasks": tasks, "batching": batching} for tasks, batching in in_turn((1, 2, 7, 3), ("all", "one"))]


@pytest.fixture
def app():
    return sk.Topology("merged")


@pytest.fixture
def stream(app):
    return app.stream("in", schema=SCHEMA, key="k")


def read(app: sk.Topology, options: dict[str, Any], *columns: str, count: int = 12) -> list[Any]:
    """What the topic "out" gets of some records, whose values go to several keys behind."""
    rows = [{"k": "a", "v": value, "_timestamp": moment(10 * place)} for place, value in enumerate("stuvwxyzpqrm"[:count])]
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", rows)
        return [row[columns[0]] if len(columns) == 1 else tuple(row[name] for name in columns) for row in driver.read("out")]


def last_of_text(state: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return {"text": state["text"] + row["v"]}


def in_other_tasks(rows: sk.Stream) -> sk.Stream:
    """The rows once more by way of tasks of their own value, each of which sends what it has to the task of one key."""
    return rows.select_key("v").repartition().select_key(one=F.lit(1)).repartition()


@pytest.mark.parametrize("options", WAYS, ids=repr)
def test_rows_of_one_record_stand_in_the_order_in_which_they_reach_a_merge(app, stream, options):
    """The steps in between were declared first. Behind tasks that none share, too: no hash of a key decides, nor how many tasks there are."""
    upper, lower = stream.with_columns(v=F.upper("v")), stream.with_columns(v=F.concat(F.lit("_"), "v"))
    in_other_tasks(upper.merge(stream, lower)).to("out")
    assert read(app, options, "v", count=4) == ["S", "_s", "s", "T", "_t", "t", "U", "_u", "u", "V", "_v", "v"]


@pytest.mark.parametrize("options", WAYS, ids=repr)
def test_several_rows_of_a_record_stand_where_they_are_made(app, stream, options):
    """Rows that a step made of a record keep their order, and come before the record itself, whose merge was declared behind that step."""
    twice = stream.flat_map_values(lambda row: [{"v": row["v"] * 2}, {"v": row["v"] * 3}], "v string")
    in_other_tasks(twice.merge(stream)).to("out")
    assert read(app, options, "v", count=2) == ["ss", "sss", "s", "tt", "ttt", "t"]


@pytest.mark.parametrize("options", WAYS, ids=repr)
def test_a_table_behind_ends_with_the_last_stream(app, stream, options):
    """A foreign-key join gives the result of the second row of a record behind that of the first, so none is left that should be gone."""
    merged = stream.merge(stream.filter_not("v = 'q'"))
    texts = merged.group_by("k").aggregate({"text": ""}, last_of_text, "text string")
    others = app.table("others", schema="id string, note string", key="id")
    texts.with_columns(id=F.right("text", F.lit(2))).join(others, on="id", how="left").to_stream().to("out")
    with TopologyTestDriver(app, **options) as driver:
        driver.pipe("in", [{"k": "a", "v": value, "_timestamp": moment(at)} for at, value in enumerate("stuvqw")])
        assert [row["text"] for row in driver.read("out")][-3:] == ["ssttuuvvq", "ssttuuvvqw", "ssttuuvvqww"]


@pytest.mark.parametrize("options", WAYS, ids=repr)
def test_streams_that_are_grouped_together_have_an_order_too(app, stream, options):
    """In a cogroup each stream of a record gives its result in turn, also if the results have keys of their own."""
    one, other = stream.group_by("v"), stream.select(v=F.concat(F.lit("other_"), "v")).group_by("v")
    counted = one.cogroup(last_of_text).cogroup(other, last_of_text).aggregate({"text": ""}, "text string")
    counted.to_stream().select_key(one=F.lit(1)).repartition().to("out")
    assert read(app, options, "text", count=4) == ["s", "other_s", "t", "other_t", "u", "other_u", "v", "other_v"]


@pytest.mark.parametrize("is_first", [False, True])
def test_a_stream_has_its_turn_from_when_it_was_grouped(app, stream, is_first):
    """Kafka Streams gives rows another key where they are grouped, whenever the groups are counted."""
    one = stream.group_by("v") if is_first else None
    other = stream.select(v=F.concat(F.lit("other_"), "v")).group_by("v")
    counted = (
        (one or stream.group_by("v")).cogroup(last_of_text).cogroup(other, last_of_text).aggregate({"text": ""}, "text string")
    )
    counted.to_stream().select_key(one=F.lit(1)).repartition().to("out")
    assert read(app, {}, "text", count=1) == (["s", "other_s"] if is_first else ["other_s", "s"])


def test_streams_of_other_records_keep_their_places_as_they_are(app, stream):
    """Where no record comes by two streams, nothing is added to a row, since each has a place of its own."""
    stream.merge(app.stream("other", schema=SCHEMA, key="k")).to("both")
    stream.merge(stream.filter("v > 'a'")).to("again")
    program = compile(app)
    merges = [program.turn(one.id).shares_records for one in program.operators if one.kind == "merge"]
    assert sorted(merges) == [False, True]
