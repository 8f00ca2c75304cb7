"""A run finds keys by hashes that never change, and ranges by bytes, whatever keys have in common."""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from streamkit.state import sorted_run
from streamkit.state.sorted_run import FEW_KEYS, NOWHERE, SortedRun, hash_keys
from tests.kit.sampling import seeds

HASHES = {  # as files of runs have them
    b"": 0x0000000000000000,
    b"a": 0xB1CDF7E284932025,
    b"seven b": 0xE6FDD5CDAA8FB905,
    b"eight by": 0x61BA03A05E334E98,
    b"nine byte": 0x050DDE783BDDDF00,
    b"sixteen bytes ab": 0x6125638A97B7980C,
    bytes(16): 0x27251639CFCB1086,
    bytes(17): 0x713FB9C672AEA607,
    bytes(range(40)): 0xE34DA0E05D5581D0,
}
BEGINNINGS = [b"", b"\0", b"a", b"shorter", b"eight by", b"sixteen bytes ab", b"sixteen bytes and then more "]


def binary(values: list[bytes]) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def random_keys(random: Random, count: int) -> list[bytes]:
    """Keys of which many have a beginning in common, and some are the beginning of others."""
    return [
        random.choice(BEGINNINGS) + bytes(random.choice(b"\0\1ab\xff") for _ in range(random.randrange(4))) for _ in range(count)
    ]


def run_of(keys: list[bytes]) -> SortedRun:
    return SortedRun.of(binary(keys), binary([b"v" + key for key in keys]), b"position")


def test_hashes_never_change() -> None:
    """Files of runs keep hashes, so another hash would no longer find what earlier versions have written."""
    assert dict(zip(HASHES, hash_keys(binary([*HASHES])).tolist())) == HASHES
    by_length = sorted(HASHES, key=len)
    for first in range(len(by_length)):
        some = by_length[first:]
        assert dict(zip(some, hash_keys(binary(some)).tolist())) == {key: HASHES[key] for key in some}, "it depends on other keys"


@pytest.mark.parametrize("weakens", [False, True], ids=["hashes", "equal_hashes"])
def test_keys_are_found(monkeypatch: pytest.MonkeyPatch, weakens: bool) -> None:
    """One by one and many at once, those that are there and those that are not; also where keys have the same hash."""
    if weakens:
        monkeypatch.setattr(sorted_run, "hash_keys", lambda keys: hash_keys(keys) >> np.uint64(62) << np.uint64(62))
    for seed in seeds(60):
        random = Random(seed)
        keys = sorted(set(random_keys(random, random.randrange(1, 60))))
        run, asked = run_of(random.sample(keys, len(keys))), random_keys(random, 20) + random.sample(keys, min(9, len(keys)))
        for some in (asked[:FEW_KEYS], asked, asked[-FEW_KEYS:]):
            rows = run.find(binary(some), sorted_run.hash_keys(binary(some))).tolist()
            found = [None if row == NOWHERE else run.keys[row].as_py() for row in rows]
            assert found == [key if key in keys else None for key in some], seed


def test_ranges_are_by_bytes() -> None:
    """Bounds that keys have or lack, shorter and longer than what keys have in common."""
    for seed in seeds(200):
        random = Random(seed)
        keys = sorted(set(random_keys(random, random.randrange(1, 80))))
        run = run_of(random.sample(keys, len(keys)))
        bounds = random_keys(random, 20)
        assert run._places(bounds).tolist() == [bisect_left(keys, bound) for bound in bounds], (seed, bounds)
        start, end = sorted(random_keys(random, 2))
        limit = random.choice([None, 1, 3])
        wanted = [key for key in keys if start <= key < end][:limit]
        assert run.between(start, end, limit) == (wanted, [b"v" + key for key in wanted]), seed
        ranges = [(start, end), (end, start), (bounds[0], b"\xff" * 20)]
        rows, counts = run.rows_between(ranges)
        several = [[key for key in keys if first <= key < last] for first, last in ranges]
        assert run.keys.take(pa.array(rows)).to_pylist() == list(chain(*several)), seed
        assert counts.tolist() == list(map(len, several)), seed
