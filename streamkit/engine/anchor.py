"""
The anchor of a generation's plans: the part of the changelogs that plans need not repeat.

A plan names the changes since the anchor; everything older is in manifest files, which a task reads only if its store is
that far behind. When the plans grow, the anchor moves on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from streamkit.log.catalog import Catalog
from streamkit.log.storage import Storage
from streamkit.names import application_writer, fresh_token, plan_path
from streamkit.state.changelog import Manifest, Offsets

EXTENTS_MAX = 512  # some 50 KB in a plan


@dataclass(frozen=True)
class Anchor:
    """Up to the epoch `epoch`, which left the changelogs at `ends`, they are in the files `manifests`, oldest first."""

    manifests: tuple[str, ...] = ()
    epoch: int = 0
    ends: Offsets = field(default_factory=dict)

    def moved(
        self,
        catalog: Catalog,
        storage: Storage,
        application: tuple[int, int],
        changelog_ids: Collection[int],
        extents_max: int = EXTENTS_MAX,
    ) -> Anchor:
        """
        The anchor at the committed epoch, if there are more than `extents_max` extents since this one.

        `application` is its id and generation; the new manifest is written under a fresh token.
        """
        added = catalog.extents_of(changelog_ids, self.ends)
        if len(added.extents) <= extents_max:
            return self
        application_id, generation = application
        tokens = catalog.epoch_tokens(application_id, self.epoch)
        path = plan_path(application_writer(application_id), generation, fresh_token())
        Manifest(self.ends, added.extents, tokens).write(storage, path)
        return Anchor((*self.manifests, path), max(tokens, default=0), added.end_offsets)
