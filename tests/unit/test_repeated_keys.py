"""Keys that a map has twice."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streamkit.repeated_keys import repeated_keys

NAN = float("nan")


@pytest.mark.parametrize(
    ("keys", "repeated"),
    [
        (pa.array(["a", "b", "a", "a", "a"]), [False, False, True, False, True]),
        (pa.array([1, 2, 2, 1, 2]), [False, False, True, False, False]),
        (pa.array([0.0, NAN, -0.0, NAN, -NAN]), [False, False, True, False, True]),
        (pa.array([{"x": 1}, {"x": 2}, {"x": 1}, {"x": 1}, {"x": 3}]), [False, False, True, False, False]),
        (pa.array([b"a", b"", b"", b"", b"c"]).dictionary_encode(), [False, False, True, False, False]),
    ],
)
def test_a_key_is_repeated_within_its_map(keys, repeated):
    """The second of equal keys counts, of two maps neither does; zeros have no sign, and NaN is one key."""
    assert repeated_keys(np.array([0, 0, 0, 1, 1]), keys).tolist() == repeated


def test_no_entries_have_no_repeated_key():
    """Maps without entries have no key twice."""
    assert repeated_keys(np.array([], np.int64), pa.array([], pa.string())).tolist() == []
