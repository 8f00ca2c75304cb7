"""
A storage that keeps copies of each file under several roots: the log's own folder, and others on disks of their own.

Which roots are to hold a file follows from its path alone: those whose hash of "number:path" is lowest, where 0 is the log's
own folder and the others are numbered as they are on record. So no table says where copies are; a root that fails is replaced
by the next one. Readers try every root in that order.

A root is written, listed and cleaned only while its marker says that it is this log's. It is read in any case: the path of a
file holds a token that is used once, and readers find it inside again, so there is no other file of that path.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeAlias, TypeVar, overload

import pyarrow as pa

from streamkit.errors import NotEnoughReplicasError, StorageFullError, StreamKitError
from streamkit.log.database.system_error import is_refusal
from streamkit.log.storage.inline_storage import InlineStorage
from streamkit.log.storage.lockstep import Lockstep, NoMorePartsError
from streamkit.log.storage.replication import Replication, StorageRoot
from streamkit.log.storage.storage import FilePart, FileStorage, Storage
from streamkit.log.storage.storage_root import check_root, place_of

Outcome: TypeAlias = int | OSError | StorageFullError  # the size of a copy, or why there is none
Answer = TypeVar("Answer")
_logger = logging.getLogger(__name__)


class ReplicatedStorage:
    """Copies of each file under several roots; see the module. Local state lies under the log's own folder."""

    def __init__(self, root: str, replication: Replication) -> None:
        self.root = os.path.abspath(root)
        self.replication = replication
        self._roots: tuple[StorageRoot | None, ...] = (None, *replication.roots)
        self._files = (FileStorage(self.root), *(FileStorage(other.path) for other in replication.roots))
        self._place = place_of(self.root)
        self._complaints: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"ReplicatedStorage({self.root!r}, {self.replication})"

    def create(self, path: str, parts: Iterable[FilePart]) -> int:
        """
        Write copies of a new file, in step, and return its size when enough of them are durable.

        Aims at `factor` copies; a root that fails does not stop the others, and is replaced by the next. With fewer than
        `min_insync` copies, those that were made are removed: StorageFullError if room was all that lacked, else
        NotEnoughReplicasError, which names the error of each root.
        """
        parts = tuple(parts) if isinstance(parts, Iterator) else parts  # which cannot be started again
        order = self._order(path)
        outcomes = self._write(order[: self.replication.factor], path, parts)
        for number in order[self.replication.factor :]:
            if len(_sizes(outcomes)) < self.replication.factor:
                outcomes |= self._replace(number, path, parts, outcomes)
        sizes = _sizes(outcomes)
        if len(sizes) >= self.replication.min_insync:
            return next(iter(sizes.values()))
        for number in sizes:
            with suppress(OSError):  # what is left is an orphan
                self._files[number].delete(path)
        raise self._refusal(path, outcomes)

    def copies(self, path: str) -> Iterator[pa.Buffer]:
        """
        Every copy that can be mapped, the likeliest root first.

        At the end, if no copy would do: StorageFailedError if a root failed, because it may have one; not if its disk failed
        and there are other copies.
        """
        failure: OSError | None = None
        is_found = False
        for number in self._order(path):
            try:
                data = self._files[number].map(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                failure = failure or error
                continue
            is_found = True
            yield data
        if failure is not None and (not is_found or is_refusal(failure)):
            raise failure

    def map(self, path: str) -> pa.Buffer:
        """The bytes of one copy; FileNotFoundError if no root has one, else the OSError of the first that cannot be read."""
        failure: OSError | None = None
        for number in self._order(path):
            try:
                return self._files[number].map(path)
            except OSError as error:
                if failure is None or isinstance(failure, FileNotFoundError):
                    failure = error
        raise failure or FileNotFoundError(path)

    def list(self, folder: str) -> tuple[str, ...]:
        """The paths below a folder in any root that can be used, sorted; OSError if there is none."""
        return tuple(sorted({path for paths in self._ask(lambda files: files.list(folder)) for path in paths}))

    def delete(self, path: str) -> None:
        """Remove all copies in roots that can be used; those that are left are orphans. OSError if there is no such root."""
        self._ask(lambda files: files.delete(path))

    def size(self, path: str) -> int:
        """The size of one copy in bytes."""
        return int(self.map(path).size)

    def exists(self, path: str) -> bool:
        """Whether any root has a copy; StorageFailedError if none is seen, and a root cannot be looked into."""
        failure: OSError | None = None
        for files in self._files:
            try:
                if files.exists(path):
                    return True
            except OSError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return False

    def files(self, path: str) -> tuple[FileStorage, ...]:
        """The storages of the roots that can be used now, the likeliest to hold the file first."""
        usable = self.usable()
        return tuple(self._files[number] for number in self._order(path) if self._files[number] in usable)

    def usable(self) -> tuple[FileStorage, ...]:
        """The storages of the roots that can be used now, the log's own first."""
        unusable = self.unusable()
        return tuple(files for files in self._files if files.root not in unusable)

    def out_of_use(self) -> tuple[FileStorage, ...]:
        """The storages of the roots that cannot be used now; some may be read all the same."""
        unusable = self.unusable()
        return tuple(files for files in self._files if files.root in unusable)

    def unusable(self) -> dict[str, str]:
        """Why roots cannot be used now, by folder; empty if all can."""
        found: dict[str, str] = {}
        for number, files in enumerate(self._files):
            try:
                self._check(number)
                _check_disk(files.root)
            except OSError as failure:
                found[files.root] = reason_of(failure)
        return found

    def warn_of_unusable(self) -> None:
        """Warn of each root that cannot be used now; reading goes on without it."""
        unusable = self.unusable()
        for number, files in enumerate(self._files):
            if files.root in unusable:
                self._complain(number, unusable[files.root])

    def _ask(self, call: Callable[[FileStorage], Answer]) -> tuple[Answer, ...]:
        """The answers of the roots that can be used; the first OSError if none answers."""
        answers, failures = [], []
        for number, files in enumerate(self._files):
            try:
                self._check(number)
                answers.append(call(files))
                self._complaints.pop(files.root, None)
            except OSError as failure:
                failures.append(failure)
                self._complain(number, reason_of(failure))
        if not answers:
            raise failures[0]
        return tuple(answers)

    def _complain(self, number: int, reason: str) -> None:
        """Warn of a root that cannot be used, once as long as it fails for the same reason."""
        root = self._files[number].root
        if self._complaints.get(root) != reason:
            self._complaints[root] = reason
            _logger.warning("the storage root %s cannot be used: %s", root, reason)

    def _check(self, number: int) -> None:
        root = self._roots[number]
        if root is not None:
            check_root(root, self._place)

    def _order(self, path: str) -> tuple[int, ...]:
        """All roots, the ones that are to hold the file first."""

        def rank(number: int) -> bytes:
            return hashlib.blake2b(f"{number}:{path}".encode(), digest_size=8).digest()

        return tuple(sorted(range(len(self._files)), key=rank))

    def _replace(self, number: int, path: str, parts: Iterable[FilePart], outcomes: Mapping[int, Outcome]) -> dict[int, Outcome]:
        """Write a copy under one more root: from a copy that was made, since all must be equal, or else from the beginning."""
        for made in _sizes(outcomes):
            try:
                return self._write([number], path, [self._files[made].map(path)])
            except OSError as failure:
                return {number: failure}
        return self._write([number], path, parts)

    def _write(self, numbers: Sequence[int], path: str, parts: Iterable[FilePart]) -> dict[int, Outcome]:
        """Write a copy under each of these roots, at once; none is left if the parts cannot be made, which raises their error."""
        shared = Lockstep(parts, numbers)

        def attempt(number: int) -> Outcome:
            try:
                self._check(number)
                size = self._files[number].create(path, shared.parts(number))
                self._check(number)  # a copy on a root left out meanwhile does not count: who left it out may not have seen it
                return size
            except FileExistsError:
                raise
            except (OSError, StorageFullError) as failure:
                self._complain(number, reason_of(failure))
                return failure
            finally:
                shared.leave(number)

        outcomes: tuple[Outcome, ...] = ()
        with suppress(NoMorePartsError), ThreadPoolExecutor(len(numbers)) as threads:
            try:
                outcomes = tuple(threads.map(attempt, numbers))
            except BaseException:
                shared.give_up()
                raise
        if shared.failure is not None:
            raise shared.failure
        return dict(zip(numbers, outcomes, strict=True))

    def _refusal(self, path: str, outcomes: Mapping[int, Outcome]) -> StreamKitError:
        failures = {
            self._files[number].root: outcome for number, outcome in sorted(outcomes.items()) if not isinstance(outcome, int)
        }
        made = len(outcomes) - len(failures)
        copies = "1 copy" if made == 1 else f"{made} copies"
        reasons = "; ".join(f"{root}: {failure}" for root, failure in failures.items())
        if all(isinstance(failure, StorageFullError) for failure in failures.values()):
            return StorageFullError(f"{copies} of {path} could be made: {reasons}")
        return NotEnoughReplicasError(
            f"{copies} of {path} could be made, min.insync.replicas is {self.replication.min_insync}; nothing became visible. {reasons}. "
            "Reading goes on; fix or mount the disk, then write again"
        )


@overload
def current_storage(storage: InlineStorage, replication: Replication) -> InlineStorage: ...


@overload
def current_storage(storage: Storage, replication: Replication) -> Storage: ...


def current_storage(storage: Storage, replication: Replication) -> Storage:
    """The storage with the replication that is on record now; the same one unless it has changed since it was opened."""
    if isinstance(storage, InlineStorage):
        return storage.over(current_storage(storage.files, replication))
    if isinstance(storage, ReplicatedStorage):
        known = storage.replication
    elif isinstance(storage, FileStorage):
        known = Replication()
    else:
        return storage
    return storage if known == replication else open_storage(storage.root, replication)


def has_copies(storage: Storage) -> bool:
    """Whether more than one copy is kept of a file."""
    if isinstance(storage, InlineStorage):
        return has_copies(storage.files)
    return isinstance(storage, ReplicatedStorage) and storage.replication.factor > 1


def _sizes(outcomes: Mapping[int, Outcome]) -> dict[int, int]:
    """The sizes of the copies that were made."""
    return {number: outcome for number, outcome in outcomes.items() if isinstance(outcome, int)}


def _check_disk(folder: str) -> None:
    """OSError if a folder cannot be listed, or its file system is mounted read-only, as Linux does with a failing one."""
    os.listdir(folder)
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), folder)


def reason_of(failure: OSError | StorageFullError) -> str:
    """What failed, without the path of a file: the same for all files as long as it is the same failure."""
    return (failure.strerror if isinstance(failure, OSError) else None) or str(failure)


def open_storage(root: str, replication: Replication) -> Storage:
    """The storage of a log at this folder, with as many copies as it has on record."""
    return ReplicatedStorage(root, replication) if replication.roots else FileStorage(root)
