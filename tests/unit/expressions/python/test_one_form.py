"""What functions give for nested types and floats: any of Python's forms, beside each other; nothing vanishes, nothing becomes infinite."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import StreamKitError
from streamkit.expressions.python import one_form
from streamkit.testing import TopologyTestDriver

Point = collections.namedtuple("Point", "x")  # noqa: PYI024  # as users write it
Give = Callable[[int], Any]


class Forwards(sk.Processor):
    def __init__(self, give: Give) -> None:
        self.give = give

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Any) -> None:
        self.context.forward({"v": self.give(record["i"])})


class Puts(Forwards):
    def process(self, record: Any) -> None:
        store = self.context.store("kv")
        store.put(record["k"], {"v": self.give(record["i"])})
        self.context.forward({"v": store.get(record["k"])["v"]})


def series(give: Give) -> Callable[[Any], Any]:
    import pandas as pd

    return lambda column: pd.Series([give(one) for one in column], dtype=object)


def arrays(give: Give) -> Callable[[Any], Any]:
    return lambda column: pa.array([give(one.as_py()) for one in column])


WAYS: dict[str, Callable[[sk.Stream, Give, str], sk.Stream]] = {
    "map_values": lambda stream, give, kind: stream.map_values(lambda row: {"v": give(row["i"])}, f"v {kind}"),
    "map": lambda stream, give, kind: stream.map(lambda row: {"k": row["k"], "v": give(row["i"])}, f"k int, v {kind}", key="k"),
    "flat_map": lambda stream, give, kind: stream.flat_map(
        lambda row: [{"k": row["k"], "v": give(row["i"])}], schema=f"k int, v {kind}", key="k"
    ),
    "aggregate": lambda stream, give, kind: (
        stream.group_by_key().aggregate(None, lambda state, row: {"v": give(row["i"])}, f"v {kind}").emit("every")
    ),
    "udf": lambda stream, give, kind: stream.select("k", v=F.udf(give, kind)("i")),
    "pandas_udf": lambda stream, give, kind: stream.select("k", v=F.pandas_udf(series(give), kind)("i")),
    "arrow_udf": lambda stream, give, kind: stream.select("k", v=F.arrow_udf(arrays(give), kind)("i")),
    "forward": lambda stream, give, kind: stream.process(lambda: Forwards(give), f"v {kind}"),
    "put": lambda stream, give, kind: stream.process(
        lambda: Puts(give), f"v {kind}", stores=[sk.key_value_store("kv", key="k int", value=f"v {kind}")]
    ),
}
BY_ARROW = {"arrow_udf"}


def given(way: str, kind: str, give: Give) -> list[Any]:
    app = sk.Topology("forms")
    WAYS[way](app.stream("in"), give, kind).to("out")
    with TopologyTestDriver(app, topics={"in": {"schema": "k int, i int", "key": "k"}}, batching="all") as driver:
        driver.pipe("in", [{"k": number, "i": number} for number in range(3)], timestamp=1)
        return [row["v"] for row in driver.read("out")]


LOST = [
    ("struct<a:int>", {"a": 1, "b": 2}, "no field 'b'"),
    ("struct<amount:int>", {"Amount": 1}, "did you mean 'amount'"),
    ("array<struct<a:int>>", [{"a": 1, "typo": 2}], "no field 'typo'"),
    ("map<string,struct<a:int>>", {"q": {"typo": 2}}, "no field 'typo'"),
    ("struct<in:struct<a:int>>", {"in": {"typo": 2}}, "no field 'typo'"),
    ("float", 1e300, "beyond the range of a float"),
    ("array<float>", [1.0, -1e39], "beyond the range of a float"),
    ("struct<f:float>", {"f": 4e38}, "beyond the range of a float"),
    ("decimal(38,18)", Decimal("9.6e21"), "decimal"),
    ("decimal(10,2)", Decimal("1e-41"), "decimal"),
    ("decimal(10,2)", Decimal("1e-400000000"), "(?i)decimal"),
    ("array<decimal(10,2)>", [Decimal("1e-400000000")], "(?i)decimal"),
    ("struct<d:decimal(38,38)>", {"d": Decimal(300)}, "decimal"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kind", "value", "message"), LOST)
def test_nothing_vanishes(way: str, kind: str, value: Any, message: str) -> None:
    """A field that the struct has not, and a number that a float or a decimal cannot hold, are errors that name the record."""
    if way in BY_ARROW and kind.startswith("map"):
        pytest.skip("Arrow makes a struct of a dict, not a map")
    give = lambda number: value if number == 1 or way in BY_ARROW else None  # noqa: E731  # Arrow wants one type
    with pytest.raises(StreamKitError, match=message) as caught:
        given(way, kind, give)
    assert way.endswith("_udf") or "topic in, partition 0, offset 1, key k = 1" in str(caught.value)


@pytest.mark.parametrize("way", [way for way in WAYS if way not in BY_ARROW])
@pytest.mark.parametrize(
    ("kind", "first", "second", "expected"),
    [
        ("struct<x:int>", {"x": 1}, (1,), {"x": 1}),
        ("struct<x:int>", {"x": 1}, Point(1), {"x": 1}),
        ("array<struct<x:int>>", [{"x": 1}], [(1,)], [{"x": 1}]),
        ("array<struct<x:int>>", [{"x": 1}], ({"x": 1},), [{"x": 1}]),
        ("map<string,struct<x:int>>", {"a": {"x": 1}}, [("a", (1,))], {"a": {"x": 1}}),
        ("struct<x:int,y:int>", {"x": 1}, (1, None), {"x": 1, "y": None}),
        ("array<int>", [1], np.array([1]), [1]),
        ("float", True, 1.0, 1.0),
        ("float", np.float32(1), 1, 1.0),
    ],
)
def test_forms_stand_beside_each_other(way: str, kind: str, first: Any, second: Any, expected: Any) -> None:
    """Values in different forms of Python give the same alone and in one batch."""
    assert given(way, kind, lambda number: second if number == 1 else first) == [expected] * 3


def test_floats_hold_what_they_can() -> None:
    """The largest float, infinity and NaN are values of a float; what rounds to infinity is not."""
    values = [one_form.FLOAT_MAX, math.inf, -math.inf]
    assert one_form.in_one_form(values, pa.float32()) == values
    assert math.isnan(one_form.in_one_form([math.nan], pa.float32())[0])
    one_form.check_arrow(pa.array([*values, math.nan, None]), pa.float32())
    for value in (3.5e38, 10**39, np.float64(1e300)):
        with pytest.raises(ValueError, match="beyond the range"):
            one_form.in_one_form([value], pa.float32())
    with pytest.raises(ValueError, match="beyond the range"):
        one_form.check_arrow(pa.array([1.0, 3.5e38]), pa.float32())
