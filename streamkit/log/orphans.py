"""Staged slabs that were never committed, and slabs that lost their last reference: found and deleted."""

from __future__ import annotations

from streamkit.failpoints import reach
from streamkit.log.catalog import Catalog
from streamkit.log.storage import Storage
from streamkit.names import SlabName, slab_folder

NEVER_MS = (1 << 63) - 1


def collect_orphans(storage: Storage, catalog: Catalog, writer: str, generation: int, committed_step: int) -> tuple[str, ...]:
    """
    Delete the slabs of one writer that the catalog does not name and no live attempt can still commit; returns their paths.

    Slabs of older generations, or of steps up to `committed_step`, are void when unreferenced; those of the step in work
    are left alone, whoever wrote them. Files are listed before references are read: a slab that is committed in between
    was either not listed or is found referenced.
    """
    listed = storage.list(slab_folder(writer))
    referenced = catalog.referenced_slabs(writer)
    referenced |= set(catalog.trash(NEVER_MS))  # readers may still use them; they are deleted when their delay is over
    orphans = tuple(path for path in listed if path not in referenced and _is_void(path, generation, committed_step))
    for path in orphans:
        storage.delete(path)
        reach("orphans.between_deletions")
    return orphans


def _is_void(path: str, generation: int, committed_step: int) -> bool:
    name = SlabName.parse(path)
    return name is not None and (name.generation < generation or name.step <= committed_step)
