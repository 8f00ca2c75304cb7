"""Promises of the search for survivors: exact with any number of passes, in the memory it was given."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from streamkit.log.maintenance import survivors
from streamkit.log.maintenance.survivors import select_survivors
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from tests.kit.sampling import TAKES_ALL

KEYS, ROWS = (20_000, 60_000) if TAKES_ALL else (8_000, 24_000)
PART = 10 * KEYS  # bytes in which a tenth of the keys has room


@pytest.fixture(scope="module")
def log():
    found = open_log(":memory:")
    found.create_topic("t", "k string, v bigint", key="k", partitions=1, config={"cleanup.policy": "compact"})
    random = np.random.default_rng(5)
    names = pa.array([f"key-{number:08d}" for number in range(KEYS)])
    producer = Producer(found.storage, found.catalog, found.clock, frame_rows=1_000)
    chosen = random.integers(0, KEYS, ROWS)
    producer.send_batch("t", pa.table({"k": names.take(pa.array(chosen)), "v": np.arange(ROWS)}))
    producer.flush()
    return found


def kept(log, memory_bytes):
    """The offsets of the rows that stay."""
    topic = log.topic("t")
    found = select_survivors(log.storage, topic, log.catalog.manifest.extents(topic.id, 0), memory_bytes=memory_bytes)
    assert [selection.rows for selection in found] == [selection.mask.true_count for selection in found]
    return np.concatenate(
        [np.flatnonzero(selection.mask.to_numpy(zero_copy_only=False)) + selection.extent.base_offset for selection in found]
    ).tolist()


@pytest.fixture(scope="module")
def expected(log):
    return sorted({key: offset for offset, key in enumerate(log.read("t")["k"].to_pylist())}.values())


@pytest.mark.parametrize("memory_bytes", [survivors.MEMORY_BYTES, 5 * PART, PART, PART // 2])
def test_the_result_does_not_depend_on_memory(log, expected, memory_bytes):
    """With room for all keys, for a part of them, or for few, the same rows stay."""
    assert kept(log, memory_bytes) == expected


def test_keys_take_no_more_memory_than_given(log, monkeypatch):
    """With a tenth of the memory, the keys that are remembered at a time are a tenth, over several passes."""
    remembered, passes = [], []
    codes, run = survivors._codes, survivors._Search.run

    def remember(keys):
        found = codes(keys)
        remembered.append(len(found[1]))
        return found

    def count(*arguments):
        passes.append(arguments[1])
        return run(*arguments)

    monkeypatch.setattr(survivors, "_codes", remember)
    monkeypatch.setattr(survivors._Search, "run", count)
    kept(log, 1 << 24)
    everything, once = max(remembered), len(passes)
    remembered.clear()
    passes.clear()
    kept(log, PART)

    assert (everything > KEYS * 0.9, once) == (True, 1)
    assert max(remembered) < everything / 4
    assert 8 <= len(passes) <= 32


def test_keys_with_the_same_hash_are_told_apart(log, expected, monkeypatch):
    """A hash only says in which pass a key is looked at: if all hashes were the same, nothing would be lost."""
    monkeypatch.setattr(survivors, "murmur2", lambda keys: np.zeros(len(keys), np.int32))
    monkeypatch.setattr(survivors, "BUCKETS_MAX", 4)
    assert kept(log, PART) == expected
