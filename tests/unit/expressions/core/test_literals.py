"""Constants keep their value through JSON."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math

import pyarrow as pa
import pytest

from streamkit.data_type import to_arrow
from streamkit.expressions.core.literals import to_json, to_scalar

VALUES = [
    (True, "boolean"),
    (-128, "tinyint"),
    (2**63 - 1, "bigint"),
    (1.5, "double"),
    (math.nan, "double"),
    (-math.inf, "float"),
    (-0.0, "double"),
    (5e-324, "double"),
    ("it's", "string"),
    ("", "string"),
    (b"\x00\xff", "binary"),
    (decimal.Decimal("-1.50"), "decimal(10,2)"),
    (dt.date(1, 1, 1), "date"),
    (dt.date(9999, 12, 31), "date"),
    (dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.timezone.utc), "timestamp"),
    (dt.datetime(2013, 1, 5), "timestamp_ntz"),
    (None, "int"),
    (None, "void"),
]


@pytest.mark.parametrize(("value", "type"), VALUES)
def test_a_constant_survives_json(value, type):
    """What is written as strict JSON reads back as the same scalar, bit by bit."""
    scalar = pa.scalar(value, to_arrow(type))
    written = json.dumps(to_json(scalar, type), allow_nan=False)
    assert repr(to_scalar(json.loads(written), type)) == repr(scalar)


def test_equal_json_means_equal_constants():
    """0.0 and -0.0 are written differently, so that plans that differ compare so."""
    assert to_json(pa.scalar(0.0), "double") != to_json(pa.scalar(-0.0), "double")


def test_years_beyond_python_survive():
    """A timestamp of a year that Python has not keeps its microseconds."""
    moment = pa.scalar(2**62, pa.int64()).cast(to_arrow("timestamp"))
    assert to_scalar(to_json(moment, "timestamp"), "timestamp").cast(pa.int64()).as_py() == 2**62
