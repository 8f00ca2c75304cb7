"""Promises about what users hand in: what is taken, what is refused, by row and column."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from streamkit.errors import SchemaError
from streamkit.log.rows.records import records_of, tombstone_of
from streamkit.log.topic.topic import declare_topic

UTC = dt.timezone.utc
NOON = dt.datetime(2013, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_357_041_600_000
TOPIC = declare_topic("t", "user string, n int, x double not null", key="user")


def one_column(type_name):
    return declare_topic("t", f"v {type_name}")


def values_of(topic, data):
    (batch,) = records_of(topic, data, 0)
    return batch.column(0).to_pylist()


def times_of(batch):
    return batch.column("_timestamp").view(pa.int64()).to_pylist()


ARROW = [
    ("bigint", pa.array([1, None], pa.int8()), [1, None]),
    ("int", pa.array([1, None], pa.int64()), [1, None]),
    ("smallint", pa.array([200], pa.uint8()), [200]),
    ("double", pa.array([1.5], pa.float32()), [1.5]),
    ("double", pa.array([3], pa.int32()), [3.0]),
    ("decimal(20,2)", pa.array([7], pa.int64()), [decimal.Decimal("7.00")]),
    ("decimal(10,3)", pa.array([decimal.Decimal("1.5")], pa.decimal128(4, 1)), [decimal.Decimal("1.500")]),
    ("string", pa.array(["a"], pa.large_string()), ["a"]),
    ("string", pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
    ("string", pa.array(["a"], pa.string_view()), ["a"]),
    ("binary", pa.array([b"ab"], pa.binary(2)), [b"ab"]),
    ("timestamp", pa.array([1_000], pa.timestamp("ns", "UTC")), [dt.datetime(1970, 1, 1, 0, 0, 0, 1, UTC)]),
    ("timestamp", pa.array([5], pa.timestamp("s", "Europe/Berlin")), [dt.datetime(1970, 1, 1, 0, 0, 5, 0, UTC)]),
    ("timestamp", pa.array([5], pa.timestamp("s")), [dt.datetime(1970, 1, 1, 0, 0, 5, 0, UTC)]),
    ("timestamp_ntz", pa.array([5], pa.timestamp("s")), [dt.datetime(1970, 1, 1, 0, 0, 5)]),
    ("date", pa.array([86_400_000], pa.date64()), [dt.date(1970, 1, 2)]),
    ("int", pa.nulls(2), [None, None]),
]


@pytest.mark.parametrize(("type_name", "values", "expected"), ARROW, ids=str)
def test_safe_conversions_are_made(type_name, values, expected):
    """Other widths, units and layouts of the same values are taken as they are."""
    assert values_of(one_column(type_name), pa.table({"v": values})) == expected


@pytest.mark.parametrize(
    ("type_name", "values", "row"),
    [
        ("tinyint", pa.array([1, 127, 128, 1000]), 2),
        ("double", pa.array([1, 2**53 + 1]), 1),
        ("decimal(5,2)", pa.array([1, 999, 1000]), 2),
        ("timestamp", pa.array([1_000, 1_001], pa.timestamp("ns", "UTC")), 1),
        ("timestamp", pa.array([0, 1 << 62], pa.timestamp("s", "UTC")), 1),
        ("date", pa.array([None, 106_751_991, 106_751_992], pa.int32()).view(pa.date32()), 2),
        ("date", pa.array([-106_751_991, -(1 << 31)], pa.int32()).view(pa.date32()), 1),
        ("int", pa.array(["1"]), 0),
        ("string", pa.array([1]), 0),
        ("int", pa.array([1.0]), 0),
        ("float", pa.array([1.0]), 0),
        ("boolean", pa.array([1]), 0),
        ("int", pa.array([True]), 0),
        ("timestamp_ntz", pa.array([5], pa.timestamp("s", "UTC")), 0),
        ("timestamp", pa.array([5], pa.date32()), 0),
        ("string", pa.array([b"a"]), 0),
        ("binary", pa.array(["a"]), 0),
    ],
    ids=str,
)
def test_conversions_with_loss_are_refused(type_name, values, row):
    """What would change a value or guess its meaning is refused, by the first row that does not fit."""
    with pytest.raises(
        SchemaError, match=rf"topic t: row {row}, column 'v': found .*, expected {type_name.replace('(', '.').replace(')', '.')}"
    ):
        records_of(one_column(type_name), pa.table({"v": values}), 0)


BEYOND_PYTHON = [
    (pa.array([0, 1_700_000_000_000_000_000], pa.timestamp("ms")), "1700000000000000000 (timestamp[ms])"),
    (pa.array([0, 1 << 60], pa.timestamp("s")).dictionary_encode(), "1152921504606846976 (dictionary<values=timestamp[s]"),
    (pa.array([1 << 62]).view(pa.duration("s")), "4611686018427387904 (duration[s])"),
    (pa.array([[1 << 62]], pa.list_(pa.timestamp("s"))), "ListType(list<item: timestamp[s]>)"),
    (pa.array([1_000, 1_001], pa.timestamp("ns", "No/Where")), "1001 (timestamp[ns, tz=No/Where])"),
]


@pytest.mark.parametrize(("values", "shown"), BEYOND_PYTHON, ids=lambda found: str(getattr(found, "type", "")))
def test_times_beyond_those_of_python_are_refused_with_their_row(values, shown):
    """A value that does not fit is named also if Python has none for it: as the whole number that Arrow holds."""
    with pytest.raises(SchemaError, match=rf"column 'v': found {re.escape(shown)}.*, expected timestamp"):
        records_of(one_column("timestamp"), pa.table({"v": values}), 0)


FLOAT_MAX = float(np.finfo(np.float32).max)
LISTS = {"rows": lambda values: [{"v": value} for value in values], "pandas": lambda values: pd.DataFrame({"v": values})}


@pytest.mark.parametrize("kind", LISTS)
def test_no_double_becomes_infinite(kind):
    """A double beyond the greatest float is refused by its row; infinity, NaN and what rounds to a float are taken."""
    with pytest.raises(
        SchemaError, match=r"row 2, column 'v': found .*1e\+300.*, expected float; it is beyond the greatest float"
    ):
        records_of(one_column("float"), LISTS[kind]([0.1, math.inf, 1e300]), 0)
    found = values_of(one_column("float"), LISTS[kind]([0.1, math.inf, -math.inf, FLOAT_MAX * (1 + 1e-9), None]))
    assert [*found[:4], *map(str, found[4:])] == [float(np.float32(0.1)), math.inf, -math.inf, FLOAT_MAX, "None"]


@pytest.mark.parametrize(("kind", "zone"), [("timestamp", None), ("timestamp", "UTC"), ("timestamp_ntz", None)])
@pytest.mark.parametrize("way", LISTS)
def test_nanoseconds_are_not_cut(way, kind, zone):
    """A time of pandas with nanoseconds is refused by its row, as Arrow's are; without it is taken."""
    whole, finer = (pd.Timestamp("2013-01-01 12:00:00.000001" + rest, tz=zone) for rest in ("", "002"))
    taken = [dt.datetime(2013, 1, 1, 12, tzinfo=zone and UTC), whole, None if way == "rows" else pd.NaT]

    assert [value is None for value in values_of(one_column(kind), LISTS[way](pd.Series(taken, dtype=object)))] == [
        False,
        False,
        True,
    ]
    with pytest.raises(
        SchemaError, match=r"row 3, column 'v': found Timestamp\(.*000001002.*, expected timestamp.*; it has nanoseconds"
    ):
        records_of(one_column(kind), LISTS[way](pd.Series([*taken, finer], dtype=object)), 0)


