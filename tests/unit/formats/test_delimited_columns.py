"""Lines of DELIMITED are read and written a column at a time, and are what each line alone is."""

from __future__ import annotations

import base64
import csv
import io
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from streamkit.data_type import to_arrow
from streamkit.formats import delimited
from streamkit.formats.decoded import Decoded
from streamkit.formats.delimited_cells import cells_in, line_of, quoted, text_of
from streamkit.formats.delimited_columns import read_plain
from streamkit.formats.format import DELIMITER, Format
from streamkit.formats.ksql_values import UnreadableValueError, plain_values
from streamkit.schema import Schema
from tests.kit.sampling import examples

COUNT = 150  # rows, more than are done one by one
TEXTS = st.text(st.characters(codec="utf-8"), max_size=4) | st.text("\"',;|\t \r\n\x00#!aé😀\ufeff", max_size=4)
DELIMITERS = [",", ";", "|", "\t", " ", "-", ".", "1", "e", "E", "N", "t", "$", "^", "\\", "]", "\0", "é", "😀"]
TYPES: dict[str, tuple[st.SearchStrategy[Any], st.SearchStrategy[str]]] = {  # values, and cells that are of the type
    "int": (st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1).map(str)),
    "bigint": (st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1).map(str)),
    "boolean": (st.booleans(), st.sampled_from(["true", "false", "TRUE", "yes"])),
    "double": (st.floats(), st.floats().map(repr)),
    "float": (st.floats(width=32), st.floats(width=32).map(repr)),
    "string": (TEXTS, TEXTS),
    "binary": (st.binary(max_size=4), st.binary(max_size=4).map(lambda data: base64.b64encode(data).decode())),
    "date": (st.integers(-(10**6), 10**6), st.integers(-(2**31), 2**31 - 1).map(str)),
    "timestamp": (st.integers(-(2**62), 2**62), st.integers(-(10**16), 10**16).map(str)),
    "decimal(6,2)": (st.decimals(-9999, 9999, places=2), st.decimals(-9999, 9999, places=2).map(str)),
    "decimal(38,20)": (st.decimals(-(10**17), 10**17, places=20), st.decimals(-(10**17), 10**17, places=20).map(str)),
    "decimal(3,3)": (st.decimals("-0.9", "0.9", places=3), st.decimals("-0.9", "0.9", places=3).map(str)),
}
ODD = st.sampled_from(
    [
        "+5",
        "-",
        "007",
        "-0",
        "-0.0",
        " 1",
        "1 ",
        "1_0",
        "0x1F",
        "1e400",
        "1e-400",
        "1E5",
        "1.",
        ".5",
        "NaN",
        "-Infinity",
        "inf",
        "nan",
    ]
    + [
        "١",
        "1.005",
        "1.500",
        "1e2",
        "99999.99",
        "AQ=",
        "A Q I =",
        "ſ",
        "null",
        "True",
        "tRuE",
        "1,5",
        '""',
        '"',
        '"a',
        "1" * 30,
        "0" * 45,
    ]
    + [str(sign * (1 << bits) + more) for bits in (7, 15, 31, 63) for sign in (1, -1) for more in (-1, 0, 1)]
    + ["9223372036854775", "9223372036854776", "-9223372036854775", "-9223372036854776"]
)


@st.composite
def lines(draw: st.DrawFn) -> tuple[Schema, Schema, str, list[bytes]]:
    """Columns, those that are wanted, a delimiter, and lines: most are whole, some have odd values, too few of them, or damage."""
    types = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4))
    written = Schema.parse(", ".join(f"c{place} {type}" for place, type in enumerate(types)))
    wanted = written.select(draw(st.permutations(written.names))[: draw(st.integers(1, len(types)))])
    delimiter = draw(st.sampled_from(DELIMITERS[:4] * 4 + DELIMITERS))
    kinds = draw(st.sampled_from([["plain"], ["plain", "odd"], ["plain", "odd", "bare", "bytes"]]))
    found = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(kinds))
        cells = [draw((TYPES[type][1] if kind == "plain" else TYPES[type][1] | ODD) | st.just("")) for type in types]
        if kind == "bare" and draw(st.booleans()):
            cells = cells[: draw(st.integers(0, len(cells)))]
        in_quotes = [quoted(cell, delimiter, is_first=False) if kind != "bare" else cell for cell in cells]
        data = delimiter.join(in_quotes).encode()
        found.append(draw(st.binary(max_size=4)) if kind == "bytes" else data)
    order = np.random.default_rng(draw(st.integers(0, 99))).integers(0, len(found), COUNT)
    return written, wanted, delimiter, [found[place] for place in order]


def as_texts(found: Decoded, columns: Schema) -> tuple[Any, ...]:
    """What was read, so that -0.0 is not 0.0, and NaN is NaN; times and dates as numbers, since Python has none beyond year 9999."""
    counted = [to_arrow(column.type.replace("timestamp", "bigint").replace("date", "int")) for column in columns]
    cells = [repr(one.cast(kind).to_pylist()) for one, kind in zip(found.rows.columns, counted, strict=True)]
    return found.rows.schema, found.rows.num_rows, cells, dict(found.failures)


