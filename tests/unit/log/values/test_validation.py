"""Promises about sound columns: the quick look at texts says what Arrow's own full validation says."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkit.log.values.validation import _is_plain_text, validate, validate_column
from tests.kit.sampling import examples

OFFSETS = st.lists(st.integers(-2, 9), min_size=1, max_size=5)
BYTES = st.one_of(st.binary(max_size=8), st.text("ab", max_size=8).map(str.encode), st.text("aé€", max_size=3).map(str.encode))


def texts(offsets, data, first=0, nulls=None, surplus=b""):
    """An array of texts from its parts, as a file may have them, from the row `first` on; `surplus` follows the offsets."""
    validity = None if nulls is None else pa.py_buffer(np.packbits(~np.array(nulls), bitorder="little"))
    buffers = [validity, pa.py_buffer(np.array(offsets, np.int32).tobytes() + surplus), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers, 0 if nulls is None else sum(nulls)).slice(first)


def is_sound(check):
    try:
        check()
    except pa.ArrowInvalid:
        return False
    return True


@examples(500)
@given(OFFSETS, BYTES, st.integers(0, 4), st.binary(max_size=5))
@example([0, 2, 4], b"abcd", 0, b"")
@example([0, 1, 2], "é".encode(), 0, b"")
@example([0, 2, 1], b"ab", 0, b"")
@example([0, -1, 2], b"ab", 0, b"")
@example([0, 5, 2, 2], b"ab", 0, b"")
@example([0, 2, 5, 2], b"ab", 2, b"")
@example([0, 1, 2], b"a\xff", 0, b"")
@example([0, 1, 2], b"\xffa", 1, b"")
@example([0, 1, 2], b"ab", 0, b"x")
def test_texts_pass_if_arrow_lets_them(offsets, data, first, surplus):
    """Whatever offsets and bytes say, whole or from a row on: the same columns are sound."""
    try:
        column = texts(offsets, data, min(first, len(offsets) - 1), surplus=surplus)
    except pa.ArrowInvalid:
        return  # Arrow makes no column of bounds that do not fit
    assert is_sound(lambda: validate_column(column)) == is_sound(lambda: column.validate(full=True))


@examples(200)
@given(st.lists(st.one_of(st.none(), st.text(max_size=5)), max_size=8), st.integers(0, 8))
def test_sound_texts_pass(values, first):
    """Texts of any script, nulls among them."""
    validate_column(pa.array(values, pa.string()).slice(min(first, len(values))))


def test_texts_of_ascii_are_not_looked_at_one_by_one():
    """The quick look knows ASCII to be sound, also in a part of a column beside other texts; it says nothing of others."""
    assert _is_plain_text(pa.array(["a", "", "bc"]))
    assert _is_plain_text(pa.array(["é", "a", "b"]).slice(1))
    for other in (
        pa.array(["é"]),
        pa.array(["a", None]),
        pa.array([1]),
        pa.array(["a"], pa.large_string()),
        pa.array([], pa.string()),
    ):
        assert not _is_plain_text(other)


@pytest.mark.parametrize(
    "column",
    [
        texts([0, 5, 2], b"ab"),
        texts([0, 2, 1, 2], b"ab"),
        texts([0, 1, 2], b"\xff\xfe"),
        pa.DictionaryArray.from_arrays(pa.array([7], pa.int32()), pa.array(["a"]), safe=False),
        pa.Array.from_buffers(pa.decimal128(3, 0), 1, [None, pa.py_buffer((10**30).to_bytes(16, "little"))]),
    ],
    ids=["beyond the bytes", "backwards", "no UTF-8", "index", "decimal"],
)
def test_what_is_not_sound_is_refused(column):
    """Columns whose lengths, offsets, indexes or values lie, alone and in a batch."""
    with pytest.raises(pa.ArrowInvalid):
        validate_column(column)
    with pytest.raises(pa.ArrowInvalid):
        validate(pa.RecordBatch.from_arrays([pa.array([1] * len(column)), column], ["n", "v"]))
