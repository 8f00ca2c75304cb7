"""
The sizes of frames, for the bound of an epoch in bytes.

The header of a frame says how many bytes its rows take as plain columns. To read one takes a seventh of what its rows take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from streamkit.arrays import Integers
from streamkit.engine.epoch.order import Backlog
from streamkit.log.slab.extent import Extent, FramePlace
from streamkit.log.slab.slab import read_rows, read_size
from streamkit.log.storage.storage import Storage
from streamkit.log.values.value_bytes import sizes_of

FRAMES_KEPT = 200_000  # with more, all are forgotten between two epochs
OPENED_MAX = 16  # frames whose rows were looked at

FrameEnds = Sequence[int]


@dataclass(frozen=True)
class FrameSizes:
    """Sizes of the rows of frames, in bytes, whatever their layout; `written` gives an extent as the manifest has it."""

    storage: Storage
    written: Callable[[Extent], Extent]
    seen: dict[FramePlace, int] = field(default_factory=dict, compare=False)
    opened: dict[FramePlace, tuple[Integers, Integers]] = field(default_factory=dict, compare=False)

    def forget(self) -> None:
        """Forget frames, if there are many."""
        self.opened.clear()
        if len(self.seen) > FRAMES_KEPT:
            self.seen.clear()

    def have_room(self, backlogs: Sequence[Backlog], ends: FrameEnds, bytes_max: int) -> bool:
        """Whether the rows that lie before these offsets, one for each backlog, take at most so many bytes."""
        places = list(zip(backlogs, ends, strict=True))
        # The rows of a frame that is cut take no more than all rows of it: mostly there is room for these, and no frame needs to be opened.
        if sum(self._bytes_before(*place, is_cut=False) for place in places) <= bytes_max:
            return True
        return sum(self._bytes_before(*place) for place in places) <= bytes_max

    def _bytes_before(self, backlog: Backlog, end: int, is_cut: bool = True) -> int:
        """The size of the rows from the begin of a backlog to an offset; if not cut, of the frames that have these rows."""
        total = 0
        for extent in backlog.extents:
            if extent.base_offset >= end:
                break
            first, following = max(extent.base_offset, backlog.start), min(extent.next_offset, end)
            is_whole = not is_cut or (first, following) == (extent.base_offset, extent.next_offset)
            total += self._bytes_of(extent) if is_whole else self._bytes_within(extent, first, following)
        return total

    def _bytes_of(self, extent: Extent) -> int:
        """The size of a whole frame."""
        place = extent.place
        if place not in self.seen:
            self.seen[place] = read_size(self.storage, self.written(extent))
        return self.seen[place]

    def _bytes_within(self, extent: Extent, first: int, following: int) -> int:
        """The size of the rows of a frame at the offsets from `first` to before `following`."""
        place = extent.place
        if place not in self.opened:
            if len(self.opened) >= OPENED_MAX:
                self.opened.pop(next(iter(self.opened)))
            rows, offsets = read_rows(self.storage, self.written(extent), extent.base_offset, extent.next_offset)
            self.opened[place] = offsets, np.concatenate([[0], np.cumsum(sizes_of(rows))])
        offsets, before = self.opened[place]
        start, end = np.searchsorted(offsets, (first, following))
        return int(before[end] - before[start])
