"""
Backup of a live log into a folder that opens as a log: a copy of the catalog at one moment, and the slabs that it names.

Slabs are immutable and take their names when they are whole and durable, so one that is there is not copied again. The
catalog takes its place last.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from streamkit.errors import ConfigError, CorruptionError, StreamKitError
from streamkit.failpoints import reach
from streamkit.log.catalog import history
from streamkit.log.database.database import Database, Transaction
from streamkit.log.database.location import absolute_folder
from streamkit.log.database.sqlite import IN_MEMORY, SqliteDatabase
from streamkit.log.database.system_error import naming
from streamkit.log.rescue.backup_target import claimed
from streamkit.log.rescue.copies import copy_catalog, keep_newest
from streamkit.log.rescue.fsck import check_folder
from streamkit.log.slab.slab import check_slab
from streamkit.log.storage import replication
from streamkit.log.storage.replication import Replication
from streamkit.log.storage.storage import FileStorage, Storage, sync_folder
from streamkit.names import CATALOG_FILE, fresh_token, is_inline, unfinished_file

ATTEMPTS = 20  # each fails only if maintenance deletes, while slabs are copied, what the copy of the catalog still names
_CANNOT_LINK = frozenset((errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES))


@dataclass(frozen=True)
class Backup:
    """What a backup holds and how it came to: the catalog's commit, slabs linked, copied, there before, and removed; bytes in all."""

    target: str
    commit: int
    linked: int
    copied: int
    kept: int
    removed: int
    bytes: int


def back_up(root: str, storage: Storage, database: Database, target: str | os.PathLike[str], verify: bool = False) -> Backup:
    """Back up a log; see `Log.backup`."""
    if not isinstance(database, SqliteDatabase):
        raise ConfigError(
            "a catalog in PostgreSQL is backed up by PostgreSQL's own tools, then its slabs; this backs up one in SQLite"
        )
    if database.path == IN_MEMORY:
        raise ConfigError("a log in memory cannot be backed up; use one in a directory")
    folder = absolute_folder(target, "folder of a backup")
    with naming("back up into", folder), claimed(root, folder, database):
        _remove_unfinished(folder)
        _remove_unfinished_slabs(folder)
        done = _done(storage, database, folder, verify)
        if verify:
            _verify(folder)
        return done


def _done(storage: Storage, database: SqliteDatabase, folder: str, verify: bool) -> Backup:
    for _ in range(ATTEMPTS):
        done = _CopyAttempt(storage, database, folder, verify).run()
        if done is not None:
            return done
    raise StreamKitError(f"slabs were deleted faster than they could be copied, {ATTEMPTS} times over; run the backup again")


def _remove_unfinished(folder: str) -> None:
    for name in os.listdir(folder):
        if name.startswith(unfinished_file(CATALOG_FILE, "")):
            os.unlink(os.path.join(folder, name))


def _remove_unfinished_slabs(folder: str) -> None:
    storage = FileStorage(folder)
    for path in storage.list("slabs"):
        if unfinished_file("", "") in path:
            storage.delete(path)


