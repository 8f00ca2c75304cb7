"""
Parity: every supported expression gives in Arrow what it gives in Spark, row by row, errors included.

Spark computes all expressions in one query; `TryEval` around an array of the one value tells a row that fails from a null.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from streamkit.errors import EvaluationError
from streamkit.expressions.arrow import evaluate
from streamkit.expressions.catalyst import CatalystAnalyzer
from streamkit.expressions.operation import columns_of
from streamkit.plan.expression import SqlText
from streamkit.schema import Schema

pytestmark = [pytest.mark.spark, pytest.mark.slow]
SCHEMA = Schema.parse(
    "i8 tinyint, i16 smallint, i32 int, j32 int, i64 bigint, j64 bigint, small int, f32 float, f64 double, g64 double, "
    "s string, t string, number string, day string, moment string, iso string, b boolean, c boolean, d date, e date, "
    "ts timestamp, us timestamp, ntz timestamp_ntz, dec decimal(10,2), ced decimal(38,10), big decimal(20,0), x binary, nothing void"
)
ROWS = 420
FAILED = "failed"


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
}  # fmt: skip


def _families():
    """The expressions of the file beside, by the heading they stand under."""
    families: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "parity.sql").read_text(encoding="utf-8").splitlines()[1:]:
        if line.startswith("-- "):
            family = families[line.removeprefix("-- ")] = []
        elif line:
            family.append(line)
    return families


FAMILIES = _families()


def _random_expression(chance, kind, depth):
    """A nested expression of a kind (number or condition) whose parts may fail, so that what is looked at when matters."""
    if not depth:
        return chance.choice(
            {"number": ["small", "i8", "i32", "j32", "1", "0", "NULL"], "condition": ["b", "c", "b IS NULL", "true"]}[kind]
        )

    def part(of):
        return _random_expression(chance, of, depth - 1)

    if kind == "number":
        return chance.choice((
            lambda: f"({part('number')} {chance.choice('+-*')} {part('number')})",
            lambda: f"({part('number')} % {part('number')})",
            lambda: f"({part('number')} DIV {part('number')})",
            lambda: f"coalesce({part('number')}, {part('number')})",
            lambda: f"if({part('condition')}, {part('number')}, {part('number')})",
            lambda: f"CASE WHEN {part('condition')} THEN {part('number')} WHEN {part('condition')} THEN {part('number')} END",
            lambda: f"nullif(small, {chance.choice(('i8', '0'))})",
            lambda: f"greatest({part('number')}, {part('number')})",
        ))()  # fmt: skip
    return chance.choice((
        lambda: f"({part('condition')} {chance.choice(('AND', 'OR'))} {part('condition')})",
        lambda: f"(NOT {part('condition')})",
        lambda: f"({part('number')} {chance.choice(('<', '=', '>=', '<=>', '!='))} {part('number')})",
        lambda: f"({part('number')} IN ({part('number')}, {part('number')}))",
        lambda: f"(small BETWEEN {chance.choice(('i8', '0'))} AND 3)",
        lambda: f"({part('number')} IS NULL)",
    ))()  # fmt: skip


FAMILIES["random"] = [
    _random_expression(random.Random(seed), kind, 1 + seed % 3) for seed, kind in enumerate(("number", "condition") * 40)
]
EXPRESSIONS = [text for family in FAMILIES.values() for text in family]
REWRITES = ",".join(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in (
        "BooleanSimplification", "SimplifyConditionals", "PushFoldableIntoBranches", "ConstantFolding", "NullPropagation", "OptimizeIn",
        "SimplifyBinaryComparison", "ReorderAssociativeOperator", "SimplifyCasts", "SimplifyCaseConversionExpressions", "ConstantPropagation",
        "ReplaceNullWithFalseInPredicate", "SimplifyConditionalsInPredicate", "UnwrapCastInBinaryComparison", "LikeSimplification",
    )
)  # fmt: skip


def _batch():
    """Every edge case of every column at least once, in random company."""
    chance = random.Random(7)
    columns = []
    for column in SCHEMA:
        values = VALUES[column.name]
        filled = values + [chance.choice(values) for _ in range(ROWS - len(values))]
        chance.shuffle(filled)
        columns.append(pa.array(filled, column.arrow.type))
    return pa.record_batch(columns, schema=SCHEMA.arrow)


def _in_spark(spark, batch):
    """For each expression its cells, or FAILED."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.optimizer.excludedRules", REWRITES)  # they may drop a part that would fail
    session.conf.set("spark.sql.codegen.wholeStage", "false")  # compiling 700 columns takes longer than interpreting them
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    jvm = session._jvm
    known = batch.drop_columns(["nothing"])
    frame = session.createDataFrame(pa.Table.from_batches([known])).selectExpr("*", "NULL AS nothing")
    expressions = jvm.org.apache.spark.sql.classic.ExpressionUtils
    catalyst = jvm.org.apache.spark.sql.catalyst.expressions
    from pyspark.sql import Column, functions

    columns = []
    for place, text in enumerate(EXPRESSIONS):
        wrapped = functions.array(functions.expr(text))
        tried = catalyst.TryEval(expressions.expression(wrapped._jc))
        columns.append(Column(expressions.column(tried)).alias(f"r{place}"))
    table = frame.select(*columns).toArrow().combine_chunks()
    return {text: _spark_cells(table.column(place).combine_chunks()) for place, text in enumerate(EXPRESSIONS)}


