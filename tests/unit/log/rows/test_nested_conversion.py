"""Promises of nested columns on their way into a topic: what is taken, in which layouts, and what is refused with its path."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.data_type import to_arrow
from streamkit.errors import RecordTooLargeError, SchemaError
from streamkit.log.rows.python_rows import RowReader
from streamkit.log.rows.record_size import fixed_bytes, record_bytes
from streamkit.log.rows.records import records_of
from streamkit.log.topic.topic import declare_topic
from streamkit.log.values.python_values import python_values
from tests.kit.nested import NESTED_TYPES, values_of
from tests.kit.sampling import examples

NOW_MS = 1_800_000_000_000
UTC = dt.timezone.utc
DEEP = "array<struct<a:map<int,array<timestamp>>,b:decimal(5,2)>>"
TOPIC = declare_topic(
    "t", f"tags array<string>, at struct<lat:double,lon:double>, props map<string,int>, deep {DEEP}, odd map<struct<k:int>,int>"
)
ROW: dict[str, Any] = {
    "tags": ["x", None, "é"],
    "at": {"lat": 1, "lon": None},
    "props": {"a": 1, "b": None},
    "deep": [{"a": {1: [dt.datetime(2026, 1, 1, tzinfo=UTC)]}, "b": None}, None],
    "odd": [({"k": 1}, 2)],
}
NOTHING = dict.fromkeys(ROW)


@examples(100)
@given(st.data())
def test_all_ways_in_agree(data):
    """Python rows, one by one and together, Arrow and pandas make the same column of any values, and these come out as they went in."""
    kind = data.draw(NESTED_TYPES)
    values = data.draw(st.lists(values_of(kind), min_size=1, max_size=4))
    topic = declare_topic("t", f"v {kind}")
    (expected,) = records_of(topic, pa.table({"v": pa.array(values, to_arrow(kind))}), NOW_MS)
    expected.validate(full=True)
    assert expected["v"].equals(pa.array(values, to_arrow(kind)))
    assert records_of(topic, [{"v": value} for value in values], NOW_MS)[0].equals(expected)
    assert records_of(topic, pd.DataFrame({"v": pd.Series(values, dtype=object)}), NOW_MS)[0].equals(expected)
    again = python_values(expected["v"])
    assert records_of(topic, [{"v": value} for value in again], NOW_MS)[0].equals(expected)

    reader = RowReader(topic, NOW_MS)
    for number, value in enumerate(again):
        found = reader.read({"v": value}, NOW_MS)
        if found is not None:
            assert reader.batch([found[0]], NOW_MS).equals(expected.slice(number, 1))
            assert found[1] == record_bytes(topic, expected)[number]


def test_plain_rows_go_the_quick_way():
    """Dicts, lists and maps of the types that the schema suggests need no second look, nulls among them."""
    reader = RowReader(TOPIC, NOW_MS)
    plain = ROW | {"odd": None}
    for row in (plain, NOTHING, ROW | {"odd": []}):
        (expected,) = records_of(TOPIC, [row], 7)
        found = reader.read(row, 7)
        assert (found is None) == (row.get("odd") == [])  # maps with nested keys are no dicts
        assert found is None or reader.batch([found[0]], 0).equals(expected)


def test_other_values_of_python_are_taken():
    """Tuples and arrays of numpy are arrays, pairs are maps, fields come in any order; NaN and NA of pandas are null."""
    other = ROW | {
        "tags": ("x", None, "é"),
        "at": {"lon": None, "lat": np.float32(1)},
        "props": (["a", np.int64(1)], ("b", None)),
    }
    assert records_of(TOPIC, [other], 7)[0].equals(records_of(TOPIC, [ROW], 7)[0])
    frame = pd.DataFrame([ROW, NOTHING])
    frame["tags"] = [np.array(ROW["tags"], object), float("nan")]
    frame["at"] = [ROW["at"], pd.NA]
    assert records_of(TOPIC, frame, 7)[0].equals(records_of(TOPIC, [ROW, NOTHING], 7)[0])
    arrow = pd.DataFrame({"v": pd.Series([[1], None], dtype=pd.ArrowDtype(pa.list_(pa.int64())))})
    assert records_of(declare_topic("t", "v array<int>"), arrow, 7)[0]["v"].to_pylist() == [[1], None]


NUMBERS = pa.array([[1, None], None, []], pa.list_(pa.int64()))
LAYOUTS = [
    NUMBERS,
    NUMBERS.cast(pa.large_list(pa.int64())),
    NUMBERS.cast(pa.list_(pa.field("element", pa.int16()))),
    pa.array([[1, None], None, []], pa.list_(pa.dictionary(pa.int8(), pa.int64()))),
    pa.concat_arrays([pa.array([[7]], pa.list_(pa.int64())), NUMBERS])[1:],
    pa.ListArray.from_arrays(pa.array([0, 2, 3, 3]), pa.array([1, None, 9]), mask=pa.array([False, True, False])),
]


@pytest.mark.parametrize("column", LAYOUTS, ids=lambda column: str(column.type))
def test_layouts_of_arrow_are_one(column):
    """Large lists, other names and nulls of elements, dictionaries, slices, and what lies below nulls make no difference."""
    (batch,) = records_of(declare_topic("t", "v array<int>"), pa.table({"v": column}), 7)
    assert str(batch["v"].type) == "list<item: int32>" and batch["v"].to_pylist() == [[1, None], None, []]


def test_lists_of_one_length_are_lists():
    """Arrow's lists of a fixed size are arrays."""
    column = pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2))
    assert records_of(declare_topic("t", "v array<int>"), pa.table({"v": column}), 7)[0]["v"].to_pylist() == [[1, 2], [3, 4]]


