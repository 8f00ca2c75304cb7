"""Stores of test drivers in tiers on disk, instead of in memory, with limits so small that everything moves all the time."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import FrameInput
from streamkit.state import tiered_store
from streamkit.state.changelog import WrittenChanges
from streamkit.state.store import Store
from streamkit.state.stores import DiskStores, HeldStores
from streamkit.testing import stepped_run
from tests.kit.engine_run import MEMORY


class Tiers:
    """Stores in a folder, with so much memory each; held, or opened in each epoch."""

    def __init__(self, root: Path, memory_bytes: int, *, is_held: bool) -> None:
        self._root, self._memory_bytes = root, memory_bytes
        self._kept = HeldStores(64, 64) if is_held else DiskStores()

    def open(self, folder: Path, memory_bytes: int) -> Store:
        return self._kept.open(self._root / folder, self._memory_bytes)

    def discard(self, folder: Path) -> None:
        self._kept.discard(self._root / folder)

    def remember(self, folder: Path, slab: SlabReference, changes: Sequence[FrameInput], changelog_ids: Collection[int]) -> None:
        self._kept.remember(self._root / folder, slab, changes, changelog_ids)

    def written(self, folder: Path) -> WrittenChanges:
        return self._kept.written(self._root / folder)

    def die(self) -> None:
        """The process of these stores ends: what is not in files is gone."""
        for store in self._kept._held.values() if isinstance(self._kept, HeldStores) else ():
            store._let_go()


@contextmanager
def tiny_tiers(seed: int) -> Iterator[None]:
    """In the block, drivers keep their stores in tiers; whoever dies leaves the files to the next one."""
    chance = random.Random(seed)
    kept: list[Tiers] = []
    memory_bytes, is_held = chance.choice([1, 3_000, 1 << 20]), chance.random() < 0.5
    with (
        tempfile.TemporaryDirectory(dir=MEMORY if Path(MEMORY).is_dir() else None) as root,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in {"NEWEST_ROWS": chance.choice([0, 3, 1 << 14]), "RUNS_OF_A_LEVEL": 2, "_LEVEL_BITS": 1}.items():
            patch.setattr(tiered_store, name, value)

        def stores() -> Tiers:
            for one in kept:
                one.die()
            kept[:] = [Tiers(Path(root), memory_bytes, is_held=is_held)]
            return kept[0]

        patch.setattr(stepped_run, "MemoryStores", stores)
        yield
        for one in kept:
            one.die()
