"""The trash: files that nothing refers to any more, kept for a while for readers that still use them."""

from __future__ import annotations

from itertools import islice

from streamkit.failpoints import reach
from streamkit.log.catalog import Catalog
from streamkit.log.storage import Storage

FILES_PER_TRANSACTION = 500


def empty_trash(storage: Storage, catalog: Catalog, dropped_before_ms: int) -> int:
    """
    Delete the files that were dropped before a time, then their rows; returns how many.

    A crash between the two leaves rows without files, which the next time finds and forgets.
    """
    waiting = iter(catalog.trash(dropped_before_ms))
    count = 0
    while paths := list(islice(waiting, FILES_PER_TRANSACTION)):
        for path in paths:
            storage.delete(path)
            reach("trash.file_deleted")
        reach("trash.files_deleted")
        catalog.forget_trash(paths)
        count += len(paths)
    return count
