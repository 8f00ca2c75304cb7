"""Keys 0.0 and -0.0 are one, and a result has the same zero whether its row came just now or was kept."""

from __future__ import annotations

import datetime as dt
import random
import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.testing import TopologyTestDriver
from tests.kit.sampling import TAKES_ALL

WITHIN = sk.within("5 ms", grace="10 ms")
NANS = (struct.unpack("d", struct.pack("q", 0x7FF8_0000_0000_0001))[0], float("nan"), -float("nan"))
TOPICS = {
    "s": {"schema": "d double, n int, e double", "key": "d"},
    "t": {"schema": "d double, n int, e float", "key": "d"},
    "u": {"schema": "d double, m int", "key": "d"},
}
ZEROS = (-0.0, 0.0, 0.0, -0.0, -0.0, 0.0)
WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "streams": lambda s, t, u: s.stream().join(u.stream(), within=WITHIN),
    "streams, all rows": lambda s, t, u: s.stream().join(u.stream(), within=WITHIN, how="outer"),
    "a stream that waits for versions": lambda s, t, u: s.stream().join(u.versions(), on="d", how="left", grace="10 ms"),
    "tables": lambda s, t, u: t.table().join(u.table(), how="outer").emit("every", old=True),
    "tables by foreign keys": lambda s, t, u: t.table().join(u.table(), on={"e": "d"}).emit("every"),
    "tables by foreign keys, all rows": lambda s, t, u: t.table().join(u.table(), on={"e": "d"}, how="left").emit("every"),
    "groups": lambda s, t, u: s.stream().group_by("e").agg(F.count("*").alias("c")).emit("every"),
    "groups of a table": lambda s, t, u: t.table().group_by("e").agg(all=F.collect_list("d")).emit("every"),
    "counts of a table": lambda s, t, u: t.table().group_by("e").count().emit("every"),
    "windows": lambda s, t, u: s.stream().group_by("e").windowed_by(sk.tumbling("9 ms", grace="0 s")).count().emit("final"),
    "groups of a table by its key": lambda s, t, u: (
        t.table().group_by(g=F.col("d").cast("string")).agg(sum=F.sum("n")).emit("every")
    ),
    "what is kept": lambda s, t, u: s.stream().select_key("e").to_table(store="kept").emit("every", old=True),
    "what waits": lambda s, t, u: t.table().suppress(until=sk.time_limit("3 ms")).emit("every"),
    "the first of equals": lambda s, t, u: s.stream().drop_duplicates("e", within="4 ms"),
}
WITH_HISTORY = "a stream that waits for versions"  # of a topic that the others read as a table without
OF_NUMBERS = ("groups of a table", "groups of a table by its key")  # collect_list and the cast have no arrays and structs there
TOGETHER = [[way for way in WAYS if way != WITH_HISTORY], [WITH_HISTORY]]  # in one topology each


class Topic:
    def __init__(self, app: sk.Topology, name: str) -> None:
        self.app, self.name = app, name

    def stream(self) -> Any:
        return self.app.stream(self.name)

    def table(self) -> Any:
        return self.app.table(self.name)

    def versions(self) -> Any:
        return self.app.table(self.name, versioned="50 ms")


NESTED: dict[str, tuple[str, Callable[[float], Any]]] = {  # the type of a key that has a zero in it, and the key
    "a number": ("{}", lambda zero: zero),
    "an array": ("array<{}>", lambda zero: [zero, None]),
    "a struct": ("struct<a:array<{}>,b:int>", lambda zero: {"a": [zero], "b": None}),
}


