"""Promises of the intervals of a condition: never narrower than what it says, and as narrow as a conjunction allows."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.query.condition import EVERYTHING, Interval
from streamkit.query.predicate import parse_predicate
from tests.kit.sampling import examples
from tests.unit.query.conditions import SIGNS, conditions

SCHEMA = pa.schema(
    [
        ("n", pa.int32()),
        ("_offset", pa.int64()),
        ("_partition", pa.int32()),
        ("_timestamp", pa.timestamp("ms", "UTC")),
    ]
)
SECOND_MS = 1_000
ROWS = [
    {"n": n, "_offset": offset, "_partition": partition, "_timestamp": dt.datetime.fromtimestamp(second, dt.timezone.utc)}
    for n in (None, 0)
    for partition in range(2)
    for offset in range(4)
    for second in range(4)
]
BATCH = pa.RecordBatch.from_pylist(ROWS, SCHEMA)
NUMBERS = st.sampled_from(["-1", "0", "1", "1.5", "2", "3", "9", "1e400"])
TIMES = st.integers(-1, 5).map(lambda second: f"'{dt.datetime.fromtimestamp(second, dt.timezone.utc).isoformat()}'") | st.just(
    "'1970-01-01T00:00:01.000500Z'"
)
COLUMNS = st.sampled_from(["_offset", "_partition", "n"])


@st.composite
def comparisons(draw):
    """A comparison of a column that frames know about, or of one they do not."""
    column, literal = draw(st.one_of(st.tuples(COLUMNS, NUMBERS), st.tuples(st.just("_timestamp"), TIMES)))
    sign, other, negation = draw(SIGNS), draw(TIMES if column == "_timestamp" else NUMBERS), draw(st.sampled_from(["", "not "]))
    forms = [f"{column} {sign} {literal}", f"{literal} {sign} {column}", f"{column} {negation}between {literal} and {other}"]
    return draw(st.sampled_from([*forms, f"{column} {negation}in ({literal}, {other})", "n is null", "_offset > _partition"]))


def value_of(row, column):
    return int(row[column].timestamp() * SECOND_MS) if column == "_timestamp" else row[column]


@examples(200)
@given(conditions(comparisons()))
def test_no_record_outside_fits(text):
    """Whatever is asked, every record for which it holds lies within the intervals."""
    condition = parse_predicate(text, SCHEMA)

    for row in BATCH.filter(condition.expression).to_pylist():
        for column in ("_offset", "_partition", "_timestamp"):
            assert value_of(row, column) in condition.interval(column), (text, row)


@pytest.mark.parametrize(
    ("text", "column", "interval"),
    [
        ("_offset > 5", "_offset", Interval(6, None)),
        ("5 <= _offset and n = 1 and _offset < 9", "_offset", Interval(5, 9)),
        ("_offset between 5 and 9", "_offset", Interval(5, 10)),
        ("_offset = 7", "_offset", Interval(7, 8)),
        ("_offset in (7, 3)", "_offset", Interval(3, 8)),
        ("_offset >= 2.5 and (_offset <= 7.5 and n = 1)", "_offset", Interval(3, 8)),
        ("_offset < 2 or _offset < 5", "_offset", Interval(None, 5)),
        ("_offset < 2 or n = 1", "_offset", EVERYTHING),
        ("not _offset < 2", "_offset", EVERYTHING),
        ("_offset != 2", "_offset", EVERYTHING),
        ("_partition = 1", "_partition", Interval(1, 2)),
        ("_timestamp >= '1970-01-01T00:00:01Z'", "_timestamp", Interval(1_000, None)),
        ("_timestamp > '1970-01-01T00:00:01.000500Z'", "_timestamp", Interval(1_001, None)),
        ("_timestamp <= '1970-01-01T01:00:01.000500+01:00'", "_timestamp", Interval(None, 1_001)),
        ("n > 5", "n", EVERYTHING),
    ],
)
def test_a_conjunction_narrows(text, column, interval):
    """Comparisons joined by AND, in brackets too, narrow the interval to just what they say."""
    assert parse_predicate(text, SCHEMA).interval(column) == interval
