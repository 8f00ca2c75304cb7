"""The deletion of records before an offset, whatever their age: what Kafka calls DeleteRecords."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from streamkit.errors import ConfigError, OffsetOutOfRangeError
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.retention import Trim
from streamkit.log.maintenance.segment import SegmentWriter
from streamkit.log.slab.slab import read_rows
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.topic import Topic
from streamkit.log.values.whole_number import as_whole_number
from streamkit.names import TIMESTAMP

END = -1

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RecordDeletion:
    """Deletes records of a topic; `lapsed` are holders of rows known to be gone, `is_forced` deletes what the others need too."""

    catalog: Catalog
    storage: Storage
    topic: Topic
    lapsed: frozenset[str]
    is_forced: bool = False

    def run(self, before: int | Mapping[int, int]) -> dict[int, int]:
        """Delete what lies before an offset, of all partitions or by partition; returns the earliest offsets left."""
        wanted = self._checked(before if isinstance(before, Mapping) else dict.fromkeys(range(self.topic.partitions), before))
        for partition, offset in wanted.items():
            self._check_needs(partition, offset)
        for partition, offset in wanted.items():
            self._delete(partition, offset)
        starts = self.catalog.manifest.start_offsets(self.topic.id)
        return {partition: starts[partition] for partition in wanted}

    def _checked(self, before: Mapping[int, int]) -> dict[int, int]:
        if self.topic.internal:
            raise ConfigError(f"topic {self.topic.name} backs a store; its records cannot be deleted: reset the application")
        bounds = {partition: found for (_, partition), found in self.catalog.manifest.offset_bounds([self.topic.id]).items()}
        return dict(self._checked_offset(partition, offset, bounds) for partition, offset in before.items())

    def _checked_offset(self, given: int, before: int, bounds: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
        partition, offset = as_whole_number(given), as_whole_number(before)
        if partition is None or partition not in bounds or offset is None or offset < END:
            raise ConfigError(
                f"topic {self.topic.name}: records cannot be deleted before offset {before!r} of partition {given!r}; expected a "
                f"partition from 0 to {self.topic.partitions - 1}, and a whole number from 0, or -1 for the end"
            )
        start, end = bounds[partition]
        if offset > end:
            message = (
                f"topic {self.topic.name}: records cannot be deleted before offset {offset} of partition {partition}; the earliest "
                f"offset is {start}, the end {end}"
            )
            raise OffsetOutOfRangeError(message, self.topic.name, partition, offset, start, end)
        return partition, end if offset == END else offset

    def _check_needs(self, partition: int, offset: int) -> None:
        floors = self.catalog.retention.floors(self.topic.id, partition, self.lapsed)
        needs = {holder: floor for holder, floor in floors.items() if floor < offset}
        if not needs:
            return
        message = f"topic {self.topic.name}, partition {partition}: rows before offset {offset} are still needed, from {needs} on"
        if not self.is_forced:
            raise ConfigError(f"{message}; stop these, wait for them, or force the deletion")
        _logger.warning("%s; their deletion was forced", message)

    def _delete(self, partition: int, offset: int) -> None:
        boundary = self._boundary(partition, offset)
        request = Trim(self.topic.id, partition, boundary, self.is_forced)
        while (trimmed := self.catalog.retention.trim(request, self.lapsed)).extents:
            pass
        if trimmed.held_by:
            raise ConfigError(
                f"topic {self.topic.name}, partition {partition}: {', '.join(trimmed.held_by)} came to need it; run again"
            )

    def _boundary(self, partition: int, offset: int) -> int:
        """An offset that no frame reaches over, and which has no rows between it and the one that is asked for."""
        writer = SegmentWriter(self.storage, self.catalog)
        while found := self.catalog.manifest.span(self.topic.id, partition, max(offset - 1, 0), offset, 1).extents:
            (extent,) = found
            if extent.next_offset <= offset:
                break
            below = len(read_rows(self.storage, extent, extent.base_offset, offset, [TIMESTAMP])[1])
            if below in (0, extent.rows):
                return extent.next_offset if below else extent.base_offset
            writer.rewrite(self.topic, [extent], cut=offset)  # None if it changed meanwhile: look again
        return offset
