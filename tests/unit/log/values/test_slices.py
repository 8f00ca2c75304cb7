"""Slices: copying byte strings of any length, and the limit of a binary array."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.log.values.slices import ByteSlices, gather, join, unless
from tests.kit.sampling import examples


@examples(100)
@given(st.lists(st.none() | st.binary(max_size=40), max_size=12), st.integers(0, 12))
def test_slices_of_an_array_are_its_rows(values: list[bytes | None], begin: int) -> None:
    """Sliced arrays with nulls come out row by row, a null as an empty one."""
    rows = ByteSlices.of(pa.array(values, pa.binary())[begin:])
    assert gather(rows).to_pylist() == [value or b"" for value in values[begin:]]


@examples(100)
@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=3), st.booleans()), max_size=12))
def test_parts_are_laid_side_by_side(rows: list[tuple[bytes, bytes, bool]]) -> None:
    """Fixed and variable parts, also left out in some rows, follow one another in each row."""
    left, right = (ByteSlices.of(pa.array([row[i] for row in rows], pa.binary())) for i in range(2))
    numbers = np.arange(len(rows), dtype=">u4")
    present = np.array([row[2] for row in rows], np.bool_)
    joined = join([numbers, left, unless(numbers, present), unless(right, present), numbers.astype("u1"), numbers])
    for index, (row, (first, second, there)) in enumerate(zip(joined.to_pylist(), rows)):
        number = index.to_bytes(4, "big")
        assert row == number + first + (number + second if there else b"") + bytes([index]) + number


def test_slices_may_repeat_and_overlap() -> None:
    """Rows are taken from where they say, in the order asked for."""
    data = np.frombuffer(b"abcdef", np.uint8)
    rows = ByteSlices(data, np.array([2, 0, 2]), np.array([3, 1, 4])).take(np.array([2, 2, 0, 1]))
    assert gather(rows, np.array([True, False, True, True])).to_pylist() == [b"cdef", None, b"cde", b"a"]


@examples(200)
@given(
    st.lists(st.binary(max_size=20), max_size=9) | st.lists(st.binary(min_size=11, max_size=11), max_size=9),
    st.integers(0, 3),
    st.randoms(),
)
def test_words_are_the_bytes_of_rows(values: list[bytes], begin: int, chance: Random) -> None:
    """Eight bytes of each row from anywhere on, with zeros behind its end, of rows of one length and of several, and in any order."""
    rows = ByteSlices.of(pa.array(values, pa.binary())[begin:])
    order = np.array(chance.sample(range(len(rows)), len(rows)), np.int64)
    for position in (0, 1, 3, 4, 8, 16):
        wanted = [int.from_bytes(value[position : position + 8], "little") for value in values[begin:]]
        assert rows.words_at(position).tolist() == wanted
        assert rows.take(order).words_at(position).tolist() == [wanted[row] for row in order]


def test_a_slice_outside_its_buffer_is_refused() -> None:
    """A length that was not checked raises IndexError instead of reading what lies behind."""
    with pytest.raises(IndexError):
        gather(ByteSlices(np.zeros(4, np.uint8), np.array([1]), np.array([4])))
    with pytest.raises(IndexError):
        join([ByteSlices(np.zeros(4, np.uint8), np.array([1]), np.array([4]))])


def test_more_than_a_binary_array_holds_is_refused() -> None:
    """2 GiB of rows raise OverflowError before any memory is taken."""
    rows = ByteSlices(np.zeros(2**20, np.uint8), np.zeros(2048, np.int64), np.full(2048, 2**20))
    with pytest.raises(OverflowError, match="2147483648 bytes"):
        join([rows])
