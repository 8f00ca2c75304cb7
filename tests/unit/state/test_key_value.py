"""What is taken as a value of a key column: values of its type, and no others; moments between two that the column can have match no row."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.errors import ConfigError
from streamkit.log.values.python_values import python_values
from streamkit.schema import Schema
from streamkit.state.key_value import key_values
from streamkit.testing import TopologyTestDriver

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
TAKEN: dict[str, list[Any]] = {
    "boolean": [True, np.bool_(False), None],
    "int": [1, 1.0, np.int64(1), np.float32(2), decimal.Decimal(3), None],
    "float": [1, 1.5, np.float64(1), np.int8(1), math.nan],
    "double": [1, 1.5, np.float64(1), math.inf, math.nan],
    "string": ["a", np.str_("b")],
    "binary": [b"a", bytearray(b"a"), memoryview(b"a"), np.bytes_(b"a")],
    "date": [dt.date(2026, 1, 1), None],
    "timestamp": [
        NOON,
        NOON.replace(tzinfo=None),
        1_767_225_600_000,
        np.int64(5),
        pd.Timestamp(NOON),
        np.datetime64("2026-01-01", "us"),
    ],
    "timestamp_ntz": [NOON.replace(tzinfo=None), 7],
    "decimal(5,2)": [1, decimal.Decimal("1.50")],
}
REFUSED: dict[str, list[Any]] = {
    "boolean": [1, 0.0, "true", math.nan],
    "int": [True, np.bool_(True), 1.5, decimal.Decimal("0.5"), math.nan, "1", np.datetime64(1, "ns"), np.timedelta64(1, "ns"), 2**31],
    "float": [True, np.bool_(True), "1", decimal.Decimal(1), np.timedelta64(1, "s"), 10**18 + 1],
    "double": [True, False, "1.5", NOON],
    "string": [1, True, math.nan, dt.date(2026, 1, 1), ["a"], b"a", bytearray(b"a"), np.bytes_(b"a"), dt.time(1), dt.timedelta(1), 1.5],
    "binary": [1, True, math.nan, "a", np.str_("a")],
    "date": [
        NOON, NOON.replace(tzinfo=None), pd.Timestamp(NOON), pd.NaT, math.nan, decimal.Decimal("1.5"), decimal.Decimal(7), 20_454, True,
        np.datetime64(1, "ns"), np.datetime64("NaT"), "2026-01-01",
    ],
    "timestamp": [math.nan, decimal.Decimal("1.5"), decimal.Decimal(7), 1.0, True, pd.NaT, "2026-01-01", dt.date(2026, 1, 1), 10**18],
    "timestamp_ntz": [NOON, pd.Timestamp(NOON), dt.date(2026, 1, 1), True],
    "decimal(5,2)": [True, 1.5, math.nan, "1", decimal.Decimal("1.555"), decimal.Decimal("NaN"), 10**6],
}  # fmt: skip


def values_of(given: Any, type_name: str) -> Any:
    return key_values(given, Schema.parse(f"k {type_name}").columns[0], "the store 'x'")


@pytest.mark.parametrize("type_name", TAKEN)
def test_values_of_the_type_are_taken(type_name: str) -> None:
    """As the producer has them, alone and among others."""
    found = values_of(TAKEN[type_name], type_name)
    assert not found.is_cut.any()
    assert len(found.values) == len(TAKEN[type_name])
    assert [value is None for value in TAKEN[type_name]] == found.values.is_null().to_pylist()


@pytest.mark.parametrize("type_name", REFUSED)
def test_values_of_another_type_are_refused(type_name: str) -> None:
    """The error has the value, its type, and that of the column."""
    for wrong in REFUSED[type_name]:
        with pytest.raises(ConfigError) as error:
            values_of([TAKEN[type_name][0], wrong], type_name)
        assert f"found the key k = {wrong!r} ({type(wrong).__name__}); the store 'x' has k {type_name}" in str(error.value), wrong


@pytest.mark.parametrize(
    ("array", "type_name"),
    [
        (pa.array([True]), "double"),
        (pa.array([True]), "int"),
        (pa.array([NOON]), "date"),
        (pa.array([NOON]), "bigint"),
        (pa.array([1.5]), "decimal(5,2)"),
        (pa.array([1.0]), "timestamp"),
        (pa.array([dt.date(2026, 1, 1)]), "int"),
        (pa.array([20_454]), "date"),
    ],
)
def test_arrays_of_another_type_are_refused(array: pa.Array, type_name: str) -> None:
    """Those that Arrow would cast to other keys."""
    with pytest.raises(ConfigError, match=r"found keys with k as .*; the store 'x' has k "):
        values_of(array, type_name)


ARRAYS: list[pa.Array] = [
    pa.array([True, None]),
    *(pa.array([1, 0, None], kind) for kind in (pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64())),
    pa.array([2**53 + 1, -(2**63)]), pa.array([2**63], pa.uint64()), pa.array([300]),
    *(pa.array([1.0, 1.5, math.nan, math.inf, None], kind) for kind in (pa.float32(), pa.float64())), pa.array([0.1, 1e300]),
    *(pa.array([decimal.Decimal(text)]) for text in ("1", "1.50", "1.555", "12345678901234567890")), pa.array([decimal.Decimal(1)], pa.decimal256(40, 3)),
    *(pa.array(["1", " 1", "a", "true", "2026-01-01", None], kind) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    *(pa.array([b"1", b"a", None], kind) for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1))),
    pa.array([dt.date(2026, 1, 1), None]), pa.array([dt.date(2026, 1, 1)], pa.date64()),
    *(pa.array([0, 1_767_225_600, None], pa.timestamp(unit, zone)) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "America/New_York")),
    pa.array([0, None], pa.time64("us")), pa.array([0], pa.time32("s")), pa.array([0, None], pa.duration("us")),
    pa.array(["a", None]).dictionary_encode(), pa.array([1]).dictionary_encode(),
    pa.array([["a"]]), pa.array([{"k": "a"}]), pa.nulls(2), pa.array([None], pa.int64()), pa.array([], pa.string()),
]  # fmt: skip


def outcome(given: Any, type_name: str) -> Any:
    """The values as texts, and which lie between two; None if they are refused."""
    try:
        found = values_of(given, type_name)
    except ConfigError:
        return None
    assert found.values.type == Schema.parse(f"k {type_name}").columns[0].arrow.type
    return [repr(value) for value in python_values(found.values)], found.is_cut.tolist()


@pytest.mark.parametrize("type_name", [*TAKEN, "tinyint", "bigint", "decimal(38,0)"])
def test_arrays_mean_what_lists_do(type_name: str) -> None:
    """Of every type of Arrow, each value alone and all of them: what a list of the same values is refused for, an array is."""
    for every in ARRAYS:
        for array in (every, *(every[place : place + 1] for place in range(len(every)))):
            values = array.to_pylist()
            assert outcome(array, type_name) == outcome(values, type_name), (array.type, values)
            assert outcome(pa.chunked_array([array, array]), type_name) == outcome(values * 2, type_name), (array.type, values)


ONE_VALUE: dict[str, Any] = {
    "boolean": True,
    "bigint": 1,
    "double": 1.5,
    "string": "1",
    "binary": b"1",
    "date": dt.date(1970, 1, 1),
    "timestamp": dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc),
    "decimal(10,2)": decimal.Decimal("1.50"),
}
ASKED: dict[str, Callable[[Any, Any], Any]] = {
    "get": lambda view, value: [view.get(value)],
    "get by name": lambda view, value: [view.get(k=value)],
    "find": lambda view, value: view.find(value).to_pylist(),
    "range": lambda view, value: view.range(value).to_pylist(),
    "range to": lambda view, value: [view.range(None, value).num_rows],
    "range of dicts": lambda view, value: view.range({"k": value}).to_pylist(),
    "prefix": lambda view, value: view.prefix(value).to_pylist(),
    "values": lambda view, value: view.many([value]).to_pylist(),
    "tuples": lambda view, value: view.many([(value,)]).to_pylist(),
    "dicts": lambda view, value: view.many([{"k": value}]).to_pylist(),
    "array": lambda view, value: view.many(pa.array([value])).to_pylist(),
    "chunked array": lambda view, value: view.many(pa.chunked_array([[value]])).to_pylist(),
    "table": lambda view, value: view.many(pa.table({"k": [value]})).to_pylist(),
    "batch": lambda view, value: view.many(pa.record_batch({"k": [value]})).to_pylist(),
    "categories": lambda view, value: view.many(pa.table({"k": pa.array([value]).dictionary_encode()})).to_pylist(),
    "DataFrame": lambda view, value: view.many(pd.DataFrame({"k": [value]})).to_pylist(),
    "DataFrame of objects": lambda view, value: view.many(pd.DataFrame({"k": pd.Series([value], dtype=object)})).to_pylist(),
    "DataFrame of a category": lambda view, value: view.many(
        pd.DataFrame({"k": pd.Series([value]).astype("category")})
    ).to_pylist(),
    "DataFrame of Arrow": lambda view, value: view.many(
        pd.DataFrame({"k": pd.Series([value], dtype=pd.ArrowDtype(pa.array([value]).type))})
    ).to_pylist(),
}
ALSO = {("bigint", "double"), ("bigint", "decimal(10,2)"), ("bigint", "timestamp")}  # 1 is a number of each, and a time


def test_no_verb_takes_a_value_of_another_type() -> None:
    """Of all plain types each for each, however the keys come: the own one finds its row, and another is an error that says so."""
    app = sk.Topology("app")
    for number, type_name in enumerate(ONE_VALUE):
        app.table(f"in{number}", schema=f"k {type_name}, v int", key="k", store=f"store{number}")
    with TopologyTestDriver(app) as driver:
        for number, value in enumerate(ONE_VALUE.values()):
            driver.pipe(f"in{number}", {"k": value, "v": 1}, timestamp="2026-01-01")
        for number, (type_name, own) in enumerate(ONE_VALUE.items()):
            view = driver.store(f"store{number}")
            for way, ask in ASKED.items():
                assert ask(view, own) == ([0] if way == "range to" else [{"k": own, "v": 1}]), (type_name, way)
                for other, value in ONE_VALUE.items():
                    if other != type_name and (other, type_name) not in ALSO:
                        with pytest.raises(ConfigError, match=r"found (the key|keys with) k .* the store .* has k "):
                            pytest.fail(f"{type_name}, {way} of {value!r}: {ask(view, value)}")
            assert view.many(pd.DataFrame({"k": [own, None]})).num_rows == 1
            assert view.many(pd.DataFrame({"k": [math.nan]})).num_rows == 0  # as an empty column of a CSV is


def test_nanoseconds_lie_between_two_keys() -> None:
    """A key of a timestamp has microseconds: a moment with nanoseconds is none, and as a bound it stands for the next microsecond."""
    app = sk.Topology("app")
    app.table("in", schema="t timestamp, k string, v int", key=["t", "k"], store="times")
    whole = pd.Timestamp(NOON)
    between = whole + pd.Timedelta(nanoseconds=1)
    following = NOON + dt.timedelta(microseconds=1)
    with TopologyTestDriver(app) as driver:
        for moment in (NOON, following):
            for k in "ab":
                driver.pipe("in", {"t": moment, "k": k, "v": 1}, timestamp="2026-01-01")
        view = driver.store("times")
        early, late = (view.prefix(moment).to_pylist() for moment in (NOON, following))
        assert [len(early), len(late)] == [2, 2]
        assert view.get(whole, "a") == early[0]
        for given in (between, between.to_datetime64()):
            assert view.get(given, "a") is None
            assert view.prefix(given).num_rows == 0
            assert view.many([(given, "a"), (whole, "b")]).to_pylist() == early[1:]
            assert view.range(given).to_pylist() == view.range((given, "b")).to_pylist() == late
            assert view.range(None, given).to_pylist() == view.range(None, (given, "b")).to_pylist() == early
        asked = pa.table({"t": pa.array([between.value, whole.value], pa.timestamp("ns", "UTC")), "k": ["a", "b"]})
        assert view.many(asked).to_pylist() == early[1:]
