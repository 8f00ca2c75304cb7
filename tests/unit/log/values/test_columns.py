"""Promises about the values of columns of fixed width: they are the column's, whatever else its buffer has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streamkit.log.values.columns import fixed_values

BEHIND = b"abc"  # no whole value of any type of more than one byte


@pytest.mark.parametrize(
    ("type_name", "type"),
    [("double", pa.float64()), ("bigint", pa.int64()), ("int", pa.int32()), ("decimal(5,2)", pa.decimal128(5, 2))],
)
@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("offset", [0, 2])
def test_bytes_behind_the_values_are_none(type_name, type, rows, offset):
    """Arrow's buffer of a column may be longer than its values, by bytes that are no whole value, also if it has no values."""
    width = type.bit_width // 8
    numbers = np.arange((offset + rows) * width, dtype=np.uint8).tobytes()
    exact = pa.Array.from_buffers(type, rows, [None, pa.py_buffer(numbers)], offset=offset)
    longer = pa.Array.from_buffers(type, rows, [None, pa.py_buffer(numbers + BEHIND)], offset=offset)
    found = fixed_values(longer, type_name)
    assert len(found) == rows
    assert found.tobytes() == fixed_values(exact, type_name).tobytes() == numbers[offset * width :]