REFUSED = [
    ("tags", "abc", "column 'tags': found 'abc' (str), expected array<string>; an array is a list"),
    ("tags", {"a": 1}, "column 'tags': found {'a': 1} (dict), expected array<string>"),
    ("tags", ["a", 1], "column 'tags[1]': found 1 (int), expected string"),
    ("tags", ["\ud800"], "column 'tags[0]': found '\\ud800' (str), expected string"),
    ("at", {"lat": 1}, "column 'at': it has no field 'lon'; found lat; expected struct<lat:double,lon:double>"),
    ("at", {"lat": 1, "lon": 2, "x": 3}, "column 'at': it has the unknown field 'x'; found lat, lon, x"),
    ("at", {"lat": "x", "lon": 2}, "column 'at.lat': found 'x' (str), expected double"),
    ("at", [1, 2], "column 'at': found [1, 2] (list), expected struct<lat:double,lon:double>; a struct is a mapping"),
    ("props", {"a": 2**40}, "column \"props['a']\": found 1099511627776 (int), expected int"),
    ("props", {1: 2}, "column 'props.key': found 1 (int), expected string"),
    ("props", [("a", 1), ("b", 2), ("a", 3)], "column 'props': found the key 'a' twice, expected map<string,int>"),
    ("props", {None: 1}, "column 'props': found a null as a key"),
    ("props", ["ab"], "column 'props': found 'ab' (str), expected map<string,int>; an entry is a pair"),
    ("props", 5, "column 'props': found 5 (int), expected map<string,int>; a map is a mapping, or a list of pairs"),
    ("odd", [({"k": 1}, 1), ({"k": 1}, 2)], "column 'odd': found the key {'k': 1} twice"),
    (
        "deep",
        [{"a": {}, "b": None}, {"a": {5: [None, "x"]}, "b": 2}],
        "column 'deep[1].a[5][1]': found 'x' (str), expected timestamp",
    ),
    ("deep", [None, {"a": {5: None}, "b": 1000.5}], "column 'deep[1].b': found 1000.5 (float), expected decimal(5,2)"),
]


@pytest.mark.parametrize(("name", "value", "reason"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_does_not_fit_is_named_by_its_path(name, value, reason):
    """The error of a nested value names the row, the column, and the way to the value in it; alone it goes no quick way."""
    row = ROW | {name: value}
    assert RowReader(TOPIC, NOW_MS).read(row, 7) is None
    for data in ([NOTHING, NOTHING, row], pd.DataFrame([NOTHING, NOTHING, row], dtype=object)):
        with pytest.raises(SchemaError) as refused:
            records_of(TOPIC, data, 7)
        assert str(refused.value).startswith(f"topic t: row 2, {reason}"), refused.value
        assert refused.value.rows == (2,)


def strings(data: bytes, *offsets: int) -> pa.Array:
    """An array of texts that nobody has checked."""
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def lists(offsets: list[int], content: pa.Array) -> pa.Array:
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32))]
    return pa.Array.from_buffers(pa.list_(content.type), len(offsets) - 1, buffers, children=[content])


