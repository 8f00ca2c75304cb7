"""Bytes of one length as numbers: equal, smaller and larger where the bytes are."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from streamkit.expressions.core import last_bytes
from streamkit.expressions.core.last_bytes import numbers_of_last_bytes


@pytest.fixture(autouse=True)
def few_rows_suffice(monkeypatch) -> None:
    monkeypatch.setattr(last_bytes, "ROWS_MIN", 1)


@pytest.mark.parametrize("head", [b"", b"\x01", b"\xff\0head"])
@pytest.mark.parametrize("cut", [0, 3])
def test_numbers_are_in_the_order_of_the_bytes(head: bytes, cut: int) -> None:
    """Of any two rows the numbers compare as their bytes do, also in a slice of a column, and on both sides of the largest one with a sign."""
    for seed in range(20):
        chance = random.Random(seed)
        keys = [head + bytes(chance.choices(b"\0\x01\x7f\x80\xff", k=8)) for _ in range(60)]
        numbers = numbers_of_last_bytes(pa.array(keys)[cut:])
        assert numbers is not None
        both = list(zip(numbers.tolist(), keys[cut:], strict=True))
        assert [key for _, key in sorted(both)] == sorted(keys[cut:])
        assert len(set(both)) == len(set(keys[cut:])) == len(set(numbers.tolist()))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"12345678", b"1234567"]),
        pa.array([b"1234567", b"1234568"]),
        pa.array([b"a12345678", b"b12345678"]),
        pa.array([b"12345678", None]),
        pa.array(["12345678", "12345679"]),
        pa.array([], pa.binary()),
    ],
    ids=["other length", "short", "other head", "null", "text", "empty"],
)
def test_other_columns_have_none(column: pa.Array) -> None:
    """Bytes of several lengths, short ones, ones that differ in front, a null, texts: none of them is taken for numbers."""
    assert numbers_of_last_bytes(column) is None


def test_few_rows_have_none(monkeypatch) -> None:
    """Below the bound for rows there are no numbers, from it on there are."""
    monkeypatch.setattr(last_bytes, "ROWS_MIN", 3)
    rows = [b"12345678"] * 3
    assert numbers_of_last_bytes(pa.array(rows[1:])) is None
    assert numbers_of_last_bytes(pa.array(rows)) is not None
