"""
Where the local stores of tasks are kept, by the folder of each.

On disk a store is opened and closed with each epoch, so that any process may open it next. In memory stores stay open, for
one process that runs all tasks; what is lost with it comes back from the changelogs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from streamkit.state.rocksdb import RocksStore, discard
from streamkit.state.store import MemoryStore, Store


class Stores(Protocol):
    """Whatever keeps the stores of tasks."""

    def open(self, folder: Path, memory_bytes: int) -> Store:
        """The store of a folder, a new one if there is none; errors are those of `RocksStore`."""
        ...

    def discard(self, folder: Path) -> None:
        """Remove the store of a folder; what it held comes back from the changelog."""
        ...


class DiskStores:
    """Stores in RocksDB folders."""

    def open(self, folder: Path, memory_bytes: int) -> Store:
        """Open the folder for writing, alone."""
        return RocksStore(folder, memory_bytes=memory_bytes)

    def discard(self, folder: Path) -> None:
        """Remove the folder."""
        discard(folder)


ON_DISK = DiskStores()


class MemoryStores:
    """Stores in this process, which stay as they are between epochs; a folder is nothing but a name."""

    def __init__(self) -> None:
        self._stores: dict[Path, MemoryStore] = {}

    def open(self, folder: Path, memory_bytes: int) -> Store:
        """The store of that name."""
        return self._stores.setdefault(folder, MemoryStore())

    def discard(self, folder: Path) -> None:
        """Forget the store of that name."""
        self._stores.pop(folder, None)
