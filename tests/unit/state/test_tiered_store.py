"""A store in tiers shows what a dict shows, whatever moves where, and whenever its process ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streamkit.errors import CorruptionError, EpochFailedError, StorageFailedError, StorageFullError
from streamkit.failpoints import armed
from streamkit.state import sorted_run as run_module
from streamkit.state import tiered_store
from streamkit.state.key_hashes import KeyHashes
from streamkit.state.rocksdb import RocksStore
from streamkit.state.run_folder import RUNS, RunFolder
from streamkit.state.sorted_run import SortedRun, hash_keys
from streamkit.state.tiered_store import StoreMovedOnError, TieredStore
from tests.kit.engine_run import DiedError, die
from tests.kit.stored import got, put

KEYS = [b"\0\0" + key for key in (b"", b"a", b"a\0", b"b", b"longer than eight", b"longer than eighty", b"\xff" * 20, b"z" * 40)]
BOUNDS = [b"", *KEYS, b"\0\0longer than eight\0", b"\1"]
batches = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=6)), max_size=6)
TINY = {"NEWEST_ROWS": 3, "RUNS_OF_A_LEVEL": 2, "_LEVEL_BITS": 1}


def colliding(keys: pa.BinaryArray) -> np.ndarray:
    """A hash that many keys share."""
    return hash_keys(keys) >> np.uint64(62) << np.uint64(62)


class Tiers(RuleBasedStateMachine):
    """Writes, moves, ends of the process and readers beside it, against dicts: what was written, and what is in files at least."""

    @initialize(
        memory_bytes=st.sampled_from([1, 600, 3_000, 1 << 20]), collides=st.booleans(), newest=st.sampled_from([0, 3, 20])
    )
    def begin(self, memory_bytes: int, collides: bool, newest: int) -> None:
        self.patch = pytest.MonkeyPatch()
        for name, value in {**TINY, "NEWEST_ROWS": newest}.items():
            self.patch.setattr(tiered_store, name, value)
        if collides:
            self.patch.setattr(run_module, "hash_keys", colliding)
            self.patch.setattr(tiered_store, "hash_keys", colliding)
        self.folder = Path(tempfile.mkdtemp(prefix="streamkit-tiers-"))
        self.memory_bytes = memory_bytes
        self.history: list[dict[bytes, bytes]] = [{}]  # by position
        self.flushed = 0
        self.store = self.opened()
        self.beside: TieredStore | None = None

    def opened(self) -> TieredStore:
        return TieredStore(self.folder / "db", memory_bytes=self.memory_bytes)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.close_beside()
            self.store.close()
            self.patch.undo()
            shutil.rmtree(self.folder)

    @rule(batch=batches)
    def write(self, batch: list[tuple[bytes, bytes | None]]) -> None:
        self.remember(batch)
        put(self.store, [key for key, _ in batch], [value for _, value in batch], self.position)

    def remember(self, batch: list[tuple[bytes, bytes | None]]) -> None:
        folded = {**self.history[-1], **dict(batch)}
        self.history.append({key: value for key, value in folded.items() if value is not None})

    @property
    def position(self) -> bytes:
        return str(len(self.history) - 1).encode()

    @rule()
    def flush(self) -> None:
        self.store.flush()
        self.flushed = len(self.history) - 1

    @rule()
    def open_again(self) -> None:
        self.store.close()
        self.flushed = len(self.history) - 1
        self.store = self.opened()

    @rule()
    def die(self) -> None:
        """The process ends: what was not in files is gone, with its position."""
        self.store._let_go()
        self.store = self.opened()
        reached = int(self.store.position() or b"0")
        assert reached >= self.flushed
        self.history = self.history[: reached + 1]
        self.flushed = reached

    @rule(batch=batches)
    def die_while_runs_move_down(self, batch: list[tuple[bytes, bytes | None]]) -> None:
        self.remember(batch)
        try:
            with armed("state.moved_down", die):
                put(self.store, [key for key, _ in batch], [value for _, value in batch], self.position)
        except DiedError:
            self.die()

    @rule()
    def open_beside(self) -> None:
        """A reader that opens RocksDB when it needs it."""
        self.close_beside()
        try:
            self.beside = TieredStore(self.folder / "db", read_only=True, opens_below=False)
        except CorruptionError:
            assert not (self.folder / "db" / RUNS).exists() and not self.flushed

    @rule()
    def read_what_was_opened(self) -> None:
        """It shows the state as it was when it was opened, or says that the store has moved on since."""
        if self.beside is None:
            return
        try:
            found, reached = got(self.beside, KEYS), int(self.beside.position() or b"0")
        except StoreMovedOnError:
            self.close_beside()
        else:
            assert found == [self.history[reached].get(key) for key in KEYS]

    def close_beside(self) -> None:
        if self.beside is not None:
            self.beside.close()
            self.beside = None

    @rule()
    def read_beside(self) -> None:
        """A reader sees a whole state, of the last flush or a later write."""
        try:
            reader = TieredStore(self.folder / "db", read_only=True)
        except CorruptionError:
            assert not (self.folder / "db" / RUNS).exists() and not self.flushed
            return
        reached = int(reader.position() or b"0")
        assert reached >= self.flushed
        assert dict(zip(*reader.scan(b"", b"\xff"), strict=True)) == self.history[reached]
        assert got(reader, KEYS) == [self.history[reached].get(key) for key in KEYS]
        reader.close()

    @rule(start=st.sampled_from(BOUNDS), end=st.sampled_from(BOUNDS), limit=st.none() | st.integers(0, 9))
    def scan(self, start: bytes, end: bytes, limit: int | None) -> None:
        expected = [(key, value) for key, value in sorted(self.history[-1].items()) if start <= key < end]
        assert list(zip(*self.store.scan(start, end, limit), strict=True)) == expected[:limit]

    @invariant()
    def shows_the_last_write(self) -> None:
        if hasattr(self, "folder"):
            assert (self.store.position() or b"0") == self.position
            assert got(self.store, KEYS) == [self.history[-1].get(key) for key in KEYS]


TestTiers = Tiers.TestCase
TestTiers.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_many_keys_are_found_in_every_tier(tmp_path: Path) -> None:
    """Of a hundred thousand keys each has its newest value, those that are not there have none, and few runs are left of many writes."""
    random = np.random.default_rng(3)
    model: dict[bytes, bytes | None] = {}
    store = TieredStore(tmp_path / "db", memory_bytes=3 << 20)
    for number in range(40):
        keys = [b"\0\0key%06d" % key for key in random.integers(0, 100_000, 20_000)]
        values = [None if key[-1] % 7 == number % 7 else b"%d" % number for key in keys]
        model.update(zip(keys, values, strict=True))
        put(store, keys, values, b"%d" % number)
        assert len(store._runs) < 3 * tiered_store.RUNS_OF_A_LEVEL
        assert store._size_bytes() <= 3 << 20
    assert (tmp_path / "db" / "CURRENT").exists(), "nothing moved down"
    wanted = [b"\0\0key%06d" % key for key in range(100_010)]
    assert got(store, wanted) == [model.get(key) for key in wanted]
    store.close()
    again = TieredStore(tmp_path / "db")
    assert got(again, wanted) == [model.get(key) for key in wanted]
    again.close()


@pytest.mark.parametrize("is_reopened", [False, True])
def test_rocksdb_is_not_asked_for_keys_that_it_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_reopened: bool
) -> None:
    """Also of a state that has no room in memory a new key is known to be new, but for one in some thousands; deleted keys are no more."""
    keys = [b"\0\0key%06d" % number for number in range(30_000)]
    store = TieredStore(tmp_path / "db", memory_bytes=1 << 20)
    for first in range(0, len(keys), 1_000):
        put(store, keys[first : first + 1_000], [b"v"] * 1_000, b"%d" % first)
    if is_reopened:
        store.close()
        store = TieredStore(tmp_path / "db", memory_bytes=1 << 20)
    asked: list[int] = []
    original = RocksStore.get_many

    def counted(one: RocksStore, keys: pa.BinaryArray) -> pa.BinaryArray:
        asked.append(len(keys))
        return original(one, keys)

    monkeypatch.setattr(RocksStore, "get_many", counted)
    assert got(store, [b"\0\0new%06d" % number for number in range(30_000)]) == [None] * 30_000
    assert sum(asked) < 30
    assert got(store, keys) == [b"v"] * 30_000
    assert sum(asked) > 1_000, "nothing moved down"
    store.close()


def test_what_keys_are_below_is_forgotten_when_it_takes_too_much(tmp_path: Path) -> None:
    """The hashes of keys are bounded by the memory of the store; then RocksDB is asked for all."""
    store = TieredStore(tmp_path / "db", memory_bytes=20_000)
    for first in range(0, 30_000, 1_000):
        keys = [b"\0\0key%06d" % number for number in range(first, first + 1_000)]
        assert got(store, keys) == [None] * 1_000
        put(store, keys, [b"v"] * 1_000, b"%d" % first)
        assert got(store, keys) == [b"v"] * 1_000
    assert store._below_keys is None
    store.close()


@pytest.mark.parametrize("count", [0, 1, 2, 100, 50_000])
def test_hashes_of_keys_say_what_is_not_there(count: int) -> None:
    """Every key that was added may be there; of others hardly one may."""
    random = np.random.default_rng(count)
    known, other = (random.integers(0, 1 << 64, count, np.uint64) for _ in range(2))
    known[: count // 100] = np.uint64(2**64 - 1)
    hashes = KeyHashes.none().with_keys(known[: count // 2]).with_keys(known[count // 2 :])
    assert hashes.may_have(known).all()
    assert hashes.may_have(other).sum() <= 5
    assert not KeyHashes.none().may_have(known).any()


def test_rocksdb_is_not_opened_while_all_is_in_runs(tmp_path: Path) -> None:
    """What fits the memory is answered without RocksDB, also that a key is not there; and so it is after the store is opened again."""
    for _ in range(3):
        store = TieredStore(tmp_path / "db")
        put(store, [b"\0\0%d" % key for key in range(50_000)], [b"v"] * 50_000, b"here")
        assert got(store, [b"\0\x001", b"\0\0other"]) == [b"v", None]
        store.close()
    assert not (tmp_path / "db" / "CURRENT").exists()


def test_deletions_leave_a_store_that_is_all_in_runs(tmp_path: Path) -> None:
    """Keys that come and go do not pile up."""
    store = TieredStore(tmp_path / "db")
    for number in range(30):
        keys = [b"\0\0%d-%d" % (number, key) for key in range(20_000)]
        put(store, keys, [b"v"] * 20_000, b"")
        put(store, keys, [None] * 20_000, b"")
    assert sum(map(len, store._runs)) < 10 * 20_000
    store.close()


def test_a_reader_opens_rocksdb_when_the_runs_do_not_suffice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in runs is read without it; if it has moved on by then, the reader says so, and a new one shows the newest."""
    monkeypatch.setattr(tiered_store, "NEWEST_ROWS", 0)
    store = TieredStore(tmp_path / "db", memory_bytes=1_000)
    below, above = [b"\0\0%03d" % number for number in range(40)], [b"\0\0above"]
    put(store, below, [b"1"] * len(below), b"1")
    store._make_room()
    put(store, above, [b"2"], b"2")
    store.flush()
    opened, late = (TieredStore(tmp_path / "db", read_only=True, opens_below=False) for _ in range(2))
    assert got(opened, above) == [b"2"]
    assert opened._below is None
    assert got(opened, below[:1]) == [b"1"]
    assert opened._below is not None
    put(store, below, [b"3"] * len(below), b"3")
    put(store, below, [b"4"] * len(below), b"4")
    store.close()
    assert got(late, above) == [b"2"]
    with pytest.raises(StoreMovedOnError):
        got(late, below[:1])
    with closing(TieredStore(tmp_path / "db", read_only=True, opens_below=False)) as newest:
        assert got(newest, below[:1] + above) == [b"4", b"2"]
    opened.close()
    late.close()


