"""State keys: golden vectors, order, round trip, ranges, and bytes that are no state key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import CorruptionError
from streamkit.state.key import range_prefix, split_state_keys, state_keys
from tests.kit.sampling import examples

TIMES = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, 1, 60_000])
KEYS = st.none() | st.text(st.sampled_from("\0ab"), max_size=3)
ROWS = st.lists(st.tuples(st.integers(0, 3) | st.integers(0, 65535), TIMES, KEYS, st.none() | st.integers(-2, 2)), max_size=8)
Row = tuple[int, int, str | None, int | None]


def encode(rows: list[Row], store_number: int, windowed: bool) -> list[bytes]:
    groups, starts, texts, numbers = ([row[i] for row in rows] for i in range(4))
    columns = [pa.array(texts, pa.string()), pa.array(numbers, pa.int32())]
    window_start = np.array(starts, np.int64) if windowed else None
    encoded: list[bytes] = state_keys(store_number, np.array(groups, np.int32), columns, window_start).to_pylist()
    return encoded


def order(row: Row, windowed: bool) -> tuple[object, ...]:
    group, start, text, number = row
    return group, start if windowed else 0, text is not None, text or "", number is not None, number or 0


def test_golden_bytes() -> None:
    """Key group, store number, key; all big-endian."""
    keys = state_keys(258, np.array([1, 127]), [pa.array(["a", None]), pa.array([1, -1], pa.int8())])
    assert keys.to_pylist() == [bytes.fromhex("0001 0102 01 61 0000 01 81"), bytes.fromhex("007f 0102 00 01 7f")]


def test_golden_bytes_of_windows() -> None:
    """The start of the window stands between store number and key, with its sign flipped."""
    keys = state_keys(3, np.array([65535, 0], np.int32), [pa.array([True, False])], np.array([60_000, -1]))
    assert keys.to_pylist() == [
        bytes.fromhex("ffff 0003 800000000000ea60 01 01"),
        bytes.fromhex("0000 0003 7fffffffffffffff 01 00"),
    ]


def test_golden_prefixes() -> None:
    """A prefix is what its keys begin with."""
    assert range_prefix(1, 258) == bytes.fromhex("0001 0102")
    assert range_prefix(65535, 3, 60_000) == bytes.fromhex("ffff 0003 800000000000ea60")
    assert range_prefix(0, 0, -(2**63)) == bytes(12)


@examples(100)
@given(ROWS, st.integers(0, 65535), st.booleans())
def test_round_trip(rows: list[Row], store_number: int, windowed: bool) -> None:
    """Splitting gives back key groups, windows and key columns."""
    keys = pa.array(encode(rows, store_number, windowed), pa.binary())
    groups, starts, (texts, numbers) = split_state_keys(keys, ["string", "int"], windowed)
    assert groups.tolist() == [row[0] for row in rows]
    assert (starts.tolist() if starts is not None else None) == ([row[1] for row in rows] if windowed else None)
    assert (texts.to_pylist(), numbers.to_pylist()) == ([row[2] for row in rows], [row[3] for row in rows])


@examples(200)
@given(ROWS, st.booleans())
def test_byte_order_is_group_then_window_then_key(rows: list[Row], windowed: bool) -> None:
    """Keys of a store sort by key group, window start and key."""
    encoded = encode(rows, 5, windowed)
    for left, left_bytes in zip(rows, encoded):
        for right, right_bytes in zip(rows, encoded):
            assert (order(left, windowed) < order(right, windowed)) == (left_bytes < right_bytes)


@examples(100)
@given(ROWS, st.integers(0, 3), TIMES)
def test_a_prefix_selects_its_range(rows: list[Row], key_group: int, window_start: int) -> None:
    """A key begins with a prefix exactly when it has that key group, store and window."""
    rows = [*rows, (key_group, window_start, "a", 1)]
    for row, key in zip(rows, encode(rows, 9, windowed=True)):
        assert key.startswith(range_prefix(key_group, 9)) == (row[0] == key_group)
        assert key.startswith(range_prefix(key_group, 9, window_start)) == (row[:2] == (key_group, window_start))
        assert not key.startswith(range_prefix(key_group, 8))


def test_a_key_without_columns_is_its_prefix() -> None:
    """A store of one row a key group needs no key columns."""
    keys = state_keys(2, np.array([1]), [], np.array([0]))
    assert keys.to_pylist() == [range_prefix(1, 2, 0)]
    assert split_state_keys(keys, [], windowed=True)[2] == []


@pytest.mark.parametrize(("group", "store"), [(-1, 0), (65536, 0), (0, -1), (0, 65536)])
def test_numbers_beyond_16_bits_are_refused(group: int, store: int) -> None:
    """A null key (group -1) or a number too large has no state key."""
    with pytest.raises(ValueError, match="expected 0 to 65535"):
        state_keys(store, np.array([5, group]), [pa.array([1, 2])])
    with pytest.raises(ValueError, match="expected 0 to 65535"):
        range_prefix(group, store)


@pytest.mark.parametrize(
    ("encoded", "windowed"), [(b"", False), (b"\0\1\0", False), (bytes(11), True), (bytes(4), False), (bytes(6), False)]
)
def test_bytes_that_are_no_state_key_are_refused(encoded: bytes, windowed: bool) -> None:
    """A key shorter than its prefix, without its columns, or with more than these raises CorruptionError."""
    good = state_keys(0, np.array([0]), [pa.nulls(1, pa.int64())], np.array([0]) if windowed else None).to_pylist()
    for values in ([encoded], [*good, encoded]):
        with pytest.raises(CorruptionError):
            split_state_keys(pa.array(values, pa.binary()), ["bigint"], windowed)
