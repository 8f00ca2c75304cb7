"""
Faults on purpose: a SQLite VFS and a storage that fail, or end the process, at a call that a test chooses.

A test first runs its work unharmed to count the calls, then once per call with a fault at it, so that none is missed.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apsw
import pyarrow as pa

from streamkit.log.database.system_error import full_error
from streamkit.log.storage.storage import FilePart, Storage

WRITE, SYNC, TRUNCATE = "write", "sync", "truncate"
OPEN, READ, DELETE, SIZE = "open", "read", "delete", "size"


@dataclass
class Fault:
    """
    What happens at call number `at` (from 1) after `arm`, and with `lasts` at every later one.

    `kind` is `io` or `full` (the call fails and does nothing), `late` (it does its work, then reports failure), `torn`
    (a write is half done, then the process ends), or `kill` (the process ends before the call). None counts only. Only the
    `operations` count: of SQLite's files also open, read, delete and size, if asked for; else the names of system calls.
    """

    kind: str | None = None
    at: int = 0
    lasts: bool = False
    operations: frozenset[str] = frozenset((WRITE, SYNC, TRUNCATE))
    calls: list[str] = field(default_factory=list)

    def arm(self, kind: str | None, at: int = 0, *, lasts: bool = False) -> None:
        """Count from one again, and fail as said; `arm(None)` only counts."""
        self.kind, self.at, self.lasts = kind, at, lasts
        self.calls.clear()

    def strikes(self, operation: str) -> str | None:
        """Count a call, and return the kind of fault that strikes it, if one does."""
        if operation not in self.operations:
            return None
        self.calls.append(operation)
        count = len(self.calls)
        return self.kind if count == self.at or (self.lasts and count > self.at) else None


class FaultyVfs(apsw.VFS):
    """A SQLite VFS called `name` over the system's own, whose writes, syncs and truncations obey `fault`; `unregister` it after use."""

    def __init__(self, name: str = "streamkit-faulty") -> None:
        self.fault = Fault()
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> Any:
        """Open a file that obeys the fault."""
        if self.fault.strikes(OPEN) is not None:
            raise apsw.CantOpenError("a fault on purpose")
        return _FaultyFile(self.fault, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:
        """Remove a file, unless the fault strikes."""
        _before(self.fault.strikes(DELETE))
        super().xDelete(name, syncdir)


class _FaultyFile(apsw.VFSFile):
    def __init__(self, fault: Fault, name: Any, flags: list[int]) -> None:
        self._fault = fault
        super().__init__("", name, flags)

    def xWrite(self, data: Any, offset: int) -> None:
        kind = self._fault.strikes(WRITE)
        if kind == "torn":
            super().xWrite(bytes(data)[: len(data) // 2], offset)
            end_process()
        _before(kind)
        super().xWrite(data, offset)
        _after(kind)

    def xRead(self, amount: int, offset: int) -> bytes:
        _before(self._fault.strikes(READ))
        return super().xRead(amount, offset)

    def xFileSize(self) -> int:
        _before(self._fault.strikes(SIZE))
        return super().xFileSize()

    def xSync(self, flags: int) -> None:
        kind = self._fault.strikes(SYNC)
        _before(kind)
        super().xSync(flags)
        _after(kind)

    def xTruncate(self, size: int) -> None:
        kind = self._fault.strikes(TRUNCATE)
        _before(kind)
        super().xTruncate(size)
        _after(kind)


def _before(kind: str | None) -> None:
    if kind in ("kill", "torn"):
        end_process()
    if kind == "io":
        raise apsw.IOError("a fault on purpose")
    if kind == "full":
        raise apsw.FullError("a fault on purpose")


def _after(kind: str | None) -> None:
    if kind == "late":
        raise apsw.IOError("a fault on purpose, after the work")


def end_process() -> None:
    """End this process as a power cut would: no handler, no buffer, no goodbye."""
    os.kill(os.getpid(), signal.SIGKILL)


ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EMFILE": errno.EMFILE, "EACCES": errno.EACCES, "EROFS": errno.EROFS}


class FaultyCalls:
    """
    System calls of this process that obey `fault`, for `calls.watched`; its operations are names of `os`.

    Kinds are `EIO`, `ENOSPC`, `EMFILE`, `EACCES`, `EROFS` (the call fails and does nothing; a close closes all the same, as on Linux)
    and `short` (a write takes half of what it is given, other calls are left alone).
    """

    def __init__(self, operations: Iterable[str]) -> None:
        self.fault = Fault(operations=frozenset(operations))

    def watch(self, name: str, path: str, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Make the call, unless the fault strikes."""
        kind = self.fault.strikes(name)
        if kind == "short" and name == "write":
            descriptor, data = arguments
            return call(descriptor, bytes(data)[: max(len(data) // 2, 1)])
        if kind is None or kind == "short":
            return call(*arguments)
        if name == "close":
            call(*arguments)
        raise OSError(ERRORS[kind], os.strerror(ERRORS[kind]), path)


class FaultyStorage:
    """
    A storage whose `create` obeys `fault`; `io` and `full` write nothing, `late` writes all and reports failure.

    Everything else passes through.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.fault = Fault()

    @property
    def root(self) -> str:
        """Where local state may be kept."""
        return self.storage.root

    def create(self, path: str, parts: Iterable[FilePart]) -> int:
        """Create a file, unless the fault strikes."""
        kind = self.fault.strikes(WRITE)
        if kind in ("kill", "torn"):
            end_process()
        if kind == "io":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        if kind == "full":
            raise full_error(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        size = self.storage.create(path, parts)
        if kind == "late":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return size

    def map(self, path: str) -> pa.Buffer:
        """The bytes of a file."""
        return self.storage.map(path)

    def copies(self, path: str) -> Iterator[pa.Buffer]:
        """Every copy of a file."""
        return self.storage.copies(path)

    def list(self, folder: str) -> tuple[str, ...]:
        """The paths below a folder."""
        return self.storage.list(folder)

    def delete(self, path: str) -> None:
        """Remove a file."""
        self.storage.delete(path)

    def size(self, path: str) -> int:
        """The size of a file."""
        return self.storage.size(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        return self.storage.exists(path)
