"""What maintenance needs of a log."""

from __future__ import annotations

from typing import Protocol

from streamkit.clock import Clock
from streamkit.config import Settings
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.database.heartbeats import Heartbeats
from streamkit.log.storage.storage import Storage


class MaintainedLog(Protocol):
    """A log as maintenance sees it: its parts, and a copy of its catalog, which lets go of the journal before it."""

    storage: Storage
    catalog: Catalog
    clock: Clock
    settings: Settings
    heartbeats: Heartbeats

    def storage_now(self) -> Storage:
        """The storage as it is on record now."""
        ...

    def copy_catalog(self, min_journal_bytes: int) -> str | None:
        """Put a copy of the catalog beside it, and delete the journal that it covers, unless the journal is smaller."""
        ...
