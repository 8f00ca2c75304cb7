"""The rows on which expressions are compared: every edge case of every type, in random company."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random

import pyarrow as pa

from streamkit.schema import Schema
from tests.kit.sampling import TAKES_ALL

SCHEMA = Schema.parse(
    "i8 tinyint, i16 smallint, i32 int, j32 int, i64 bigint, j64 bigint, small int, f32 float, f64 double, g64 double, "
    "s string, t string, number string, day string, moment string, iso string, b boolean, c boolean, d date, e date, "
    "ts timestamp, us timestamp, ntz timestamp_ntz, dec decimal(10,2), ced decimal(38,10), big decimal(20,0), x binary, nothing void, "
    "ints array<int>, texts array<string>, counts map<string,int>, place struct<lat:double,name:string>, js string, j32k int NOT NULL, sk string NOT NULL"
)
ROWS = 420 if TAKES_ALL else 105  # more than any column has edge cases


def _utc(*fields):
    return dt.datetime(*fields).replace(tzinfo=dt.timezone.utc)


def _integers(bits):
    top = 2 ** (bits - 1)
    return [
        0,
        1,
        -1,
        2,
        7,
        -7,
        10,
        top - 1,
        -top,
        top // 2,
        None,
        *(random.Random(bits).randint(-top, top - 1) for _ in range(9)),
    ]


FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1e-5, 1e7, 123456.789, 1e10, 1e20, -1e20, 1e300, 5e-324, 127.9, -128.9, 128.0,
    2147483647.5, 2147483648.0, -2147483648.9, 9.223372036854775807e18, 9.3e18, math.nan, math.inf, -math.inf, None, 0.001, 9999999.0,
]  # fmt: skip
TEXTS = [
    "", " ", "a", "A", "abc", "ABC", "Abc", " abc ", "  x", "y  ", "aXbXc", "a%b", "a_b", "a\\b", "a\nb", "a\r\n", "line\n", "\t tab",
    "été", "ÉTÉ", "straße", "ΑΣ", "ΣΑΣ", "İstanbul", "ﬁn", "日本語", "😀 smile", "a😀b", "e\u0301", "ABC" * 50, "JFK", "jfk", "x" * 300,
    "dž", "ŉ", "a.b", "a+b", "1-2", "2013-01-05", "foo bar", "foo\x0bbar", "foo\u2028bar", "foo\u00a0bar", "\u2003x\u2003", None,
]  # fmt: skip
NUMBERS = [
    "0", "1", "-1", "+5", " 42 ", "\t7\n", "007", "127", "128", "-128", "-129", "32768", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "1.5", "1.", ".5", "-.5", "1e3", "1E-2", "1e400", "1e-400", "nan", "NaN", "inf", "-Infinity", "+inf", "infinity",
    "1d", "2.5f", "0x1F", "abc", "", " ", "1 2", "--1", "+-1", "1.25", "1.245", "1.255", "-1.255", "99999999.99", "99999999.995", "true", "T", "yes", "N",
    "0.1", "0.12345678901234567890123456789", "1_000", "t ", "FALSE", "on", "e5", ".", "+", "1e", "12345678901234567890", None,
]  # fmt: skip
DAYS = [
    "2013-01-05", "2013-1-5", "2013", "2013-02", "2013-2-29", "2012-02-29", "1900-02-29", "2000-02-29", " 2013-01-05 ", "2013-01-05 10:00",
    "2013-01-05T", "2013-01-05x", "2013-13-01", "2013-00-01", "2013-01-32", "0001-01-01", "9999-12-31", "1582-10-10", "-0001-01-01", "10000-01-01",
    "+2013-01-05", "13-01-05", "2013/01/05", "", "abc", "20130105", "2013-01-05 \nrest", "1970-01-01", "1969-12-31", "2013-", "2013-01-", None,
]  # fmt: skip
MOMENTS = [
    "2013-01-05 12:34:56", "2013-01-05T12:34:56", "2013-01-05 12:34:56.789", "2013-01-05 12:34:56.123456", "2013-01-05 12:34:56.1234567",
    "2013-01-05 12:34:56Z", "2013-01-05 12:34:56+02:00", "2013-01-05 12:34:56-08:30", "2013-01-05 12:34:56 UTC", "2013-01-05T12:34:56.5Z",
    "2013-01-05 1:2:3", "2013-01-05 12:34", "2013-01-05 12", "2013-01-05", "2013-01", "2013", "2013-1-5 1:02:03.5", "2013-01-05 24:00:00",
    "2013-01-05 12:60:00", "2013-01-05 12:34:60", "2013-02-30 00:00:00", "1969-12-31 23:59:59.999999", "1582-10-10 00:00:00",
    "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "abc", "", " 2013-01-05 12:34:56 ", "2013-01-05 12:34:56.", "2013-01-05  12:34:56",
    "2013-01-05 12:34:56+2:00", "2013-01-05 12:34:56+02", "2013-01-05 12:34:56+0200", "2013-01-05 12:34:56GMT+1", "2013-01-05 12:34:56+19:00",
    "2013-01-05 ", "2013-01-05T", "2013-01-05 12:", "2038-01-19 03:14:08", "2013-01-05 12:34:56 +01:00", "-0001-01-01 00:00:00", None,
]  # fmt: skip
ISO = [
    "2013-01-05 12:34:56", "2012-02-29 00:00:00", "2013-02-29 00:00:00", "2013-1-05 12:34:56", "2013-01-05 12:34:5", "2013-01-05", " 2013-01-05 12:34:56",
    "2013-01-05 12:34:56 ", "2013-01-05 24:34:56", "0000-01-01 00:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59", "1970-01-01 00:00:00", "x", "", None,
]  # fmt: skip
DATES = [
    dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 4), dt.date(1582, 10, 15),
    dt.date(1900, 2, 28), dt.date(1900, 3, 1), dt.date(2000, 2, 29), dt.date(2013, 1, 1), dt.date(2013, 12, 31), dt.date(2012, 12, 31),
    dt.date(2038, 1, 19), dt.date(2013, 1, 6), dt.date(2013, 1, 7), None, dt.date(2016, 1, 3), dt.date(2021, 1, 3),
]  # fmt: skip
TIMES = [
    _utc(1970, 1, 1), _utc(1969, 12, 31, 23, 59, 59, 999999), _utc(1969, 12, 31, 23, 59, 59), _utc(1, 1, 1), _utc(9999, 12, 31, 23, 59, 59, 999999),
    _utc(1582, 10, 4, 12), _utc(1582, 10, 15, 0, 0, 1), _utc(1900, 1, 1, 0, 0, 0, 1), _utc(2013, 1, 5, 12, 34, 56, 789000),
    _utc(2013, 1, 5, 12, 34, 56, 120), _utc(2013, 3, 31, 1, 30), _utc(2038, 1, 19, 3, 14, 8), _utc(2013, 12, 31, 23), _utc(2013, 1, 6), None,
    _utc(1965, 5, 5, 5, 5, 5, 555555), _utc(2013, 1, 5, 12, 34, 56),
]  # fmt: skip
JSONS = [
    '{"a": 1, "b": "x"}', '{"a": null}', "{}", '{"a": {"b": [1, 2, {"c": "d"}]}}', "[1, 2, 3]", '[{"a": 1}, {"a": 2}]', '"text"', "1.50",
    "true", "null", "", " ", "{", '{"a": 1', "{'a': 1}", '{"a": 1, "a": 2}', '{"a": "\\u00e9\\n"}', '{"a b": 1, "c.d": 2}', '{"A": 1}',
    '{"a": 1e3}', '{"a": 12345678901234567890}', None,
]  # fmt: skip
SMALL = [0, 1, -1, 2, 3, 5, 7, -3, 10, None]


def _decimals(precision, scale):
    step = decimal.Decimal(1).scaleb(-scale)
    with decimal.localcontext() as context:
        context.prec = 60
        top = (decimal.Decimal(10) ** precision - 1) * step
        texts = (
            "0",
            "1",
            "-1",
            "0.5",
            "1.5",
            "2.5",
            "-2.5",
            "3",
            "0.01",
            "-0.01",
            "127.5",
            "12345.67",
            "1e-10",
            "99",
            "2147483648",
        )
        values = [decimal.Decimal(text).quantize(step) for text in texts if abs(decimal.Decimal(text)) <= top]
        return [top, -top, None, *values]


VALUES = {
    "i8": _integers(8), "i16": _integers(16), "i32": _integers(32), "j32": _integers(32), "i64": _integers(64), "j64": _integers(64), "small": SMALL,
    "f32": FLOATS, "f64": FLOATS, "g64": FLOATS, "s": TEXTS, "t": TEXTS, "number": NUMBERS, "day": DAYS, "moment": MOMENTS, "iso": ISO,
    "b": [True, False, None], "c": [True, False, None], "d": DATES, "e": DATES, "ts": TIMES, "us": TIMES,
    "ntz": [value and value.replace(tzinfo=None) for value in TIMES], "dec": _decimals(10, 2), "ced": _decimals(38, 10), "big": _decimals(20, 0),
    "x": [b"", b"abc", b"\x00\xff", b"a" * 40, None], "nothing": [None],
    "ints": [[], [1], [1, 2, 3], [3, 1, 2], [1, 1, 2], [None], [1, None, 2], [2**31 - 1, -(2**31)], None, [0, -1], [5, 4, 3, 2, 1]],
    "texts": [[], ["a"], ["a", "b"], ["b", None, "a"], ["", "x y"], ["été", "日本"], None, [None, None], ["a", "a"]],
    "counts": [[], [("a", 1)], [("a", 1), ("b", 2)], [("b", None)], [("", 0), ("x", -1)], None],
    "place": [{"lat": 1.5, "name": "a"}, {"lat": None, "name": "b"}, {"lat": math.nan, "name": None}, None],
    "js": JSONS, "j32k": [0, 1, -1, 7, 2**31 - 1], "sk": ["", "a", "abc", "A b"],
}  # fmt: skip


def rows():
    """A batch: every edge case of every column at least once, in random company."""
    chance = random.Random(7)
    columns = []
    assert max(map(len, VALUES.values())) <= ROWS
    for column in SCHEMA:
        values = VALUES[column.name]
        filled = values + [chance.choice(values) for _ in range(ROWS - len(values))]
        chance.shuffle(filled)
        columns.append(pa.array(filled, column.arrow.type))
    return pa.record_batch(columns, schema=SCHEMA.arrow)
