"""Offsets that a damaged catalog has lost: no extent has them, and no compaction has been there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from streamkit.errors import CorruptionError
from streamkit.log.slab.extent import Extent


@dataclass(frozen=True)
class Gap:
    """Offsets `first_offset` up to and without `next_offset` of a topic partition that should be in an extent, and are in none."""

    topic: str
    partition: int
    first_offset: int
    next_offset: int

    def error(self) -> CorruptionError:
        """The error of a reader that comes to the gap."""
        message = (
            f"topic {self.topic}, partition {self.partition}: the catalog is damaged, it no longer says where the offsets "
            f"{self.first_offset} to {self.next_offset - 1} lie; `streamkit fsck` shows what else is missing. Stop all processes of the log "
            "and restore a backup, or move the catalog, if it is SQLite's, away and run `streamkit rebuild`; or give up what lies "
            f"before offset {self.next_offset} with `log.delete_records`"
        )
        return CorruptionError(message, self.topic, self.partition, self.first_offset, self.next_offset)


def missing(extents: Iterable[Extent], start: int, end: int) -> Iterator[tuple[int, int]]:
    """The offsets from `start` to before `end` that no extent covers, as first and next ones; `extents` are in order."""
    reached = start
    for extent in extents:
        if reached < extent.base_offset and reached < end:
            yield reached, min(extent.base_offset, end)
        reached = max(reached, extent.next_offset)
    if reached < end:
        yield reached, end
