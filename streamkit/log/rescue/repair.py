"""Repair: every slab that the catalog names has again as many whole copies as the log is to keep."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from streamkit.errors import ConfigError, CorruptionError, StorageFullError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.database.system_error import is_refusal, system_error
from streamkit.log.slab.slab import check_slab
from streamkit.log.storage.replicated_storage import ReplicatedStorage, reason_of
from streamkit.log.storage.storage import FileStorage, Storage

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class SlabCopies:
    """
    The copies of a slab: how many are whole now, how many of these were made just now, and where damaged ones were put.

    `failures` says of roots, by folder, why no copy could be looked at or made there. `is_lost`: every root could be asked, also
    those that cannot be used, and none has a whole copy.
    """

    path: str
    whole: int
    restored: int = 0
    set_aside: tuple[str, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    is_lost: bool = False


@dataclass(frozen=True)
class RepairReport:
    """
    What a repair found and did, slab by slab; `factor` copies of each are aimed at.

    `unusable` says of roots, by folder, why they cannot be used; what they hold does not count.
    """

    factor: int
    slabs: tuple[SlabCopies, ...]
    unusable: Mapping[str, str] = field(default_factory=dict)

    @property
    def lost(self) -> tuple[str, ...]:
        """The slabs of which no root has a whole copy."""
        return tuple(slab.path for slab in self.slabs if slab.is_lost)

    @property
    def lacking(self) -> tuple[str, ...]:
        """The slabs that still have too few copies, because a root cannot be used, refuses to be looked at, or has no room."""
        return tuple(slab.path for slab in self.slabs if slab.whole < self.factor and not slab.is_lost)

    @property
    def restored(self) -> int:
        """How many copies were made."""
        return sum(slab.restored for slab in self.slabs)


def repair(
    storage: Storage, catalog: Catalog, *, is_dry: bool = False, progress: Callable[[int, int], None] | None = None
) -> RepairReport:
    """
    Check every byte of every copy of the slabs that the catalog names, and make the missing ones from a whole one.

    Slabs that it names no more when they are found lacking are left out, and copies made of them deleted. A damaged copy is
    renamed, never deleted. `is_dry` only looks. `progress` hears how many slabs are done, of how many.
    ConfigError if the storage keeps one copy only.
    """
    if not isinstance(storage, ReplicatedStorage):
        raise ConfigError(
            "the log keeps one copy of its files, so there is none to repair from; add folders: streamkit storage set FOLDER"
        )
    paths = catalog.manifest.slabs()
    slabs = tuple(_repaired(storage, catalog, paths, is_dry=is_dry, progress=progress))
    failures = {root: reason for slab in slabs for root, reason in slab.failures.items()}
    return RepairReport(storage.replication.factor, slabs, failures | storage.unusable())


def _repaired(
    storage: ReplicatedStorage, catalog: Catalog, paths: list[str], *, is_dry: bool, progress: Callable[[int, int], None] | None
) -> Iterator[SlabCopies]:
    factor = storage.replication.factor
    for number, path in enumerate(paths, 1):
        copies = _Copies.of(storage, path)
        slab = copies.counted() if is_dry else copies.repaired(factor)
        if len(copies.whole) >= factor or catalog.manifest.slabs([path]):
            yield slab
        elif slab.restored:  # maybe after all others were deleted
            copies.discard_made()
        if progress is not None:
            progress(number, len(paths))


@dataclass(frozen=True)
class _Copies:
    """Where a slab is whole, damaged or absent, and what was refused where, the roots that are to hold it first."""

    path: str
    data: pa.Buffer | None
    whole: tuple[FileStorage, ...]
    damaged: tuple[FileStorage, ...]
    absent: tuple[FileStorage, ...]
    refused: Mapping[str, str]

    @classmethod
    def of(cls, storage: ReplicatedStorage, path: str) -> _Copies:
        states = [(files, _state(files, path)) for files in storage.files(path)]
        whole = tuple(files for files, state in states if isinstance(state, pa.Buffer))
        # Under a root that cannot be used, a read-only one or one of the log that this is a copy of, there may be a whole one.
        elsewhere = [] if whole else [(files, _state(files, path)) for files in storage.out_of_use()]
        found = [*states, *elsewhere]
        return cls(
            path,
            next((state for _, state in found if isinstance(state, pa.Buffer)), None),
            whole,
            tuple(files for files, state in states if isinstance(state, CorruptionError)),
            tuple(files for files, state in states if state is None),
            {files.root: reason_of(state) for files, state in found if isinstance(state, OSError)},
        )

    def counted(self) -> SlabCopies:
        is_lost = self.data is None and not self.refused
        return SlabCopies(self.path, len(self.whole), failures=self.refused, is_lost=is_lost)

    def repaired(self, factor: int) -> SlabCopies:
        """The copies after damaged ones were set aside and missing ones made; as they are if none is whole."""
        if self.data is None:
            return self.counted()
        set_aside: list[str] = []
        failures = dict(self.refused)
        restored = 0
        for files in (*self.damaged, *self.absent):
            try:
                if files in self.damaged:
                    set_aside.append(files.set_aside(self.path))
                if len(self.whole) + restored < factor:
                    with suppress(FileExistsError):  # another repair made it
                        files.create(self.path, [self.data])
                    restored += 1
            except (OSError, StorageFullError) as failure:  # the slab stays in the list of those that lack copies
                failures[files.root] = reason_of(failure)
        return SlabCopies(self.path, len(self.whole) + restored, restored, tuple(set_aside), failures)

    def discard_made(self) -> None:
        """Delete what `repaired` made; whoever deletes the slab deletes the others, because readers may still hold them."""
        for files in (*self.damaged, *self.absent):
            with suppress(OSError):  # what is left is an orphan
                files.delete(self.path)


def has_whole_copy(roots: Iterable[FileStorage], path: str) -> bool:
    """Whether there is a `whole_copy`."""
    return whole_copy(roots, path) is not None


def whole_copy(roots: Iterable[FileStorage], path: str) -> pa.Buffer | None:
    """The first copy under these roots of which every byte is right; StorageFailedError if none is, and one may not be looked at."""
    refusal = None
    for files in roots:
        state = _state(files, path)
        if isinstance(state, pa.Buffer):
            return state
        refusal = state if isinstance(state, OSError) else refusal
    if refusal is not None:
        raise system_error("read", path, refusal) from refusal
    return None


def _state(files: FileStorage, path: str) -> pa.Buffer | CorruptionError | OSError | None:
    """The bytes of a whole copy, what is wrong with it, None if there is none, or the OSError for which this process may not look."""
    try:
        _read_through(os.path.join(files.root, path))
        data = files.map(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if is_refusal(error):
            return error
        return CorruptionError(f"{path} in {files.root} cannot be read: {error.strerror}")
    try:
        check_slab(data, path)
    except CorruptionError as error:
        return error
    return data


def _read_through(file: str) -> None:
    """Read a file to its end, so that a bad sector is an OSError here, and not a SIGBUS in the map of it."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        position = 0
        while read := len(os.pread(descriptor, _CHUNK_BYTES, position)):
            position += read
    finally:
        os.close(descriptor)
