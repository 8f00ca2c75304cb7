"""
A disk that forgets what was not synced when its power fails.

`ForgetfulDisk` keeps what happens to the files below a folder, in order: by system calls, and by SQLite through
`ForgetfulVfs`. From any moment of that trace it makes images of what a disk may hold whose power failed then, thousands in
a second; `disk_image` says which are possible. The files themselves are real, so whatever reads them works as ever.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import apsw

from streamkit.log.storage.storage import FilePart, FileStorage
from tests.kit.calls import watched
from tests.kit.disk_image import FOLDER, DiskOperation, DiskState, Image

_READS = frozenset(("stat", "fstat", "scandir", "listdir", "pread", "memory_map"))
_SYNCED_WITH_FOLDER = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL


class ForgetfulDisk:
    """
    The files below an existing folder; all that is there at first counts as durable.

    `sync_fails`, when given, is asked before each sync of a file, by path relative to the folder: True makes it fail with
    EIO once its bytes were dropped, as Linux does.
    """

    def __init__(self, folder: str, sync_fails: Callable[[str], bool] | None = None) -> None:
        self.folder = os.path.abspath(folder)
        self.trace: list[DiskOperation] = []
        self._sync_fails = sync_fails
        self._start = Image.read(self.folder)
        self._numbers = {path: number for number, path in enumerate(self._start.files, FOLDER + 1)}
        self._start_numbers = dict(self._numbers)
        self._folders = set(self._start.folders)
        self._made = len(self._numbers)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Keep what this process does to the disk by system calls, until the block ends."""
        with watched(self.folder, _Calls(self)):
            yield

    def note(self, value: Any) -> None:
        """Put a value into the trace: that a client was told that its rows are safe, say."""
        self.trace.append(DiskOperation("note", note=value))

    def moments(self) -> Iterator[DiskState]:
        """The disk as it was at first, then after each operation of the trace; one object, which changes."""
        state = DiskState(self._start, self._start_numbers)
        yield state
        for operation in self.trace:
            state.apply(operation)
            yield state

    def image(self, random: Random) -> Image:
        """What may be left if the power fails now."""
        *_, now = self.moments()
        return now.image(random)

    # What happens to it, by paths relative to its folder

    def made(self, path: str) -> int:
        """Record that there is a file under this path, new or not; returns its number."""
        if path not in self._numbers:
            self._made += 1
            self._numbers[path] = self._made
            self.trace.append(DiskOperation("name", path, self._made))
        return self._numbers[path]

    def made_folder(self, path: str) -> None:
        """Record a new folder under this path."""
        if path not in self._folders:
            self._folders.add(path)
            self.trace.append(DiskOperation("name", path))

    def number(self, path: str) -> int | None:
        """The number of the file under this path; None if there is none, or a folder."""
        return self._numbers.get(path)

    def renamed(self, path: str, new: str) -> None:
        """Record a rename, which replaces a file of the new name; a power cut may keep either half of it alone."""
        self._numbers[new] = self._numbers.pop(path)
        self.trace.append(DiskOperation("name", new, self._numbers[new]))
        self.trace.append(DiskOperation("unname", path))

    def linked(self, path: str, new: str) -> None:
        """Record one more name of a file."""
        self._numbers[new] = self._numbers[path]
        self.trace.append(DiskOperation("name", new, self._numbers[new]))

    def removed(self, path: str) -> None:
        """Record that the file or folder under this path is gone."""
        self._numbers.pop(path, None)
        self._folders.discard(path)
        self.trace.append(DiskOperation("unname", path))

    def wrote(self, file: int, offset: int, data: bytes) -> None:
        self.trace.append(DiskOperation("write", file=file, offset=offset, data=data))

    def truncated(self, file: int, size: int) -> None:
        self.trace.append(DiskOperation("truncate", file=file, offset=size))

    def before_sync(self, path: str, file: int) -> None:
        """Called before a file is synced; OSError if the sync is to fail."""
        if self._sync_fails is not None and self._sync_fails(path):
            self.trace.append(DiskOperation("failed_sync", file=file))
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def synced(self, file: int) -> None:
        self.trace.append(DiskOperation("sync", file=file))

    def synced_folder(self, path: str) -> None:
        self.trace.append(DiskOperation("sync_folder", "" if path == "." else path))


