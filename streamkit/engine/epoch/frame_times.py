"""
The event times of frames, for the cut.

An extent of the manifest says the smallest and largest time under which its records were written. If a column says their event time, the
frame is read for it: once, that column alone, and only as far as an epoch can reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from streamkit.engine.epoch.event_time import columns_for_time, event_times
from streamkit.engine.epoch.order import Backlog, TimesAndOffsets
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.log.slab.extent import Extent, FramePlace
from streamkit.log.slab.slab import CheckedRows, checked_rows_of, read_rows
from streamkit.log.storage.storage import Storage
from streamkit.names import TIMESTAMP
from streamkit.plan.program import Input
from streamkit.state.changelog import ChangelogOffsets

OPENED_MAX, ROWS_KEPT = (
    64,
    1 << 20,
)  # of the frames that were read last, with so many rows together, the times are kept from epoch to epoch
FRAMES_KEPT = 1_000  # with more, those are forgotten that are behind


@dataclass(frozen=True)
class FrameTimes:
    """
    Event times of the frames of topics; `sources` are the inputs, by topic, whose event times a column says.

    `rows_of` gives the rows of a whole frame, as `checked_rows_of` does.
    """

    storage: Storage
    sources: Mapping[int, Input]
    rows_of: CheckedRows = checked_rows_of
    seen: dict[FramePlace, tuple[Extent, int, int]] = field(default_factory=dict, compare=False)
    opened: dict[FramePlace, TimesAndOffsets] = field(default_factory=dict, compare=False)

    def records(self, extent: Extent, start: int) -> TimesAndOffsets:
        """The event times and offsets of a frame from an offset on."""
        place = extent.place
        if place not in self.opened:  # many small epochs are cut off one large frame
            while self.opened and (len(self.opened) >= OPENED_MAX or self._rows_opened() + extent.rows > ROWS_KEPT):
                self.opened.pop(next(iter(self.opened)))
            self.opened[place] = self._read(self.written(extent))
        times, offsets = self.opened[place]
        first = int(np.searchsorted(offsets, start))
        return times[first:], offsets[first:]

    def _rows_opened(self) -> int:
        return sum(len(times) for times, _ in self.opened.values())

    def _read(self, extent: Extent) -> TimesAndOffsets:
        source = self.sources.get(extent.topic_id)
        if source is None:
            batch, offsets = read_rows(
                self.storage, extent, extent.base_offset, extent.next_offset, [TIMESTAMP], None, self.rows_of
            )
            return batch[TIMESTAMP].cast(pa.int64()).to_numpy(), offsets
        columns = [*columns_for_time(source), TIMESTAMP]
        batch, offsets = read_rows(self.storage, extent, extent.base_offset, extent.next_offset, columns, source, self.rows_of)
        return event_times(source, batch), offsets

    def written(self, extent: Extent) -> Extent:
        """The extent as the manifest has it, by which its frame is read."""
        return self.seen.get(extent.place, (extent,))[0]

    def forget(self, positions: ChangelogOffsets) -> None:
        """Forget frames that lie before these positions, if there are many."""
        if len(self.seen) <= FRAMES_KEPT:
            return
        behind = [
            place
            for place, (extent, _, _) in self.seen.items()
            if extent.next_offset <= positions.get(extent.topic_id, {}).get(extent.partition, 0)
        ]
        for place in behind:
            del self.seen[place]

    def timed(self, backlog: Backlog, topic_id: int, records_max: int, is_between_keys: bool) -> Backlog:
        """
        The backlog, whose extents have the bounds of the records' event times, as far as `records_max` records reach.

        With `is_between_keys` it goes on to the end of the order key that the last of these has.
        """
        if topic_id not in self.sources:
            return backlog
        timed: list[Extent] = []
        rows, reached, limit = 0, NO_TIME, None
        for extent in backlog.extents:
            timed.append(self._timed(extent))
            reached = max(reached, timed[-1].max_timestamp)
            rows += extent.rows if extent.base_offset >= backlog.start else 0  # what an earlier epoch began counts as nothing
            if rows < records_max or len(timed) == len(backlog.extents):
                continue
            limit = reached if limit is None else limit
            if not is_between_keys or reached > limit:
                return replace(backlog, extents=tuple(timed), bound=extent.next_offset)
        return replace(backlog, extents=tuple(timed))

    def _timed(self, extent: Extent) -> Extent:
        """The extent with the smallest and the largest event time of its records."""
        place = extent.place
        if place not in self.seen:
            times, _ = self.records(extent, extent.base_offset)
            bounds = (int(times.min()), int(times.max())) if len(times) else (extent.min_timestamp, extent.max_timestamp)
            self.seen[place] = extent, *bounds
        _, least, greatest = self.seen[place]
        return extent._replace(min_timestamp=least, max_timestamp=greatest)