def test_rows_are_counted_over_chunks():
    """In a table of several chunks the row is that of the table."""
    table = pa.concat_tables([pa.table({"v": [1, 2, 3]}), pa.table({"v": [4, 500]})])

    with pytest.raises(SchemaError, match="row 4, column 'v': found 500"):
        records_of(one_column("tinyint"), table, 0)
    assert [batch.num_rows for batch in records_of(one_column("int"), table, 0)] == [3, 2]


def test_frames_of_pandas_are_taken():
    """Columns of a DataFrame: objects, NaN as null, integers that became doubles, categories, times of any unit."""
    topic = declare_topic("t", "s string, n int, f float, c string, ts timestamp, d date")
    frame = pd.DataFrame(
        {
            "s": ["a", None, np.nan], "n": [1, np.nan, 3], "f": [0.1, 2, np.nan], "c": pd.Series(["x", "y", "x"], dtype="category"),
            "ts": pd.to_datetime(["2013-01-01T12:00Z", None, "2013-01-01T12:00Z"]), "d": [dt.date(2013, 1, 1), None, None],
        }
    )  # fmt: skip

    (batch,) = records_of(topic, frame, 0)
    assert batch.drop_columns(["_timestamp", "f"]).to_pydict() == {
        "s": ["a", None, None], "n": [1, None, 3], "c": ["x", "y", "x"], "ts": [NOON, None, NOON], "d": [dt.date(2013, 1, 1), None, None],
    }  # fmt: skip
    assert batch.column("f").to_pylist() == [np.float32(0.1), 2.0, None]


