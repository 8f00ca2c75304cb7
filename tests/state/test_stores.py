"""Where the stores of tasks are kept: on disk, or in memory between epochs."""

from __future__ import annotations

import pytest

from streamkit.state.stores import DiskStores, MemoryStores


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
