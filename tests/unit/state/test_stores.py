"""Where the stores of tasks are kept: on disk, or in memory between epochs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from streamkit.errors import CorruptionError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import write_slab
from streamkit.log.storage.storage import MemoryStorage
from streamkit.names import TIMESTAMP, SlabName, fresh_token
from streamkit.state.changelog import CommittedChanges
from streamkit.state.stores import DiskStores, MemoryStores
from streamkit.state.task_state import Share, open_state

TOPIC = 7
KEY = b"\0\3\0\0k"


@pytest.fixture(params=[DiskStores, MemoryStores])
def stores(request):
    """Each place."""
    return request.param()


def test_a_store_is_found_again(stores, tmp_path):
    """What was written and flushed is there when the folder is opened again, and nowhere else; what is discarded is gone."""
    store = stores.open(tmp_path / "one", 1 << 20)
    store.write([b"\0\0a"], [b"1"], b"here")
    store.flush()
    store.close()
    found, other = (stores.open(tmp_path / name, 1 << 20) for name in ("one", "two"))
    assert (found.get_many([b"\0\0a"]), found.position()) == ([b"1"], b"here")
    assert (other.get_many([b"\0\0a"]), other.position()) == ([None], None)
    found.close()

    stores.discard(tmp_path / "one")
    assert stores.open(tmp_path / "one", 1 << 20).position() is None


def test_what_a_task_wrote_is_applied_once_it_is_committed_and_not_read_again():
    """In memory the catalog decides which changes count, and those of the task itself are there without their file."""
    storage, stores, folder, share = MemoryStorage(), MemoryStores(), Path("task"), Share(range(8), 8, 1, (TOPIC,))
    failed, committed = (written(storage, stores, folder, value) for value in (b"void", b"kept"))
    storage.delete(committed.path)
    state = open_state(storage, folder, share, changes(committed), stores=stores)
    assert (state.get(pa.array([KEY])).to_pylist(), state.restored) == ([b"kept"], 1)
    with pytest.raises(CorruptionError, match="is missing"):
        open_state(storage, Path("other"), share, changes(committed), stores=stores)

    assert stores.written(folder).keys().isdisjoint([(failed.path, failed.frames[1].position)])
    written(storage, stores, folder, b"not committed")
    state = open_state(storage, folder, share, changes(committed), stores=stores)
    assert (state.get(pa.array([KEY])).to_pylist(), state.restored) == ([b"kept"], 0)


def test_nothing_is_remembered_for_a_store_on_disk():
    """Another process may open it next, and has only the changelog."""
    stores = DiskStores()
    written(MemoryStorage(), stores, Path("task"), b"1")
    assert not stores.written(Path("task"))


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
