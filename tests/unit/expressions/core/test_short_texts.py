"""Short texts, coded by their bytes: the same groups as by their texts."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from streamkit.expressions.core import short_texts
from streamkit.expressions.core.groups import KeyCodes
from streamkit.expressions.core.short_texts import short_text_codes

LETTERS = "ab\x01é𝄞 "


def texts(seed: int, count: int, longest: int) -> list[str]:
    """Texts at random, of up to so many bytes."""
    chance = random.Random(seed)
    found = ("".join(chance.choices(LETTERS, k=chance.randrange(longest + 1))) for _ in range(20 * count))
    return [text for text in found if len(text.encode()) <= longest][:count]


def check_codes(column: pa.StringArray) -> None:
    """Each row has the code of its text, and each distinct text has one code."""
    found = short_text_codes(column)
    assert found is not None
    codes, values = found
    values.validate(full=True)
    assert values.take(pa.array(codes)).to_pylist() == column.to_pylist()
    assert sorted(values.to_pylist()) == sorted(set(column.to_pylist()))


@pytest.mark.parametrize("longest", [0, 1, 3, 8])
@pytest.mark.parametrize("cut", [0, 5])
def test_each_code_stands_for_its_text(monkeypatch, longest: int, cut: int) -> None:
    """Rows get the text that they have, one code for each distinct text; also in a slice of a column."""
    monkeypatch.setattr(short_texts, "ROWS_MIN", 1)
    for seed in range(20):
        column = pa.array(texts(seed, 60, longest), pa.string())[cut:]
        check_codes(column)


@pytest.mark.parametrize("length", [*range(1, 10), 15, 16, 17, 24, 30])
@pytest.mark.parametrize("rows", [1, 2, 3, 9, 60])
def test_texts_of_one_length_have_their_codes_as_well(monkeypatch, length: int, rows: int) -> None:
    """Each text is told from every other, also by its last byte, a zero, too; and the last rows, behind which no bytes are; long ones begin alike."""
    monkeypatch.setattr(short_texts, "ROWS_MIN", 1)
    for seed in range(20):
        chance = random.Random(seed)
        ends = ["".join(chance.choices("ab\x7f\0", k=min(length, 8))) for _ in range(rows + 3)]
        column = pa.array(["x" * (length - len(end)) + end for end in ends])[3:]
        assert set(map(len, column.to_pylist())) == {length}
        check_codes(column)


@pytest.mark.parametrize("length", [9, 16, 17, 30])
def test_long_texts_that_begin_otherwise_are_not_taken(monkeypatch, length: int) -> None:
    """One byte before the last eight is enough, wherever it is."""
    monkeypatch.setattr(short_texts, "ROWS_MIN", 1)
    for place in range(length - 8):
        other = "x" * place + "y" + "x" * (length - place - 1)
        assert short_text_codes(pa.array(["x" * length, other, "x" * length])) is None


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "123456789"]),
        pa.array(["a", "a\0"]),
        pa.array(["a", None]),
        pa.array(["a", "b"], pa.binary()),
        pa.array([1, 2]),
        pa.array([], pa.string()),
        pa.array(["ééééé", "a", "b"]),
    ],
    ids=["long", "zero byte", "null", "binary", "numbers", "no rows", "ten bytes"],
)
def test_other_columns_are_not_taken(monkeypatch, column: pa.Array) -> None:
    """A text that is longer or has a zero byte is hashed as a text, and so is every text beside it; keys are grouped all the same."""
    monkeypatch.setattr(short_texts, "ROWS_MIN", 1)
    assert short_text_codes(column) is None
    keys = KeyCodes.of(column)
    assert keys.values.take(pa.array(keys.codes)).to_pylist() == column.to_pylist()


def test_few_rows_are_not_taken() -> None:
    """With few rows it costs more than it saves."""
    rows = ["a"] * short_texts.ROWS_MIN
    assert short_text_codes(pa.array(rows[1:])) is None
    assert short_text_codes(pa.array(rows)) is not None


def test_keys_that_are_short_are_grouped_as_others() -> None:
    """Columns of a group have the same values and as many of them, whichever way they are coded."""
    short = texts(1, short_texts.ROWS_MIN, 8)
    by_bytes, by_hash = KeyCodes.of(pa.array(short)), KeyCodes.of(pa.array([*short, "long enough"]))
    assert by_bytes.values.to_pylist() == by_hash.values.to_pylist()[:-1]
    assert by_bytes.codes.tolist() == by_hash.codes.tolist()[:-1]
