"""Where the stores of tasks are kept: on disk, or in memory between epochs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from streamkit.errors import CorruptionError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import write_slab
from streamkit.log.storage.storage import MemoryStorage
from streamkit.names import TIMESTAMP, SlabName, fresh_token
from streamkit.state import stores as stores_module
from streamkit.state.changelog import CommittedChanges
from streamkit.state.rocksdb import DAMAGED, StoreBusyError
from streamkit.state.stores import HELD_MAX, DiskStores, HeldStores, MemoryStores
from streamkit.state.task_state import Share, open_state
from streamkit.state.tiered_store import TieredStore
from tests.kit.stored import got, put
from tests.kit.waiting import wait_until

TOPIC = 7
KEY = b"\0\3\0\0k"
WAIT_SECONDS = 60


@pytest.fixture(params=["on disk", "held", "in memory"])
def stores(request):
    """Each way to keep them."""
    if request.param != "held":
        return {"on disk": DiskStores, "in memory": MemoryStores}[request.param]()
    return request.getfixturevalue("held")


@pytest.fixture
def held():
    """Stores that are held, four at most."""
    opened = HeldStores(4, 2)
    yield opened
    opened.close()


def test_a_store_is_found_again(stores, tmp_path):
    """What was written and flushed is there when the folder is opened again, and nowhere else; what is discarded is gone."""
    store = stores.open(tmp_path / "one", 1 << 20)
    put(store, [b"\0\0a"], [b"1"], b"here")
    store.flush()
    store.close()
    found, other = (stores.open(tmp_path / name, 1 << 20) for name in ("one", "two"))
    assert (got(found, [b"\0\0a"]), found.position()) == ([b"1"], b"here")
    assert (got(other, [b"\0\0a"]), other.position()) == ([None], None)
    found.close()

    stores.discard(tmp_path / "one")
    assert stores.open(tmp_path / "one", 1 << 20).position() is None


@pytest.mark.parametrize("stores", ["held", "in memory"], indirect=True)
def test_what_a_task_wrote_is_applied_once_it_is_committed_and_not_read_again(stores, tmp_path):
    """The catalog decides which changes count, and those of the task itself are there without their file."""
    storage, folder, share = MemoryStorage(), tmp_path / "task", Share(range(8), 8, 1, (TOPIC,))
    failed, committed = (written(storage, stores, folder, value) for value in (b"void", b"kept"))
    storage.delete(committed.path)
    state = open_state(storage, folder, share, changes(committed), stores=stores)
    assert (state.get(pa.array([KEY])).to_pylist(), state.restored) == ([b"kept"], 1)
    with pytest.raises(CorruptionError, match="is missing"):
        open_state(storage, tmp_path / "other", share, changes(committed), stores=stores)

    assert stores.written(folder).keys().isdisjoint([(failed.path, failed.frames[1].position)])
    written(storage, stores, folder, b"not committed")
    state = open_state(storage, folder, share, changes(committed), stores=stores)
    assert (state.get(pa.array([KEY])).to_pylist(), state.restored) == ([b"kept"], 0)


def test_nothing_is_remembered_for_a_store_on_disk():
    """Another process may open it next, and has only the changelog."""
    stores = DiskStores()
    written(MemoryStorage(), stores, Path("task"), b"1")
    assert not stores.written(Path("task"))


def test_a_held_store_stays_open_until_all_are_closed(held, tmp_path):
    """An epoch leaves it open with what it has; nobody else can write to it until all are closed, and then everything is in its files."""
    store = held.open(tmp_path / "one", 1 << 20)
    put(store, [b"\0\0a"], [b"1"], b"here")
    store.close()
    assert held.open(tmp_path / "one", 1 << 20) is store
    with pytest.raises(StoreBusyError):
        TieredStore(tmp_path / "one")

    for _ in range(2):
        held.close()
        other = TieredStore(tmp_path / "one")
        assert (got(other, [b"\0\0a"]), other.position()) == ([b"1"], b"here")
        other.close()
        assert held.open(tmp_path / "one", 1 << 20).position() == b"here"


def test_a_held_store_whose_folder_was_deleted_begins_anew(held, tmp_path, caplog):
    """It does not go on with files that nobody sees, and says so, with its task."""
    folder = tmp_path / "stores" / "points" / "2" / "0-of-4"
    put(held.open(folder, 1 << 20), [b"\0\0a"], [b"1"], b"here")
    shutil.rmtree(folder)
    store = held.open(folder, 1 << 20)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("points, stage 2, task 0 of 4: the files of the local store in ") and "were deleted" in line
    assert (got(store, [b"\0\0a"]), store.position()) == ([None], None)


def test_a_held_store_leaves_another_alone_that_came_in_its_place(held, tmp_path):
    """A run that is behind does not write what it has into the folder that a newer one has made where its own was."""
    folder = tmp_path / "one"
    put(held.open(folder, 1 << 20), [b"\0\0a"], [b"1"], b"here")
    shutil.rmtree(folder)
    other = TieredStore(tmp_path / "other")
    put(other, [b"\0\0a"], [b"2"], b"there")
    other.close()
    (tmp_path / "other").rename(folder)
    files = {path: path.read_bytes() for path in folder.glob("*.run")}

    store = held.open(folder, 1 << 20)
    assert (got(store, [b"\0\0a"]), store.position()) == ([b"2"], b"there")
    assert {path: path.read_bytes() for path in folder.glob("*.run")} == files
    reader = TieredStore(folder, read_only=True)
    assert (got(reader, [b"\0\0a"]), reader.position()) == ([b"2"], b"there")
    reader.close()


def test_a_held_store_that_is_damaged_is_discarded(held, tmp_path):
    """Damage that was found while it was read ends with the next epoch: the store begins from nothing."""
    storage, folder, share = MemoryStorage(), tmp_path / "task", Share(range(8), 8, 1, (TOPIC,))
    slab = written(storage, held, folder, b"1")
    open_state(storage, folder, share, changes(slab), stores=held)
    (folder / DAMAGED).touch()
    state = open_state(storage, folder, share, changes(slab), stores=held)
    assert (state.get(pa.array([KEY])).to_pylist(), state.restored) == ([b"1"], 1)
    assert not (folder / DAMAGED).exists()


def test_what_a_held_store_was_given_is_in_its_files_in_time(held, tmp_path, monkeypatch):
    """Whoever reads the folder beside it finds what was written some seconds ago, whether more is written or not."""
    store = held.open(tmp_path / "one", 1 << 20)
    put(store, [b"\0\0a"], [b"1"], b"first")
    assert beside(tmp_path / "one") is None
    monkeypatch.setattr(stores_module, "FLUSH_SECONDS", 0.0)
    held.flush_when_due()
    wait_until(lambda: beside(tmp_path / "one") == b"first", WAIT_SECONDS)
    put(store, [b"\0\0a"], [b"2"], b"second")
    wait_until(lambda: beside(tmp_path / "one") == b"second", WAIT_SECONDS)


def beside(folder):
    """The position that a reader finds in a folder which another has open."""
    reader = TieredStore(folder, read_only=True)
    try:
        return reader.position()
    finally:
        reader.close()


def test_stores_beyond_those_that_are_held_close_with_the_epoch(tmp_path):
    """A process with very many tasks holds some of their stores; the others are as on disk."""
    stores = HeldStores(1_000, 2)
    for number in range(HELD_MAX + 1):
        stores.open(tmp_path / str(number), 1 << 20).close()
    TieredStore(tmp_path / str(HELD_MAX)).close()
    with pytest.raises(StoreBusyError):
        TieredStore(tmp_path / str(HELD_MAX - 1))
    stores.close()


@pytest.mark.parametrize(
    ("count", "at_once", "bytes_each"), [(2, 2, 1_000), (1, 8, 1_000), (8, 2, 250), (1_000, 2, 1_000 * 2 // 34)]
)
def test_held_stores_share_the_memory_of_those_that_would_be_open_at_once(tmp_path, monkeypatch, count, at_once, bytes_each):
    """The memory setting bounds a store that is open while its task runs; all that are held have no more than those had."""
    asked = []
    monkeypatch.setattr(stores_module, "HeldStore", lambda folder, memory_bytes, **_: asked.append(memory_bytes))
    HeldStores(count, at_once).open(tmp_path / "one", 1_000)
    assert asked == [bytes_each]


def written(storage, stores, folder, value):
    """A slab with a change of one key, and a row of another topic before it, which a task wrote; it remembers the change."""
    times = pa.array([0], pa.int64()).view(pa.timestamp("ms", tz="UTC"))
    change = pa.RecordBatch.from_pydict({"key": pa.array([KEY]), "value": pa.array([value]), TIMESTAMP: times})
    frames = [(TOPIC + 1, 0, change.drop_columns(["key"])), (TOPIC, 0, change)]
    slab = write_slab(storage, SlabName("a1", 1, 1, fresh_token()), frames)
    stores.remember(folder, slab, frames[1:], {TOPIC})
    return slab


def changes(slab):
    """What the catalog has after the commit of a slab as epoch 1."""
    frame = slab.frames[1]
    extent = Extent(TOPIC, 0, 0, 1, slab.path, frame.position, frame.length, 0, 0, 1)
    return CommittedChanges(1, "token", {TOPIC: {0: 1}}, {}, (extent,), {1: "token"})
