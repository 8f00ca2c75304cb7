"""Columns as lines of CSV: whatever the types and the values, a batch has the lines that its rows have one by one."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamkit.data_type import to_arrow
from streamkit.formats import csv
from streamkit.formats.format import Format
from tests.unit.formats.json_values import ATOMS, FAR, MOMENTS, TEXTS

COUNT = 120
CELLS = st.text(',;"\n\r\t aé😀', max_size=5) | TEXTS
DECLARED = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32),
    "double": st.floats() | st.sampled_from([0.0, -0.0, 1e15, 1e16, 1e-4, 9.99e-5, 5e-324, math.nan, math.inf, -math.inf]),
    "string": CELLS,
    "binary": st.binary(max_size=7),
    "decimal(38,12)": st.decimals(-(10**25), 10**25, places=12),
    "decimal(5,0)": st.decimals(-99_999, 99_999, places=0),
    "date": st.dates(),
    "timestamp": MOMENTS["us"],
    "timestamp_ntz": MOMENTS["us"],
}
DELIMITERS = [",", ";", "\t", " ", "|", "-", ":", ".", "1", "e", "Z", "=", "T", "\\", "\0"]


@st.composite
def written(draw):
    """The columns of CSV, a delimiter, and rows: most columns are of the declared type, some of another."""
    kinds = draw(st.lists(st.sampled_from(sorted(DECLARED)), min_size=1, max_size=4))
    count = draw(st.integers(1, 4))
    order = pa.array(np.random.default_rng(draw(st.integers(0, 99))).integers(0, count, COUNT))
    columns = {}
    for number, kind in enumerate(kinds):
        own = (to_arrow(kind), DECLARED[kind])
        arrow, values = draw(st.sampled_from([own] * 6 + [(pa.dictionary(pa.int32(), pa.string()), CELLS), *ATOMS, *FAR]))
        found = pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), arrow)
        columns[f"c{number}"] = found.take(order)
    if draw(st.booleans()):
        kinds.append("string")  # which the rows lack
    text = ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds))
    return text, draw(st.sampled_from(DELIMITERS)), pa.record_batch(columns).slice(draw(st.integers(0, 9)))


def with_delimiter(delimiter):
    return Format("csv", settings=(("delimiter", delimiter),))


def at_once(format, text, rows):
    """The lines of a batch."""
    return csv.write(format, text, rows).to_pylist()


def one_by_one(format, text, rows):
    """The lines of the values of Python."""
    encode = csv.value_writer(format, text)
    return [encode(row) for row in rows.to_pylist()]


def result(write, *parts):
    """The lines; the error if there is one."""
    try:
        return write(*parts)
    except (ValueError, OverflowError) as error:
        return type(error), str(error)


@given(written())
@settings(max_examples=300, deadline=None)
def test_a_batch_has_the_lines_of_its_rows(found):
    """Numbers at their ends, times of all units, texts that need quotes, any delimiter: byte for byte, and errors where they are."""
    text, delimiter, rows = found

    written, expected = (result(write, with_delimiter(delimiter), text, rows) for write in (at_once, one_by_one))
    assert written == expected or expected[0] is OverflowError  # of a year that Python has not, which `test_far_times` compares


def test_numbers_are_those_of_repr():
    """Doubles of any bits, and decimal ones near the places where an exponent begins, are written as Python's repr."""
    random = np.random.default_rng(7)
    bits = random.integers(-(1 << 63), (1 << 63) - 1, 50_000).view(np.float64)
    numbers = np.concatenate([bits, np.round(random.normal(size=50_000) * 1e4, 2), 10.0 ** np.arange(-30, 40), [0.0, -0.0]])

    found = csv.write(Format("csv"), "n double", pa.record_batch({"n": numbers})).to_pylist()

    assert found == [repr(number).encode() for number in numbers.tolist()]


PLAIN = {
    "tinyint": pa.array([1, None, -128, 127], pa.int8()),
    "bigint": pa.array([1, None, -(1 << 63), (1 << 63) - 1]),
    "double": pa.array([1.0, None, math.nan, -math.inf]),
    "float": pa.array([0.1, None, -0.0, math.inf], pa.float32()),
    "string": pa.array(['a"\r\n,ü😀', None, "", " x "]),
    "boolean": pa.array([True, None, False, True]),
    "decimal(20,8)": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("-1e-8"), decimal.Decimal(0)], pa.decimal128(20, 8)),
    "timestamp": pa.array([-62_135_596_800_000_000, None, -1, 253_402_300_799_999_999], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([-62_135_596_800_000_000, None, 0, 253_402_300_799_999_999], pa.timestamp("us")),
    "date": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(2026, 1, 2)]),
    "binary": pa.array([b"\x00hi", None, b"", b"abc"]),
}
EXPECTED = {
    "tinyint": [b"1", b"", b"-128", b"127"],
    "bigint": [b"1", b"", b"-9223372036854775808", b"9223372036854775807"],
    "double": [b"1.0", b"", b"nan", b"-inf"],
    "float": [b"0.10000000149011612", b"", b"-0.0", b"inf"],
    "string": ['"a""\r\n,ü😀"'.encode(), b"", b'""', b" x "],
    "boolean": [b"true", b"", b"false", b"true"],
    "decimal(20,8)": [b"1.50000000", b"", b"-1E-8", b"0E-8"],
    "timestamp": [b"0001-01-01 00:00:00Z", b"", b"1969-12-31 23:59:59.999999Z", b"9999-12-31 23:59:59.999999Z"],
    "timestamp_ntz": [b"0001-01-01 00:00:00", b"", b"1970-01-01 00:00:00", b"9999-12-31 23:59:59.999999"],
    "date": [b"0001-01-01", b"", b"9999-12-31", b"2026-01-02"],
    "binary": [b"AGhp", b"", b'""', b"YWJj"],
}