@pytest.mark.parametrize(("values", "row"), [([1, 2.5], 1), (["a", 1], 0), ([1, "a", 2], 1), ([2**31], 0), ([1, 2, [3]], 2)])
def test_python_values_of_a_wrong_type_are_refused(values, row):
    """No value is rounded, cut or turned into text on the way, in lists and in object columns alike."""
    for data in ([{"v": value} for value in values], pd.DataFrame({"v": pd.Series(values, dtype=object)})):
        with pytest.raises(SchemaError, match=f"row {row}, column 'v'"):
            records_of(one_column("int"), data, 0)


def test_a_tombstone_may_be_given_by_its_key():
    """A dict with `_deleted` needs its key columns alone, also beside rows; whatever it has beside them is null."""
    topic = declare_topic("t", "k string, v int NOT NULL", key="k")
    rows = [{"k": "a", "v": 1}, {"k": "a", "_deleted": True}, {"k": "b", "v": 3, "_deleted": True}]
    (batch,) = records_of(topic, rows, 0)
    assert batch.select(["k", "v", "_deleted"]).to_pylist() == [
        {"k": "a", "v": 1, "_deleted": False},
        {"k": "a", "v": None, "_deleted": True},
        {"k": "b", "v": None, "_deleted": True},
    ]
    for row, reason in (
        ({"v": 1, "_deleted": True}, "row 0 has no column 'k'; found v, _deleted"),
        ({"k": "a", "_deleted": False}, "row 0 has no column 'v'; found k, _deleted"),
    ):
        with pytest.raises(SchemaError, match=reason):
            records_of(topic, [row], 0)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ([{"user": "a", "n": 1}], "row 0 has no column 'x'; found user, n; the topic has user string((?!None).)*$"),
        ([{"user": "a", "x": 1.0}], "row 0 has no column 'n'; .*; a column without a value is written too, as None$"),
        ([{"user": "a", "n": 1, "x": 1.0}, {"user": "a", "n": 1, "x": 1.0, "z": 1}], "row 1 has the unknown column 'z'"),
        (pa.table({"user": ["a"], "x": [1.0]}), "the data have no column 'n'"),
        (pa.table({"user": ["a"], "n": [1], "x": [1.0], "X": [1]}), "the unknown column 'X'"),
        (pd.DataFrame({"user": ["a"]}), "no column 'n'"),
        (pa.table([pa.array([1])] * 4, names=["user", "n", "x", "x"]), "a column twice"),
        ([1], "row 0 is a int"),
        (5, "found int, expected a RecordBatch, Table, DataFrame or list of dicts"),
        (
            [{"user": "a", "n": 1, "x": 1.0}, {"user": "a", "n": 1, "x": None}],
            "row 1, column 'x': found null, and the column is NOT NULL",
        ),
    ],
    ids=str,
)
def test_data_of_another_shape_are_refused(data, reason):
    """Missing, unknown and null columns are named, with those that there are."""
    with pytest.raises(SchemaError, match=reason):
        records_of(TOPIC, data, 0)


