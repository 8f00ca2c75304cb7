"""
Where the local stores of tasks are kept, by the folder of each.

On disk a store is opened and closed with each epoch, so that any process may open it next. A process that runs all tasks
holds them open from epoch to epoch, or has them in memory; what is lost with it comes back from the changelogs.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from streamkit.errors import StreamKitError
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import FrameInput
from streamkit.names import StorePlace
from streamkit.state.changelog import NOTHING_WRITTEN, WrittenChanges, written_changes
from streamkit.state.rocksdb import discard, is_damaged
from streamkit.state.run_folder import RunFolder
from streamkit.state.store import MemoryStore, Store
from streamkit.state.tiered_store import TieredStore

HELD_MAX = 32  # stores that a process holds open at most, since each has files open
FLUSH_SECONDS = 2.0  # for how long what was written may be in memory alone

_logger = logging.getLogger(__name__)


class Stores(Protocol):
    """Whatever keeps the stores of tasks."""

    def open(self, folder: Path, memory_bytes: int) -> Store:
        """The store of a folder, a new one if there is none; errors are those of `TieredStore`."""
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
    """Stores in folders, which each epoch opens and closes. What files of runs were mapped is kept for the next time."""

    def __init__(self) -> None:
        self._files: OrderedDict[Path, RunFolder] = OrderedDict()

    def open(self, folder: Path, memory_bytes: int) -> Store:
        """Open the folder for writing, alone."""
        files = self._files.setdefault(folder, RunFolder(folder))
        self._files.move_to_end(folder)
        if len(self._files) > HELD_MAX:
            self._files.popitem(last=False)
        return TieredStore(folder, memory_bytes=memory_bytes, files=files)

    def discard(self, folder: Path) -> None:
        """Remove the folder."""
        self._files.pop(folder, None)
        discard(folder)

    def remember(self, folder: Path, slab: SlabReference, changes: Sequence[FrameInput], changelog_ids: Collection[int]) -> None:
        """Forget it: another process may open the store next."""

    def written(self, folder: Path) -> WrittenChanges:
        """Nothing."""
        return NOTHING_WRITTEN


ON_DISK = DiskStores()


class HeldStore(TieredStore):
    """
    A store that stays open when an epoch has closed it.

    What it was given is in its files after `FLUSH_SECONDS` at the latest: whoever reads the folder beside it finds so much missing,
    and takes it from the changelog. With `flushes_first` what it is given first is there at once, so that runs which are short or die
    young move the files on, too: a log that is short does not wait for them.
    """

    def __init__(self, folder: Path, memory_bytes: int, *, flushes_first: bool = False) -> None:
        super().__init__(folder, memory_bytes=memory_bytes)
        self._unflushed_since = -math.inf if flushes_first else math.inf

    @property
    def is_usable(self) -> bool:
        """Whether its folder is still the one that was opened, in this process, and nothing in it was found to be damaged."""
        return os.getpid() == self._process and not self.is_lost and not is_damaged(self.folder)

    def write(self, keys: pa.BinaryArray, values: pa.BinaryArray, position: bytes) -> None:
        super().write(keys, values, position)
        self._unflushed_since = min(self._unflushed_since, time.monotonic())
        self.flush_when_due()

    def flush_when_due(self) -> None:
        """Flush if what was written has waited long enough. If that fails, the store goes on without: the changelog has all."""
        if time.monotonic() - self._unflushed_since >= FLUSH_SECONDS and not self.is_lost:
            self._unflushed_since = math.inf
            try:
                self.flush()
            except StreamKitError as error:
                _logger.warning("the local store in %s could not be written to its files: %s", self.folder, error)

    def close(self) -> None:
        """Leave it open, for the next epoch."""

    def let_go(self) -> None:
        """Flush, and give the files back; what cannot be flushed is in the changelog."""
        try:
            super().close()
        except StreamKitError as error:
            _logger.warning(
                "the local store in %s lost what was not in its files; the next epoch restores it: %s", self.folder, error
            )


class HeldStores:
    """
    Stores in RocksDB folders that stay open between epochs, for one process that runs all tasks of a generation.

    Nobody else can write to the folders until `close`, after which stores open again when they are asked for. A store is used by one
    task at a time; tasks may run in several threads.

    Args:
        count: how many stores the tasks have.
        at_once: how many would be open at once if each was closed with its epoch. All together take the memory of so many.
        flushes_first: whether what a store is given first is in its files at once.
    """

    def __init__(self, count: int, at_once: int, *, flushes_first: bool = False) -> None:
        self._flushes_first = flushes_first
        self._open_max = max(1, min(count, HELD_MAX + at_once))
        self._at_once = min(at_once, self._open_max)
        self._held: dict[Path, HeldStore] = {}
        self._written: dict[Path, WrittenChanges] = {}

    def open(self, folder: Path, memory_bytes: int) -> Store:
        """The store of a folder, as it was left; beyond `HELD_MAX` stores one that the epoch closes."""
        held = self._held.get(folder)
        if held is not None and held.is_usable:
            return held
        if held is not None and held.is_lost:
            place = StorePlace.parse(str(folder)) or folder.name
            _logger.warning("%s: the files of the local store in %s were deleted; it is made again", place, folder)
        self._let_go(folder)
        share = max(1, memory_bytes * self._at_once // self._open_max)
        if len(self._held) >= HELD_MAX:
            return TieredStore(folder, memory_bytes=share)
        store = HeldStore(folder, share, flushes_first=self._flushes_first)
        self._held[folder] = store
        return store

    def discard(self, folder: Path) -> None:
        """Close the store, and remove the folder."""
        self._let_go(folder)
        discard(folder)

    def remember(self, folder: Path, slab: SlabReference, changes: Sequence[FrameInput], changelog_ids: Collection[int]) -> None:
        """Keep the changes until the next ones, so that they need not be read back once they are committed."""
        self._written[folder] = written_changes(slab, changes, changelog_ids)

    def written(self, folder: Path) -> WrittenChanges:
        """What the task of the folder wrote last."""
        return self._written.get(folder, NOTHING_WRITTEN)

    def flush_when_due(self) -> None:
        """Begin to flush what has waited long enough; call it while no epoch is under way."""
        for store in self._held.values():
            store.flush_when_due()

    def close(self) -> None:
        """Close all stores, so that any process may open them; call it while no task runs."""
        for folder in list(self._held):
            self._let_go(folder)
        self._written.clear()

    def _let_go(self, folder: Path) -> None:
        if (store := self._held.pop(folder, None)) is not None:
            store.let_go()


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
