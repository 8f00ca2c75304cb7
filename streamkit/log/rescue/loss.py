"""Noticing that a log's catalog is gone, or older than what the log has committed, before anyone writes over the difference."""

from __future__ import annotations

import os
from contextlib import suppress

from streamkit.errors import CatalogLostError, ConfigError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.journal import NOWHERE, JournalPlace, last_commits
from streamkit.log.database.sqlite import SqliteDatabase
from streamkit.log.database.system_error import naming, raise_unless_missing
from streamkit.log.rescue.copies import catalog_copies, copy_catalog
from streamkit.names import CATALOG_FILE, IDENTITY_FOLDER

TRACES = ("slabs", "journal", "backups")  # folders of a log; while they are empty, nothing of one is lost


def check_present(root: str) -> None:
    """
    CatalogLostError if a log's folder has slabs, a journal or copies of a catalog, but no catalog: a new one would hide them.

    ConfigError if it is the storage of a log whose catalog is in PostgreSQL.
    """
    if os.path.isdir(os.path.join(root, IDENTITY_FOLDER)):
        raise ConfigError(f"{root} holds the slabs of a log whose catalog is in PostgreSQL; open that by its postgresql:// URL")
    with naming("look into", root):
        size = _size(os.path.join(root, CATALOG_FILE))
        traces = [] if size else _traces(root)
    if traces:
        raise _lost(root, "missing" if size is None else "empty", traces)


def check_begun(root: str, database: SqliteDatabase) -> None:
    """CatalogLostError if a catalog has no tables beside traces of a log: its write-ahead log is gone, and new tables would hide that."""
    if _is_begun(database):
        return
    with naming("look into", root):
        traces = _traces(root)
    if traces and not _is_begun(database):  # else another process makes the log just now
        raise _lost(root, "without its tables", traces)


def _is_begun(database: SqliteDatabase) -> bool:
    with database.read() as transaction:
        return transaction.has_table("log")


def _lost(root: str, state: str, traces: list[str]) -> CatalogLostError:
    return CatalogLostError(
        f"the catalog {os.path.join(root, CATALOG_FILE)} is {state}, but beside it a log has left {', '.join(traces)}; "
        f"rebuild it with `streamkit rebuild --log {root}`, or restore the log from a backup"
    )


def _traces(root: str) -> list[str]:
    found = []
    for path in TRACES:
        files_below = (files for _, _, files in os.walk(os.path.join(root, path), onerror=raise_unless_missing))
        if any(files_below):  # OSError for a folder that cannot be looked into, because it must not count as empty
            found.append(path)
    return found


def _size(file: str) -> int | None:
    """The size of a file in bytes; None if there is none."""
    try:
        return os.stat(file).st_size
    except FileNotFoundError:
        return None


def check_standing(root: str, catalog: Catalog) -> None:
    """
    Compare the catalog with the journal and the copies, by the ends of files and by names.

    CatalogLostError if they know commits that the catalog does not: it was set back, and must not be written to. If the
    journal lacks commits that no copy of the catalog has, a copy is made.
    """
    before = catalog.standing()
    with naming("look into", root):
        journal, copy = last_commits(root), newest_copy(root)
    known = max(journal.marked, copy)
    now = catalog.standing()
    if known > now.place:
        raise CatalogLostError(
            f"the catalog in {root} is at commit {now.commits} of timeline {now.timeline}, but the log has committed up to "
            f"{known[1]} of timeline {known[0]}: an older catalog was put in its place, and what was committed since is not in it; "
            f"bring it up to date with `streamkit rebuild --log {root}`, or give up what came after by moving `journal` and `backups` away"
        )
    if before.commits and before.place > max(journal.entered, copy) and isinstance(catalog.database, SqliteDatabase):
        with suppress(OSError):  # a folder that only others may write to
            copy_catalog(catalog.database, root)


def known_commits(root: str) -> JournalPlace:
    """The last commit that the journal, or a copy of the catalog, says was made."""
    return max(last_commits(root).marked, newest_copy(root))


def newest_copy(root: str) -> JournalPlace:
    """How far the newest copy of the catalog has come."""
    return max((place for place, _ in catalog_copies(root)), default=NOWHERE)
