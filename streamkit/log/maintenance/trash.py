"""The trash: files that nothing refers to any more, kept for a while for readers that still use them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from streamkit.errors import StreamKitError
from streamkit.failpoints import reach
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.storage.storage import Storage
from streamkit.names import is_inline

FILES_PER_TRANSACTION = 500
NEVER_MS = (1 << 63) - 1  # all that is in the trash was dropped before


def empty_trash(storage: Storage, catalog: Catalog, dropped_before_ms: int, inline_before_ms: int | None = None) -> int:
    """
    Delete the files that were dropped before a time, then their rows; returns how many files.

    Inline slabs that were dropped before `inline_before_ms` (the same time unless given) go with their rows. A crash between the
    two leaves rows without files, which the next time finds and forgets. A file that cannot be deleted keeps its row, and
    StorageFailedError is raised once all the others are gone.
    """
    waiting = iter(catalog.manifest.trash(dropped_before_ms, inline_before_ms))
    failures: list[StreamKitError] = []
    count = 0
    while paths := list(islice(waiting, FILES_PER_TRANSACTION)):
        if deleted := list(_deleted(storage, paths, failures)):
            reach("trash.files_deleted")
            catalog.manifest.forget_trash(deleted)
        count += sum(not is_inline(path) for path in deleted)
    if failures:
        raise failures[0]
    return count


def _deleted(storage: Storage, paths: Iterable[str], failures: list[StreamKitError]) -> Iterator[str]:
    """Those of the files that are gone after this; why others are not goes to `failures`."""
    for path in paths:
        try:
            storage.delete(path)
        except StreamKitError as error:
            failures.append(error)
        else:
            reach("trash.file_deleted")
            yield path