def test_columns_may_come_in_any_order():
    """The topic's order is restored."""
    (batch,) = records_of(TOPIC, pa.table({"x": [1.0], "user": ["a"], "n": [1]}), 0)

    assert batch.schema.names == ["user", "n", "x", "_timestamp"]


def test_event_time_has_an_order_of_sources():
    """The topic's column, else `_timestamp`, else the argument, else the clock."""
    data = {"user": ["a", "b"], "n": [1, 2], "x": [1.0, 2.0]}
    stamped = pa.table(data | {"_timestamp": pa.array([7, None], pa.timestamp("ms", "UTC"))})

    assert times_of(records_of(TOPIC, pa.table(data), 99)[0]) == [99, 99]
    assert times_of(records_of(TOPIC, pa.table(data), 99, 5)[0]) == [5, 5]
    assert times_of(records_of(TOPIC, stamped, 99, 5)[0]) == [7, 5]
    timed = declare_topic("t", "ts timestamp", timestamp="ts")
    assert times_of(records_of(timed, pa.table({"ts": [NOON]}), NOON_MS + 1, 5)[0]) == [NOON_MS]


def test_event_time_is_rounded_down():
    """Microseconds become the millisecond that has begun, before 1970 too."""
    topic = declare_topic("t", "ts timestamp_ntz", timestamp="ts")
    data = pa.table({"ts": pa.array([1_999, -1, -1_000], pa.timestamp("us"))})

    assert times_of(records_of(topic, data, 0)[0]) == [1, -1, -1]


def test_event_time_must_be_there():
    """A null in the topic's time column is refused."""
    with pytest.raises(SchemaError, match="row 1, column 'ts': found null, and the column is the topic's event time"):
        records_of(declare_topic("t", "ts timestamp", timestamp="ts"), [{"ts": NOON}, {"ts": None}], 0)


def test_append_time_is_the_clock():
    """With LogAppendTime whatever the data say about time is replaced."""
    topic = declare_topic("t", "ts timestamp", timestamp="ts", config={"message.timestamp.type": "LogAppendTime"})

    assert times_of(records_of(topic, [{"ts": NOON}], 42)[0]) == [42]


def test_deletions_travel_with_rows():
    """Rows marked as deleted keep their key, lose their values, may lack what is NOT NULL; unmarked data have no mark."""
    data = {"user": ["a", "b"], "n": [1, 2], "x": [1.0, None]}

    (batch,) = records_of(TOPIC, pa.table(data | {"_deleted": [False, True]}), 3)
    assert batch.to_pydict()["n"] == [1, None] and batch.column("_deleted").to_pylist() == [False, True]
    (plain,) = records_of(TOPIC, pa.table({"user": ["a"], "n": [1], "x": [1.0], "_deleted": [False]}), 3)
    assert "_deleted" not in plain.schema.names


def test_a_tombstone_has_just_a_key():
    """Deleting takes the key columns, no more, no fewer."""
    assert tombstone_of(TOPIC, {"user": "a"}, 5, 6).drop_columns(["_timestamp"]).to_pydict() == {
        "user": ["a"], "n": [None], "x": [None], "_deleted": [True],
    }  # fmt: skip
    wrong: tuple[Any, ...] = ({}, {"user": "a", "n": 1}, {"n": 1}, "a")
    for key in wrong:
        with pytest.raises(SchemaError, match="its key columns"):
            tombstone_of(TOPIC, key, 5, 6)
    with pytest.raises(SchemaError, match="has no key, so there is nothing to delete by"):
        tombstone_of(one_column("int"), {}, 5, 6)
    with pytest.raises(SchemaError, match="deletes a key that is null"):
        tombstone_of(TOPIC, {"user": None}, 5, 6)


def test_compacted_topics_need_keys():
    """Where rows are kept by key, a null key is refused."""
    topic = declare_topic("t", "a string, b string, v int", key=["a", "b"], config={"cleanup.policy": "compact"})

    assert records_of(topic, [{"a": None, "b": "x", "v": 1}], 0)
    with pytest.raises(SchemaError, match="row 1, column 'a': the key is null"):
        records_of(topic, [{"a": "x", "b": None, "v": 1}, {"a": None, "b": None, "v": 1}], 0)


