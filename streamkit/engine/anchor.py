"""
The anchor of a generation's plans: the part of the changelogs that plans need not repeat.

A plan names the changes since the anchor; everything older is in plan files, which a task reads only if its store is
that far behind. When the plans grow, the anchor moves on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.span import ManifestSlice
from streamkit.log.storage.storage import Storage
from streamkit.names import application_writer, fresh_token, plan_path
from streamkit.state.changelog import Offsets, PlanFile

EXTENTS_MAX = 512  # some 50 KB in a plan


@dataclass(frozen=True)
class Anchor:
    """
    Up to the epoch `epoch`, which left the changelogs at `ends`, they are in the files `plan_files`, oldest first.

    `layouts` counts, by changelog, how often extents had been replaced then. When one grows, the files name slabs that will be deleted.
    """

    plan_files: tuple[str, ...] = ()
    epoch: int = 0
    ends: Offsets = field(default_factory=dict)
    layouts: Mapping[int, int] = field(default_factory=dict)

    def is_outdated(self, added: ManifestSlice) -> bool:
        """Whether changelogs were merged or compacted since, so that the files name what will be deleted."""
        return bool(self.plan_files) and added.layouts != self.layouts

    def is_near(self, added: ManifestSlice, extents_max: int) -> bool:
        """Whether plans can go on from here, if this is what was added since."""
        return not self.is_outdated(added) and len(added.extents) <= extents_max

    def moved(
        self,
        catalog: Catalog,
        storage: Storage,
        application: tuple[int, int],
        changelog_ids: Collection[int],
        extents_max: int = EXTENTS_MAX,
    ) -> Anchor:
        """
        The anchor at the committed epoch, if there are more than `extents_max` extents since this one, or the changelogs were
        merged or compacted.

        `application` is its id and generation; the new plan file is written under a fresh token.
        """
        added = catalog.extents_of(changelog_ids, self.ends)
        if self.is_near(added, extents_max):
            return self
        if self.is_outdated(added):
            return Anchor().moved(catalog, storage, application, changelog_ids, extents_max=0)
        application_id, generation = application
        tokens = catalog.epoch_tokens(application_id, self.epoch)
        path = plan_path(application_writer(application_id), generation, fresh_token())
        PlanFile(self.ends, added.extents, tokens).write(storage, path)
        return Anchor((*self.plan_files, path), max(tokens, default=0), added.end_offsets, added.layouts)


@dataclass
class AddedExtents:
    """What was added to changelogs since the offsets `since`; what was read before is remembered until extents are replaced."""

    catalog: Catalog
    changelog_ids: Collection[int]
    since: Offsets
    last: ManifestSlice | None = None

    def read(self) -> ManifestSlice:
        """What the catalog has now; only what came since the last call is read."""
        last = self.last
        found = self.catalog.extents_of(self.changelog_ids, self.since if last is None else last.end_offsets)
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
            self.found = catalog.generation_start(application_id)
        return self.found
