"""Promises of both storages, and of what the file storage does to the disk."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys

import pyarrow as pa
import pytest

from streamkit.errors import ConfigError, StorageFullError
from streamkit.log.storage import FileStorage, MemoryStorage


@pytest.fixture(params=["file", "memory"])
def storage(request, tmp_path):
    return FileStorage(str(tmp_path / "log")) if request.param == "file" else MemoryStorage()


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


def test_files_and_folders_are_private(tmp_path):
    """Only the owner can read what a log holds."""
    storage = FileStorage(str(tmp_path / "log"))
    storage.create("slabs/p1/1/a", [b"x"])

    modes = {
        name: stat.S_IMODE(os.stat(tmp_path / "log" / name).st_mode)
        for name in ("slabs", "slabs/p1", "slabs/p1/1", "slabs/p1/1/a")
    }
    assert modes == {"slabs": 0o700, "slabs/p1": 0o700, "slabs/p1/1": 0o700, "slabs/p1/1/a": 0o600}


def test_links_are_not_followed(tmp_path):
    """A link where a file is expected is refused, so that nobody can point the log elsewhere."""
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    storage = FileStorage(str(tmp_path))

    with pytest.raises(OSError, match="symbolic"):
        storage.map("link")
    with pytest.raises(FileExistsError):
        storage.create("dangling", [b"x"])
    assert not (tmp_path / "nothing").exists()


def test_file_and_folders_are_synced_in_order(tmp_path, monkeypatch):
    """When a file is handed out, its bytes, its name and the names of its folders are on the disk, in this order."""
    storage = FileStorage(str(tmp_path / "log"))
    synced = []
    sync = os.fsync

    def record(descriptor):
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record)

    storage.create("slabs/p1/a", [b"x"])
    assert synced == ["log", "log/slabs", "log/slabs/p1/a", "log/slabs/p1"]
    synced.clear()
    storage.create("slabs/p1/b", [b"x"])
    assert synced == ["log/slabs/p1/b", "log/slabs/p1"]


def test_short_writes_are_completed(tmp_path, monkeypatch):
    """A write that takes fewer bytes than offered goes on with the rest."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:3]))

    FileStorage(str(tmp_path)).create("a", [b"abcdefgh", b"ijk"])
    assert (tmp_path / "a").read_bytes() == b"abcdefghijk"


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_failed_file_is_not_left_behind(tmp_path, monkeypatch, call):
    """What failed half-way was never named to anyone and gives its room back."""
    storage = FileStorage(str(tmp_path))
    storage.create("slabs/warm", [b"x"])

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="Input/output"):
        storage.create("slabs/a", [b"abc"])
    assert storage.list("slabs") == ("slabs/warm",)


def test_a_folder_that_vanished_is_made_again(tmp_path):
    """Folders are remembered as durable, yet may be removed by hand."""
    storage = FileStorage(str(tmp_path))
    storage.create("slabs/p1/a", [b"x"])
    storage.delete("slabs/p1/a")
    os.rmdir(tmp_path / "slabs/p1")

    storage.create("slabs/p1/b", [b"y"])
    assert (tmp_path / "slabs/p1/b").read_bytes() == b"y"


FULL_DISK = """
import resource, sys
from streamkit.errors import StorageFullError
from streamkit.log.storage import FileStorage
storage = FileStorage(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    storage.create("slabs/a", [b"x" * 50_000, b"y" * 20_000])
except StorageFullError as error:
    print(error, storage.list("slabs"))
print(storage.create("slabs/b", [b"z" * 60_000]))
"""


def test_a_full_disk_is_named(tmp_path):
    """A real limit in the middle of a write raises StorageFullError and leaves no file; what fits is written afterwards."""
    run = subprocess.run([sys.executable, "-c", FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True)

    first, second = run.stdout.splitlines()
    assert first.startswith("no room to write slabs/a: File too large") and first.endswith("()")
    assert (second, (tmp_path / "slabs/b").stat().st_size) == ("60000", 60_000)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_every_kind_of_full_is_one_error(tmp_path, monkeypatch, number):
    """Disk, quota and file limit all say: free space, then run again."""

    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(StorageFullError, match="free disk space"):
        FileStorage(str(tmp_path)).create("a", [b"x"])