def test_headers_are_kept():
    """Headers are pairs of names and bytes."""
    headers = pa.array([[{"key": "trace", "value": b"1"}]])

    (batch,) = records_of(one_column("int"), pa.table({"v": [1], "_headers": headers}), 0)
    assert batch.column("_headers").to_pylist() == [[{"key": "trace", "value": b"1"}]]


NOT_UTF8 = pa.array([b"good", b"caf\xe9", b"good"], pa.binary()).view(pa.string())
TOO_LARGE = pa.array([decimal.Decimal(1), decimal.Decimal(10**10)], pa.decimal128(38, 0)).view(pa.decimal128(3, 0))
UNSOUND = [
    ("string", NOT_UTF8, "row 1, column 'v': found b'caf.xe9' .string., expected string; it is not UTF-8"),
    ("string", NOT_UTF8.cast(pa.binary()).view(pa.string()).slice(1), "row 0, column 'v'.*it is not UTF-8"),
    ("string", pa.DictionaryArray.from_arrays(pa.array([0, 1]), NOT_UTF8, safe=False), "column 'v'.*it is not UTF-8"),
    (
        "string",
        pa.DictionaryArray.from_arrays(pa.array([0, 9]), pa.array(["a"]), safe=False),
        "row 1.*outside of its dictionary of 1 values",
    ),
    ("decimal(3,0)", TOO_LARGE, "row 1, column 'v'.*does not fit in precision"),
]


@pytest.mark.parametrize(("type_name", "values", "message"), UNSOUND, ids=range(len(UNSOUND)))
def test_what_no_reader_could_read_is_refused(type_name, values, message):
    """Arrow takes on trust that texts are UTF-8 and the like; a row for which that is not so would spoil all rows beside it."""
    topic = one_column(type_name)
    for data in (pa.table({"v": values}), pa.record_batch({"v": values})):
        with pytest.raises(SchemaError, match=message):
            records_of(topic, data, 0)
    with pytest.raises(SchemaError, match="column 'v'"):
        records_of(topic, pd.DataFrame({"v": pd.array(values, dtype=pd.ArrowDtype(values.type))}), 0)


@pytest.mark.parametrize(
    "series", [pd.Series(["a", "b", None], dtype="category"), pd.Series(["a", "b", None], dtype="string[pyarrow]")], ids=str
)
def test_pandas_arrays_of_all_kinds_are_taken(series):
    """Categories and arrays that Arrow backs are texts like others."""
    assert values_of(one_column("string"), pd.DataFrame({"v": series})) == ["a", "b", None]


@pytest.mark.parametrize(
    "data", [pd.DataFrame({"v": []}), pd.DataFrame({"v": pd.Series([], dtype="float64")}), [], pa.table({"v": []})]
)
def test_no_rows_have_any_type(data):
    """A frame that a filter has emptied is taken, whatever type pandas gives to nothing."""
    assert sum(batch.num_rows for batch in records_of(one_column("string"), data, 0)) == 0


@pytest.mark.parametrize("headers", [[(None, b"x")], [("a", "text")], [("a", b"x", 3)], [1], "text", {"a": b"x"}], ids=repr)
def test_headers_of_other_kinds_are_refused(headers):
    """A header has a name, and its value is bytes or null; the row is named."""
    with pytest.raises(SchemaError, match=r"row 1, column '_headers'.*expected pairs of a name and bytes"):
        records_of(one_column("int"), [{"v": 1, "_headers": [("a", None)]}, {"v": 2, "_headers": headers}], 0)


def test_headers_without_a_name_are_refused_in_arrow_too():
    """What Arrow holds is held to the same."""
    headers = pa.array([[{"key": "a", "value": b"1"}], [{"key": None, "value": b"1"}]])
    with pytest.raises(SchemaError, match="row 1, column '_headers'"):
        records_of(one_column("int"), pa.table({"v": [1, 2], "_headers": headers}), 0)
