"""One contract for every store: in memory, in RocksDB, and in the tiers above it."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamkit.state import tiered_store
from streamkit.state.rocksdb import RocksStore, StoreBusyError
from streamkit.state.store import MemoryStore, SortedKeys, Store
from streamkit.state.tiered_store import TieredStore
from tests.kit.stored import got, put

KEYS = [bytes([0, number]) for number in range(6)]
batches = st.lists(st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=3)), max_size=8), max_size=6)


@pytest.fixture(params=["memory", "rocksdb", "tiers", "tiers without memory", "tiers with a run for each write"])
def make_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Store]]:
    opened: list[Store] = []
    if request.param == "tiers with a run for each write":
        monkeypatch.setattr(tiered_store, "NEWEST_ROWS", 0)

    def make() -> Store:
        if request.param == "memory":
            opened.append(MemoryStore())
        elif request.param == "rocksdb":
            opened.append(RocksStore(tmp_path_factory.mktemp("store") / "db"))
        else:
            memory_bytes = 1 if request.param == "tiers without memory" else 1 << 20
            opened.append(TieredStore(tmp_path_factory.mktemp("store") / "db", memory_bytes=memory_bytes))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches)
def test_a_store_is_the_fold_of_its_writes(
    make_store: Callable[[], Store], writes: list[list[tuple[bytes, bytes | None]]]
) -> None:
    """After any writes, reads and scans show what a dict shows; later pairs of a batch win."""
    store, model = make_store(), {}
    for number, batch in enumerate(writes):
        put(store, [key for key, _ in batch], [value for _, value in batch], str(number).encode())
        for key, value in batch:
            model[key] = value
        assert store.position() == str(number).encode()
        present = {key: value for key, value in model.items() if value is not None}
        assert got(store, KEYS) == [present.get(key) for key in KEYS]
        expected = [(key, value) for key, value in sorted(present.items()) if KEYS[1] <= key < KEYS[5]]
        for limit in (None, 0, 1, 2, len(expected), len(KEYS)):
            assert list(zip(*store.scan(KEYS[1], KEYS[5], limit), strict=True)) == expected[:limit]


@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
@pytest.mark.parametrize("keys_per_range", [1, 100, 30_000])
def test_a_key_is_moved_some_times_however_many_there_are(order: str, keys_per_range: int) -> None:
    """Sorting costs each key at most some log2 moves, whatever the order and however often ranges are asked for in between."""
    numbers = list(range(30_000))
    if order == "random":
        random.Random(7).shuffle(numbers)
    elif order == "descending":
        numbers.reverse()
    keys = SortedKeys()
    for count, number in enumerate(numbers, start=1):
        keys.add(number.to_bytes(4, "big"))
        if count % keys_per_range == 0:
            assert len(keys.between(number.to_bytes(4, "big"), (number + 1).to_bytes(4, "big"))) == 1
            assert len(keys._runs) <= 1 + math.log2(count)
    assert keys.between(b"", b"\xff") == [number.to_bytes(4, "big") for number in sorted(numbers)]
    assert keys.moved <= len(numbers) * (1 + math.log2(len(numbers) / keys_per_range))


def test_what_was_deleted_leaves_the_memory_store() -> None:
    """Keys that come and go do not pile up, and a key that comes back is there once."""
    store = MemoryStore()
    for number in range(1_000):
        put(store, [number.to_bytes(4, "big"), b"again"], [b"v", None], b"")
        put(store, [number.to_bytes(4, "big"), b"again"], [None, b"v"], b"")
    assert store.scan(b"", b"\xff") == ([b"again"], [b"v"])
    assert len(store._values) < 10


def test_a_new_store_has_no_position(make_store: Callable[[], Store]) -> None:
    """Nothing was written, so there is no position."""
    assert make_store().position() is None


@pytest.mark.parametrize("kind", [RocksStore, TieredStore])
def test_what_was_written_is_there_after_close(tmp_path: Path, kind: type) -> None:
    """Closing flushes data and position together, without a write-ahead log."""
    store = kind(tmp_path / "db")
    put(store, [b"\x00a"], [b"1"], b"here")
    store.close()
    again = kind(tmp_path / "db")
    assert (got(again, [b"\x00a"]), again.position()) == ([b"1"], b"here")
    again.close()


@pytest.mark.parametrize("kind", [RocksStore, TieredStore])
def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path, kind: type) -> None:
    """While one process writes, another can read what was flushed."""
    store = kind(tmp_path / "db")
    put(store, [b"\x00a"], [b"1"], b"here")
    store.flush()
    with pytest.raises(StoreBusyError):
        kind(tmp_path / "db")
    reader = kind(tmp_path / "db", read_only=True)
    assert got(reader, [b"\x00a"]) == [b"1"]
    reader.close()
    store.close()


@pytest.mark.parametrize("kind", [RocksStore, TieredStore])
def test_a_handle_does_not_cross_a_fork(tmp_path: Path, kind: type) -> None:
    """A child that inherited a handle is stopped before it can lose a write."""
    store = kind(tmp_path / "db")
    child = os.fork()
    if child == 0:
        try:
            put(store, [b"\x00a"], [b"1"], b"x")
        except AssertionError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    store.close()
