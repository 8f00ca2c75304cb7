"""The order of byte strings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.log.values import byte_order as module
from streamkit.log.values.byte_order import byte_order, order_of_numbers

FEW = st.binary(max_size=4).map(lambda found: bytes(byte % 3 for byte in found))  # many are equal, or begin another
STRINGS = st.lists(
    FEW | st.binary(max_size=40) | FEW.map(lambda found: b"the same for all of them" + found), min_size=1, max_size=60
)


@pytest.fixture(autouse=True)
def sort_few(monkeypatch):
    """However few there are, they are not compared at once."""
    monkeypatch.setattr(module, "ROWS_MIN", 1)


def sorted_by_python(strings: list[bytes]) -> list[int]:
    return sorted(range(len(strings)), key=lambda row: strings[row])


@given(STRINGS, st.integers(0, 3), st.integers(0, 3))
def test_strings_come_in_the_order_of_their_bytes(strings, before, behind):
    """As Python's sort, which is stable: strings of any length, equal ones, and some that begin others; also of a part of an array."""
    array = pa.array([b"x"] * before + strings + [b"yz"] * behind, pa.binary()).slice(before, len(strings))

    assert byte_order(array).to_pylist() == sorted_by_python(strings)


@pytest.mark.parametrize("equal_bytes", [0, 7, 200])
@pytest.mark.parametrize("alike", [1, 4], ids=["few alike", "most alike"])
@pytest.mark.parametrize("behind", [12, 28])
def test_many_bytes_that_differ(equal_bytes, alike, behind):
    """Strings that differ in more bytes than are sorted: where that leaves some equal, they are compared."""
    numbers = np.random.default_rng(7).integers(0, 256, (500, 30), np.uint8)
    numbers[np.arange(500) % 5 < alike, :behind] = numbers[0, :behind]  # these differ behind the first number, or behind all
    strings = [bytes(equal_bytes) + row.tobytes() for row in numbers]

    assert byte_order(pa.array(strings)).to_pylist() == sorted_by_python(strings)


@given(
    st.lists(
        st.tuples(st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1]), st.booleans(), st.integers(-9, 9)), min_size=1, max_size=60
    )
)
def test_numbers_come_in_their_order(rows):
    """By the first column, then by the next; equal rows stay as they stand, and negative numbers come first."""
    order = order_of_numbers(*map(np.array, zip(*rows, strict=True))).tolist()

    assert order == sorted(range(len(rows)), key=lambda row: rows[row])


def test_strings_that_differ_in_nothing():
    """Equal and empty strings stay as they stand."""
    assert byte_order(pa.array([b""] * 3)).to_pylist() == [0, 1, 2]
    assert byte_order(pa.array([b"equal"] * 3)).to_pylist() == [0, 1, 2]


def test_more_than_are_compared(monkeypatch):
    """Beyond the bound strings are sorted by digits, and come as compared ones."""
    monkeypatch.undo()
    keys = pa.array([f"user{number * 7919 % 20_011:07d}".encode() for number in range(module.ROWS_MIN + 1)])

    assert byte_order(keys).to_pylist() == sorted_by_python(keys.to_pylist())
