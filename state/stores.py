"""
Where the local stores of tasks are kept, by the folder of each.

On disk a store is opened and closed with each epoch, so that any process may open it next. In memory stores stay open, for
one process that runs all tasks; what is lost with it comes back from the changelogs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import FrameInput
from streamkit.state.changelog import NOTHING_WRITTEN, WrittenChanges, written_changes
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

    def remember(self, folder: Path, slab: SlabReference, changes: Sequence[FrameInput], changelog_ids: Collection[int]) -> None:
        """Take note of the changes for these changelogs that the task of a folder wrote into a slab, which is not committed yet."""
        ...

    def written(self, folder: Path) -> WrittenChanges:
        """The changes that the task of a folder wrote last, as far as they are remembered: whether they count, the catalog says."""
        ...


class DiskStores:
    """Stores in RocksDB folders."""

    def open(self, folder: Path, memory_bytes: int) -> Store:
        """Open the folder for writing, alone."""
        return RocksStore(folder, memory_bytes=memory_bytes)

    def discard(self, folder: Path) -> None:
        """Remove the folder."""
        discard(folder)

    def remember(self, folder: Path, slab: SlabReference, changes: Sequence[FrameInput], changelog_ids: Collection[int]) -> None:
        """Forget it: another process may open the store next."""

    def written(self, folder: Path) -> WrittenChanges:
        """Nothing."""
        return NOTHING_WRITTEN


ON_DISK = DiskStores()


class MemoryStores:
    """Stores in this process, which stay as they are between epochs; a folder is nothing but a name."""

    def __init__(self) -> None:
        self._stores: dict[Path, MemoryStore] = {}
        self._written: dict[Path, WrittenChanges] = {}

    def open(self, folder: Path, memory_bytes: int) -> Store:
        """The store of that name."""
        return self._stores.setdefault(folder, MemoryStore())

    def discard(self, folder: Path) -> None:
        """Forget the store of that name."""
        self._stores.pop(folder, None)

    def remember(self, folder: Path, slab: SlabReference, changes: Sequence[FrameInput], changelog_ids: Collection[int]) -> None:
        """Keep the changes until the next ones, so that they need not be read back once they are committed."""
        self._written[folder] = written_changes(slab, changes, changelog_ids)

    def written(self, folder: Path) -> WrittenChanges:
        """What the task of that name wrote last."""
        return self._written.get(folder, NOTHING_WRITTEN)