def _spark_cells(tried):
    cells = iter(_cells(tried.flatten()))
    return [next(cells) if valid else FAILED for valid in tried.is_valid().to_pylist()]


def _in_arrow(typed, batch):
    try:
        return _cells(evaluate(typed, batch))
    except EvaluationError:
        return _row_by_row(typed, batch)


def _row_by_row(typed, batch):
    """One batch a row, for each row that differs from those before in what the expression reads."""
    known = {}
    rows = list(zip(*(_cells(batch.column(name)) for name in sorted(columns_of(typed))))) or [()] * batch.num_rows
    for row, key in enumerate(rows):
        if key not in known:
            known[key] = _one_cell(typed, batch.slice(row, 1))
    return [known[key] for key in rows]


def _one_cell(typed, row):
    try:
        return _cells(evaluate(typed, row))[0]
    except EvaluationError:
        return FAILED


def _same_float_text(text, wanted, cell):
    """Before Java 19 a float's text may have a digit too many; ours is the shortest that reads back as the same float."""
    if text not in ("CAST(f32 AS STRING)", "CAST(f64 AS STRING)"):
        return False
    number = np.float32 if "f32" in text else np.float64
    return len(cell) <= len(wanted) and number(cell.strip("'")) == number(wanted.strip("'"))


def _cells(array):
    """Texts that tell values apart by bit (-0.0 from 0.0), but for the many kinds of NaN; dates and timestamps as numbers."""
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us")).cast(pa.int64())
    return [repr(cell) for cell in array.to_pylist()]


@pytest.fixture(scope="module")
def batch():
    return _batch()


@pytest.fixture(scope="module")
def typed(spark):
    columns = [(text, SqlText(text)) for text in EXPRESSIONS]
    return dict(CatalystAnalyzer(spark).project(SCHEMA, columns, None))


@pytest.fixture(scope="module")
def expected(spark, batch):
    return _in_spark(spark, batch)


def _differences(text, found, wanted, batch):
    """Rows in which an expression differs: what it reads there, and what both make of it; the first few, and how many."""
    reads = sorted({column.name for column in SCHEMA if column.name in text})
    rows = [
        f"    { {name: batch.column(name)[row].as_py() for name in reads} }: spark {one}, arrow {other}"
        for row, (one, other) in enumerate(zip(wanted, found, strict=True))
        if one != other and not _same_float_text(text, one, other)
    ]
    return [f"{text}: {len(rows)} rows differ", *rows[:8]] if rows else []


@pytest.mark.parametrize("family", FAMILIES)
def test_arrow_gives_what_spark_gives(family, typed, expected, batch):
    """Each expression of the family has the same value in every row, or fails in the same rows."""
    different = [
        line for text in FAMILIES[family] for line in _differences(text, _in_arrow(typed[text], batch), expected[text], batch)
    ]
    assert not different, "\n" + "\n".join(different)


def test_families_are_read():
    """The file is read whole: six families and the random one, each with many expressions."""
    assert len(FAMILIES) == 7 and min(map(len, FAMILIES.values())) > 40
    assert len(EXPRESSIONS) > 700
