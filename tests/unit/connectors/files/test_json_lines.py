"""Rows as lines of JSON: at once, they are the lines that their values have one by one."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from streamkit.connectors.files import record_lines
from streamkit.connectors.files.record_lines import json_lines, write_json
from streamkit.log.topic.formats import rows_of
from streamkit.names import DELETED
from tests.unit.formats.json_values import batches, result


def one_by_one(rows):
    """The lines of the values of Python."""
    file = io.StringIO()
    write_json(file, rows_of(None, rows))
    return file.getvalue().encode()


@given(batches())
@settings(max_examples=60, deadline=None)
def test_lines_are_those_of_the_values(batch):
    """Nested values, nulls everywhere, numbers at their ends, escapes, times of all units: byte for byte."""
    rows = pa.Table.from_batches([batch])
    if rows.num_columns:
        assert result(lambda rows: json_lines(None, rows), rows) == result(one_by_one, rows)


def test_numbers_are_those_of_repr():
    """Doubles of any bits, and decimal ones near the places where an exponent begins, are written as Python's repr."""
    random = np.random.default_rng(7)
    bits = random.integers(-(1 << 63), (1 << 63) - 1, 20_000).view(np.float64)
    numbers = np.concatenate(
        [bits, 10.0 ** random.uniform(-10, 25, 20_000), 10.0 ** np.arange(-30, 40), [0.0, -0.0, np.inf, -np.inf]]
    )
    narrow = random.normal(size=len(numbers)).astype(np.float32)
    rows = pa.table({"n": numbers, "f": narrow})

    assert json_lines(None, rows) == one_by_one(rows)


def test_only_deletions_say_that_they_are_one(monkeypatch):
    """Deletions among other records have their mark, the others none; and no row is looked at alone."""
    rows = pa.table({"k": list(range(90)), DELETED: [True, False, None] * 30, "v": [None, 1.5, -2.0] * 30})
    expected = one_by_one(rows)
    monkeypatch.setattr(record_lines, "rows_of", None)

    assert json_lines(None, rows) == expected
    assert expected.startswith(b'{"k": 0, "_deleted": true, "v": null}\n{"k": 1, "v": 1.5}\n')


@pytest.mark.parametrize("count", [0, 1, 63, 64])
def test_tables_of_any_length_are_written(count):
    """No row, few rows and many, in chunks, are lines alike."""
    rows = pa.table({"a": pa.chunked_array([list(range(count)), []], pa.int64())})

    assert json_lines(None, rows) == b"".join(b'{"a": %d}\n' % number for number in range(count))
