"""The elements that several states have together, against a loop over them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from streamkit.expressions.aggregates import collection
from streamkit.expressions.core import last_bytes
from streamkit.expressions.core.accumulation import per_group, within_groups
from streamkit.expressions.core.groups import Groups
from streamkit.log.values.keys import encode_keys

POOLS = {
    "near numbers": encode_keys([pa.array(range(-5, 20), pa.int64())]).to_pylist(),
    "far numbers": encode_keys([pa.array([-(2**63), -1, 0, 1, 7, 2**63 - 1], pa.int64())]).to_pylist(),
    "texts": encode_keys([pa.array(["", "a", "b", "longer than eight bytes"])]).to_pylist(),
}


def together(lists: Sequence[list[bytes] | None], *, is_set: bool, most: int) -> list[bytes]:
    """All elements in their order, of equal ones the first if they are a set; one too many at most."""
    every = [value for one in lists for value in one or ()]
    return (list(dict.fromkeys(every)) if is_set else every)[: most + 1]


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("bits", [63, 12], ids=["codes as they are", "codes without gaps"])
@pytest.mark.parametrize("is_set", [True, False], ids=["set", "list"])
@pytest.mark.parametrize("most", [3, 100_000])
def test_groups_and_running_states_have_what_a_loop_finds(monkeypatch, pool: str, bits: int, is_set: bool, most: int) -> None:
    """Lists at random, empty and null ones among them, in a slice: each group has its elements, and each row those up to it."""
    monkeypatch.setattr(last_bytes, "ROWS_MIN", 1)
    monkeypatch.setattr(collection, "NUMBER_BITS", bits)
    monkeypatch.setattr(collection, "ELEMENTS_MAX", most)
    merge = collection._merge_sets if is_set else collection._merge_lists
    for seed in range(20):
        chance = random.Random(seed)
        rows, size = chance.randrange(1, 12), chance.choice([1, 3, 40])
        lists = [None if chance.random() < 0.2 else chance.choices(POOLS[pool], k=chance.randrange(3)) for _ in range(rows + 2)]
        if chance.random() < 0.3:  # as before anything was merged
            lists = [[chance.choice(POOLS[pool])] for _ in lists]
        states, lists = [pa.array(lists, pa.list_(pa.binary()))[2:]], lists[2:]
        codes = np.array([chance.randrange(size) for _ in lists])

        groups = Groups.of(codes, size)
        (found,) = merge(states, per_group(groups))
        found.validate(full=True)
        wanted = [[one for one, code in zip(lists, codes, strict=True) if code == used] for used in groups.used]
        assert found.to_pylist() == [together(own, is_set=is_set, most=most) for own in wanted]

        (found,) = merge(states, within_groups(codes))
        found.validate(full=True)
        wanted = [[lists[other] for other in range(row + 1) if codes[other] == codes[row]] for row in range(rows)]
        assert found.to_pylist() == [together(own, is_set=is_set, most=most) for own in wanted]
