"""Staged slabs that were never committed, and slabs that lost their last reference: found and deleted."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.failpoints import reach
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.writers import Writers
from streamkit.log.storage.storage import Storage
from streamkit.names import SlabName, slab_folder

SILENT_MS = 86_400_000
SLAB_FOLDER = "slabs"


def collect_orphans(storage: Storage, catalog: Catalog, writer: str, generation: int, committed_serial: int) -> tuple[str, ...]:
    """
    Delete the slabs of one writer that the catalog does not name and no live attempt can still commit; returns their paths.

    Slabs of older generations, or of commits up to `committed_serial`, are void when unreferenced; those of the commit under way
    are left alone, whoever wrote them. Files are listed before references are read: a slab that is committed in between
    was either not listed or is found referenced.
    """
    listed = storage.list(slab_folder(writer))
    referenced = catalog.manifest.referenced(writer)
    found = [path for path in listed if path not in referenced and _is_void(path, generation, committed_serial)]
    return _deleted(storage, catalog, found)


def collect_all_orphans(storage: Storage, catalog: Catalog, silent_ms: int = SILENT_MS) -> tuple[str, ...]:
    """
    Delete the slabs of all writers that the catalog does not name and nobody can still commit; returns their paths.

    A producer without a name that neither opened nor committed anything for `silent_ms` is retired first: fenced, and after as
    long again forgotten. Producers with a name are never retired. Slabs of a writer that the catalog never had are left alone:
    it was set back, and they may be all that is left of its lost commits.
    """
    catalog.producers.retire_silent(silent_ms)
    listed = storage.list(SLAB_FOLDER)
    writers = catalog.writers()  # before the references: who is gone by now commits nothing any more
    referenced = catalog.manifest.referenced()
    return _deleted(storage, catalog, [path for path in listed if path not in referenced and _is_orphan(path, writers)])


def _deleted(storage: Storage, catalog: Catalog, found: Sequence[str]) -> tuple[str, ...]:
    named = (
        catalog.manifest.referenced() if found else set()
    )  # by the tables themselves: an index may be damaged, and name too few
    orphans = tuple(path for path in found if path not in named)
    for path in orphans:
        storage.delete(path)
        reach("orphans.between_deletions")
    return orphans


def _is_orphan(path: str, writers: Writers) -> bool:
    name = SlabName.parse(path)
    return name is not None and writers.has_known(name.writer) and not writers.may_commit(name)


def _is_void(path: str, generation: int, committed_serial: int) -> bool:
    name = SlabName.parse(path)
    return name is not None and (name.generation < generation or name.serial <= committed_serial)
