"""Rows as lines of CSV for files: at once, they are the lines that their values have one by one."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from hypothesis import given, settings

from streamkit.connectors.files import record_lines
from streamkit.connectors.files.record_lines import csv_lines, json_text, write_csv
from streamkit.formats.json_texts import spaced_json_values
from streamkit.log.topic.formats import rows_of
from streamkit.log.values.python_values import python_values
from tests.unit.formats.json_values import batches, result


def one_by_one(rows):
    """The lines of the values of Python."""
    file = io.StringIO()
    write_csv(file, rows.column_names, rows_of(None, rows))
    return file.getvalue().encode()


@given(batches())
@settings(max_examples=100, deadline=None)
def test_lines_are_those_of_the_values(batch):
    """Nested values, nulls everywhere, numbers at their ends, quotes, times of all units: byte for byte."""
    rows = pa.Table.from_batches([batch])
    if rows.num_columns:
        assert result(lambda rows: csv_lines(None, rows), rows) == result(one_by_one, rows)


@given(batches())
@settings(max_examples=60, deadline=None)
def test_values_as_json_are_those_of_each(batch):
    """The values of one column as JSON, where they can be written at once: byte for byte."""
    for column in batch.columns:
        found = spaced_json_values(column)
        if found is not None:
            assert found.to_pylist() == [None if value is None else json_text(value) for value in python_values(column)]


def test_the_values_of_topics_are_written_at_once(monkeypatch):
    """No row is looked at alone, with nested values among the columns; texts that need quotes have them."""
    rows = pa.table(
        {
            "t": pa.chunked_array([["a", ",", None], ["", '"', "\r"] * 29]),
            "n": [{"x": 1, "y": ["u", None]}, None, {"x": None, "y": []}] * 30,
            "at": pa.array([0, None, 1] * 30, pa.timestamp("us", "UTC")),
            "f": [1e16, float("nan"), None] * 30,
        }
    )
    expected = one_by_one(rows)
    monkeypatch.setattr(record_lines, "rows_of", None)

    assert csv_lines(None, rows) == expected
    assert expected.startswith(b'a,"{""x"": 1, ""y"": [""u"", null]}",1970-01-01T00:00:00Z,1e+16\n",",,,nan\n')


@pytest.mark.parametrize("count", [0, 1, 39, 40])
def test_tables_of_any_length_are_written(count):
    """No row, few rows and many, in chunks, are lines alike."""
    rows = pa.table({"a": pa.chunked_array([list(range(count)), []], pa.int64())})

    assert csv_lines(None, rows) == b"".join(b"%d\n" % number for number in range(count))