@pytest.mark.parametrize("within", NESTED)
@pytest.mark.parametrize("ways", [[way] for way in WAYS] if TAKES_ALL else TOGETHER, ids=lambda ways: ways[0])
def test_zeros_do_not_depend_on_the_cut(ways: list[str], within: str) -> None:
    """One task and one epoch, and three with an epoch for each record, or for two, give the same rows, also of zeros within arrays and structs."""
    type, of = NESTED[within]
    ways = [way for way in ways if within == "a number" or way not in OF_NUMBERS]
    topics = {name: {**topic, "schema": _nested(topic["schema"], type)} for name, topic in TOPICS.items()}
    found = []
    for tasks, batching in ((1, "all"), (3, "one" if TAKES_ALL else 2)):
        app = sk.Topology("zeros")
        for number, way in enumerate(ways):
            WAYS[way](*(Topic(app, name) for name in TOPICS)).to(f"out{number}")
        with TopologyTestDriver(app, topics=topics, tasks=tasks, batching=batching) as driver:
            for number, (zero, other) in enumerate(pairwise(ZEROS)):
                driver.pipe("s", {"d": of(zero), "n": number, "e": of(other)}, timestamp=1000 + 4 * number)
                driver.pipe("u", {"d": of(other), "m": number}, timestamp=1001 + 4 * number)
                driver.pipe("t", {"d": of(zero), "n": number % 3, "e": of(other)}, timestamp=1002 + 4 * number)
            driver.drain()
            rows = {way: driver.read_all(f"out{number}") for number, way in enumerate(ways)}
        found.append({way: sorted(map(shown, those)) for way, those in rows.items()})
    assert len(found[0]) == len(ways) and all(found[0].values())
    assert found[0] == found[1]


HOURS = sk.tumbling("1 hour", grace="1 s")
KEY_OF_WINDOWS = ["d", "window_start", "window_end"]
WINDOW = {"window_start": dt.datetime(1970, 1, 1), "window_end": dt.datetime(1970, 1, 1, 1)}
MAKERS: dict[str, Callable[[sk.Topology, dict[str, Any], dict[str, Any]], Any]] = {
    "a topic": lambda app, one, wide: app.table("in", **one),
    "a topic with a store": lambda app, one, wide: app.table("in", store="kept", **one),
    "a topic with history": lambda app, one, wide: app.table("in", versioned="1 s", **one),
    "a topic of windows": lambda app, one, wide: app.table(
        "in", windowed=HOURS, schema=f"{one['schema']}, window_start timestamp, window_end timestamp", key=KEY_OF_WINDOWS
    ),
    "a stream": lambda app, one, wide: app.stream("in", **one).to_table(),
    "a stream with a store": lambda app, one, wide: app.stream("in", **one).to_table(store="kept"),
    "a stream with another key": lambda app, one, wide: (
        app.stream("in", **one).select_key(e=F.col("d")).drop("d").rename(e="d").to_table()
    ),
    "two streams": lambda app, one, wide: app.stream("in", **one).merge(app.stream("in2", **one)).to_table(),
    "a join of tables": lambda app, one, wide: app.table("in", **one).join(app.table("in2", **one).select(m="n"), how="left"),
    "a join by a wider key": lambda app, one, wide: app.table("in", **one).join(app.table("in2", **wide), how="left", on="d"),
    "what waits": lambda app, one, wide: app.table("in", **one).suppress(until=sk.time_limit("3 ms")),
}


@pytest.mark.parametrize("batching", ["one", "all"])
@pytest.mark.parametrize("made_of", MAKERS)
def test_a_row_leaves_the_group_that_it_came_to(made_of: str, batching: str) -> None:
    """A key is one however its zero or NaN is written, so its former row leaves the group, which is made of the key's bits."""
    bits = F.udf(lambda key: struct.pack(">d", key[0] if isinstance(key, list) else key).hex(), "string")
    for type, wider, keys in (
        ("double", "double", ZEROS), ("float", "double", ZEROS), ("double", "double", NANS),
        ("array<double>", "array<double>", ZEROS), ("array<double>", "array<double>", NANS),
    ):  # fmt: skip
        app = sk.Topology("leaving")
        one, wide = {"schema": f"d {type}, n int", "key": "d"}, {"schema": f"d {wider}, m int", "key": "d"}
        table = MAKERS[made_of](app, one, wide)
        table.group_by(g=bits("d")).agg(F.count("*").alias("c"), F.sum("n").alias("sum"), store="groups")
        with TopologyTestDriver(app, batching=batching) as driver:
            for number, key in enumerate(keys):
                driver.pipe(
                    "in",
                    {
                        "d": [key] if type.startswith("array") else key,
                        "n": number,
                        **(WINDOW if made_of == "a topic of windows" else {}),
                    },
                    timestamp=10 + 4 * number,
                )
            driver.drain()
            left = [row for row in driver.store("groups").to_arrow().to_pylist() if row["c"]]
        assert left == [{"g": struct.pack(">d", abs(keys[1])).hex(), "c": 1, "sum": len(keys) - 1}]


