"""Copies of the catalog in the log's own folder, from which a lost one is rebuilt with the journal after them."""

from __future__ import annotations

import os
from contextlib import suppress

from streamkit.errors import ConfigError
from streamkit.log.catalog import history
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.history import Standing
from streamkit.log.catalog.journal import JournalPlace, journal_bytes
from streamkit.log.database.sqlite import IN_MEMORY, SqliteDatabase
from streamkit.log.database.system_error import naming
from streamkit.log.storage.storage import sync_folder
from streamkit.names import (
    CATALOG_COPIES_FOLDER,
    CATALOG_FILE,
    catalog_copy_path,
    catalog_copy_place,
    fresh_token,
    unfinished_file,
)

KEPT_COPIES = 2


def copy_catalog(database: SqliteDatabase, root: str) -> str:
    """Put a durable copy of the catalog beside it, and return its path below the log's folder."""
    with naming("write", CATALOG_COPIES_FOLDER):
        return _copied(database, root, os.path.join(root, CATALOG_COPIES_FOLDER))


def _copied(database: SqliteDatabase, root: str, folder: str) -> str:
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
        sync_folder(root)
    token = fresh_token()
    unfinished = os.path.join(folder, unfinished_file(CATALOG_FILE, token))
    try:
        database.copy_to(unfinished)
        found = standing_of(unfinished)
        path = catalog_copy_path(found.timeline, found.commits, token)
        os.rename(unfinished, os.path.join(root, path))
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
    sync_folder(folder)
    return path


def copy_and_prune(catalog: Catalog, root: str, min_journal_bytes: int = 0) -> str | None:
    """
    Copy the catalog, keep the newest copies, and delete the journal files that the oldest of those covers; returns the copy's path.

    None, and nothing is done, while the journal is smaller than `min_journal_bytes`. ConfigError unless the catalog is a file of SQLite.
    """
    database = catalog.database
    if not isinstance(database, SqliteDatabase):
        raise ConfigError(f"the catalog of {root} is copied by its own database; only one in SQLite is copied here")
    if min_journal_bytes and journal_bytes(root) < min_journal_bytes:
        return None
    if database.path == IN_MEMORY:
        raise ConfigError("a log in memory has no copies of its catalog; use one in a directory")
    path = copy_catalog(database, root)
    with naming("tidy", CATALOG_COPIES_FOLDER):
        covered = keep_newest(root)
    if covered is not None:
        catalog.prune_journal(root, covered)
    return path


def standing_of(file: str) -> Standing:
    """How far the catalog in a file has come; CorruptionError or StreamKitError if that cannot be read."""
    database = SqliteDatabase(file, read_only=True)
    try:
        with database.read() as transaction:
            return history.standing(transaction)
    finally:
        database.close()


def catalog_copies(root: str) -> list[tuple[JournalPlace, str]]:
    """The copies of a log's catalog, newest first: how far each has come, and its path."""
    try:
        paths = [f"{CATALOG_COPIES_FOLDER}/{name}" for name in os.listdir(os.path.join(root, CATALOG_COPIES_FOLDER))]
    except FileNotFoundError:
        return []
    return sorted(((place, path) for path in paths if (place := catalog_copy_place(path))), reverse=True)


def keep_newest(root: str, count: int = KEPT_COPIES) -> JournalPlace | None:
    """Delete all but the newest copies; returns how far the oldest kept one has come, None while there are fewer than `count`."""
    copies = catalog_copies(root)
    for _, path in copies[count:]:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(root, path))
    return copies[count - 1][0] if len(copies) >= count else None
