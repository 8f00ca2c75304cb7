"""Cases of Kafka Streams' stream-stream joins, run record by record: a key k and a value v on either side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import streamkit as sk
from streamkit import functions as F
from streamkit.dsl.column import Column
from streamkit.testing import TopologyTestDriver

Json = Mapping[str, Any]
Record = tuple[Any, Any, int]  # key, value, event time
SQL_TYPES = {"int": "int", "long": "bigint", "string": "string"}


def topology_of(case: Json) -> sk.Topology:
    """The case's topology, its output in the topic "out"."""
    app, built = sk.Topology("case"), {}
    types = {name: SQL_TYPES[kind] for name, kind in case["topology"]["types"].items()}
    for node in case["topology"]["nodes"]:
        match node["op"]:
            case "stream":
                built[node["id"]] = app.stream(node["topic"], schema=f"k {types['key']}, v {types['value']}", key="k")
            case "repartition" | "map" | "select_key":  # all of them give what they take
                assert node.get("fn", "identity") in ("identity", "key")
                built[node["id"]] = built[node["in"]]
            case "join":
                window = sk.within(
                    before=milliseconds(node["before_ms"]), after=milliseconds(node["after_ms"]), grace=f"{node['grace_ms']} ms"
                )
                left, right = built[node["left"]], built[node["right"]]
                joined = left.join(right, within=window, how=node["type"], suffix="_right")
                built[node["id"]] = joined.select(v=joiner(node["joiner"]))
    (output,) = case["topology"]["outputs"]
    built[output["node"]].to("out")
    return app


def replayed(case: Json, **options: Any) -> Iterator[list[Record]]:
    """What each step of the case gives."""
    with TopologyTestDriver(topology_of(case), **options) as driver:
        is_text = case["topology"]["types"]["value"] == "string"
        for step in case["steps"]:
            value = str(step["value"]) if is_text and step["value"] is not None else step["value"]
            row = {"k": step["key"], "v": value, "_deleted": value is None}
            driver.pipe(step["topic"], row, timestamp=step["ts"])
            yield records_of(driver)


def records_of(driver: TopologyTestDriver) -> list[Record]:
    """What came out since the last look, by offset."""
    return [(row["k"], row["v"], in_milliseconds(row["_timestamp"])) for row in driver.read("out")]


def expected_of(step: Json) -> list[Record]:
    return [(record["key"], record["value"], record["ts"]) for record in step["expect"]]


def milliseconds(length_ms: int) -> str:
    return f"{length_ms} ms"


def in_milliseconds(moment: Any) -> int:
    seconds: float = moment.timestamp()
    return round(seconds * 1000)


def joiner(text: str) -> Column:
    """The value of a pair as text; a value that is not there reads "null"."""
    left, right = (F.coalesce(F.col(name).cast("string"), F.lit("null")) for name in ("v", "v_right"))
    if text == "pair":
        return F.concat(F.lit("("), left, F.lit(","), right, F.lit(")"))
    if text == "key_colon_sum_null0":
        return F.concat("k", F.lit(":"), (F.col("v") + F.coalesce(F.col("v_right"), F.lit(0))).cast("string"))
    assert text.startswith("concat(")
    return F.concat(left, F.lit(text[len("concat(") : -1]), right)
