"""
The anchor of a generation's plans: the part of the changelogs that plans need not repeat.

A plan names the changes since the anchor; everything older is in plan files, which a task reads only if its store is
that far behind. When the plans grow, the anchor moves on. Files that it leaves behind go with its next move.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from streamkit.engine.epoch.epoch import Application
from streamkit.errors import StorageFailedError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.span import ManifestSlice
from streamkit.log.maintenance.flush import flush_inline
from streamkit.log.maintenance.segment import SegmentWriter
from streamkit.log.storage.storage import Storage
from streamkit.names import application_writer, fresh_token, is_inline, plan_folder, plan_generation, plan_path
from streamkit.state.changelog import ChangelogOffsets, PlanFile

EXTENTS_MAX = 512  # some 50 KB in a plan
EPOCHS_MAX = 1024  # of which a plan names the tokens, some 50 KB, too

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Anchor:
    """
    Up to the epoch `epoch`, which left the changelogs at `ends`, they are in the files `plan_files`, oldest first, of `sizes`
    extents and tokens. Each is at least twice as large as the next, so they stay few.

    `layouts` counts, by changelog, how often extents had been replaced then. When one grows, the files name slabs that will be deleted.
    """

    plan_files: tuple[str, ...] = ()
    epoch: int = 0
    ends: ChangelogOffsets = field(default_factory=dict)
    layouts: Mapping[int, int] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()

    def is_outdated(self, added: ManifestSlice) -> bool:
        """Whether changelogs were merged or compacted since, so that the files name what will be deleted."""
        return bool(self.plan_files) and added.layouts != self.layouts

    def is_near(self, added: ManifestSlice, epoch: int, extents_max: int) -> bool:
        """Whether plans can go on from here, if this is what was added since, up to this epoch."""
        is_short = len(added.extents) <= extents_max and epoch - self.epoch <= EPOCHS_MAX
        return not self.is_outdated(added) and is_short

    def is_kept(self, storage: Storage) -> bool:
        """Whether the files are still there: a move of the anchor in another process may have deleted them."""
        return all(storage.exists(path) for path in self.plan_files)

    def moved(
        self,
        catalog: Catalog,
        storage: Storage,
        application: Application,
        changelog_ids: Collection[int],
        extents_max: int = EXTENTS_MAX,
        *,
        flushes: bool = True,
    ) -> Anchor:
        """
        The anchor at the committed epoch, if there are more than `extents_max` extents since this one, or too many epochs, or the
        changelogs were merged or compacted.

        What came since is written down under a fresh token, with what smaller files had. An application without stores has no
        changelogs, and stays at the first anchor. Unless it `flushes`, it stops in each partition before the first small slab in the catalog.
        """
        if not changelog_ids:
            return self
        added = catalog.manifest.cut(changelog_ids, self.ends)
        _, epoch = catalog.applications.turn(application.name)
        if self.is_near(added, epoch, extents_max):
            return self
        if self.is_outdated(added):
            return Anchor().moved(catalog, storage, application, changelog_ids, extents_max=0)
        has_inline = any(is_inline(extent.path) for extent in added.extents)
        if has_inline and not flushes:
            added = _before_inline(added)
        elif has_inline:
            # Tasks read these files, and have no catalog: what small commits left there goes into a file first, which moves the layout.
            flush_inline(catalog, SegmentWriter(storage, catalog), changelog_ids)
            return Anchor().moved(catalog, storage, application, changelog_ids, extents_max=0)
        tokens = catalog.epochs.tokens_since(application.id, self.epoch)
        file = PlanFile(self.ends, added.extents, tokens)
        kept = len(self.plan_files)
        while kept and self.sizes[kept - 1] < 2 * file.size:
            kept -= 1
            file = PlanFile.read(storage, self.plan_files[kept]).followed_by(file)
        file = replace(file, tokens=catalog.epochs.tokens_since(application.id, min(file.tokens, default=epoch)))
        path = plan_path(application_writer(application.id), application.generation, fresh_token())
        file.write(storage, path)
        reached = max(tokens, default=0)
        return Anchor((*self.plan_files[:kept], path), reached, added.end_offsets, added.layouts, (*self.sizes[:kept], file.size))

    def delete_others(self, storage: Storage, application: Application, before: Anchor) -> None:
        """
        Delete the plan files of the application that neither this anchor names nor the one before it.

        Those of the one before are what tasks of the last epoch may still read. Files of a newer generation are left alone.
        A file that cannot be deleted is left for the next move, or the next start.
        """
        kept = {*self.plan_files, *before.plan_files}
        try:
            for path in storage.list(plan_folder(application_writer(application.id))):
                generation = plan_generation(path)
                if path not in kept and generation is not None and generation <= application.generation:
                    storage.delete(path)
        except StorageFailedError as error:
            _logger.warning(
                "plan files of application %s that are not needed any more could not be deleted yet: %s", application.name, error
            )


def _before_inline(added: ManifestSlice) -> ManifestSlice:
    """What was added to each partition before the first extent that is in the catalog; plans name the rest."""
    ends = {topic_id: dict(partitions) for topic_id, partitions in added.end_offsets.items()}
    for extent in added.extents:
        if is_inline(extent.path):
            ends[extent.topic_id][extent.partition] = min(ends[extent.topic_id][extent.partition], extent.base_offset)
    kept = tuple(extent for extent in added.extents if extent.next_offset <= ends[extent.topic_id][extent.partition])
    return replace(added, extents=kept, end_offsets=ends)


@dataclass
class AddedExtents:
    """What was added to changelogs since the offsets `since`; what was read before is remembered until extents are replaced."""

    catalog: Catalog
    changelog_ids: Collection[int]
    since: ChangelogOffsets
    last: ManifestSlice | None = None
    epoch: int = 0  # the newest one when it was read last

    def read(self) -> ManifestSlice:
        """What the catalog has now; only what came since the last call is read."""
        last = self.last
        found = self.catalog.manifest.cut(self.changelog_ids, self.since if last is None else last.end_offsets)
        if last is not None and found.layouts != last.layouts:
            self.last = None
            return self.read()
        self.last = found if last is None else replace(found, extents=last.extents + found.extents)
        return self.last


@dataclass
class GenerationStart:
    """
    The first epoch of the generation that committed the newest one, with its token.

    It is asked of the catalog until it lies behind the first epoch that was asked for: then it is that of the running
    generation, and stays.
    """

    first_asked: int | None = None
    found: tuple[int, str] = (0, "")

    def at(self, epoch: int, catalog: Catalog, application_id: int) -> tuple[int, str]:
        """What it is when this epoch is the newest of the application."""
        if self.first_asked is None:
            self.first_asked = epoch
        if self.found[0] <= self.first_asked:
            self.found = catalog.epochs.generation_start(application_id)
        return self.found