def test_files_of_runs_that_were_merged_go(tmp_path: Path) -> None:
    """The folder has the files that RUNS names, and no others; a file that was mapped stays readable."""
    store = TieredStore(tmp_path / "db")
    for number in range(40):
        put(store, [b"\0\0%d" % number], [b"v"], b"%d" % number)
        store.flush()
        if number == 0:
            reader = TieredStore(tmp_path / "db", read_only=True)
    assert len(list((tmp_path / "db").glob("*.run"))) == len(store._runs) < 10
    assert got(reader, [b"\0\x000", b"\0\x001"]) == [b"v", None]
    store.close()


def test_files_that_were_mapped_before_are_not_read_again(tmp_path: Path) -> None:
    """A process that opens a store in each epoch compares the checksums of what is new in the folder."""
    files = RunFolder(tmp_path / "db")
    for number in range(3):
        store = TieredStore(tmp_path / "db", files=files)
        before = list(store._runs)
        put(store, [b"\0\0%d" % number], [b"v"], b"%d" % number)
        store.close()
        found, _ = files.read() or ([], None)
        assert all(run in found for run in before)


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that cannot be written to its files keeps what it has, and is written once there is room."""
    store = TieredStore(tmp_path / "db")
    put(store, [b"\0\0a"], [b"1"], b"here")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_room)
        with pytest.raises(StorageFullError):
            store.flush()
    assert got(store, [b"\0\0a"]) == [b"1"]
    store.close()
    again = TieredStore(tmp_path / "db")
    assert (got(again, [b"\0\0a"]), again.position()) == ([b"1"], b"here")
    again.close()


def no_room(*_: object, **__: object) -> int:
    raise OSError(28, "No space left on device")


def test_a_flush_into_a_folder_that_is_gone_fails_the_epoch(tmp_path: Path) -> None:
    """Whoever deleted it is told what to do; closing such a store is no error, and makes no folder."""
    store = TieredStore(tmp_path / "db")
    put(store, [b"\0\0a"], [b"1"], b"here")
    shutil.rmtree(tmp_path / "db")
    with pytest.raises(EpochFailedError, match="were deleted while it was used"):
        store.flush()
    store.close()
    assert not (tmp_path / "db").exists()


def test_rocksdb_that_does_not_fit_the_runs_is_found(tmp_path: Path) -> None:
    """Runs upon another RocksDB than their own are never read together; the store is discarded when it is opened next."""
    for name, position in (("one", b"1"), ("other", b"2")):
        store = TieredStore(tmp_path / name, memory_bytes=1)
        put(store, [b"\0\0a"], [position], position)
        store.close()
    (tmp_path / "one" / RUNS).replace(tmp_path / "other" / RUNS)
    store = TieredStore(tmp_path / "other")
    with pytest.raises(CorruptionError, match="do not follow"):
        got(store, [b"\0\0a"])
    store.close()
    with pytest.raises(CorruptionError, match=r"was found to be damaged: .* do not follow"):
        TieredStore(tmp_path / "other")


def test_a_folder_of_rocksdb_alone_is_read(tmp_path: Path) -> None:
    """A store that was kept by RocksDB alone goes on from where it stands."""
    store = TieredStore(tmp_path / "db", memory_bytes=1)
    put(store, [b"\0\0a"], [b"1"], b"here")
    store.close()
    (tmp_path / "db" / RUNS).unlink()
    again = TieredStore(tmp_path / "db")
    assert (got(again, [b"\0\0a"]), again.position()) == ([b"1"], b"here")
    again.close()


def test_a_hash_is_that_of_the_key_alone() -> None:
    """Whatever other keys are hashed with it; files of runs keep hashes, so they never change."""
    keys = pa.array([*KEYS, b"", b"12345678", b"123456789"], pa.binary())
    together = hash_keys(keys)
    assert together.tolist() == [int(hash_keys(keys.slice(row, 1))[0]) for row in range(len(keys))]
    assert len(set(together.tolist())) == len(keys)
    assert hash_keys(pa.array([b"\0\x01\0\x02key"], pa.binary())).tolist() == [17566655620710501361]


@pytest.mark.parametrize("rows", [0, 1, 1_000])
def test_a_run_is_the_fold_of_its_changes(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal keys leave the last change, also where different keys have one hash and lie mixed."""
    random = np.random.default_rng(rows)
    keys = [b"%d" % key for key in random.integers(0, rows // 3 + 1, rows)]
    values = [None if value % 5 == 0 else b"%d" % value for value in random.integers(0, 99, rows)]
    expected = dict(zip(keys, values, strict=True))
    for hashing in (hash_keys, colliding):
        monkeypatch.setattr(run_module, "hash_keys", hashing)
        run = SortedRun.of(pa.array(keys, pa.binary()), pa.array(values, pa.binary()), b"")
        assert dict(zip(run.keys.to_pylist(), run.values.to_pylist(), strict=True)) == expected
        half = rows // 2
        parts = [
            SortedRun.of(pa.array(keys[part], pa.binary()), pa.array(values[part], pa.binary()), b"")
            for part in (slice(half), slice(half, None))
        ]
        for keeps in (True, False):
            merged = SortedRun.merged(parts, keeps_deletions=keeps)
            kept = {key: value for key, value in expected.items() if keeps or value is not None}
            assert dict(zip(merged.keys.to_pylist(), merged.values.to_pylist(), strict=True)) == kept
            assert merged.between(b"1", b"5", 7) == tuple(
                map(list, zip(*sorted((key, value) for key, value in kept.items() if b"1" <= key < b"5")[:7], strict=True))
            ) or not any(b"1" <= key < b"5" for key in kept)


def test_runs_are_bounded_whatever_the_memory(tmp_path, monkeypatch):
    """What would be too long for a column of Arrow moves down, however much memory there is."""
    monkeypatch.setattr(tiered_store, "RUNS_BYTES_MAX", 20_000)
    store = TieredStore(tmp_path / "db", memory_bytes=1 << 40)
    try:
        for number in range(20):
            put(store, [b"%d" % key for key in range(number * 10, number * 10 + 10)], [b"v" * 400] * 10, b"%d" % number)
        assert store._size_bytes() <= 30_000  # what has moved down stays for reading until the room is needed
        assert got(store, [b"0", b"199", b"200"]) == [b"v" * 400, b"v" * 400, None]
    finally:
        store.close()
    assert any((tmp_path / "db").glob("*.sst"))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """Neither where the system makes no folders, nor behind a link to nothing or a file; it is not tried for ever."""
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    (tmp_path / "file").write_text("no folder")
    for folder in (Path("/proc/nothing/0-of-1"), tmp_path / "link" / "0-of-1", tmp_path / "file" / "0-of-1", tmp_path / "link"):
        with pytest.raises(StorageFailedError, match=f"cannot open the local store in {folder}: "):
            TieredStore(folder)