ONE_ZERO = {
    "most": F.max("e"), "least": F.min("e"), "pair": F.max(F.struct("e")), "nested": F.min(F.struct(F.struct("e"))),
    "top": F.top_k("e", 2), "bottom": F.bottom_k(F.struct("e"), 2), "each": F.collect_set("e"),
    "total": F.sum("e"), "mean": F.avg("e"), "half": F.median("e"),
}  # fmt: skip
ITS_OWN = {"all": F.collect_list("e"), "first": F.first("e"), "last": F.last("e"), "by": F.max_by("e", "n")}


@pytest.mark.parametrize("of_table", [False, True], ids=["a stream", "a table"])
def test_zeros_of_aggregates_do_not_depend_on_the_cut(of_table: bool) -> None:
    """What looks at the order of records gives them as they came; all else gives 0.0, also within structs. Groups of tables give 0.0."""
    zeros = [random.Random(4).choice(ZEROS) for _ in range(24)]
    zeros[0], zeros[-1] = -0.0, -0.0
    found = []
    for tasks, batching in ((1, "one"), (3, "all"), (2, 5)):
        app = sk.Topology("zeros")
        source = app.table("in") if of_table else app.stream("in")
        columns = {**ONE_ZERO, **({"all": F.collect_list("e")} if of_table else ITS_OWN)}
        source.group_by(g=F.lit(1)).agg(**columns).to("out")
        topics = {"in": {"schema": "n int, e double", "key": "n", "partitions": 3}}
        with TopologyTestDriver(app, topics=topics, tasks=tasks, batching=batching) as driver:
            driver.pipe("in", [{"n": number, "e": zero, "_timestamp": number} for number, zero in enumerate(zeros)])
            driver.drain()
            found.append({name: value for name, value in driver.read("out")[-1].items() if name in columns})
    assert str(found[0]) == str(found[1]) == str(found[2])
    assert not any("-0.0" in str(found[0][name]) for name in (found[0] if of_table else ONE_ZERO))
    if not of_table:
        assert str([found[0][name] for name in ITS_OWN]) == str([zeros, -0.0, -0.0, -0.0])


def _nested(schema: str, type: str) -> str:
    """The schema with its floats in a nested type; all are doubles there, since keys that are nested meet only in one type."""
    if type == "{}":
        return schema
    return schema.replace("float", "double").replace("double", type.format("double"))


def shown(row: dict[str, Any]) -> str:
    return repr({name: value for name, value in row.items() if not name.startswith("_")})


@pytest.mark.parametrize(
    ("format", "within"), [("json", "a number"), ("csv", "a number"), ("string", "a number"), ("avro", "a number"), ("json", "an array"), ("json", "a struct"),
    ("avro", "an array"), ("avro", "a struct")],
)  # fmt: skip
def test_equal_keys_have_the_same_bytes(format: str, within: str) -> None:
    """A deletion of 0.0 deletes -0.0 in an opaque topic, too."""
    type, of = NESTED[within]
    app = sk.Topology("bytes")
    schema = f"d {type.format('double')}, n int"
    app.table("in", schema=schema, key="d", store="kept").to("out", value_format="json", key_format=format)
    with TopologyTestDriver(app, partitions=3) as driver:
        for zero in (-0.0, 0.0):
            driver.pipe("in", {"d": of(zero), "n": 1}, timestamp=1)
        driver.delete("in", {"d": of(-0.0)}, timestamp=2)
        found = driver.read_arrow("out")
    assert len(set(found["key"].to_pylist())) == 1 and len(set(found["_partition"].to_pylist())) == 1
