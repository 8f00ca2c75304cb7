"""Promises of --where: it means what SQL means, and refuses what it does not know."""

from __future__ import annotations

import datetime as dt
import decimal
import operator

import apsw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import ConfigError
from streamkit.query.predicate import parse_predicate
from tests.kit.sampling import examples
from tests.unit.query.conditions import SIGNS, conditions

COLUMNS = {"n": st.integers(-3, 3), "x": st.sampled_from([-1.5, 0.0, 2.0, 2.5]), "s": st.sampled_from(["", "a", "b'", "aB"])}
TYPES = {"n": pa.int32(), "x": pa.float64(), "s": pa.string()}
ROWS = st.lists(st.tuples(*(st.none() | values for values in COLUMNS.values())), max_size=12)


def quoted(value):
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


@st.composite
def comparisons(draw):
    """A test of one column, as SQL."""
    name = draw(st.sampled_from(sorted(COLUMNS)))
    literal = COLUMNS[name].map(quoted)
    sign = draw(SIGNS)
    negation = draw(st.sampled_from(["", "NOT "]))
    return draw(
        st.one_of(
            literal.map(lambda value: f"{name} {sign} {value}"),
            literal.map(lambda value: f"{value} {sign} {name}"),
            st.just(f"{name} IS {negation}NULL"),
            st.lists(literal, min_size=1, max_size=3).map(lambda values: f"{name} {negation}IN ({', '.join(values)})"),
            st.tuples(literal, literal).map(lambda values: f"{name} {negation}between {values[0]} and {values[1]}"),
            st.sampled_from([f"n {sign} x", f"s {negation}like 'a%'", f"s {negation}LIKE '_'"]),
        )
    )


@examples(300)
@given(rows=ROWS, text=conditions(comparisons()))
def test_it_means_what_sql_means(rows, text):
    """A condition holds for the rows for which SQLite says so, nulls and precedence included."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE t (n INTEGER, x REAL, s TEXT); PRAGMA case_sensitive_like = ON")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    expected = [number - 1 for (number,) in connection.execute(f"SELECT rowid FROM t WHERE {text} ORDER BY rowid")]
    arrays = {name: pa.array([row[at] for row in rows], TYPES[name]) for at, name in enumerate(COLUMNS)}
    batch = pa.record_batch({**arrays, "row": pa.array(range(len(rows)), pa.int64())})

    assert batch.filter(parse_predicate(text, batch.schema).expression).column("row").to_pylist() == expected


def times(*texts):
    return [dt.datetime.fromisoformat(text).replace(tzinfo=dt.timezone.utc) for text in texts]


BATCH = pa.record_batch(
    {
        "late": pa.array([True, False, None]),
        "day": pa.array([dt.date(2026, 1, day) for day in (1, 2, 3)]),
        "_timestamp": pa.array(
            times("2026-01-01T00:00:00", "2026-01-01T12:00:00", "2026-01-02T00:00:00"), pa.timestamp("ms", "UTC")
        ),
        "local": pa.array([dt.datetime(2026, 1, 1, hour) for hour in (1, 2, 3)], pa.timestamp("us")),
        "price": pa.array([decimal.Decimal("1.50"), decimal.Decimal("2.00"), None], pa.decimal128(10, 2)),
        "ratio": pa.array([0.5, 16777216.0, None], pa.float32()),
        "big": pa.array([2**53, 2**53 + 1, 2**53 + 2], pa.int64()),
        "odd name": pa.array(["it's", 'a "b"', "c"]),
        "raw": pa.array([b"a", "ä".encode(), b"\xff"]),
    }
)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("late", [0]),
        ("not late", [1]),
        ("late = false", [1]),
        ("day >= '2026-01-02'", [1, 2]),
        ("_timestamp > '2026-01-01T00:00:00Z'", [1, 2]),
        ("_timestamp < '2026-01-01T13:00:00+02:00'", [0]),
        ("_timestamp = '2026-01-02'", [2]),
        ("local between '2026-01-01T02:00:00' and '2026-01-01T02:30:00'", [1]),
        ("price > 1.5", [1]),
        ("price <= 2", [0, 1]),
        ("big = 9007199254740993", [1]),
        ("big > 9007199254740990.5", [0, 1, 2]),
        ("big < 99999999999999999999", [0, 1, 2]),
        (f"big > -{'9' * 5_000}", [0, 1, 2]),
        ("price < 1e400 and price > -1e999999999999999999", [0, 1]),
        (f"price > 1.{'49' * 50} and price < 1.50{'0' * 80}1", [0]),
        ("price = 1.500000000000000000000000000000000000000", [0]),
        ("price between 1.5 and 1.9999999999999999999999999999999999999999999999", [0]),
        ("price = 1.5000000000000000000000000000000000000001", []),
        ("price >= 100000000000000000000000000000000000000000000000000000000000000000000000000000000", []),
        ("ratio < 9223372036854775807 and ratio > -9223372036854775808", [0, 1]),
        ("ratio = 16777217", []),
        ("`odd name` = 'it''s'", [0]),
        ('`odd name` in ("a ""b""", "c")', [1, 2]),
        ("raw = 'ä'", [1]),
        ("raw >= 'c'", [1, 2]),
        ("raw in ('a', 'b')", [0]),
        ("raw like '_%' and not raw like 'a%'", [1, 2]),
        ("raw is not null AND day = '2026-01-03'", [2]),
    ],
)
def test_types_are_those_of_the_columns(text, rows):
    """Literals are read as the column's type: times in UTC unless they say otherwise, exact numbers, bytes as UTF-8."""
    numbered = BATCH.append_column("row", pa.array(range(3)))
    assert numbered.filter(parse_predicate(text, BATCH.schema).expression).column("row").to_pylist() == rows


