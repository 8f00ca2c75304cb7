"""
Where the bytes of a log lie: immutable files under one root, written once and whole.

A file is complete and durable when `create` returns; nothing is ever overwritten or renamed. Storage travels to tasks as
part of a plan; the catalog does not.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from shutil import rmtree
from tempfile import mkdtemp
from typing import Protocol, TypeAlias
from weakref import finalize

import pyarrow as pa

from streamkit.errors import ConfigError
from streamkit.failpoints import reach
from streamkit.log.database.system_error import naming, raise_unless_missing
from streamkit.names import fresh_token

FilePart: TypeAlias = bytes | pa.Buffer
WRITE_BACK_BYTES = 8 << 20  # so many are handed to the disk at a time; 48 MB made in 16 parts then wait 3 ms for it, not 39


class Storage(Protocol):
    """
    Immutable files by relative path, with `/` between folders.

    Beside what each method says, StorageFailedError for any other refusal of the operating system.
    """

    @property
    def root(self) -> str:
        """A directory of this host below which local state may be kept; what lies there may be deleted at any time."""
        ...

    def create(self, path: str, parts: Iterable[FilePart]) -> int:
        """
        Write a new file of these parts durably, name included, and return its size in bytes.

        On any error no reference to the file may be used: FileExistsError, StorageFullError, StorageFailedError.
        """

    def map(self, path: str) -> pa.Buffer:
        """The bytes of a file without a copy; FileNotFoundError if there is none."""

    def copies(self, path: str) -> Iterator[pa.Buffer]:
        """Every copy that is kept of a file, each as `map` gives it; none if there is none."""

    def list(self, folder: str) -> tuple[str, ...]:
        """The paths of all files below a folder, sorted; empty if there is no such folder."""

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is not an error."""

    def size(self, path: str) -> int:
        """The size of a file in bytes; FileNotFoundError if there is none."""

    def exists(self, path: str) -> bool:
        """Whether there is a file of that path."""


def check_path(path: str) -> str:
    """Return a relative path that stays below its root; else ConfigError."""
    if not path or path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise ConfigError(f"the path {path!r} cannot be used in a log; expected a relative one that stays below the root")
    return path


def make_root(folder: str) -> None:
    """
    Make the absolute folder of a log, and sync its name: without that, what is synced in it later would be lost.

    A folder that exists is synced too, since whoever made it may have died before that. OSError if it cannot be made.
    """
    parent = os.path.dirname(folder)
    if not os.path.isdir(parent):
        make_root(parent)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
    with suppress(PermissionError):  # of a parent that we may not read, and did not change
        sync_folder(parent)


