"""One contract for every store: in memory and in RocksDB."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamkit.state.rocksdb import RocksStore, StoreBusyError
from streamkit.state.store import MemoryStore, Store

KEYS = [bytes([0, number]) for number in range(6)]
batches = st.lists(st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=3)), max_size=8), max_size=6)


@pytest.fixture(params=["memory", "rocksdb"])
def make_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Store]]:
    opened: list[Store] = []

    def make() -> Store:
        opened.append(MemoryStore() if request.param == "memory" else RocksStore(tmp_path_factory.mktemp("store") / "db"))
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
        store.write([key for key, _ in batch], [value for _, value in batch], str(number).encode())
        for key, value in batch:
            model[key] = value
        assert store.position() == str(number).encode()
    present = {key: value for key, value in model.items() if value is not None}
    assert store.get_many(KEYS) == [present.get(key) for key in KEYS]
    keys, values = store.scan(KEYS[1], KEYS[5])
    assert dict(zip(keys, values, strict=True)) == {key: value for key, value in present.items() if KEYS[1] <= key < KEYS[5]}
    assert keys == sorted(keys)


def test_a_new_store_has_no_position(make_store: Callable[[], Store]) -> None:
    """Nothing was written, so there is no position."""
    assert make_store().position() is None


def test_what_was_written_is_there_after_close(tmp_path: Path) -> None:
    """Closing flushes data and position together, without a write-ahead log."""
    store = RocksStore(tmp_path / "db")
    store.write([b"\x00a"], [b"1"], b"here")
    store.close()
    again = RocksStore(tmp_path / "db")
    assert (again.get_many([b"\x00a"]), again.position()) == ([b"1"], b"here")
    again.close()


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    """While one process writes, another can read what was flushed."""
    store = RocksStore(tmp_path / "db")
    store.write([b"\x00a"], [b"1"], b"here")
    store.flush()
    with pytest.raises(StoreBusyError):
        RocksStore(tmp_path / "db")
    reader = RocksStore(tmp_path / "db", read_only=True)
    assert reader.get_many([b"\x00a"]) == [b"1"]
    reader.close()
    store.close()


def test_a_handle_does_not_cross_a_fork(tmp_path: Path) -> None:
    """A child that inherited a handle is stopped before it can lose a write."""
    store = RocksStore(tmp_path / "db")
    child = os.fork()
    if child == 0:
        try:
            store.write([b"\x00a"], [b"1"], b"x")
        except AssertionError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    store.close()