class _CopyAttempt:
    """One copy of the catalog, and the slabs it names; with `verify`, slabs that are there already are read."""

    def __init__(self, storage: Storage, database: SqliteDatabase, folder: str, verify: bool) -> None:
        self._source = storage
        self._database = database
        self._folder = folder
        self._verify = verify
        self._target = FileStorage(folder)
        self._unfinished = os.path.join(folder, unfinished_file(CATALOG_FILE, fresh_token()))

    def run(self) -> Backup | None:
        """The backup; None if a slab was gone, so that a newer copy of the catalog is needed."""
        try:
            self._database.copy_to(self._unfinished)
            standing, slabs = _prepare(self._unfinished)
            counts = {"linked": 0, "copied": 0, "kept": 0}
            try:
                for path, size in slabs.items():
                    counts[self._bring(path, size)] += 1
                    reach("backup.between_slabs")
            except FileNotFoundError:
                if self._is_referenced(path):
                    raise CorruptionError(
                        f"the slab {path} is missing; see `streamkit fsck`, and restore it from a copy"
                    ) from None
                return None
            self._sync_names(slabs)
            reach("backup.before_catalog")
            self._copy_catalog()
            self._take_its_place()
        finally:
            _remove_unfinished(self._folder)  # also what SQLite leaves beside a file that it only read
        removed = self._remove_others(slabs)
        return Backup(
            self._folder, standing.commits, counts["linked"], counts["copied"], counts["kept"], removed, sum(slabs.values())
        )

    def _bring(self, path: str, size: int) -> str:
        """Have a slab in the backup, whose name is not yet durable; returns how it came there."""
        if self._is_kept(path, size):
            return "kept"
        unfinished = unfinished_file(path, fresh_token())
        is_linked = isinstance(self._source, FileStorage) and self._link(os.path.join(self._source.root, path), unfinished)
        if not is_linked:
            self._target.create(unfinished, [self._whole(path, size) or self._source.map(path)])  # damaged, for `fsck` to tell
        os.replace(os.path.join(self._folder, unfinished), os.path.join(self._folder, path))
        return "linked" if is_linked else "copied"

    def _is_kept(self, path: str, size: int) -> bool:
        """Whether a slab is there with its size and, if it is to be read, sound, or no worse than what the log has of it."""
        with suppress(FileNotFoundError):
            if self._target.size(path) == size:
                return not self._verify or _first_whole(self._target, path, size) is not None or self._whole(path, size) is None
        return False

    def _whole(self, path: str, size: int) -> pa.Buffer | None:
        """The bytes of the first copy of a slab in the log that is whole."""
        return _first_whole(self._source, path, size)

    def _link(self, source: str, unfinished: str) -> bool:
        """Name the file in the backup too, if both are on one file system."""
        target = os.path.join(self._folder, unfinished)
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno in _CANNOT_LINK:
                return False
            raise
        return True

    def _sync_names(self, slabs: Iterable[str]) -> None:
        """Make the names of all slabs durable: also of those that an earlier run brought, which may have died before that."""
        folders = {""}
        for path in slabs:
            while path := os.path.dirname(path):
                folders.add(path)
        for folder in folders:
            sync_folder(os.path.join(self._folder, folder))

    def _is_referenced(self, path: str) -> bool:
        with self._database.read() as transaction:
            return bool(transaction.execute("SELECT 1 FROM slab WHERE path = ?", (path,)))

    def _copy_catalog(self) -> None:
        """Give the backup a copy of its catalog too, so that it can be rebuilt like any log."""
        database = SqliteDatabase(self._unfinished, read_only=True)
        try:
            copy_catalog(database, self._folder)
        finally:
            database.close()
        keep_newest(self._folder, 1)

    def _take_its_place(self) -> None:
        file = os.path.join(self._folder, CATALOG_FILE)
        for suffix in ("-wal", "-shm"):  # what somebody who looked into the backup left; empty, as was checked
            with suppress(FileNotFoundError):
                os.unlink(file + suffix)
        os.replace(self._unfinished, file)
        sync_folder(self._folder)

    def _remove_others(self, slabs: Iterable[str]) -> int:
        """Delete the slabs that only the backup before this one named, and what came there after it."""
        others = set(self._target.list("slabs")) - set(slabs)
        for path in others:
            self._target.delete(path)
        return len(others)


def _first_whole(storage: Storage, path: str, size: int) -> pa.Buffer | None:
    """The bytes of the first copy of a slab that has its size and all of its checksums; None if no copy has."""
    for copy in storage.copies(path):
        with suppress(CorruptionError):
            check_slab(copy, path)
            if copy.size == size:
                return copy
    return None


def _prepare(file: str) -> tuple[history.Standing, dict[str, int]]:
    """
    How far a copied catalog has come, and the sizes of the slabs that it names.

    It is told to keep one copy of each: storage roots stay those of the log that was backed up.
    """
    database = SqliteDatabase(file)
    try:
        with database.write() as transaction:
            replication.change(transaction, Replication())
            return history.standing(transaction), _in_files(transaction)
    finally:
        database.close()


def _in_files(transaction: Transaction) -> dict[str, int]:
    """The sizes of the slabs that are files; the others came with the catalog."""
    return {path: size for path, size in transaction.execute("SELECT path, size FROM slab ORDER BY id") if not is_inline(path)}


def _verify(folder: str) -> None:
    report = check_folder(folder, deep=True)
    if not report.is_clean:
        raise CorruptionError(
            f"the backup in {folder} is not sound: {'; '.join(f'{one.where}: {one.message}' for one in report.findings[:3])}; slabs that the log "
            "has a whole copy of were copied again, so check the log itself with `streamkit fsck --deep`"
        )
