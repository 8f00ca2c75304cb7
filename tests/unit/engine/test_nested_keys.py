"""Keys that are structs and arrays: what meets by them, what is kept under them, and how a store finds it again."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import streamkit as sk
from streamkit import functions as F
from streamkit.data_type import has_map, to_arrow
from streamkit.engine.runs.compile import compile
from streamkit.errors import ConfigError, SchemaError
from streamkit.query.key_text import key_text, key_value
from streamkit.schema import SchemaColumn
from streamkit.state.stores import ON_DISK
from streamkit.testing import TopologyTestDriver
from tests.kit.engine_run import Run, execute, fresh_log
from tests.kit.nested import NESTED_TYPES, values_of
from tests.kit.sampling import TAKES_ALL

KEY_TYPES = NESTED_TYPES.filter(lambda type: not has_map(type))


def identity(value: Any) -> Any:
    """What is equal in Python where keys are: -0.0 is 0.0, NaN is one value, and 1, 1.0 and True, which are of one type here, cannot meet."""
    if isinstance(value, dict):
        return tuple((name, identity(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return tuple(map(identity, value))
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@settings(max_examples=12 if TAKES_ALL else 5, deadline=None, phases=[Phase.generate])
@given(st.data())
def test_groups_tables_and_joins_meet_by_any_nested_key(data: st.DataObject) -> None:
    """Counts, newest rows and matches by a nested key are those of Python's dicts, from RocksDB, from the changelog alone, and with other tasks."""
    kind = data.draw(KEY_TYPES)
    pool = data.draw(st.lists(values_of(kind, nullable=False), min_size=1, max_size=5))
    drawn = data.draw(st.lists(st.sampled_from(pool), min_size=6, max_size=6))
    keys = pa.array(drawn, to_arrow(kind))
    app = sk.Topology("any")
    app.stream("events").group_by("k").agg(n=F.count("*"), store="counts").to("counted")
    things = app.table("things", store="things")
    app.stream("events").join(things, on="k").to("joined")
    app.stream("numbered").select_key("k").to("keyed")
    with fresh_log(on_disk=True) as log:
        for topic, key in (("events", "k"), ("things", "k"), ("numbered", "v")):
            log.create_topic(
                topic, pa.schema({"k": keys.type, "w" if topic == "things" else "v": pa.int32()}), key=key, partitions=3
            )
        for tasks in (2, 3):
            with log.producer() as producer:
                for topic, name in (("things", "w"), ("events", "v"), ("numbered", "v")):
                    producer.send_batch(topic, pa.table({"k": keys, name: pa.array(range(6), pa.int32())}))
            execute(log, compile(app, log), Run(tasks=tasks), ON_DISK)
            if tasks == 3:
                shutil.rmtree(Path(log.root, "stores"))  # from the changelog alone
            expected = Counter(identity(key) for key in keys.to_pylist())
            counts, newest = log.store("any", "counts"), log.store("any", "things")
            rows = counts.to_arrow()
            assert {identity(row["k"]): row["n"] for row in rows.to_pylist()} == {
                key: n * (tasks - 1) for key, n in expected.items()
            }
            assert rows.num_rows == len(expected) == newest.to_arrow().num_rows
            for key in rows["k"]:
                assert counts.find(key).equals(counts.many(pa.table({"k": pa.repeat(key, 1)})))
                assert identity(counts.find(key)["k"][0].as_py()) == identity(key.as_py())
                assert newest.find(key)["w"].to_pylist() == [max(at for at, own in enumerate(keys) if same(own, key))]
        assert log.read("joined").num_rows == 12 == log.read("keyed").num_rows
        for topic in ("events", "joined", "keyed"):
            places: dict[Any, set[int]] = {}
            for row in log.read(topic).to_pylist():
                places.setdefault(identity(row["k"]), set()).add(row["_partition"])
            assert all(len(found) == 1 for found in places.values())


def same(one: pa.Scalar, other: pa.Scalar) -> bool:
    return bool(identity(one.as_py()) == identity(other.as_py()))


@settings(max_examples=200 if TAKES_ALL else 60, deadline=None)
@given(st.data())
def test_the_text_of_a_nested_key_finds_it_again(data: st.DataObject) -> None:
    """What is printed of a key, in a terminal or an address, is read as the same value."""
    kind = data.draw(KEY_TYPES)
    value = pa.array([data.draw(values_of(kind, nullable=False))], to_arrow(kind))[0]
    assert key_value(key_text(value), SchemaColumn("k", kind)).equals(value)


POINT = SchemaColumn("k", "struct<a:int,b:array<struct<c:string>>>")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x", "found 'x'; expected an object of JSON"),
        ("null", "found 'null'"),
        ("[1]", r"found '\[1\]'"),
        ('{"a": 1}', "found no field 'b'"),
        ('{"a": 1, "b": null, "c": 2}', "found c, which is no field"),
        ('{"a": 1, "b": [{}]}', "found no field 'c'"),
        ('{"a": 1.5, "b": []}', "found"),
        ('{"a": 1, "a": 2, "b": []}', "found"),
        ('1, "x": 2', "found"),
    ],
)
def test_a_text_that_is_no_nested_key_is_refused(text: str, found: str) -> None:
    """A field that is forgotten is no null, and nothing is guessed."""
    with pytest.raises(ConfigError, match=found):
        key_value(text, POINT)


@pytest.mark.parametrize(
    "value", [{"a": 1}, {"a": 1, "b": [], "c": 0}, {"a": "1", "b": []}, {"a": 1, "b": "text"}, {"a": 1, "b": [{"c": 1}]}, [1]]
)
def test_a_value_that_is_no_nested_key_is_refused(value: Any) -> None:
    """A look-up by a struct names each of its fields, with values of their types."""
    app = sk.Topology("points")
    app.table("points", schema=f"k {POINT.type}, v int", key="k", store="kept")
    with TopologyTestDriver(app) as driver:
        driver.pipe("points", {"k": {"a": 1, "b": [{"c": "x"}]}, "v": 7}, timestamp=1)
        kept = driver.store("kept")
        with pytest.raises(ConfigError, match="found the key k = "):
            kept.get(value)
        assert kept.get({"a": 1, "b": [{"c": "x"}]}) == {"k": {"a": 1, "b": [{"c": "x"}]}, "v": 7}
        assert driver.newest("points").keys() == {(1, (("x",),))}


def test_stores_are_read_in_the_order_of_arrays() -> None:
    """A range of arrays has a bound before every longer array that begins with it; nulls come before all elements."""
    keys: list[list[int | None]] = [[2], [], [1, 0], [None, 5], [1], [None]]
    app = sk.Topology("arrays")
    app.table("in", schema="k array<int>, v int", key="k", store="kept")
    with TopologyTestDriver(app) as driver:
        for number, key in enumerate(keys):
            driver.pipe("in", {"k": key, "v": number}, timestamp=number)
        kept = driver.store("kept")
        assert sorted(kept.range([1], [2]).to_pydict()["k"]) == [[1], [1, 0]]
        assert kept.range(end=[None]).to_pydict()["k"] == [[]]
        assert len(kept.range([None])) == 5


def test_maps_are_no_keys() -> None:
    """A topic and a group whose key has a map, at any depth, are refused in words."""
    with (
        fresh_log() as log,
        pytest.raises(SchemaError, match=r"'k' is array<map<string,int>>, which holds a map, and a map cannot be in a key"),
    ):
        log.create_topic("maps", "k array<map<string,int>>, v int", key="k")
