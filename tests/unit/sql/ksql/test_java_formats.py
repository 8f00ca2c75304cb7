"""Texts that are read and written by patterns with brackets and numbers side by side, against Java's rules."""

from __future__ import annotations

import datetime as dt
import random
import re

import pyarrow as pa
import pytest

from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.ksql.times import read_by_format
from streamkit.expressions.times.datetime_patterns import PatternError, java_parsing_pattern, java_writing_pattern
from streamkit.expressions.times.java_expressions import is_clear
from streamkit.schema import Schema
from streamkit.sql.ksql.expressions import KsqlMeaning, ksql_expression, null_on_failure
from tests.kit.java_formatter import MONTHS, WEEKDAYS, BeyondError, Formatter, moment
from tests.kit.sampling import seeds
from tests.unit.sql.ksql.reading import read

EPOCH = dt.datetime(1970, 1, 1)
DATES = (
    "yyyy MM dd",
    "dd MM yyyy",
    "d M yyyy",
    "yyyy DDD",
    "M d uuuu",
    "uu MM dd",
    "yyyyy MMM dd",
    "y M d",
    "MM dd",
    "dd MMM",
    "D",
)
CLOCKS = ("HH mm ss SSS", "H m s", "h m a", "hh mm ss a", "a hh mm", "HH mm ss SSSSSS", "H mm", "")
PATTERNS, TEXTS = 60, 12


def pattern_of(draw: random.Random) -> str:
    """A date, a time or both, with separators or without, and brackets round any of it; sometimes two that take turns."""
    if draw.random() < 0.3:
        return "".join(f"[{plain(draw, draw.choice(DATES))}]" for _ in range(draw.randint(1, 3))) + draw.choice(
            ["", " HH:mm", "[HH]"]
        )
    tokens = re.findall(r"([A-Za-z]+|[^A-Za-z]+)", plain(draw, f"{draw.choice(DATES)} {draw.choice(CLOCKS)}".strip()))
    for _ in range(draw.choice([0, 1, 1, 2, 3])):
        begin = draw.randrange(len(tokens))
        end = min(len(tokens), begin + draw.choice([1, 2, 3, 4, 20]))
        tokens[begin:end] = [f"[{''.join(tokens[begin:end])}]"]
    return "".join(tokens)


def plain(draw: random.Random, fields: str) -> str:
    """The fields with separators between them, most often the same one, or with none."""
    usual = draw.choice(["-", "/", ":", ".", " ", "", "", "0"])
    return re.sub(" ", lambda _: usual if draw.random() < 0.8 else draw.choice([" ", "-", "", "."]), fields)


def text_of(draw: random.Random, pattern: str) -> str:
    """A text of about this pattern, with some of what is between brackets."""
    while "[" in pattern:
        pattern = re.sub(r"\[([^][]*)\]", lambda found: found[1] if draw.random() < 0.55 else "", pattern)
    text = re.sub(r"([A-Za-z])\1*", lambda found: value_of(draw, found[0]), pattern)
    if draw.random() < 0.2 and text:
        place = draw.randrange(len(text))
        text = text[:place] + draw.choice(["", "0", "1", "-", "+", text[place] * 2]) + text[place + 1 :]
    return text


def value_of(draw: random.Random, field: str) -> str:
    letter, count = field[0], len(field)
    if letter == "a":
        return draw.choice(["AM", "PM"])
    if field == "MMM":
        return draw.choice(MONTHS)
    if letter == "E":
        return draw.choice(WEEKDAYS)
    if letter == "S":
        return "".join(draw.choice("0123456789") for _ in field)
    if letter in "uy":
        year = draw.choice([1970, 2000, 2020, 2021, 1999, 100, 9999])
        return f"{year % 100:02}" if count == 2 else str(year).zfill(count)
    least, most = {"M": (1, 12), "d": (1, 31), "D": (1, 366), "H": (0, 24), "h": (1, 12)}.get(letter, (0, 59))
    number = draw.choice([least, most, most + 1]) if draw.random() < 0.15 else draw.randint(least, most)
    return str(number if draw.random() < 0.9 else draw.choice([28, 29, 30])).zfill(count if draw.random() < 0.95 else 3)


def micros_by_java(pattern: str, text: str) -> int | None:
    values = Formatter(pattern).parsed(text)
    found = None if values is None else moment(values)
    return None if found is None else (found - EPOCH) // dt.timedelta(microseconds=1)


