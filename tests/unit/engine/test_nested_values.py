"""Promises of nested values in the engine: streams, tables and stores hand them on whole, whatever is restarted in between."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import streamkit as sk
from streamkit import functions as F
from streamkit.data_type import to_arrow
from streamkit.engine.runs.compile import compile
from streamkit.errors import TopologyError
from streamkit.state.stores import ON_DISK
from tests.kit.engine_run import Run, append, execute, fresh_log
from tests.kit.nested import NESTED_TYPES, values_of
from tests.kit.sampling import TAKES_ALL, first

PLACES = "id string, tags array<string>, at struct<lat:double,lon:double>, props map<string,array<int>>"
VISITS = "visit bigint, place string, seen struct<by:string,marks:array<struct<n:int>>>"


def place(number, ts, **changed):
    row = {
        "id": f"p{number}",
        "tags": ["é", None][: number % 3] * (number % 2 + 1),
        "at": {"lat": number / 2, "lon": None} if number % 4 else None,
        "props": {"a": [number], "b": None, "c": []} if number % 5 else {},
        "ts": ts,
    }
    return row | changed


def visit(number, places, ts):
    seen = {"by": f"v{number}", "marks": [{"n": number}, None]} if number % 3 else None
    return {"visit": number, "place": f"p{number % places}", "seen": seen, "ts": ts}


def values(row):
    """A row without its times, as it was sent."""
    return {name: value for name, value in row.items() if name != "ts"}


def topology():
    app = sk.Topology("atlas")
    places = app.table("places", store="places")
    app.stream("visits").join(places, on={"place": "id"}, how="left").to("visited")
    places.to("known")
    app.table("others").join(places, how="outer", suffix="_place").to("both")
    return app


@pytest.fixture
def log():
    with fresh_log(on_disk=True) as log:
        log.create_topic("places", PLACES, key="id", partitions=3)
        log.create_topic("others", PLACES, key="id", partitions=2)
        log.create_topic("visits", VISITS, partitions=2)
        yield log


def newest(log, topic, key="id"):
    """The newest row of each key, without keys that are deleted."""
    found = {}
    for row in log.read(topic).to_pylist():
        found[row[key]] = None if row.get("_deleted") else row
    return {key: row for key, row in found.items() if row is not None}


@pytest.mark.parametrize("splits", first(1, [3, 1]))
def test_a_table_of_nested_values_joins_a_stream_after_a_restart(log, splits):
    """Each record meets the nested row of its key as of its own place: in one epoch, from the store, and from a store restored elsewhere."""
    append(log, "places", [place(number, number) for number in range(20)])
    append(log, "visits", [visit(number, 25, 100 + number) for number in range(30)])
    execute(log, compile(topology(), log), Run(tasks=2, splits=splits), ON_DISK)

    changed = [place(3, 200, tags=["new"], at={"lat": 1.0, "lon": 2.0}, props=None), place(4, 201) | {"deleted": True}]
    append(log, "places", changed)
    append(log, "visits", [visit(number, 25, 300 + number) for number in range(30, 60)])
    execute(log, compile(topology(), log), Run(tasks=2, splits=splits), ON_DISK)

    shutil.rmtree(Path(log.root, "stores"))
    append(log, "visits", [visit(number, 25, 400 + number) for number in range(60, 90)])
    execute(log, compile(topology(), log), Run(tasks=3, splits=splits), ON_DISK)

    first = {f"p{number}": values(place(number, 0)) for number in range(20)}
    then = first | {"p3": values(changed[0])}
    del then["p4"]
    nothing = {"tags": None, "at": None, "props": None}
    expected = {}
    for number in range(90):
        row, known = visit(number, 25, 0), first if number < 30 else then
        table = known.get(row["place"], nothing)
        expected[number] = values(row) | {name: table[name] for name in nothing}
    assert {row["visit"]: _plain(row, expected[0]) for row in log.read("visited").to_pylist()} == expected

    view = log.store("atlas", "places")
    assert view.get("p3") == then["p3"] and view.get("p4") is None
    assert {row["id"]: _plain(row, then["p3"]) for row in view.to_arrow().to_pylist()} == then
    assert view.schema.field("props").type == pa.map_(pa.string(), pa.list_(pa.int32()))
    assert sorted(view.to_pandas()["id"]) == sorted(then)
    assert {row["id"]: _plain(row, then["p3"]) for row in view.range().to_pylist()} == then
    assert {key: _plain(row, then["p3"]) for key, row in newest(log, "known").items()} == then
    report = log.fsck(deep=True)
    assert report.is_clean and report.counts["store_rows"] >= len(then)


def test_tables_of_nested_values_join_each_other(log):
    """An outer join gives the nested values of both sides, null where one has no row, whether or not the other came earlier."""
    append(log, "places", [place(number, number) for number in range(4)])
    append(log, "others", [place(number, 10 + number, tags=["other"]) for number in range(2, 6)])
    execute(log, compile(topology(), log), Run(tasks=2))
    append(log, "places", [place(2, 100) | {"deleted": True}, place(5, 101)])
    execute(log, compile(topology(), log), Run(tasks=2))
    found = newest(log, "both")
    assert found["p1"]["tags"] is None and found["p1"]["at_place"] == place(1, 0)["at"]
    assert found["p2"]["tags"] == ["other"] and found["p2"]["tags_place"] is None and found["p2"]["props_place"] is None
    assert found["p5"]["tags"] == ["other"] and dict(found["p5"]["props_place"]) == place(5, 0)["props"]


def test_nested_values_are_counted_and_grouped(log):
    """An aggregate may look at a nested column; a group may be one, unless it holds a map."""
    app = sk.Topology("atlas")
    app.stream("visits").group_by("place").agg(seen=F.count("seen")).to("counts")
    app.stream("visits").group_by("seen").agg(visits=F.count("*")).to("visits_by_seen")
    append(log, "visits", [visit(number, 2, number) for number in range(6)])
    execute(log, compile(app, log), Run())
    assert {row["place"]: row["seen"] for row in log.read("counts").to_pylist()} == {"p0": 2, "p1": 2}
    by_seen = {row["seen"]["by"] if row["seen"] else None: row["visits"] for row in log.read("visits_by_seen").to_pylist()}
    assert by_seen == {f"v{number}": 1 for number in (1, 2, 4, 5)}  # null is no group
    other = sk.Topology("other")
    other.stream("places").group_by("props").count().to("other")
    with pytest.raises(TopologyError, match=r"'props' is map<.*a map cannot be in a key, because") as refused:
        compile(other, log)
    assert f"at {__file__}:" in str(refused.value)


@settings(max_examples=6 if TAKES_ALL else 3, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_stores_of_any_nested_type_are_restored(data):
    """Values of any nested types come out of a store as they were sent, from RocksDB, from the changelog alone, and with other tasks."""
    kinds = data.draw(st.lists(NESTED_TYPES, min_size=1, max_size=2))
    values = [data.draw(st.lists(values_of(kind), min_size=5, max_size=5)) for kind in kinds]
    sent = pa.table(
        {"id": pa.array(range(5), pa.int32())}
        | {f"v{number}": pa.array(values[number], to_arrow(kind)) for number, kind in enumerate(kinds)}
    )
    app = sk.Topology("any")
    app.table("things", store="things").to("kept")
    with fresh_log(on_disk=True) as log:
        log.create_topic("things", sent.schema, key="id", partitions=2)
        with log.producer() as producer:
            producer.send_batch("things", sent)
        for tasks in (2, 3):
            execute(log, compile(app, log), Run(tasks=tasks), ON_DISK)
            assert log.store("any", "things").to_arrow().sort_by("id").equals(sent)
            shutil.rmtree(Path(log.root, "stores"))
            assert log.store("any", "things").to_arrow().sort_by("id").equals(sent)
            with log.producer() as producer:
                producer.send_batch("things", sent)
        kept = log.read("kept").select(sent.schema.names)
        assert kept.num_rows == 10 and kept.equals(sent.take(kept["id"]))


def _plain(row, expected):
    """The columns that were expected, maps as dicts."""
    found = {name: row[name] for name in expected}
    if "props" in found and found["props"] is not None:
        found["props"] = dict(found["props"])
    return found
