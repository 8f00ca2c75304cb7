"""
What a disk may hold after its power failed, from the operations that were done to it.

What a sync covered survives; of the rest any part may: each write, or any of its sectors, each change of size, each name.
Names are made durable by a sync of their folder alone, files by their own. After a sync that failed, the bytes it was for
are in doubt for ever, whatever a second sync says. POSIX promises this much, and every file system somewhat more.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

FOLDER = 0  # stands for the file of a name that is a folder
SECTOR = 512
STYLES = ("nothing", "everything", "names", "order", "any", "any", "any")


@dataclass(frozen=True)
class DiskOperation:
    """
    One change of the disk, or a note of the test.

    `kind` is write, truncate, sync, failed_sync (of `file`), name, unname (of `path`), sync_folder or note. `offset` is that
    of a write, or the size after a truncation.
    """

    kind: str
    path: str = ""
    file: int = FOLDER
    offset: int = 0
    data: bytes = b""
    note: Any = None


@dataclass(frozen=True)
class Image:
    """The files and folders of a disk, by path relative to its root."""

    files: dict[str, bytes]
    folders: tuple[str, ...]

    @property
    def fingerprint(self) -> int:
        """Equal for equal images, within this process."""
        return hash((frozenset(self.files.items()), self.folders))

    @classmethod
    def read(cls, folder: str) -> Image:
        """What a real folder holds now."""
        files, folders = {}, []
        for directory, names, found in os.walk(folder):
            folders += [os.path.relpath(os.path.join(directory, name), folder) for name in names]
            for name in found:
                with open(os.path.join(directory, name), "rb") as file:
                    files[os.path.relpath(file.name, folder)] = file.read()
        return cls(files, tuple(sorted(folders)))

    def write(self, folder: str) -> None:
        """Replace a real folder by one with this and nothing else in it."""
        shutil.rmtree(folder, ignore_errors=True)
        for path in (".", *self.folders):
            os.makedirs(os.path.join(folder, path), mode=0o700, exist_ok=True)
        for path, data in self.files.items():
            with open(os.path.join(folder, path), "wb") as file:
                file.write(data)


@dataclass
class _ImageFile:
    durable: bytes = b""
    pending: list[DiskOperation] = field(default_factory=list)
    doubtful: list[DiskOperation] = field(default_factory=list)


class DiskState:
    """A disk at one moment: the durable part, and the operations that are not durable yet."""

    def __init__(self, image: Image, numbers: dict[str, int]) -> None:
        self._names = dict.fromkeys(image.folders, FOLDER) | numbers
        self._pending: list[DiskOperation] = []
        self._files = {numbers[path]: _ImageFile(data) for path, data in image.files.items()}

    def apply(self, operation: DiskOperation) -> None:
        """Go on by one operation."""
        kind, file = operation.kind, self._files.setdefault(operation.file, _ImageFile())
        if kind in ("write", "truncate"):
            file.pending.append(operation)
        elif kind == "sync":
            file.durable = _changed(file.durable, file.pending)
            file.pending = []
        elif kind == "failed_sync":
            file.doubtful += file.pending
            file.pending = []
        elif kind in ("name", "unname"):
            self._pending.append(operation)
        elif kind == "sync_folder":
            self._sync_folder(operation.path)

    def image(self, random: Random) -> Image:
        """What may be left if the power fails now."""
        return self._image(random.choice(STYLES), random)

    def everything(self) -> Image:
        """What a reader sees now, with the power on."""
        return self._image("everything", Random(0))

    def _image(self, style: str, random: Random) -> Image:
        names = dict(self._names)
        for operation in self._kept_names(style, random):
            _rename(names, operation)
        # A folder sorts before what is in it.
        reachable: dict[str, int] = {}
        for path, file in sorted(names.items()):
            if "/" not in path or os.path.dirname(path) in reachable:
                reachable[path] = file
        files = {path: self._content(self._files[file], style, random) for path, file in reachable.items() if file != FOLDER}
        return Image(files, tuple(path for path, file in reachable.items() if file == FOLDER))

    def _sync_folder(self, folder: str) -> None:
        for operation in self._pending:
            if os.path.dirname(operation.path) == folder:
                _rename(self._names, operation)
        self._pending = [operation for operation in self._pending if os.path.dirname(operation.path) != folder]

    def _kept_names(self, style: str, random: Random) -> Iterable[DiskOperation]:
        """For each name, the first of its changes up to some point."""
        if style in ("nothing", "everything", "names"):
            return () if style == "nothing" else self._pending
        by_name: dict[str, list[DiskOperation]] = {}
        for operation in self._pending:
            by_name.setdefault(operation.path, []).append(operation)
        return [operation for changes in by_name.values() for operation in changes[: random.randint(0, len(changes))]]

    def _content(self, file: _ImageFile, style: str, random: Random) -> bytes:
        waiting = [*file.doubtful, *file.pending]
        if not waiting or style == "nothing":
            return file.durable
        if style == "everything":
            return _changed(file.durable, waiting)
        if style == "names":
            return _changed(file.durable, [_without_data(operation) for operation in waiting])
        if style == "order":
            kept = waiting[: random.randint(0, len(waiting))]
            return _changed(file.durable, [*kept[:-1], *(part for last in kept[-1:] for part in _parts(last, random))])
        return _changed(file.durable, [part for operation in waiting for part in _survivors(operation, random)])


def _changed(data: bytes, operations: Iterable[DiskOperation]) -> bytes:
    changed = bytearray(data)
    for operation in operations:
        missing = operation.offset - len(changed)
        if missing > 0:
            changed.extend(bytes(missing))
        if operation.kind == "truncate":
            del changed[operation.offset :]
        else:
            changed[operation.offset : operation.offset + len(operation.data)] = operation.data
    return bytes(changed)


def _rename(names: dict[str, int], operation: DiskOperation) -> None:
    if operation.kind == "name":
        names[operation.path] = operation.file
    else:
        names.pop(operation.path, None)


def _survivors(operation: DiskOperation, random: Random) -> Iterator[DiskOperation]:
    """What of an operation is on the disk: all, nothing, some of it, or just its size."""
    fate = random.choice(("all", "none", "parts", "size"))
    if fate == "all":
        yield operation
    elif fate == "parts":
        yield from _parts(operation, random)
    elif fate == "size":
        yield _without_data(operation)


def _parts(operation: DiskOperation, random: Random) -> Iterator[DiskOperation]:
    """Some sectors of a write; of a truncation, all or nothing."""
    if operation.kind == "truncate":
        yield from [operation] * random.randint(0, 1)
    first = operation.offset // SECTOR
    for sector in range(first, (operation.offset + len(operation.data) - 1) // SECTOR + 1):
        start = max(sector * SECTOR, operation.offset)
        end = min((sector + 1) * SECTOR, operation.offset + len(operation.data))
        if start < end and random.random() < 0.5:
            yield DiskOperation("write", offset=start, data=operation.data[start - operation.offset : end - operation.offset])


def _without_data(operation: DiskOperation) -> DiskOperation:
    """A write of which only the new size reached the disk: old bytes stay, new ones are zero."""
    if operation.kind == "truncate":
        return operation
    return DiskOperation("write", offset=operation.offset + len(operation.data))