def with_delimiter(delimiter: str) -> Format:
    return Format("delimited", settings=((DELIMITER, delimiter),))


@examples(1500)
@given(lines())
def test_lines_mean_what_each_means_alone(found: tuple[Schema, Schema, str, list[bytes]]) -> None:
    """Rows and errors are those of one line after the other, whatever is beside it."""
    written, wanted, delimiter, values = found

    at_once = delimited.read(with_delimiter(delimiter), written.ddl(), pa.array(values, pa.binary()), wanted, 0)

    assert as_texts(at_once, wanted) == as_texts(delimited.read_one_by_one(values, written, wanted, delimiter), wanted)


@examples(800)
@given(
    st.sampled_from(sorted(TYPES)).flatmap(
        lambda type: st.tuples(st.just(type), st.lists(TYPES[type][1] | ODD, min_size=1, max_size=4))
    )
)
@example(("timestamp", ["9223372036854775"]))
@example(("timestamp", ["9223372036854776"]))
@example(("timestamp", ["-9223372036854776"]))
@example(("double", ["1e400"]))
@example(("double", ["0x1F"]))
def test_cells_mean_what_each_means_alone(found: tuple[str, list[str]]) -> None:
    """So it is where all lines have one cell, at its limits or in an odd spelling."""
    columns = Schema.parse(f"a {found[0]}")
    values = [quoted(cell, ",", is_first=True).encode() for cell in found[1]] * COUNT

    at_once = delimited.read(with_delimiter(","), columns.ddl(), pa.array(values, pa.binary()), columns, 0)

    assert as_texts(at_once, columns) == as_texts(delimited.read_one_by_one(values, columns, columns, ","), columns)


@examples(1000)
@given(st.data())
def test_rows_have_the_lines_that_each_has_alone(data: st.DataObject) -> None:
    """The bytes of a batch are those of its rows, at any delimiter: nulls, empty texts, quotes, line ends, and what begins or ends oddly."""
    types = data.draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4))
    delimiter = data.draw(st.sampled_from(DELIMITERS))
    count = data.draw(st.integers(1, 4))
    columns = [
        pa.array(data.draw(st.lists(st.none() | TYPES[type][0], min_size=count, max_size=count)), to_arrow(type))
        for type in types
    ]
    batch = pa.RecordBatch.from_arrays(
        [pa.concat_arrays([one] * COUNT) for one in columns], names=[f"c{n}" for n in range(len(types))]
    )
    rows = batch.slice(data.draw(st.integers(0, 2)))

    found = delimited.write(with_delimiter(delimiter), None, rows)

    texts = [[text_of(value) for value in plain_values(column, type)] for column, type in zip(rows.columns, types, strict=True)]
    assert found.type == pa.binary()
    assert found.to_pylist() == [line_of(list(row), delimiter).encode() for row in zip(*texts, strict=True)]


def test_each_first_and_last_character_is_written_as_alone() -> None:
    """Whatever character a text begins or ends with, it is in quotes in a batch where it is alone, in the first column and behind it."""
    characters = [*map(chr, range(0x180)), "\u0660", "\u2028", "\ufeff", "😀"]
    texts = [text for one in characters for text in (one, f"{one}a", f"a{one}", f"a{one}a")]
    rows = pa.record_batch({"a": texts, "b": texts})

    for delimiter in DELIMITERS:
        expected = [line_of([text, text], delimiter).encode() for text in texts]
        assert delimited.write(with_delimiter(delimiter), None, rows).to_pylist() == expected


