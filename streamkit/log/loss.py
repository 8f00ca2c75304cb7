"""Noticing that a log's catalog is gone, or older than what the log has committed, before anyone writes over the difference."""

from __future__ import annotations

import os
from contextlib import suppress

from streamkit.errors import CatalogLostError, ConfigError
from streamkit.log.catalog import Catalog
from streamkit.log.copies import catalog_copies, copy_catalog
from streamkit.log.journal import NOWHERE, Place, last_commits
from streamkit.log.sqlite import SqliteDatabase
from streamkit.names import CATALOG_FILE, IDENTITY_FOLDER

TRACES = ("slabs", "journal", "backups")  # folders of a log; while they are empty, nothing of one is lost


def check_present(root: str) -> None:
    """
    CatalogLostError if a log's folder has slabs, a journal or copies of a catalog, but no catalog: a new one would hide them.

    ConfigError if it is the storage of a log whose catalog is in PostgreSQL.
    """
    if os.path.isdir(os.path.join(root, IDENTITY_FOLDER)):
        raise ConfigError(f"{root} holds the slabs of a log whose catalog is in PostgreSQL; open that by its postgresql:// URL")
    file = os.path.join(root, CATALOG_FILE)
    if os.path.exists(file) and os.path.getsize(file):
        return
    traces = [path for path in TRACES if _is_filled(os.path.join(root, path))]
    if traces:
        raise CatalogLostError(
            f"the catalog {file} is {'empty' if os.path.exists(file) else 'missing'}, but there is {', '.join(traces)} of a log beside it; "
            f"rebuild it with `streamkit rebuild --log {root}`, or restore the log from a backup"
        )


def _is_filled(folder: str) -> bool:
    return any(files for _, _, files in os.walk(folder))


def check_standing(root: str, catalog: Catalog) -> None:
    """
    Compare the catalog with the journal and the copies, by the ends of files and by names.

    CatalogLostError if they know commits that the catalog does not: it was set back, and must not be written to. If the
    journal lacks commits that no copy of the catalog has, a copy is made.
    """
    before = catalog.standing()
    journal, copy = last_commits(root), newest_copy(root)
    known = max(journal.marked, copy)
    now = catalog.standing()
    if known > now.place:
        raise CatalogLostError(
            f"the catalog in {root} stands at commit {now.commits} of timeline {now.timeline}, but the log has committed up to "
            f"{known[1]} of timeline {known[0]}: an older catalog was put in its place, and what was committed since is not in it; "
            f"bring it forward with `streamkit rebuild --log {root}`, or give up what came after by moving `journal` and `backups` away"
        )
    if before.commits and before.place > max(journal.entered, copy) and isinstance(catalog.database, SqliteDatabase):
        with suppress(OSError):  # a folder that only others may write to
            copy_catalog(catalog.database, root)


def known_commits(root: str) -> Place:
    """The last commit that the journal, or a copy of the catalog, says was made."""
    return max(last_commits(root).marked, newest_copy(root))


def newest_copy(root: str) -> Place:
    """How far the newest copy of the catalog has come."""
    return max((place for place, _ in catalog_copies(root)), default=NOWHERE)
