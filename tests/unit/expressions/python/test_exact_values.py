"""Values that users' functions give, in the one form that a store would give back, and copies of them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from streamkit.data_type import to_arrow
from streamkit.expressions.python.exact_values import UNFIT, copied, exactly
from streamkit.expressions.python.python_functions import exact_array
from streamkit.log.values.python_values import python_values

NOON = dt.datetime(2026, 10, 25, 0, 30, 0, 5, tzinfo=ZoneInfo("UTC"))
BERLIN = ZoneInfo("Europe/Berlin")
VALUES = [
    ("timestamp", NOON),
    ("timestamp", NOON.astimezone(BERLIN)),
    ("timestamp", NOON.astimezone(BERLIN).replace(fold=1)),
    ("timestamp", NOON.replace(tzinfo=dt.timezone.utc)),
    ("timestamp", NOON.replace(fold=1)),
    ("timestamp", NOON.replace(tzinfo=None)),
    ("timestamp", dt.date(2026, 1, 1)),
    ("timestamp_ntz", NOON.replace(tzinfo=None)),
    ("timestamp_ntz", NOON),
    ("struct<a: int, b: timestamp>", {"a": 1, "b": NOON}),
    ("struct<a: int, b: timestamp>", {"b": NOON.astimezone(BERLIN), "more": 1}),
    ("struct<a: int, b: timestamp>", {}),
    ("struct<a: int, b: timestamp>", (1, NOON)),
    ("struct<a: int, b: timestamp>", {"a": "x"}),
    ("struct<a: int, b: timestamp>", {"a": 1.5}),
    ("array<struct<a: int>>", [{"a": 1}, None, {"a": None}]),
    ("array<struct<a: int>>", ({"a": 1},)),
    ("array<struct<a: struct<b: array<bigint>>>>", [{"a": {"b": [1, None]}}]),
    ("map<string,struct<a: int>>", {"x": {"a": 1}}),
    ("decimal(10,2)", Decimal("1.5")),
]


@pytest.mark.parametrize(("type", "value"), VALUES, ids=str)
def test_a_value_is_what_a_store_would_give_back(type, value):
    """Values that take no way through Arrow have the form that this way gives, its zone of times too; what is refused there is refused."""
    kind = to_arrow(type)
    try:
        expected = python_values(exact_array([value], kind))[0]
    except UNFIT:
        with pytest.raises(UNFIT):
            exactly(kind)(value)
    else:
        assert repr(exactly(kind)(value)) == repr(expected)


def test_a_copy_shares_nothing_that_can_be_changed():
    """Lists and dicts are new at every depth, in pairs of a map too; what cannot be changed is the same."""
    value = {"a": [{"b": [1]}, None], "m": [({"k": [2]}, "x")], "at": NOON}
    found = copied(value)
    assert found == value
    assert found["at"] is NOON

    found["a"][0]["b"].append(9)
    found["m"][0][0]["k"].append(9)
    found["a"].append(9)
    assert value == {"a": [{"b": [1]}, None], "m": [({"k": [2]}, "x")], "at": NOON}