@pytest.mark.parametrize("seed", seeds(5))
def test_texts_are_read_as_java_reads_them(seed):
    """Each text gives the moment that Java's rules give, or none; a pattern that is refused gives none by these rules."""
    draw = random.Random(seed)
    for _ in range(PATTERNS):
        pattern = pattern_of(draw)
        expected: dict[str, int | None] = {}
        for text in {text_of(draw, pattern) for _ in range(TEXTS)}:
            try:
                expected[text] = micros_by_java(pattern, text)
            except BeyondError:
                continue
        micros, wrong, _ = read_by_format(pa.array(list(expected), pa.string()), pattern)
        found = [None if fails else int(one) for one, fails in zip(micros, wrong)]

        assert dict(zip(expected, found)) == expected, pattern


DATE, TIME = dt.date(2021, 2, 5), dt.time(15, 4, 9, 12_000)
OF_DATES = {"u": 2021, "y": 2021, "M": 2, "d": 5, "D": 36, "E": DATE.weekday()}
OF_TIMES = {"H": 15, "h": 3, "a": 1, "m": 4, "s": 9, "S": 12_000_000}


@pytest.mark.parametrize("seed", seeds(5))
def test_values_are_written_as_java_writes_them(seed):
    """A date and a time of the day by patterns of either or both: what they lack is left out with its brackets, and fails without."""
    draw = random.Random(seed)
    patterns = [pattern_of(draw) for _ in range(PATTERNS * 2)]
    for call, type, value, fields in (
        ("FORMAT_DATE(A, F)", "date", DATE, OF_DATES),
        ("FORMAT_TIME(PARSE_TIME(A, 'HH:mm:ss.SSSSSS'), F)", "string", TIME.isoformat(), OF_TIMES),
    ):
        tree = null_on_failure(ksql_expression(read(call), {"A": type, "F": "string"}), KsqlMeaning())
        schema = Schema.parse(f"A {type}, F string")
        ((_, typed),) = ExpressionAnalyzer().project(schema, [("x", tree)])
        batch = pa.record_batch({"A": pa.array([value] * len(patterns)), "F": pa.array(patterns, pa.string())})
        found = dict(zip(patterns, evaluate(typed, batch).to_pylist()))

        assert found == {pattern: Formatter(pattern).written(fields) for pattern in patterns}


def test_what_a_bracket_changes_for_numbers():
    """A number is refused right behind one that may have any number of digits, unless it has always as many, or a bracket is there."""
    for pattern in ("yyyyM", "Hm", "dD"):
        with pytest.raises(PatternError, match="where the first number ends is not clear; put a separator between them"):
            java_parsing_pattern(pattern)
    for pattern in ("[dd-MM-yyyy][yyyy-MM-dd]", "yyyy[M]", "SSSSSSd", "[SSSSSS][SSS]", "yyyySSS", "[yyyyM]", "MMd"):
        java_parsing_pattern(pattern)


def test_which_patterns_are_read_at_once():
    """A pattern is read by one expression of Arrow if each part begins with something else than what may follow it."""
    clear = (
        "yyyy-MM-dd[ HH:mm[:ss[.SSS]]][X]",
        "d/M/yyyy",
        "yyyyMMddHHmmssX",
        "yyyy-MM-dd'T'HH:mm:ss.SSSXX'['VV']'",
        "[h:mm ]a",
    )
    unclear = (
        "yyyy[MM]",
        "[yyyy-MM-dd][dd/MM/yyyy]",
        "yyyy0MM",
        "HH:mm:ss.[SSSSSS][SSS]",
        "[-MM]-dd",
        "Xmm",
        "[[a]]a",
        "[[a]]",
        "M[-M]-",
    )

    assert [pattern for pattern in clear if not is_clear(java_parsing_pattern(pattern))] == []
    assert [pattern for pattern in unclear if is_clear(java_parsing_pattern(pattern))] == []


def test_brackets_within_each_other_are_bounded():
    """A pattern of a column with hundreds of them is none, as one that cannot be read: it stopped the query for ever."""
    assert java_parsing_pattern(f"{'[' * 50}yyyy{']' * 50}").fields
    for made in (java_parsing_pattern, java_writing_pattern):
        with pytest.raises(PatternError, match="more than 50 brackets within each other"):
            made(f"{'[' * 5_000}yyyy")