@pytest.mark.parametrize("kind", PLAIN)
def test_the_types_of_topics_are_written_at_once(kind, monkeypatch):
    """No row of a batch is looked at alone, whatever type its columns have; a row alone has the same line."""
    rows = pa.record_batch({"v": pa.concat_arrays([PLAIN[kind]] * 30)})
    alone = [csv.write(Format("csv"), f"v {kind}", rows.slice(row, 1))[0].as_py() for row in range(4)]
    monkeypatch.setattr(csv, "cell_writer", None)

    found = csv.write(Format("csv"), f"v {kind}", rows)

    assert found.type == pa.binary()
    assert found.to_pylist() == EXPECTED[kind] * 30
    assert alone == EXPECTED[kind]


EDGES = {
    **PLAIN,
    "double": pa.array([1e300, 1e-300, math.nan, -math.inf]),
    "string": pa.array(["\r", "a\nb", '"', "\0"]),
    "decimal(20,8)": pa.array(map(decimal.Decimal, ["1e-8", "1.5", "0", "123456789012"]), pa.decimal128(20, 8)),
}


def test_any_delimiter_puts_in_quotes_what_has_it():
    """Each character of ASCII that may stand between values, also one that numbers, times and bytes are spelled with."""
    rows = pa.record_batch({f"c{number}": pa.concat_arrays([column] * 10) for number, column in enumerate(EDGES.values())})
    text = ", ".join(f"c{number} {kind}" for number, kind in enumerate(EDGES))

    for delimiter in set(map(chr, range(128))) - set('"\r\n'):
        found = with_delimiter(delimiter)
        assert at_once(found, text, rows) == one_by_one(found, text, rows), repr(delimiter)


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ns"), pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ms", "+02:00"), pa.time64("us")], ids=str
)
def test_types_of_no_topic_are_written_too(kind):
    """Times of other zones and units in a column of texts have the spelling of their values."""
    rows = pa.record_batch({"v": pa.array([0, 86_399_999_999, None, 5_000] * 20).view(kind)})

    assert at_once(Format("csv"), "v string", rows) == one_by_one(Format("csv"), "v string", rows)


def test_a_number_that_does_not_fit_is_refused():
    """One whole number beyond its column among many, and others in narrower columns as far as they fit."""
    narrow = pa.record_batch({"v": pa.array([127, -128, None] * 20, pa.int64())})
    assert at_once(Format("csv"), "v tinyint", narrow) == [b"127", b"-128", b""] * 20

    with pytest.raises(ValueError, match="column 'v': found 128, expected tinyint"):
        csv.write(Format("csv"), "v tinyint", pa.record_batch({"v": pa.array([0] * 99 + [128])}))


@pytest.mark.parametrize("count", [0, 1, 39, 40, 200])
def test_batches_of_any_length_are_written(count):
    """No row, few rows and many: the way changes in between, and the lines do not."""
    rows = pa.record_batch({"a": pa.array(range(count), pa.int64()), "b": pa.array([None] * count, pa.string())})

    found = csv.write(Format("csv"), "b string, a bigint, c date", rows)

    assert found.type == pa.binary()
    assert found.to_pylist() == [b",%d," % number for number in range(count)]


def test_the_first_value_that_does_not_fit_is_the_error():
    """One among many rows has the error that it has alone, of whichever column."""
    rows = pa.record_batch({"a": pa.array([0] * 98 + [1, 1 << 40]), "b": pa.array([0.0] * 97 + [1e300, 0.0, 0.0])})

    with pytest.raises(ValueError, match=r"column 'b': found 1e\+300, expected float"):
        csv.write(Format("csv"), "a int, b float", rows)


def test_a_text_that_is_no_utf8_is_refused():
    """Bytes that are not UTF-8 in a column of texts are an error of the batch as of a row."""
    broken = pa.array([b"\xff"] * 100, pa.binary()).view(pa.string())

    with pytest.raises(UnicodeDecodeError):
        csv.write(Format("csv"), "t string", pa.record_batch({"t": broken}))
