"""
A storage that keeps copies of each file under several roots: the log's own folder, and others on disks of their own.

Which roots are to hold a file follows from its path alone (the highest hashes of path and root), so no table says where
copies are; a root that fails is replaced by the next one. Readers try every root in that order.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa

from streamkit.errors import ConfigError, NotEnoughReplicasError, StorageFullError, StreamKitError
from streamkit.log.replication import Replication, StorageRoot
from streamkit.log.storage import FileStorage, Part, Storage
from streamkit.names import fresh_token

MARKER = "storage-root"
Outcome: TypeAlias = int | OSError | StorageFullError  # the size of a copy, or why there is none


def create_root(path: str, token: str) -> StorageRoot:
    """
    Make a folder a storage root: it must be empty, or not exist yet but for its parent.

    ConfigError if it cannot be used.
    """
    folder = os.path.abspath(os.path.expanduser(path))
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.listdir(folder)
    except OSError as error:
        raise ConfigError(f"the storage root {folder} cannot be used: {error.strerror}") from error
    if found and found != ["lost+found"]:
        raise ConfigError(f"the storage root {folder} has files already, such as {found[0]}; expected an empty folder")
    FileStorage(folder).create(MARKER, [token.encode()])
    return StorageRoot(folder, token)


def with_roots(known: Replication, roots: Sequence[str], factor: int | None, min_insync: int) -> Replication:
    """
    The replication over these folders and the log's own; those that are no storage root yet become one.

    ConfigError for numbers that do not fit, before anything is made, and for a folder that cannot be used.
    """
    markers = {root.path: root for root in known.roots}
    folders = [os.path.abspath(os.path.expanduser(root)) for root in roots]
    copies = 1 + len(folders) if factor is None else factor
    wanted = Replication(copies, min_insync, tuple(StorageRoot(folder, "") for folder in folders))
    return replace(wanted, roots=tuple(markers.get(folder) or create_root(folder, fresh_token()) for folder in folders))


def check_root(root: StorageRoot) -> None:
    """OSError if the folder is not this root: its disk is not mounted, or another log's is."""
    with open(os.path.join(root.path, MARKER), "rb") as marker:
        found = marker.read(len(root.token) + 1).decode(errors="replace")
    if found != root.token:
        raise OSError(f"the marker file in {root.path} is that of another storage root")


class ReplicatedStorage:
    """Copies of each file under several roots; see the module. Local state lies under the log's own folder."""

    def __init__(self, root: str, replication: Replication) -> None:
        self.root = os.path.abspath(root)
        self.replication = replication
        self._roots: tuple[StorageRoot | None, ...] = (None, *replication.roots)
        self._files = (FileStorage(self.root), *(FileStorage(other.path) for other in replication.roots))

    def __repr__(self) -> str:
        return f"ReplicatedStorage({self.root!r}, {self.replication})"

    def create(self, path: str, parts: Iterable[Part]) -> int:
        """
        Write copies of a new file, at once, and return its size when enough of them are durable.

        Aims at `factor` copies; a root that fails is replaced by the next. With fewer than `min_insync` copies, those that were
        made are removed: StorageFullError if room was all that lacked, else NotEnoughReplicasError, which names what befell each root.
        """
        data = tuple(memoryview(part).cast("B") for part in parts)
        order = self._order(path)
        outcomes = self._write(order[: self.replication.factor], path, data)
        for number in order[self.replication.factor :]:
            if len(_sizes(outcomes)) < self.replication.factor:
                outcomes |= self._write([number], path, data)
        sizes = _sizes(outcomes)
        if len(sizes) >= self.replication.min_insync:
            return next(iter(sizes.values()))
        for number in sizes:
            self._files[number].delete(path)
        raise self._refusal(path, outcomes)

    def copies(self, path: str) -> Iterator[pa.Buffer]:
        """Every copy that can be mapped, the likeliest root first."""
        for number in self._order(path):
            with suppress(OSError):
                yield self._files[number].map(path)

    def map(self, path: str) -> pa.Buffer:
        """The bytes of one copy."""
        for copy in self.copies(path):
            return copy
        return self._files[0].map(path)

    def list(self, folder: str) -> tuple[str, ...]:
        """The paths below a folder in any root, sorted."""
        return tuple(sorted({path for files in self._files for path in files.list(folder)}))

    def delete(self, path: str) -> None:
        """Remove all copies that can be reached."""
        for files in self._files:
            files.delete(path)

    def size(self, path: str) -> int:
        """The size of one copy in bytes."""
        return int(self.map(path).size)

    def exists(self, path: str) -> bool:
        """Whether any root has a copy."""
        return any(files.exists(path) for files in self._files)

    def files(self, path: str) -> tuple[FileStorage, ...]:
        """The storages of the roots that can be used now, the likeliest to hold the file first."""
        return tuple(self._files[number] for number in self._order(path) if self._can_write(number))

    def _can_write(self, number: int) -> bool:
        try:
            self._check(number)
        except OSError:
            return False
        return True

    def _check(self, number: int) -> None:
        root = self._roots[number]
        if root is not None:
            check_root(root)

    def _order(self, path: str) -> tuple[int, ...]:
        """All roots, the ones that are to hold the file first."""

        def rank(number: int) -> bytes:
            return hashlib.blake2b(f"{number}:{path}".encode(), digest_size=8).digest()

        return tuple(sorted(range(len(self._files)), key=rank))

    def _write(self, numbers: Sequence[int], path: str, data: Sequence[Part]) -> dict[int, Outcome]:
        """Write a copy under each of these roots, at once."""

        def attempt(number: int) -> Outcome:
            try:
                self._check(number)
                return self._files[number].create(path, data)
            except FileExistsError:
                raise
            except (OSError, StorageFullError) as failure:
                return failure

        with ThreadPoolExecutor(len(numbers)) as threads:
            outcomes = tuple(threads.map(attempt, numbers))
        return dict(zip(numbers, outcomes, strict=True))

    def _refusal(self, path: str, outcomes: Mapping[int, Outcome]) -> StreamKitError:
        failures = {
            self._files[number].root: outcome for number, outcome in sorted(outcomes.items()) if not isinstance(outcome, int)
        }
        made = len(outcomes) - len(failures)
        reasons = "; ".join(f"{root}: {failure}" for root, failure in failures.items())
        if all(isinstance(failure, StorageFullError) for failure in failures.values()):
            return StorageFullError(f"{made} copies of {path} could be made: {reasons}")
        return NotEnoughReplicasError(
            f"{made} copies of {path} could be made, min.insync.replicas is {self.replication.min_insync}; nothing became visible. {reasons}. "
            "Reading goes on; mend or mount the disk, then write again"
        )


def _sizes(outcomes: Mapping[int, Outcome]) -> dict[int, int]:
    """The sizes of the copies that were made."""
    return {number: outcome for number, outcome in outcomes.items() if isinstance(outcome, int)}


def open_storage(root: str, replication: Replication) -> Storage:
    """The storage of a log at this folder, with as many copies as it has on record."""
    return ReplicatedStorage(root, replication) if replication.roots else FileStorage(root)
