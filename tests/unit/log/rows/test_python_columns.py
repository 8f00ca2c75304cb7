"""Promises about values of Python in a column: what becomes of each is said by it alone, whatever stands beside it, in any order."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import io
import random
import uuid
from collections.abc import Callable, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamkit.errors import SchemaError
from streamkit.log.rows.python_rows import RowReader
from streamkit.log.rows.records import records_of
from streamkit.log.topic.topic import declare_topic
from streamkit.log.values.python_values import python_values
from tests.kit.sampling import first, seeds

UTC = dt.timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
NOW_MS = 1_800_000_000_000
TYPES = (
    "boolean", "tinyint", "bigint", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz", "decimal(10,2)",
    "decimal(38,0)", "decimal(38,18)", "decimal(38,38)", "void",
)  # fmt: skip
AROUND: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "plain": ("{}", lambda value: value),
    "array": ("array<{}>", lambda value: [value]),
    "array beside": ("array<{}>", lambda value: [None, value, value]),
    "struct": ("struct<a:{}>", lambda value: {"a": value}),
    "map": ("map<string,{}>", lambda value: {"a": value}),
}
COLUMNS = [  # of an ordinary run: of each type by itself, and within one other
    (type_name, around)
    for number, type_name in enumerate(TYPES)
    for around in first(2, ["plain", *[*AROUND][1 + number % 4 :], *[*AROUND][1 : 1 + number % 4]])
]


class Number(enum.IntEnum):
    """A class of its own whose values are integers."""

    ONE = 1


class Text(str):
    """A class of its own whose values are texts."""

    __slots__ = ()


D = decimal.Decimal
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 127, 128, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64, Number.ONE,
    1.0, 1.5, 1.7, -0.0, 1e19, 1e300, float("nan"), float("inf"), 1 + 0j,
    "", "1", "é", "\ud800", Text("a"), "2020-01-01", b"", b"a", b"\xff", bytearray(b"x"), memoryview(b"y"),
    D("1"), D("0.1"), D("1.7"), D("1E+2"), D("1E+7"), D("1E+37"), D("1E-50"), D("1." + "0" * 60), D("9.6E+21"), D("1E-41"), D("0E-100"),
    D("1E-400000000"), D("0E-400000000"), D("1E+400000000"), D((0, (5, *(0,) * 37), -12725)), pa.scalar(D("9.6E+21")), D("NaN"), D("sNaN"), D("Infinity"),
    dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 23, 59), dt.datetime(9999, 12, 31),
    dt.datetime(2020, 1, 1, tzinfo=UTC), dt.datetime(2020, 1, 1, tzinfo=BERLIN),
    dt.datetime(2020, 10, 25, 2, 30, fold=1, tzinfo=BERLIN),
    dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30))),
    dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5, seconds=7))),
    dt.time(1), dt.timedelta(1),
    np.bool_(True), np.int8(1), np.int64(2), np.uint8(200), np.uint64(2**63), np.float16(1.5), np.float32(0.1), np.float64(1.5),
    np.float64("nan"), np.float32("nan"),
    np.longdouble(1.5), np.str_("a"), np.bytes_(b"a"), np.timedelta64(1, "s"), np.void(b"ab"),
    *(np.datetime64("2020-01-01", unit) for unit in ("Y", "M", "D", "h", "s", "ms", "us", "ns")),
    np.datetime64("2020-01-01T00:00:00.000000001"),
    np.datetime64(10**7, "D"), np.datetime64("NaT"), np.datetime64("NaT", "us"), np.datetime64("NaT", "D"),
    pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01T12:00:00.000001", tz="UTC"), pd.Timestamp("2020-01-01T00:00:00.123456789Z"),
    pd.NaT, pd.NA, pd.Timedelta(1, "s"), pd.Period("2020-01", "M"), pd.Interval(0, 1),
    pa.scalar(1), pa.scalar(1.5), pa.scalar("a"), pa.scalar(None), pa.scalar(True), pa.scalar(7, pa.timestamp("s")), pa.scalar(7, pa.timestamp("us", "UTC")),
    [], [1], (1,), {}, {"a": 1}, {1}, [np.datetime64("2020-01-01"), np.bool_(True)], np.array([1]), np.array(1), uuid.UUID(int=7), object, ...,
]  # fmt: skip
WAYS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "rows": lambda values: [{"v": value} for value in values],
    "pandas": lambda values: pd.DataFrame({"v": _objects(values)}),
}


def _objects(values):
    """A Series of just these objects; pandas itself would take a list for several."""
    found = np.empty(len(values), dtype=object)
    for number, value in enumerate(values):
        found[number] = value
    return pd.Series(found, dtype=object)


def made(topic, way, values):
    """The values as they are stored, each as a text; None if a row is refused, with its number."""
    try:
        (batch,) = records_of(topic, WAYS[way](values), NOW_MS)
    except SchemaError as error:
        return None, error.rows[0]
    return [repr(value) for value in python_values(batch["v"])], None


def sent(topic, reader, value):
    """What `send` makes of a value; None if it refuses it."""
    found = reader.read({"v": value}, NOW_MS)
    if found is None:
        return made(topic, "rows", [value])[0]
    return [repr(one) for one in python_values(reader.batch([found[0]], NOW_MS)["v"])]


@pytest.mark.parametrize(("type_name", "around"), COLUMNS)
def test_a_value_depends_on_no_other(type_name, around):
    """Values of all kinds by twos and more, in both orders: accepted and refused as each alone, and as `send` does."""
    layout, put = AROUND[around]
    topic = declare_topic("t", f"v {layout.format(type_name)}")
    reader = RowReader(topic, NOW_MS)
    values = [put(value) for value in VALUES]
    for way in WAYS:
        alone = [made(topic, way, [value])[0] for value in values]
        if way == "rows":
            assert [sent(topic, reader, value) for value in values] == alone
        good = [number for number, found in enumerate(alone) if found is not None]
        for seed in seeds(12):
            chance = random.Random(seed)
            some = chance.choices(good, k=chance.choice([1, 1, 1, 4]))
            if chance.random() < 0.6:
                some.append(chance.randrange(len(values)))
                chance.shuffle(some)
            for order in (some, some[::-1]):
                refused = next((place for place, number in enumerate(order) if alone[number] is None), None)
                expected = None if refused is not None else [found for number in order for found in alone[number]]
                assert made(topic, way, [values[number] for number in order]) == (expected, refused), [
                    values[one] for one in order
                ]


DAY = dt.date(2020, 1, 1)
NOON = dt.datetime(2020, 1, 1, 12)
REFUSED = [
    ("date", DAY, pd.NaT), ("date", DAY, NOON), ("date", DAY, 1.5), ("date", DAY, D("1.7")), ("timestamp", NOON, 1.7), ("timestamp", NOON, D("1.7")),
    ("timestamp_ntz", NOON, NOON.replace(tzinfo=UTC)), ("bigint", 1.0, True), ("bigint", 1, uuid.UUID(int=7)), ("double", 1.5, True),
    ("binary", b"a", "é"), ("float", 1e19, 2**31), ("boolean", np.bool_(True), np.datetime64("2020-01-01")),
    ("boolean", True, [np.datetime64("2020-01-01"), np.bool_(True)]),
]  # fmt: skip
ACCEPTED = [
    ("decimal(10,2)", 1, D("0.1")), ("bigint", 1.0, 2**63 - 1), ("bigint", 2**53 + 1, 1.0), ("date", DAY, np.datetime64("2020-01-02")),
    ("timestamp", NOON, NOON.replace(tzinfo=dt.timezone(dt.timedelta(seconds=7)))), ("timestamp", np.datetime64(0, "s"), np.datetime64(0, "us")),
    ("string", "a", None), ("string", Text("a"), "b"),
]  # fmt: skip


@pytest.mark.parametrize(("type_name", "good", "bad"), REFUSED, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_what_does_not_fit_alone_does_not_fit_beside_others(type_name, good, bad, way):
    """Arrow would take each of these for what stands before it, or end the process."""
    if way == "pandas" and bad is pd.NaT:
        return  # a null there
    topic = declare_topic("t", f"v {type_name}")
    assert made(topic, way, [good])[0] is not None
    assert made(topic, way, [good, bad]) == (None, 1)
    assert made(topic, way, [bad, good, good]) == (None, 0)


@pytest.mark.parametrize(("type_name", "one", "other"), ACCEPTED, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_what_fits_alone_fits_beside_others(type_name, one, other, way):
    """Arrow would find no type that both have, or a smaller one."""
    topic = declare_topic("t", f"v {type_name}")
    for values in ([one, None, other], [other, None, one]):
        assert made(topic, way, values) == ([found for value in values for found in made(topic, way, [value])[0]], None)


SERIES: dict[str, list[Any]] = {  # dtypes of pandas, and cells of them
    "float64": [float("nan"), 1.0, 1.5, 300.0, 1e300, float("inf")],
    "float32": [float("nan"), 1.0, 0.1],
    "Float64": [pd.NA, 1.0, 1.5],
    "int64": [1, 300, 2**31],
    "Int64": [pd.NA, 1, 300, 2**53 + 1],
    "UInt8": [pd.NA, 200],
    "bool": [True, False],
    "boolean": [pd.NA, True],
    "string": [pd.NA, "a", "1"],
    "string[pyarrow]": [pd.NA, "a"],
    "category": [None, "a", "b"],
    "datetime64[ns]": [pd.NaT, pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01T00:00:00.123456789")],
    "datetime64[us, UTC]": [pd.NaT, pd.Timestamp("2020-01-01", tz="UTC")],
    "datetime64[s, Europe/Berlin]": [pd.NaT, pd.Timestamp("2020-01-01", tz="Europe/Berlin")],
    "timedelta64[ns]": [pd.NaT, pd.Timedelta(1, "s")],
    "double[pyarrow]": [pd.NA, 1.0, 1.5],
    "int64[pyarrow]": [pd.NA, 1, 300],
    "date32[day][pyarrow]": [pd.NA, DAY],
    "timestamp[us][pyarrow]": [pd.NaT, NOON],
    "null[pyarrow]": [pd.NA],
    "object": [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, D("NaN"), np.datetime64("NaT"), "a", 1, D("0.1"), DAY],
}


def made_of(topic, series):
    """The cells of a Series as they are stored, each as a text; None if one is refused, with its row."""
    try:
        (batch,) = records_of(topic, pd.DataFrame({"v": series}), NOW_MS)
    except SchemaError as error:
        return None, error.rows[0]
    return [repr(value) for value in python_values(batch["v"])], None


@pytest.mark.parametrize("dtype", SERIES)
@pytest.mark.parametrize("type_name", [*TYPES, *(layout.format("int") for layout, _ in list(AROUND.values())[1:])])
def test_a_cell_of_a_series_depends_on_no_other(type_name, dtype):
    """Of every dtype: what pandas takes for null is null in a column of any type, alone too, and a value what it is alone."""
    topic = declare_topic("t", f"v {type_name}")
    every = pd.Series(SERIES[dtype], dtype=dtype)
    cells = [every.iloc[[place]] for place in range(len(every))]
    alone = [made_of(topic, cell)[0] for cell in cells]
    for cell, found in zip(cells, alone, strict=True):
        if cell.isna().all():
            assert found == ["None"], f"{cell.iloc[0]!r} of {dtype}"
    for seed in seeds(8):
        chance = random.Random(seed)
        order = chance.choices(range(len(cells)), k=chance.choice([1, 2, 2, 5]))
        refused = next((place for place, number in enumerate(order) if alone[number] is None), None)
        expected = None if refused is not None else [found for number in order for found in alone[number]]
        assert made_of(topic, every.iloc[order]) == (expected, refused), every.iloc[order]


def test_an_empty_column_of_a_csv_is_null():
    """Which pandas reads as one of doubles, whatever the column is elsewhere; headers and marks of deletion too."""
    columns = {f"c{number}": kind for number, kind in enumerate([*TYPES, "array<int>", "struct<a:int>", "map<string,int>"])}
    topic = declare_topic("t", "id bigint, " + ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    beside = ["_timestamp", "_deleted", "_headers"]
    header = ",".join(["id", *columns, *beside])
    frame = pd.read_csv(io.StringIO(f"{header}\n" + "".join(f"{row}{',' * (header.count(','))}\n" for row in range(2))))
    assert set(frame.dtypes[1:]) == {np.dtype("float64")}
    (batch,) = records_of(topic, frame, NOW_MS)
    assert batch.drop_columns(["_timestamp", "_headers"]).to_pylist() == [
        {"id": row, **dict.fromkeys(columns)} for row in range(2)
    ]
    assert batch["_headers"].null_count == 2


def test_what_is_a_null_in_pandas_is_one_beside_texts():
    """Whichever null it is, and whether a Series of texts is taken at once or not."""
    topic = declare_topic("t", "v string")
    for null in (
        None,
        float("nan"),
        np.float32("nan"),
        np.float64("nan"),
        pd.NaT,
        pd.NA,
        D("NaN"),
        D("sNaN"),
        np.datetime64("NaT"),
    ):
        for values in ([null], ["a", null], [null, "a", float("nan")]):
            assert made(topic, "pandas", values) == ([repr("a" if one == "a" else None) for one in map(_text, values)], None)


def _text(value):
    return value if isinstance(value, str) else None


def test_categories_of_several_kinds_are_values_of_several_kinds():
    """A categorical Series of pandas holds each of its values once, and these may be a mixture."""
    topic = declare_topic("t", "v date")
    frame = pd.DataFrame({"v": pd.Series([DAY, NOON, None], dtype="category")})
    with pytest.raises(SchemaError, match="row 1, column 'v'"):
        records_of(topic, frame, NOW_MS)
    assert records_of(topic, frame.iloc[[0, 2]], NOW_MS)[0]["v"].to_pylist() == [DAY, None]


def test_headers_may_be_dicts_beside_pairs():
    """Headers as a file of Parquet has them, and as people write them."""
    topic = declare_topic("t", "v int")
    ways = [[("a", b"x")], [{"key": "a", "value": b"x"}], [["a", b"x"]], None, [("a", None), {"key": "b", "value": None}]]
    (batch,) = records_of(topic, [{"v": 1, "_headers": one} for one in ways], NOW_MS)
    one = [{"key": "a", "value": b"x"}]
    assert batch["_headers"].to_pylist() == [one, one, one, None, [{"key": "a", "value": None}, {"key": "b", "value": None}]]