class _Calls:
    """System calls, as changes of the disk."""

    def __init__(self, disk: ForgetfulDisk) -> None:
        self._disk = disk
        self._files: dict[int, int] = {}  # by descriptor

    def watch(self, name: str, path: str, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if name in _READS:
            return call(*arguments)
        known = getattr(self, f"_{name}", None)
        if known is None:
            raise NotImplementedError(f"the forgetful disk has no model of os.{name}, called for {path}")
        return known(os.path.relpath(path, self._disk.folder), lambda: call(*arguments), *arguments)

    def _open(self, path: str, call: Callable[[], int], name: Any, flags: int = os.O_RDONLY, *_: Any) -> int:
        if flags & os.O_TRUNC:
            raise NotImplementedError(f"the forgetful disk has no model of O_TRUNC, used to open {path}")
        descriptor = call()
        file = self._disk.made(path) if flags & os.O_CREAT else self._disk.number(path)
        if file is not None:
            self._files[descriptor] = file
        return descriptor

    def _close(self, path: str, call: Callable[[], None], descriptor: int) -> None:
        self._files.pop(descriptor, None)
        call()

    def _write(self, path: str, call: Callable[[], int], descriptor: int, data: Any) -> int:
        written = call()
        # Asked for afterwards, since a file that is appended to may have grown by another hand.
        end = os.lseek(descriptor, 0, os.SEEK_CUR)
        self._disk.wrote(self._files[descriptor], end - written, bytes(data[:written]))
        return written

    def _fsync(self, path: str, call: Callable[[], None], descriptor: int) -> None:
        if descriptor not in self._files:
            call()
            self._disk.synced_folder(path)
            return
        self._disk.before_sync(path, self._files[descriptor])
        call()
        self._disk.synced(self._files[descriptor])

    def _mkdir(self, path: str, call: Callable[[], None], *_: Any) -> None:
        call()
        self._disk.made_folder(path)

    def _unlink(self, path: str, call: Callable[[], None], *_: Any) -> None:
        call()
        self._disk.removed(path)

    def _rename(self, path: str, call: Callable[[], None], _: Any, new: Any) -> None:
        call()
        self._disk.renamed(path, os.path.relpath(new, self._disk.folder))

    def _link(self, path: str, call: Callable[[], None], _: Any, new: Any) -> None:
        call()
        self._disk.linked(path, os.path.relpath(new, self._disk.folder))

    _rmdir = _remove = _unlink
    _replace = _rename
    _fdatasync = _fsync


class ForgetfulVfs(apsw.VFS):
    """
    A SQLite VFS called `name` over the system's own, whose files below the folder of `disk` forget; `unregister` it after use.

    With `is_default`, SQLite takes it for every file that is opened without naming one, as heartbeats are.
    """

    def __init__(self, disk: ForgetfulDisk, name: str = "streamkit-forgetful", *, is_default: bool = False) -> None:
        self.disk = disk
        self._system = apsw.vfs_names()[0]  # by name, for this may become the default itself
        super().__init__(name, self._system, is_default)

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        """Open a file; a journal that is new takes its name to the disk with its first sync, as SQLite's own files do."""
        path = None if name is None else self._path(name.filename() if isinstance(name, apsw.URIFilename) else name)
        is_new = path is not None and not os.path.exists(os.path.join(self.disk.folder, path))
        syncs_folder = is_new and bool(flags[0] & _SYNCED_WITH_FOLDER)
        return _ForgetfulFile(self._system, self.disk, path, name, flags, syncs_folder)

    def xDelete(self, name: str, syncdir: bool) -> None:
        """Remove a file, and sync its folder if SQLite asks for it."""
        super().xDelete(name, syncdir)
        path = self._path(name)
        if path is not None:
            self.disk.removed(path)
            if syncdir:
                self.disk.synced_folder(os.path.dirname(path))

    def _path(self, name: str) -> str | None:
        """The path below the disk's folder; None for a file elsewhere."""
        path = os.path.relpath(name, self.disk.folder)
        return None if path.startswith("..") else path


class _ForgetfulFile(apsw.VFSFile):
    def __init__(
        self, system: str, disk: ForgetfulDisk, path: str | None, name: Any, flags: list[int], syncs_folder: bool
    ) -> None:
        super().__init__(system, name, flags)
        self._disk = disk
        self._path = path or ""
        self._file = None if path is None else disk.made(path)
        self._syncs_folder = syncs_folder

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        if self._file is not None:
            self._disk.wrote(self._file, offset, bytes(data))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        if self._file is not None:
            self._disk.truncated(self._file, size)

    def xSync(self, flags: int) -> None:
        if self._file is None:
            return super().xSync(flags)
        try:
            self._disk.before_sync(self._path, self._file)
        except OSError as error:
            raise apsw.IOError(str(error)) from error
        super().xSync(flags)
        self._disk.synced(self._file)
        if self._syncs_folder:
            self._disk.synced_folder(os.path.dirname(self._path))
            self._syncs_folder = False
        return None


class ForgetfulStorage(FileStorage):
    """
    A FileStorage whose writes are kept by a disk, so that `lose_power` can take back what was not synced.

    `root` exists, or is made and counts as durable.
    """

    def __init__(self, root: str) -> None:
        os.makedirs(root, mode=0o700, exist_ok=True)
        super().__init__(root)
        self.disk = ForgetfulDisk(root)

    def create(self, path: str, parts: Iterable[FilePart]) -> int:
        """Write a new file, fsync it and the folders that name it."""
        with self.disk.recorded():
            return super().create(path, parts)

    def delete(self, path: str) -> None:
        """Unlink a file; a missing one is no error."""
        with self.disk.recorded():
            super().delete(path)

    def lose_power(self, random: Random) -> Image:
        """Change the root to what its disk may hold if the power fails now."""
        image = self.disk.image(random)
        image.write(self.root)
        self.__init__(self.root)  # type: ignore[misc]
        return image
