"""
What a log relies on, of every storage: whole files, never overwritten, found by path.

A new kind of storage joins in `tests/kit/places.py`.
"""

from __future__ import annotations

import os
import pickle

import pyarrow as pa
import pytest

from streamkit.errors import ConfigError
from tests.kit.places import STORAGES


@pytest.fixture(params=STORAGES)
def storage(request, tmp_path):
    return STORAGES[request.param](tmp_path)


def test_a_file_is_read_as_it_was_written(storage):
    """Parts of any kind come back as one run of bytes."""
    size = storage.create("slabs/p1/1/a", [b"abc", pa.py_buffer(b"defg"), b""])

    assert (size, storage.size("slabs/p1/1/a"), storage.exists("slabs/p1/1/a")) == (7, 7, True)
    assert storage.map("slabs/p1/1/a").to_pybytes() == b"abcdefg"


def test_an_empty_file_can_be_mapped(storage):
    """Zero bytes are bytes."""
    storage.create("slabs/empty", [])

    assert storage.map("slabs/empty").size == 0


def test_nothing_is_overwritten(storage):
    """A second file of the same path is refused, and the first keeps its bytes."""
    storage.create("slabs/a", [b"first"])

    with pytest.raises(FileExistsError):
        storage.create("slabs/a", [b"second"])
    assert storage.map("slabs/a").to_pybytes() == b"first"


def test_files_are_listed_below_a_folder(storage):
    """A listing is recursive, sorted, relative to the root, and empty where there is nothing."""
    for path in ("slabs/p1/2/b", "slabs/p1/1/a", "slabs/p10/1/c"):
        storage.create(path, [b"x"])

    assert storage.list("slabs/p1") == ("slabs/p1/1/a", "slabs/p1/2/b")
    assert storage.list("slabs/p2") == ()


def test_a_deleted_file_is_gone(storage):
    """Deleting removes the file, twice does no harm, and reading it says that there is none."""
    storage.create("slabs/a", [b"x"])
    storage.delete("slabs/a")
    storage.delete("slabs/a")

    assert not storage.exists("slabs/a")
    for read in (storage.map, storage.size):
        with pytest.raises(FileNotFoundError):
            read("slabs/a")


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "slabs/../../x", "slabs//x", "./x", "a\0b"])
def test_paths_stay_below_the_root(storage, path):
    """No path leads out of the log."""
    with pytest.raises(ConfigError, match="stays below the root"):
        storage.create(path, [b"x"])
    with pytest.raises(ConfigError):
        storage.map(path)


def test_what_is_mapped_stays(storage):
    """Bytes that were mapped can be read on after the file was deleted, so a reader is never cut off."""
    storage.create("slabs/a", [b"x" * 10_000])
    mapped = storage.map("slabs/a")
    storage.delete("slabs/a")

    assert mapped.to_pybytes() == b"x" * 10_000


def test_a_file_that_failed_leaves_no_name(storage):
    """Parts that end with an error leave nothing behind, and the path can be used again."""

    def parts():
        yield b"half"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        storage.create("slabs/a", parts())
    assert storage.list("slabs") == () and not storage.exists("slabs/a")
    storage.create("slabs/a", [b"whole"])
    assert storage.map("slabs/a").to_pybytes() == b"whole"


def test_the_root_can_hold_local_state(storage):
    """The root is an absolute directory of this host, which can be made."""
    os.makedirs(os.path.join(storage.root, "stores"), exist_ok=True)

    assert os.path.isabs(storage.root) and os.path.isdir(storage.root)


def test_a_storage_travels(storage):
    """A storage goes to tasks by pickle; one of files shows them the same files."""
    storage.create("slabs/a", [b"x"])
    assert pickle.loads(pickle.dumps(storage)).list("slabs") == ("slabs/a",)
