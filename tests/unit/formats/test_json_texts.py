"""Columns as JSON texts: whatever the types and the values, a batch has the texts that its rows have one by one."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings

from streamkit.errors import SchemaError
from streamkit.formats import json, json_texts
from streamkit.formats.format import Format
from tests.unit.formats.json_values import batches

FORMAT = Format("json")


def one_by_one(rows):
    """The text of each row, as it is written when there is no other; whether there is an error."""
    try:
        return [json.write(FORMAT, None, rows.slice(row, 1))[0].as_py() for row in range(rows.num_rows)]
    except (SchemaError, KeyError):
        return "an error"


def at_once(rows):
    """The texts of a batch; whether there is an error."""
    try:
        return json.write(FORMAT, None, rows).to_pylist()
    except (SchemaError, KeyError):
        return "an error"


@given(batches())
@settings(max_examples=150, deadline=None)
def test_a_batch_has_the_texts_of_its_rows(rows):
    """Nested values, nulls everywhere, numbers at their ends, escapes, times of all units: byte for byte, and errors where they are."""
    assert at_once(rows) == one_by_one(rows)


def test_numbers_are_those_of_orjson():
    """Doubles of any bits, and decimal ones near the places where an exponent begins, are written as orjson writes a number of Python."""
    random = np.random.default_rng(7)
    numbers = np.concatenate(
        [
            random.integers(-(1 << 63), (1 << 63) - 1, 50_000).view(np.float64),
            np.round(random.normal(size=50_000) * 1e4, 2),
            10.0 ** random.uniform(-10, 25, 50_000),
            10.0 ** np.arange(-30, 40),
        ]
    )
    numbers = numbers[np.isfinite(numbers)]

    found = json.write(FORMAT, None, pa.record_batch({"n": numbers})).to_pylist()

    assert found == [b'{"n":' + orjson.dumps(number) + b"}" for number in numbers.tolist()]


PLAIN = {
    "int": pa.array([1, None, -(1 << 63), (1 << 63) - 1]),
    "double": pa.array([1.0, None, math.nan, -math.inf]),
    "float": pa.array([0.1, None, 1.5, math.inf], pa.float32()),
    "text": pa.array(['a"\\\n\x01ü😀', None, "", "\x7f"]),
    "flag": pa.array([True, None, False, True]),
    "decimal": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-0.01"), decimal.Decimal(0)], pa.decimal128(20, 2)),
    "at": pa.array([0, None, -1, 1_790_000_000_000_000], pa.timestamp("us", "UTC")),
    "local": pa.array([0, None, -1, 1_790_000_000_500], pa.timestamp("ms")),
    "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(2026, 1, 2)]),
    "bytes": pa.array([b"\x00hi", None, b"", b"abc"]),
    "list": pa.array([[1, None], None, [], [3]], pa.list_(pa.int64())),
    "map": pa.array([[("a", 1.5)], None, [], [('"', None), ("b", 2.0)]], pa.map_(pa.string(), pa.float64())),
    "numbered": pa.array([[(1, "x")], None, [], [(-1, None)]], pa.map_(pa.int32(), pa.string())),
    "struct": pa.array([{"x": 1, "y": ["u"]}, None, {"x": None, "y": None}, {"x": 2, "y": []}]),
    "nothing": pa.nulls(4),
}


@pytest.mark.parametrize("name", PLAIN)
def test_the_types_of_topics_are_written_at_once(name, monkeypatch):
    """No row of a batch is looked at alone, whatever type of a topic its columns have."""
    rows = pa.record_batch({name: pa.concat_arrays([PLAIN[name]] * 30)})
    expected = one_by_one(rows)
    monkeypatch.setattr(json_texts, "_one_by_one", None)

    assert at_once(rows) == expected


@pytest.mark.parametrize("count", [0, 1, 63, 64, 200])
def test_batches_of_any_length_are_written(count):
    """No row, few rows and many: the way changes in between, and the texts do not."""
    rows = pa.record_batch({"a": pa.array(range(count), pa.int64()), "b": pa.array([None] * count, pa.list_(pa.float64()))})

    found = json.write(FORMAT, None, rows)

    assert found.type == pa.binary()
    assert found.to_pylist() == [b'{"a":%d,"b":null}' % number for number in range(count)]


def test_a_text_that_is_no_utf8_is_refused():
    """Bytes that are not UTF-8 in a column of texts are an error of the batch as of a row."""
    broken = pa.array([b"\xff"] * 100, pa.binary()).view(pa.string())

    with pytest.raises(SchemaError, match="cannot be written as JSON"):
        json.write(FORMAT, None, pa.record_batch({"t": broken}))


def test_a_time_that_python_does_not_have_is_written():
    """One far time among many rows has the text that it has alone."""
    rows = pa.record_batch({"t": pa.array([0] * 99 + [1 << 62], pa.timestamp("us", "UTC"))})

    found = json.write(FORMAT, None, rows)
    assert found[99].as_py() == b'{"t":"+148108-07-06T14:00:27.387904Z"}' == json.write(FORMAT, None, rows.slice(99))[0].as_py()
    assert found[0].as_py() == b'{"t":"1970-01-01T00:00:00Z"}'
