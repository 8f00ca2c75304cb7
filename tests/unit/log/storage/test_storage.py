"""Promises of what the file storage does to the disk, beside those of tests/unit/contracts."""

from __future__ import annotations

import errno
import gc
import os
import pickle
import stat

import pytest

import streamkit as sk
from streamkit.errors import StorageFailedError, StorageFullError
from streamkit.log.storage import storage as storage_module
from streamkit.log.storage.storage import FileStorage
from tests.kit.program import Program


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
    assert synced == [".", "log", "log/slabs", "log/slabs/p1/a", "log/slabs/p1"]
    synced.clear()
    storage.create("slabs/p1/b", [b"x"])
    assert synced == ["log/slabs/p1/b", "log/slabs/p1"]


def test_a_large_file_goes_to_the_disk_while_it_is_made(tmp_path, monkeypatch):
    """Each byte of it is handed to the disk once, in order, before the last part is made, and the file is whole."""
    monkeypatch.setattr(storage_module, "WRITE_BACK_BYTES", 5)
    begun: list[tuple[int, int]] = []
    advise = os.posix_fadvise

    def record(descriptor, start, size, advice):
        begun.append((start, size))
        advise(descriptor, start, size, advice)

    monkeypatch.setattr(os, "posix_fadvise", record)

    def parts():
        yield from (b"abc", b"def", b"g", b"hijklmnop")
        assert begun == [(0, 6), (6, 10)]
        yield b"q"

    FileStorage(str(tmp_path / "log")).create("slabs/a", parts())
    assert begun == [(0, 6), (6, 10)]
    assert (tmp_path / "log" / "slabs" / "a").read_bytes() == b"abcdefghijklmnopq"


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


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EACCES, "expected that the user .* may do that, .*; change their owner or mode"),
        (errno.EROFS, "expected a file system that can be written to; mount it so"),
        (errno.EMFILE, "expected room for one more open file; .*ulimit -n"),
        (errno.EIO, "expected a disk that works; .*streamkit fsck --deep"),
        (errno.ENOTDIR, "expected a folder; move what is there away"),
        (errno.ENXIO, "fix that, then run again"),
    ],
)
def test_what_the_system_refuses_says_what_to_do(tmp_path, monkeypatch, number, advice):
    """The error says what was refused, why, what was expected and what to do; what the system said is behind it, and it is an OSError too."""
    storage = FileStorage(str(tmp_path))
    storage.create("slabs/a", [b"x"])

    def fail(*_, **__):
        raise OSError(number, os.strerror(number), str(tmp_path / "slabs"))

    for call, verb, work in (
        ("fsync", "write", lambda: storage.create("slabs/b", [b"x"])),
        ("fstat", "read", lambda: storage.map("slabs/a")),
        ("stat", "measure", lambda: storage.exists("slabs/a")),
        ("unlink", "delete", lambda: storage.delete("slabs/a")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, fail)
            with pytest.raises(StorageFailedError, match=f"cannot {verb} slabs/.: {os.strerror(number)} .*{advice}") as caught:
                work()
        assert isinstance(caught.value, OSError) and (caught.value.errno, caught.value.strerror) == (number, os.strerror(number))
        assert type(caught.value.__cause__) is type(OSError(number, ""))
    assert storage.map("slabs/a").to_pybytes() == b"x"


FULL_DISK = """
import resource, sys
from streamkit.errors import StorageFailedError, StorageFullError
from streamkit.log.storage import storage as storage_module
from streamkit.log.storage.storage import FileStorage
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
    first, second = Program(None, str(tmp_path), code=FULL_DISK).communicate()[0].splitlines()

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


def test_a_refusal_of_the_system_travels():
    """An error of the operating system is the same error in the process that it is sent to."""
    found = pickle.loads(pickle.dumps(StorageFailedError("cannot read x", errno.EACCES, "denied")))

    assert (str(found), found.errno, found.strerror) == ("cannot read x", errno.EACCES, "denied")


@pytest.mark.filterwarnings("default")
def test_the_folder_of_a_memory_log_goes_with_it_without_a_word(recwarn):
    """Nobody has to close such a log, so a process that warns of what nobody closed has nothing to say of it."""
    log = sk.open_log(":memory:")
    root = log.storage.root
    assert log.storage.root == root and os.path.isdir(root)
    del log
    gc.collect()
    assert not os.path.exists(root)
    assert [warning for warning in recwarn if root in str(warning.message)] == []
