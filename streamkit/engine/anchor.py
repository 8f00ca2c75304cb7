"""
The anchor of a generation's plans: the part of the changelogs that plans need not repeat.

A plan names the changes since the anchor; everything older is in plan files, which a task reads only if its store is
that far behind. When the plans grow, the anchor moves on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from streamkit.log.catalog.catalog import Catalog
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
        if self.plan_files and added.layouts != self.layouts:
            return Anchor().moved(catalog, storage, application, changelog_ids, extents_max=0)
        if len(added.extents) <= extents_max:
            return self
        application_id, generation = application
        tokens = catalog.epoch_tokens(application_id, self.epoch)
        path = plan_path(application_writer(application_id), generation, fresh_token())
        PlanFile(self.ends, added.extents, tokens).write(storage, path)
        return Anchor((*self.plan_files, path), max(tokens, default=0), added.end_offsets, added.layouts)
