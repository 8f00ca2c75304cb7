"""PARSE_DATE of many texts at once against what it reads in each alone."""

from __future__ import annotations

import datetime as dt
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.ksql.lenient_dates import date_reader, is_read_alike
from streamkit.schema import Schema
from streamkit.sql.ksql.expressions import ksql_expression
from tests.kit.sampling import examples
from tests.unit.sql.ksql.reading import read

PATTERNS = ["yyyy-MM-dd", "yyyyMMdd", "d/M/yyyy", "dd MMM yyyy", "yyyy.MM", "yy-MM-dd", "yyyy-MM-dd HH", "yyyy-MM-dd'T'"]
PARTS = st.sampled_from(
    [
        "2021",
        "2024",
        "1969",
        "0001",
        "21",
        "02021",
        "+12021",
        "-2021",
        "1",
        "01",
        "2",
        "02",
        "00",
        "13",
        "28",
        "29",
        "30",
        "31",
        "32",
        "Jan",
        "feb",
    ]
)
PIECES = st.builds(
    lambda parts, between, behind: between.join(parts) + behind,
    st.lists(PARTS, min_size=1, max_size=4),
    st.sampled_from(["-", "/", " ", ".", ""]),
    st.sampled_from(["", " ", "x", "T", " 00", " 07"]),
)


def texts_of(pattern: str) -> st.SearchStrategy[str | None]:
    """Texts of about this pattern, with days that no month has or not all, and others."""

    def text(year: str, month: int, day: int, sign: str, behind: str) -> str:
        parts = {"yyyy": sign + year, "yy": year[2:], "MMM": "JanFebMarAprMayJunJulAugSepOctNovDec"[3 * month - 3 :][:3]}
        parts |= {"MM": f"{month:02}", "M": f"{month}", "dd": f"{day:02}", "d": f"{day}", "HH": "00", "'T'": "T"}
        return re.sub("|".join(parts), lambda found: parts[found[0]], pattern) + behind

    years, days = st.sampled_from(["2021", "2024", "1969", "0001", "12021"]), st.sampled_from([1, 27, 28, 29, 30, 31, 32])
    alike = st.builds(text, years, st.integers(1, 12), days, st.sampled_from(["", "+"]), st.sampled_from(["", "", "x"]))
    return st.none() | alike | PIECES


EPOCH = dt.date(1970, 1, 1).toordinal()


@pytest.mark.parametrize("pattern", PATTERNS)
@examples(150)
@given(data=st.data())
def test_texts_at_once_are_those_alone(pattern, data):
    """The dates of a batch, some of which are read strictly and all at once, are those that the lenient reader gives."""
    texts = data.draw(st.lists(texts_of(pattern), max_size=12))
    schema = Schema.parse("S string")
    tree = ksql_expression(read(f"UNIX_DATE(PARSE_DATE(S, '{pattern.replace(chr(39), chr(39) * 2)}'))"), {"S": "string"})
    ((_, typed),) = ExpressionAnalyzer().project(schema, [("result", tree)])
    alone = date_reader(pattern)
    assert alone is not None

    def day(text: str | None) -> int | None:
        try:
            return None if text is None else alone(text)
        except ValueError:
            return None

    found = evaluate(typed, pa.record_batch({"S": pa.array(texts, pa.string())}))

    assert found.to_pylist() == [day(text) for text in texts]


@examples(300)
@given(st.dates(min_value=dt.date(1582, 10, 15)))
def test_dates_are_read_as_they_are_written(date):
    """A date that is there is read as itself, in each order of its parts, and one that is not there as so many days behind the first."""
    for pattern, text in (("yyyy-MM-dd", date.isoformat()), ("d.M.yyyy", f"{date.day}.{date.month}.{date.year}")):
        alone = date_reader(pattern)
        assert alone is not None
        assert alone(text) == date.toordinal() - EPOCH
        assert alone(text.replace(f"{date.year}", f"{date.year + 400}")) == date.toordinal() - EPOCH + 146_097
    reader = date_reader("yyyy M d")
    assert reader is not None
    assert reader(f"{date.year} {date.month} {date.day + 100}") == date.toordinal() - EPOCH + 100
    assert reader(f"{date.year} {date.month + 12} 1") == reader(f"{date.year + 1} {date.month} 1")


def test_dates_before_the_gregorian_calendar_are_julian():
    """The day before 15 October 1582 was the fourth; days between them, which were not there, are counted on from it, as in Java."""
    read = date_reader("yyyy-MM-dd")
    assert read is not None
    first = dt.date(1582, 10, 15).toordinal() - EPOCH
    assert [read(text) for text in ("1582-10-15", "1582-10-04", "1582-10-05", "1582-10-14", "1582-10-16")] == [
        first, first - 1, first, first + 9, first + 1
    ]  # fmt: skip
    tenth_of_march = dt.date(1500, 3, 10).toordinal() - EPOCH  # which the Julian calendar calls the 29th of February
    assert [read(text) for text in ("0001-01-01", "1500-02-29", "1500-03-01")] == [-719_164, tenth_of_march, tenth_of_march + 1]


def test_what_is_read_at_once():
    """Patterns with quotes, two digits of a year, or hours are read text by text."""
    assert [is_read_alike(pattern) for pattern in PATTERNS] == [True, True, True, True, True, False, False, False]
