"""Which rows belong together is said as Spark says it, whatever the types of the keys."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest

from streamkit.errors import ConfigError
from streamkit.sql.pull.matching import Matching, OrderKey

NAN = float("nan")
COLUMNS = {
    "int": pa.array([3, None, 1, 3, 2]),
    "double": pa.array([0.0, NAN, None, -0.0, NAN]),
    "string": pa.array(["b", "é", None, "b", "B"]),
    "boolean": pa.array([True, False, None, True, False]),
    "decimal": pa.array(
        [decimal.Decimal("1.50"), decimal.Decimal("-2.25"), None, decimal.Decimal("1.50"), decimal.Decimal("9.00")]
    ),
    "date": pa.array([dt.date(2026, 1, 1), dt.date(1969, 1, 1), None, dt.date(2026, 1, 1), dt.date(2025, 1, 1)]),
    "timestamp": pa.array([1_000_001, -5, None, 1_000_001, 7], pa.timestamp("us", "UTC")),
    "binary": pa.array([b"a\0", b"", None, b"a\0", b"\xff"]),
    "struct": pa.array([{"a": 1, "b": None}, {"a": 2, "b": "x"}, None, {"a": 1, "b": None}, {"a": 1, "b": "x"}]),
    "array": pa.array([[1, None], [], None, [1, None], [2]]),
}


@pytest.fixture(scope="module")
def matching():
    found = Matching()
    yield found
    found.close()


@pytest.mark.parametrize("type", COLUMNS)
def test_pairs_of_equal_keys(matching, type):
    """Null equals nothing; NaN equals NaN, 0.0 equals -0.0; pairs come by the rows of the left side."""
    values = COLUMNS[type]
    keys = [_key(value) for value in values.to_pylist()]
    expected = [
        (left, right) for left, one in enumerate(keys) for right, other in enumerate(keys) if one == other and one is not None
    ]

    assert list(zip(*(side.tolist() for side in matching.pairs([values], [values])), strict=True)) == expected


def _key(value):
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return None if value is None else repr(value)


@pytest.mark.parametrize("type", COLUMNS)
def test_distinct_rows(matching, type):
    """The first row of each value stays, null too."""
    keys = [_key(value) for value in COLUMNS[type].to_pylist()]

    assert matching.distinct([COLUMNS[type]]).tolist() == sorted({key: keys.index(key) for key in keys}.values())


def test_pairs_by_several_keys(matching):
    """All keys must be equal."""
    left = [pa.array([1, 1, 2, None]), pa.array(["a", "b", "a", "a"])]
    right = [pa.array([1, 2]), pa.array(["a", "a"])]

    assert [side.tolist() for side in matching.pairs(left, right)] == [[0, 2], [0, 1]]


@pytest.mark.parametrize(
    ("is_descending", "nulls_first", "expected"),
    [
        (False, True, [2, 0, 3, 1, 4]),
        (False, False, [0, 3, 1, 4, 2]),
        (True, True, [2, 1, 4, 0, 3]),
        (True, False, [1, 4, 0, 3, 2]),
    ],
)
def test_orders(matching, is_descending, nulls_first, expected):
    """NaN is the largest number, nulls stand where they are told to, and equal rows stay in their order."""
    assert matching.order([OrderKey(COLUMNS["double"], is_descending, nulls_first)], None).tolist() == expected
    assert matching.order([OrderKey(COLUMNS["double"], is_descending, nulls_first)], 2).tolist() == expected[:2]


def test_orders_of_nested_values_and_several_keys(matching):
    """Structs are ordered field by field, null first; a second key orders equal ones."""
    second = pa.array([1, 1, 1, 0, 1])

    assert matching.order([OrderKey(COLUMNS["struct"]), OrderKey(second)], None).tolist() == [2, 3, 0, 4, 1]
    assert matching.order([OrderKey(COLUMNS["array"])], None).tolist() == [2, 1, 0, 3, 4]


def test_many_rows(matching):
    """What is large is not special."""
    left, right = pa.array(np.arange(100_000) % 1_000), pa.array(np.arange(1_000))
    pairs = matching.pairs([left], [right])

    assert pairs[0].tolist() == list(range(100_000)) and (pairs[1] == np.arange(100_000) % 1_000).all()


def test_columns_without_rows_or_type(matching):
    """No rows give no rows; a column of nothing but null equals nothing."""
    nothing = pa.array([], pa.string())
    assert [side.tolist() for side in matching.pairs([nothing], [nothing])] == [[], []]
    assert [side.tolist() for side in matching.pairs([pa.nulls(2)], [pa.nulls(2)])] == [[], []]
    assert matching.distinct([pa.nulls(3)]).tolist() == [0]


def test_too_many_pairs_are_refused(matching):
    """Pairs are counted before they are made, so a key that all rows have does not fill the memory."""
    one = pa.repeat("same", 10_000)
    with pytest.raises(
        ConfigError, match="the join of 10,000 rows with 10,000 has 100,000,000 pairs of rows with equal keys; expected"
    ):
        matching.pairs([one], [one])
    assert len(matching.pairs([one], [pa.array(["same", "other"] * 5_000)[:4_000]])[0]) == 20_000_000
    far = pa.array(range(10_000))
    assert len(matching.pairs([far], [far])[0]) == 10_000
