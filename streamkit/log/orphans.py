"""Staged slabs that were never committed, and slabs that lost their last reference: found and deleted."""

from __future__ import annotations

from streamkit.clock import Clock
from streamkit.failpoints import reach
from streamkit.log.catalog import Catalog
from streamkit.log.storage import Storage
from streamkit.names import SlabName, producer_writer, slab_folder

SILENT_MS = 86_400_000

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


def collect_silent_producers(storage: Storage, catalog: Catalog, clock: Clock, silent_ms: int = SILENT_MS) -> tuple[str, ...]:
    """
    Delete what producers without a name left when they died; returns the paths.

    One that neither opened nor committed anything for `silent_ms` is retired: fenced, so that none of its slabs can be committed
    any more, and those that were not are void. After as long again, in which a paused one may have left another slab, it is
    forgotten. Producers with a name are never retired: opening the name anew collects what its older instances left.
    """
    orphans: list[str] = []
    for state, retired_ms in catalog.retire_silent_producers(silent_ms):
        orphans += collect_orphans(storage, catalog, producer_writer(state.id), state.epoch, state.step)
        if retired_ms < clock.now_ms() - silent_ms:
            catalog.forget_producer(state.id)
    return tuple(orphans)


def _is_void(path: str, generation: int, committed_step: int) -> bool:
    name = SlabName.parse(path)
    return name is not None and (name.generation < generation or name.step <= committed_step)
