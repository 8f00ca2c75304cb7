"""Repair: every slab that the catalog names has again as many whole copies as the log is to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from streamkit.errors import CorruptionError, StorageFullError
from streamkit.log.catalog import Catalog
from streamkit.log.replicated_storage import ReplicatedStorage
from streamkit.log.slab import check_slab
from streamkit.log.storage import FileStorage


@dataclass(frozen=True)
class SlabCopies:
    """The copies of a slab: how many are whole now, how many of these were made just now, and where damaged ones were put."""

    path: str
    whole: int
    restored: int = 0
    set_aside: tuple[str, ...] = ()


@dataclass(frozen=True)
class RepairReport:
    """What a repair found and did, slab by slab; `factor` copies of each are aimed at."""

    factor: int
    slabs: tuple[SlabCopies, ...]

    @property
    def lost(self) -> tuple[str, ...]:
        """The slabs of which no whole copy was found."""
        return tuple(slab.path for slab in self.slabs if not slab.whole)

    @property
    def lacking(self) -> tuple[str, ...]:
        """The slabs that still have too few copies, because a root cannot be used or has no room."""
        return tuple(slab.path for slab in self.slabs if 0 < slab.whole < self.factor)

    @property
    def restored(self) -> int:
        """How many copies were made."""
        return sum(slab.restored for slab in self.slabs)


def repair(
    storage: ReplicatedStorage, catalog: Catalog, *, is_dry: bool = False, progress: Callable[[int, int], None] | None = None
) -> RepairReport:
    """
    Check every byte of every copy of the slabs that the catalog names, and make the missing ones from a whole one.

    A damaged copy is renamed, never deleted. `is_dry` only looks. `progress` hears how many slabs are done, of how many.
    """
    paths = catalog.slabs()
    return RepairReport(storage.replication.factor, tuple(_repaired(storage, paths, is_dry=is_dry, progress=progress)))


def _repaired(
    storage: ReplicatedStorage, paths: list[str], *, is_dry: bool, progress: Callable[[int, int], None] | None
) -> Iterator[SlabCopies]:
    for number, path in enumerate(paths, 1):
        copies = _Copies.of(storage, path)
        yield copies.counted() if is_dry else copies.mended(storage.replication.factor)
        if progress is not None:
            progress(number, len(paths))


@dataclass(frozen=True)
class _Copies:
    """Where a slab is whole, damaged or absent, the roots that are to hold it first."""

    path: str
    data: pa.Buffer | None
    whole: tuple[FileStorage, ...]
    damaged: tuple[FileStorage, ...]
    absent: tuple[FileStorage, ...]

    @classmethod
    def of(cls, storage: ReplicatedStorage, path: str) -> _Copies:
        states = [(files, _state(files, path)) for files in storage.files(path)]
        whole = [(files, state) for files, state in states if isinstance(state, pa.Buffer)]
        return cls(
            path,
            whole[0][1] if whole else None,
            tuple(files for files, _ in whole),
            tuple(files for files, state in states if isinstance(state, CorruptionError)),
            tuple(files for files, state in states if state is None),
        )

    def counted(self) -> SlabCopies:
        return SlabCopies(self.path, len(self.whole))

    def mended(self, factor: int) -> SlabCopies:
        """The copies after damaged ones were set aside and missing ones made; as they are if none is whole."""
        if self.data is None:
            return self.counted()
        set_aside = tuple(files.set_aside(self.path) for files in self.damaged)
        restored = 0
        for files in (*self.damaged, *self.absent):
            if len(self.whole) + restored < factor:
                restored += _is_created(files, self.path, self.data)
        return SlabCopies(self.path, len(self.whole) + restored, restored, set_aside)


def _state(files: FileStorage, path: str) -> pa.Buffer | CorruptionError | None:
    """The bytes of a whole copy, what is wrong with it, or None if there is none."""
    try:
        data = files.map(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return CorruptionError(f"{path} in {files.root} cannot be read: {error.strerror}")
    try:
        check_slab(data, path)
    except CorruptionError as error:
        return error
    return data


def _is_created(files: FileStorage, path: str, data: pa.Buffer) -> bool:
    try:
        files.create(path, [data])
    except FileExistsError:
        return True  # another repair made it
    except (OSError, StorageFullError):  # the slab stays in the list of those that lack copies
        return False
    return True
