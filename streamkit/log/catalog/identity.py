"""
Whose slabs a storage holds: a token in the catalog, and a file of that name in the storage.

Only a log whose catalog is elsewhere needs it, so that a URL with the wrong directory, or with one that is not mounted, is
refused before anything is written there, or taken for an orphan and deleted.
"""

from __future__ import annotations

from contextlib import suppress

from streamkit.errors import ConfigError
from streamkit.log.database.database import Transaction
from streamkit.log.storage.storage import Storage
from streamkit.names import CATALOG_FILE, IDENTITY_FOLDER, fresh_token, identity_path


def is_claimed(transaction: Transaction, storage: Storage) -> bool:
    """Whether the log and the storage are a pair; False if the log has no storage yet, ConfigError if it has another."""
    for token, claimed in transaction.execute("SELECT token, is_claimed FROM identity"):
        return bool(claimed) and _has_mark(storage, token)
    return False


def claimed_token(transaction: Transaction) -> str | None:
    """The token of the log whose storage is claimed; None if there is no such storage."""
    return next((str(token) for token, claimed in transaction.execute("SELECT token, is_claimed FROM identity") if claimed), None)


def give(transaction: Transaction) -> None:
    """Give the log a token of its own, unless it has one."""
    transaction.execute(
        "INSERT INTO identity (id, token, is_claimed) VALUES (1, ?, 0) ON CONFLICT (id) DO NOTHING", (fresh_token(),)
    )


def claim(transaction: Transaction, storage: Storage) -> None:
    """Make the storage this log's own, for good; ConfigError if it is in use."""
    ((token, claimed),) = transaction.execute("SELECT token, is_claimed FROM identity")
    if claimed:  # by another process, in between
        _has_mark(storage, token)
        return
    try:
        _check_free(storage, token)
        with suppress(FileExistsError):  # of a process that died before its commit
            storage.create(identity_path(token), [f"{token}\n".encode()])
    except OSError as error:
        raise ConfigError(f"the storage {storage.root} of the log cannot be used: {error.strerror}") from error
    transaction.execute("UPDATE identity SET is_claimed = 1")


def _has_mark(storage: Storage, token: str) -> bool:
    if storage.exists(identity_path(token)):
        return True
    if storage.list(IDENTITY_FOLDER):
        raise ConfigError(f"{storage.root} is the storage of another log; expected the directory with {identity_path(token)}")
    raise ConfigError(
        f"{storage.root} is not the storage of this log: {identity_path(token)} is missing there; "
        "mount the shared file system, or name the directory that the log was begun with"
    )


def _check_free(storage: Storage, token: str) -> None:
    others = [path for path in storage.list(IDENTITY_FOLDER) if path != identity_path(token)]
    if others or storage.exists(CATALOG_FILE) or storage.list("slabs"):
        raise ConfigError(f"{storage.root} holds another log already; expected an empty directory for the storage of a new log")
