"""What is taken as a value of a key column: values of its type, and no others; moments between two that the column can have match no row."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.errors import ConfigError
from streamkit.schema import Schema
from streamkit.state.key_value import key_values
from streamkit.testing import TopologyTestDriver

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
TAKEN: dict[str, list[Any]] = {
    "boolean": [True, np.bool_(False), None],
    "int": [1, 1.0, np.int64(1), np.float32(2), decimal.Decimal(3), None],
    "float": [1, 1.5, np.float64(1), np.int8(1), math.nan],
    "double": [1, 1.5, np.float64(1), math.inf, math.nan],
    "string": ["a", b"a", np.str_("b")],
    "binary": [b"a", bytearray(b"a"), memoryview(b"a"), "a"],
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
    "string": [1, True, math.nan, dt.date(2026, 1, 1), ["a"]],
    "binary": [1, True, math.nan],
    "date": [
        NOON, NOON.replace(tzinfo=None), pd.Timestamp(NOON), pd.NaT, math.nan, decimal.Decimal("1.5"), decimal.Decimal(7), 20_454, True,
        np.datetime64(1, "ns"), np.datetime64("NaT"), "2026-01-01",
    ],
    "timestamp": [math.nan, decimal.Decimal("1.5"), decimal.Decimal(7), 1.0, True, pd.NaT, "2026-01-01", dt.date(2026, 1, 1), 10**18],
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


def test_arrays_mean_what_lists_do() -> None:
    """Whole numbers are milliseconds in both, floats may be whole, and texts are read."""
    assert values_of(pa.array([5]), "timestamp").values == values_of([5], "timestamp").values
    assert values_of(pa.array([5.0, None]), "bigint").values.to_pylist() == [5, None]
    assert values_of(pa.array(["5"]).dictionary_encode(), "bigint").values.to_pylist() == [5]
    with pytest.raises(ConfigError, match=r"found the key k = 5.5 \(float\)"):
        values_of(pa.array([5.5]), "bigint")


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