class FileStorage:
    """Files in a directory of the local machine, or of a file system that all executors share."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self._durable_folders: set[str] = set()

    def __repr__(self) -> str:
        return f"FileStorage({self.root!r})"

    def create(self, path: str, parts: Iterable[FilePart]) -> int:
        """Write a new file, fsync it and the folders that name it."""
        with naming("write", path, FileExistsError):
            return self._create(self._full_path(path), parts)

    def map(self, path: str) -> pa.Buffer:
        """Map a file into memory, read-only."""
        with naming("read", path, FileNotFoundError):
            return _mapped(self._full_path(path))

    def copies(self, path: str) -> Iterator[pa.Buffer]:
        """The one copy of a file."""
        with suppress(FileNotFoundError):
            yield self.map(path)

    def set_aside(self, path: str) -> str:
        """Rename a damaged file, so that a whole one can take its name; returns where it is now."""
        kept = f"damaged/{path}.{fresh_token()}"
        with naming("set aside", path):
            self._secure_folder(os.path.dirname(self._full_path(kept)))
            os.rename(self._full_path(path), self._full_path(kept))
            for changed in (path, kept):
                sync_folder(os.path.dirname(self._full_path(changed)))
        return os.path.join(self.root, kept)

    def list(self, folder: str) -> tuple[str, ...]:
        """The paths of all files below a folder, sorted."""
        found = []
        with naming("list", folder):
            for directory, _, files in os.walk(self._full_path(folder), onerror=raise_unless_missing):
                relative = os.path.relpath(directory, self.root)
                found += [f"{relative}/{file}" for file in files]
        return tuple(sorted(found))

    def delete(self, path: str) -> None:
        """Unlink a file; a missing one is not an error."""
        with naming("delete", path), suppress(FileNotFoundError):
            os.unlink(self._full_path(path))

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        with naming("measure", path, FileNotFoundError):
            return os.stat(self._full_path(path), follow_symlinks=False).st_size

    def exists(self, path: str) -> bool:
        """Whether there is a file of that path."""
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def _full_path(self, path: str) -> str:
        return os.path.join(self.root, check_path(path))

    def _create(self, file: str, parts: Iterable[FilePart]) -> int:
        folder = os.path.dirname(file)
        self._secure_folder(folder)
        descriptor = self._open_new(file)
        try:
            try:
                size = _write_fully(descriptor, parts)
                reach("storage.before_fsync")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            reach("storage.after_fsync")
            sync_folder(folder)
        except BaseException:
            # The name was never handed out; on a full disk the room is needed back.
            with suppress(OSError):
                os.unlink(file)
            raise
        return size

    def _open_new(self, file: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(file, flags, 0o600)
        except FileNotFoundError:
            self._durable_folders.clear()
            self._secure_folder(os.path.dirname(file))
            return os.open(file, flags, 0o600)

    def _secure_folder(self, folder: str) -> None:
        # Another process may have made a folder and not yet synced its parent: sync every level once ourselves.
        if folder in self._durable_folders:
            return
        make_root(self.root)
        parent = self.root
        for part in os.path.relpath(folder, self.root).split("/"):
            with suppress(FileExistsError):
                os.mkdir(os.path.join(parent, part), 0o700)
            sync_folder(parent)
            parent = os.path.join(parent, part)
        self._durable_folders.add(folder)


def _mapped(file: str) -> pa.Buffer:
    """The bytes of a file, which must not be a link. Python's own `mmap` would keep a descriptor for each file."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_size == 0:
            return pa.py_buffer(b"")
        with pa.memory_map(file) as mapped:
            return mapped.read_buffer()
    finally:
        os.close(descriptor)


def _write_fully(descriptor: int, parts: Iterable[FilePart]) -> int:
    size, begun = 0, 0
    for part in parts:
        view = memoryview(part).cast("B")
        size += len(view)
        while view:
            view = view[os.write(descriptor, view) :]
        reach("storage.half_written")
        if size - begun >= WRITE_BACK_BYTES:
            # Let the disk take what was written while more is made. An error of it is told by the `fsync` that follows.
            # Linux begins to write what is dirty in the range, without waiting; it drops what is clean, and nothing is yet.
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(descriptor, begun, size - begun, os.POSIX_FADV_DONTNEED)
            begun = size
    return size


def sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class MemoryStorage:
    """Files in this process, for tests and throw-away logs."""

    def __init__(self) -> None:
        self._files: dict[str, pa.Buffer] = {}

    @cached_property
    def root(self) -> str:
        """A temporary directory, deleted with this object, or at the end of the process."""
        folder = mkdtemp(prefix="streamkit-")
        finalize(self, rmtree, folder, ignore_errors=True)  # unlike TemporaryDirectory it does not warn: nobody has to close this
        return folder

    def __repr__(self) -> str:
        return f"MemoryStorage({len(self._files)} files)"

    def create(self, path: str, parts: Iterable[FilePart]) -> int:
        """Keep a new file."""
        if check_path(path) in self._files:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        data = b"".join(memoryview(part).cast("B") for part in parts)
        self._files[path] = pa.py_buffer(data)
        return len(data)

    def map(self, path: str) -> pa.Buffer:
        """The bytes of a file."""
        if check_path(path) not in self._files:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._files[path]

    def copies(self, path: str) -> Iterator[pa.Buffer]:
        """The one copy of a file."""
        with suppress(FileNotFoundError):
            yield self.map(path)

    def list(self, folder: str) -> tuple[str, ...]:
        """The paths of all files below a folder, sorted."""
        return tuple(sorted(path for path in self._files if path.startswith(f"{check_path(folder)}/")))

    def delete(self, path: str) -> None:
        """Forget a file; a missing one is not an error."""
        self._files.pop(check_path(path), None)

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return int(self.map(path).size)

    def exists(self, path: str) -> bool:
        """Whether there is a file of that path."""
        return check_path(path) in self._files