UNSOUND = [
    ("array<string>", lists([0, 1, 3], strings(b"a\xffb", 0, 1, 2, 3)), "row 1, column 'v[0]': found a value that is not sound; it is not UTF-8"),
    ("array<string>", lists([0, 3, 1], strings(b"abc", 0, 1, 2, 3)), "row 1, column 'v': found a value that is not sound"),
    ("array<string>", lists([0, 9, 3], strings(b"abc", 0, 1, 2, 3)), "row 0, column 'v': found a value that is not sound"),
    ("array<array<string>>", lists([0, 1, 2], lists([0, 1, 2], strings(b"a\xff", 0, 1, 2))), "row 1, column 'v[0][0]': found"),
    ("struct<a:string>", pa.StructArray.from_arrays([strings(b"a\xff", 0, 1, 2)], ["a"]), "row 1, column 'v.a': found"),
    ("array<string>", pa.array([[b"a"]]), "row 0, column 'v[0]': found b'a' (binary), expected string"),
    ("array<int>", pa.array([{"a": 1}]), "row 0, column 'v': found {'a': 1} (struct<a: int64>), expected array<int>"),
    ("struct<a:int>", pa.array([{"b": 1}]), "row 0, column 'v': it has no field 'a'; found b"),
    ("map<int,int>", pa.MapArray.from_arrays([0, 2], pa.array([1, 1]), pa.array([1, 2])), "row 0, column 'v': found the key 1 twice"),
    ("array<int>", pa.array([2**63 - 1], pa.timestamp("s")), "row 0, column 'v': found 9223372036854775807 (timestamp[s]), expected array<int>"),
    ("array<int>", pa.array([2**63 - 1], pa.timestamp("ns")), "row 0, column 'v': found Timestamp('2262-04-11 23:47:16.854775807')"),
    ("struct<a:int>", pa.array([2**31 - 1], pa.date32()), "row 0, column 'v': found 2147483647 (date32[day]), expected struct<a:int>"),
    ("map<int,int>", pa.array([2**62], pa.timestamp("us", "UTC")), "row 0, column 'v': found 4611686018427387904 (timestamp[us, tz=UTC])"),
    ("array<timestamp>", pa.array([[2**63 - 1]], pa.list_(pa.timestamp("s"))), "row 0, column 'v[0]': found 9223372036854775807 (timestamp[s])"),
    ("array<int>", pa.array([{"a": 2**63 - 1}], pa.struct([("a", pa.timestamp("s"))])), "row 0, column 'v': found"),
    ("struct<a:int>", pa.array([[2**63 - 1]], pa.list_(pa.timestamp("s"))), "row 0, column 'v': found"),
    ("array<int>", pa.array([[(1, 2**63 - 1)]], pa.map_(pa.int32(), pa.timestamp("s"))), "row 0, column 'v': found"),
    ("array<int>", pa.array([2**63 - 1], pa.timestamp("s")).dictionary_encode(), "row 0, column 'v': found"),
    ("array<int>", pa.array([2**63 - 1], pa.duration("s")), "row 0, column 'v': found"),
    ("array<decimal(2,1)>", pa.array([[0], [123]], pa.list_(pa.decimal128(5, 0))), "row 1, column 'v[0]': found Decimal('123')"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "column", "reason"), UNSOUND, ids=lambda value: str(value)[:40] if isinstance(value, str) else ""
)
def test_arrow_is_not_trusted(kind, column, reason):
    """Offsets, texts and decimals within nested columns are looked at before Arrow computes with them; the first bad value is named."""
    with pytest.raises(SchemaError) as refused:
        records_of(declare_topic("t", f"v {kind}"), pa.RecordBatch.from_arrays([column], names=["v"]), 7)
    assert reason in str(refused.value)


def test_entries_of_other_rows_do_not_count():
    """A slice is taken although the array it was cut from has an entry that is not sound."""
    column = lists([0, 1, 2], strings(b"a\xff", 0, 1, 2))[:1]
    (batch,) = records_of(declare_topic("t", "v array<string>"), pa.RecordBatch.from_arrays([column], names=["v"]), 7)
    assert batch["v"].to_pylist() == [["a"]]


def test_sizes_are_those_of_the_values_inside():
    """A nested value takes what its values take: fixed widths of fields also below a null, of elements and entries only if they are there."""
    sizes = record_bytes(TOPIC, records_of(TOPIC, [ROW, NOTHING], 7)[0]) - fixed_bytes(TOPIC.schema)
    assert fixed_bytes(TOPIC.schema) == 8 + 16
    tags, props, deep, odd = len("xé".encode()), 2 * (1 + 4), 2 * 16 + 4 + 8, 4 + 4
    assert sizes.tolist() == [tags + props + deep + odd, 0]
    small = declare_topic("t", "v array<struct<s:string>>", config={"max.message.bytes": 1000})
    with pytest.raises(RecordTooLargeError, match="row 1 takes 2008 bytes"):
        records_of(small, [{"v": None}, {"v": [{"s": "x" * 1000}] * 2}], 7)
    assert RowReader(small, NOW_MS).read({"v": [{"s": "x" * 1000}]}, 7) is None


def test_python_values_of_maps_are_dicts():
    """A map comes out as a dict, also with times that Python cannot hold; one with nested keys as a list of pairs."""
    (batch,) = records_of(TOPIC, [ROW], 7)
    assert {name: python_values(batch[name])[0] for name in ROW} == ROW
    far = pa.array([[(1, [1 << 62])]], pa.map_(pa.int32(), pa.list_(pa.int64()))).cast(
        pa.map_(pa.int32(), pa.list_(pa.timestamp("us")))
    )
    assert python_values(far) == [{1: [np.datetime64(1 << 62, "us")]}]
    assert math.isnan(python_values(pa.array([{"a": math.nan}]))[0]["a"])
    assert json.dumps(python_values(pa.chunked_array([batch["at"], batch["at"]]))) == json.dumps([ROW["at"] | {"lat": 1.0}] * 2)
