"""
The folder that a backup goes into: what may be there already, and a marker file while the backup is not ended.

The marker says of which log the backup is, so that its slabs are told from those of a log that lost its catalog. It comes
before them and goes last. Whoever is at work holds a lock on it, which the kernel takes back from a process that dies.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from streamkit.errors import ConfigError
from streamkit.log.catalog import history
from streamkit.log.catalog.history import Standing
from streamkit.log.catalog.journal import read_journal
from streamkit.log.database.database import Database
from streamkit.log.rescue.copies import standing_of
from streamkit.log.storage.storage import FileStorage, make_root, sync_folder
from streamkit.names import CATALOG_COPIES_FOLDER, CATALOG_FILE, JOURNAL_FOLDER, UNFINISHED_BACKUP, unfinished_file

_OWN_FOLDERS = ("slabs", CATALOG_COPIES_FOLDER)
_EXPECTED = "name a new folder, or one with an earlier backup"


@contextmanager
def claimed(root: str, folder: str, database: Database) -> Iterator[None]:
    """
    Make the folder this log's to back up into, and keep all others out; if the block raises, it stays marked as unfinished.

    ConfigError if it holds something else, and is left as it is, or if another backup into it is under way.
    """
    if not os.path.lexists(_marker(folder)):  # else nothing is made here before the lock is held
        _check(root, folder, database)
        make_root(folder)
    with _held(folder):
        _check(root, folder, database)  # again: nobody else comes between now
        _sign(folder, _standing(database).log_id)
        yield
        os.unlink(_marker(folder))


def _check(root: str, folder: str, database: Database) -> None:
    """A new or empty folder, an unfinished backup of this log, or an earlier one that nobody has written to; else ConfigError."""
    both = {os.path.realpath(folder), os.path.realpath(root)}
    if os.path.commonpath(both) in both:
        raise ConfigError(f"the log at {root} cannot be backed up onto or into itself, nor around itself; name another folder")
    if not os.path.isdir(folder):
        if os.path.lexists(folder):
            raise ConfigError(f"{folder} is not a folder; {_EXPECTED}")
        return
    names = sorted(os.listdir(folder))
    if CATALOG_FILE in names:
        _check_earlier(root, folder, names, database)
    else:
        _check_unfinished(folder, names, database)


def _check_earlier(root: str, folder: str, names: list[str], database: Database) -> None:
    file = os.path.join(folder, CATALOG_FILE)
    found = standing_of(file)
    known = _standing(database)  # read last: a backup that ends meanwhile is not newer
    if found.log_id != known.log_id:
        raise ConfigError(f"{folder} holds another log; {_EXPECTED} of this log")
    if JOURNAL_FOLDER in names or found.place > known.place:
        raise ConfigError(
            f"the backup in {folder} has been written to as a log of its own, or is newer than this one; name another folder"
        )
    if not _has_had(root, known, found):
        raise ConfigError(
            f"the backup in {folder} is of another copy of this log, which was written to since then: the log's journal has another commit "
            f"{found.commits}; name another folder"
        )
    if os.path.exists(f"{file}-wal") and os.path.getsize(f"{file}-wal"):
        raise ConfigError(f"the backup in {folder} is open in another process; close it, or name another folder")


def _has_had(root: str, known: Standing, found: Standing) -> bool:
    """Whether the log stood where its backup does; also if its journal does not reach that far back."""
    if found.place == known.place:
        return found.token == known.token
    tokens = {entry.commit.token for entry in read_journal(root).entries if entry.place == found.place}
    return not tokens or found.token in tokens


def _check_unfinished(folder: str, names: list[str], database: Database) -> None:
    ours = (*_OWN_FOLDERS, UNFINISHED_BACKUP)
    unknown = [name for name in names if name not in ours and not name.startswith(unfinished_file(CATALOG_FILE, ""))]
    if unknown:
        raise ConfigError(f"{folder} holds {', '.join(unknown[:3])} and no log; {_EXPECTED}")
    log_id = _signer(folder)
    if log_id is None:
        _check_empty(folder)
    elif log_id != _standing(database).log_id:
        raise ConfigError(f"{folder} holds an unfinished backup of another log; {_EXPECTED} of this log")


def _check_empty(folder: str) -> None:
    storage = FileStorage(folder)
    found = [path for own in _OWN_FOLDERS for path in storage.list(own)]
    if found:
        raise ConfigError(
            f"{folder} holds {len(found)} files, such as {found[0]}, without a catalog or a sign that they are an unfinished backup of this "
            f"log: they may be all that is left of a log (see `streamkit rebuild`); {_EXPECTED}"
        )


def _standing(database: Database) -> Standing:
    with database.read() as transaction:
        return history.standing(transaction)


def _marker(folder: str) -> str:
    return os.path.join(folder, UNFINISHED_BACKUP)


@contextmanager
def _held(folder: str) -> Iterator[None]:
    """Hold the lock on the marker, which is made if it is missing; ConfigError if another thread or process holds it."""
    descriptor = os.open(_marker(folder), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, folder)
        try:
            yield
        finally:
            if not os.fstat(descriptor).st_size:  # a marker that says nothing yet
                with suppress(OSError):
                    os.unlink(_marker(folder))
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing alone would leave it to a child that was forked meanwhile
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_held = os.path.samestat(os.fstat(descriptor), os.stat(_marker(folder)))
    except (BlockingIOError, FileNotFoundError):  # held, or removed by a holder that has just ended
        is_held = False
    if not is_held:
        raise ConfigError(f"another backup into {folder} is under way; wait until it has ended, or name another folder")


def _signer(folder: str) -> str | None:
    """The id of the log whose backup is unfinished; None if there is no marker, or one that was not written to its end."""
    try:
        with open(_marker(folder), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    return text[:-1] if text.endswith("\n") else None


def _sign(folder: str, log_id: str) -> None:
    """Say durably, before anything else is there, of which log the backup is."""
    descriptor = os.open(_marker(folder), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if _signer(folder) != log_id:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{log_id}\n".encode())
        os.fsync(descriptor)  # also what an earlier run wrote, which may have died before that
    finally:
        os.close(descriptor)
    sync_folder(folder)
