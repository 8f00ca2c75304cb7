"""
A storage in which small slabs are bytes that the catalog or a plan has, and everything else is in files.

Readers see no difference: an inline slab has a path and bytes like any other, but is never created, listed or deleted here.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from streamkit.log.storage.storage import FilePart, MemoryStorage, Storage
from streamkit.names import is_inline

FindBytes = Callable[[Sequence[str]], Mapping[str, bytes]]  # by path, those that there are
KEPT_BYTES = 16 << 20  # of slabs that were read: consumers and epochs read what has just come, often more than once


class InlineStorage:
    """The `files` of a log, and the inline slabs that `find` finds; what was found is kept for a while, since it never changes."""

    def __init__(self, files: Storage, find: FindBytes) -> None:
        self.files = files
        self._find = find
        self._kept: OrderedDict[str, pa.Buffer] = OrderedDict()
        self._kept_bytes = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"InlineStorage({self.files!r})"

    @property
    def root(self) -> str:
        """That of the files."""
        return self.files.root

    def over(self, files: Storage) -> InlineStorage:
        """The same inline slabs, over other files."""
        return self if files is self.files else InlineStorage(files, self._find)

    def create(self, path: str, parts: Iterable[FilePart]) -> int:
        """Write a file."""
        return self.files.create(path, parts)

    def map(self, path: str) -> pa.Buffer:
        """The bytes of an inline slab, or of a file."""
        if not is_inline(path):
            return self.files.map(path)
        found = self._bytes_of([path]).get(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found

    def copies(self, path: str) -> Iterator[pa.Buffer]:
        """The bytes of an inline slab, of which there is one copy, or those of a file."""
        if is_inline(path):
            yield from self._bytes_of([path]).values()
        else:
            yield from self.files.copies(path)

    def fetch(self, paths: Iterable[str]) -> None:
        """Find the inline slabs among these all at once, since they are about to be read."""
        self._bytes_of([path for path in dict.fromkeys(paths) if is_inline(path)])

    def bytes_of(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The bytes of the inline slabs among these, by path, for who has no storage that finds them; FileNotFoundError if one is gone."""
        wanted = [path for path in dict.fromkeys(paths) if is_inline(path)]
        found = self._bytes_of(wanted)
        if lost := [path for path in wanted if path not in found]:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), lost[0])
        return {path: found[path].to_pybytes() for path in wanted}

    def list(self, folder: str) -> tuple[str, ...]:
        """The paths of the files below a folder."""
        return self.files.list(folder)

    def delete(self, path: str) -> None:
        """Delete a file; an inline slab goes with what refers to it."""
        if not is_inline(path):
            self.files.delete(path)

    def size(self, path: str) -> int:
        """The size of an inline slab, or of a file."""
        return int(self.map(path).size) if is_inline(path) else self.files.size(path)

    def exists(self, path: str) -> bool:
        """Whether there is an inline slab, or a file."""
        return bool(self._bytes_of([path])) if is_inline(path) else self.files.exists(path)

    def _bytes_of(self, paths: Sequence[str]) -> dict[str, pa.Buffer]:
        with self._lock:
            known = {path: self._kept[path] for path in paths if path in self._kept}
        lacking = [path for path in paths if path not in known]
        if not lacking:
            return known
        found = {path: pa.py_buffer(data) for path, data in self._find(lacking).items()}
        with self._lock:
            for path, data in found.items():
                if path not in self._kept:
                    self._kept[path] = data
                    self._kept_bytes += data.size
            while self._kept_bytes > KEPT_BYTES:
                _, dropped = self._kept.popitem(last=False)
                self._kept_bytes -= dropped.size
        return known | found


def is_in_memory(storage: Storage) -> bool:
    """Whether the files of a log are in the memory of this process, and end with it."""
    return isinstance(storage.files if isinstance(storage, InlineStorage) else storage, MemoryStorage)


def fetch(storage: Storage, paths: Iterable[str]) -> None:
    """Have the inline slabs among these found at once, if the storage may have some: they are about to be read."""
    if isinstance(storage, InlineStorage):
        storage.fetch(paths)


def storage_with(files: Storage, inline: Mapping[str, bytes]) -> Storage:
    """The storage with these inline slabs, by path."""
    return InlineStorage(files, lambda paths: {path: inline[path] for path in paths if path in inline}) if inline else files
