"""The order of values within their groups, against Python's."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from streamkit.expressions.aggregates import ordered_bytes
from streamkit.expressions.aggregates.ordered_bytes import order_within


@pytest.mark.parametrize("rows_min", [1, 1_000_000], ids=["first bits", "words"])
@pytest.mark.parametrize("alike", [b"", bytes(7), bytes(16), b"the same for all of these values"])
def test_rows_are_in_the_order_of_owners_and_bytes(monkeypatch, rows_min: int, alike: bytes) -> None:
    """Values of any length, equal ones, ones that begin others and ones that differ far behind, of few owners and of many."""
    monkeypatch.setattr(ordered_bytes, "ROWS_MIN", rows_min)
    for seed in range(30):
        chance = Random(seed)
        pool = [alike + bytes(chance.choices(b"\0\x01\xff", k=chance.choice([0, 1, 3, 20, 60]))) for _ in range(30)]
        values = chance.choices(pool, k=80)
        owners = np.array([chance.randrange(chance.choice([1, 3, 10**6])) for _ in values])
        order = order_within(owners, pa.array(values))
        assert sorted(order.tolist()) == list(range(len(values)))
        pairs = [(int(owner), value) for owner, value in zip(owners, values, strict=True)]
        assert [pairs[row] for row in order] == sorted(pairs)