@pytest.mark.parametrize("type", sorted(set(TYPES) - {"binary"}))
def test_plain_lines_are_read_and_written_at_once(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line of a batch is looked at alone, whatever type its columns have."""
    cell = {"boolean": "true", "string": "x", "double": "1.5", "float": "1.5"}.get(type, "0.5" if type == "decimal(3,3)" else "3")
    values, columns = pa.array([cell.encode(), b""] * COUNT, pa.binary()), Schema.parse(f"a {type}")
    alone = delimited.read_one_by_one(values.to_pylist(), columns, columns, ",")
    for name in ("read_one_by_one", "line_of", "text_of", "delimited_columns.value_of", "delimited_columns.text_of"):
        monkeypatch.setattr(f"streamkit.formats.{name if '.' in name else f'delimited.{name}'}", None)

    found = delimited.read(with_delimiter(","), columns.ddl(), values, columns, 0)
    written = delimited.write(with_delimiter(","), None, found.rows)

    assert as_texts(found, columns) == as_texts(alone, columns)
    assert found.rows.column(0).null_count == COUNT
    assert read_plain(written, columns, columns, ",")[0] == found.rows.columns


@examples(1000)
@given(TEXTS, st.sampled_from(DELIMITERS))
def test_a_line_is_cut_as_csv_is(line: str, delimiter: str) -> None:
    """The values are those that Python's reader of CSV finds in the first line that is not empty; what that refuses anywhere is no line."""
    assume(not re.search(r'"\s', line))
    try:
        expected = [row for row in csv.reader(io.StringIO(line, newline=""), delimiter=delimiter, strict=True) if row]
    except csv.Error:
        with pytest.raises(UnreadableValueError, match=r"a quote is not closed|follows a closing quote"):
            cells_in(line, delimiter)
        return
    if line and not expected:
        with pytest.raises(UnreadableValueError, match="it has no values"):
            cells_in(line, delimiter)
        return
    assert cells_in(line, delimiter) == (expected or [[""]])[0]


@pytest.mark.parametrize("count", [1, COUNT])
def test_what_java_reads(count: int) -> None:
    """Several lines, empty ones before them, blanks behind a quote, and base 64 that is not filled up, alone and among plain lines."""
    columns = Schema.parse("a int, b string, c binary")
    texts = ["2,b,YWI=\n3,c,YWI=", "\r\n\n4,d,YWI", '9,"q""r" ,YWI', '9, "q" ,', '5,"a\nb"\t,\n\n', *["1,x,YWI="] * count]
    values = pa.array([text.encode() for text in texts], pa.binary())

    found = delimited.read(with_delimiter(","), columns.ddl(), values, columns, 0)

    assert found.failures == {}
    rows = [
        (2, "b", b"ab"),
        (4, "d", b"ab"),
        (9, 'q"r', b"ab"),
        (9, ' "q" ', None),
        (5, "a\nb", None),
        *[(1, "x", b"ab")] * count,
    ]
    assert [tuple(row.values()) for row in found.rows.to_pylist()] == rows


@pytest.mark.parametrize("count", [1, COUNT])
def test_a_quote_that_is_not_closed_is_an_error_of_its_line(count: int) -> None:
    """Such a line is a failure among others, and ends nothing."""
    columns = Schema.parse("a string, b int")

    found = delimited.read(with_delimiter(","), columns.ddl(), pa.array([b'"x,1'] + [b"x,1"] * count, pa.binary()), columns, 0)

    assert found.failures == {0: "found b'\"x,1': a quote is not closed"}
    assert found.rows.to_pylist()[1:] == [{"a": "x", "b": 1}] * count


def test_a_value_may_be_long() -> None:
    """A value without quotes has any length."""
    columns, long = Schema.parse("a string, b int"), "x" * 200_000

    for count in (1, COUNT):
        found = delimited.read(
            with_delimiter(","), columns.ddl(), pa.array([f"{long},1".encode()] * count, pa.binary()), columns, 0
        )
        assert found.failures == {}
        assert found.rows.slice(0, 1).to_pylist() == [{"a": long, "b": 1}]


def test_a_negative_number_that_comes_first_has_quotes() -> None:
    """commons-csv 1.4, which ksqlDB writes by, has quotes around a first cell that begins with no letter or digit; no other number has them."""
    rows = pa.record_batch({"a": pa.array([-5, 5, None], pa.int32()), "b": pa.array([-2.5, 2.5, -0.5]), "c": ["-x", "_", "'"]})
    assert delimited.write(with_delimiter(","), None, rows).to_pylist() == [b'"-5",-2.5,-x', b"5,2.5,_", b",-0.5,'"]
    for sign in "-_'~(+*/:@[^`":
        assert delimited.write(with_delimiter(","), None, pa.record_batch({"a": [sign + "a"]})).to_pylist() == [
            f'"{sign}a"'.encode()
        ]


@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_negative_numbers_in_quotes_are_read_as_each_alone(delimiter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers in quotes are read, also where something follows the quotes; with a delimiter that numbers lack at once."""
    columns = Schema.parse("a double, b string")
    lines = ['"-5"', '"-2.5e3"', '"-5', '"-5"x', '"-5" ', '"-"', '"-5""', "-7", '"--1"', '"-1-2"']
    values = [f"{line}{delimiter}{end}".encode() for line in lines for end in ("x", "-x", '"-5"', "")]
    found = delimited.read(with_delimiter(delimiter), columns.ddl(), pa.array(values * COUNT, pa.binary()), columns, 0)
    assert as_texts(found, columns) == as_texts(delimited.read_one_by_one(values * COUNT, columns, columns, delimiter), columns)
    if delimiter == ",":
        monkeypatch.setattr("streamkit.formats.delimited.read_one_by_one", None)
        at_once = pa.array([b'"-5",x', b"6,-x"] * COUNT, pa.binary())
        rows = delimited.read(with_delimiter(","), columns.ddl(), at_once, columns, 0).rows
        assert rows.to_pylist()[:2] == [{"a": -5.0, "b": "x"}, {"a": 6.0, "b": "-x"}]