NUMBERS = st.one_of(
    st.decimals(-12, 12, places=4),
    st.sampled_from(
        ["9.99", "-9.99", "9.995", "-9.995", "10", "-10", "1e100", "-1e100", "1e-40", "-1e-40", "1e999999", "9" * 38]
    ),
).map(decimal.Decimal)


@examples(200)
@given(number=NUMBERS, sign=SIGNS, rows=st.lists(st.none() | st.decimals("-9.99", "9.99", places=2)))
def test_decimals_are_compared_with_every_number(number, sign, rows):
    """A number with more digits than the column can hold is compared as exactly as any other; null is neither true nor false."""
    batch = pa.record_batch({"p": pa.array(rows, pa.decimal128(3, 2))})
    compare = {
        "=": operator.eq,
        "==": operator.eq,
        "!=": operator.ne,
        "<>": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }[sign]
    for text, wanted in ((f"p {sign} {number}", True), (f"not p {sign} {number}", False)):
        found = batch.filter(parse_predicate(text, batch.schema).expression).column("p").to_pylist()
        assert found == [row for row in rows if row is not None and compare(row, number) is wanted]


@pytest.mark.parametrize(
    "text",
    [
        "p > 1e100",
        "p >= 99999999999999999999999999999999999999",
        "p < 0.00000000000000000001",
        "p in (1e60)",
        "p between 9 and 1e50",
    ],
)
def test_the_widest_decimals_are_compared(text):
    """Numbers of more than 38 digits, together with those of the column, are no error."""
    batch = pa.record_batch({"p": pa.array([decimal.Decimal("1.5"), None], pa.decimal128(38, 10))})

    assert batch.filter(parse_predicate(text, batch.schema).expression).num_rows == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delay > 5", "names the column 'delay'; the topic has late, day"),
        ("price > 'x'", r"compares price, which is decimal128\(10, 2\), with 'x'; expected a number"),
        ("day = 5", "compares day, which is date32.day., with 5; expected a date such as '2026-01-31'"),
        ("day = '2026-13-01'", "has the date '2026-13-01'"),
        ("_timestamp > 'noon'", "found the time 'noon'; expected a date"),
        ("raw = 5", "compares raw, which is binary, with 5; expected a text in quotes"),
        ("late < 1", "expected true or false"),
        ("day = `odd name`", "expected columns of one type"),
        ("price >> 5", "found '>' at position 7, expected a number"),
        ("price > 5 ;", "cannot read ';' at position 10; known are"),
        ("price + 1 > 5", r"cannot read '\+'|expected a comparison"),
        ("upper(`odd name`) = 'A'", "names the column 'upper'"),
        ("price", "found 'nothing more' at position 5, expected a comparison"),
        ("(price > 5", r"expected \)"),
        ("price > 5 price", "found 'price' at position 10, expected the end, AND or OR"),
        ("price = null", "found 'null' at position 8, expected a number"),
        ("5 > 4", "found '4' at position 4, expected a comparison with a column"),
        ("price > 1e9999999999999999999", "has the number 1e9999999999999999999; expected one with an exponent of at most 18"),
        ("day like '2026%'", "asks what day is like, which is date32"),
        ("", "found 'nothing more' at position 0"),
        ("`odd name` = 'open", "cannot read"),
    ],
)
def test_what_it_does_not_know_is_refused(text, message):
    """A refusal says what was found and where, and what is known."""
    with pytest.raises(ConfigError, match=message):
        parse_predicate(text, BATCH.schema)
