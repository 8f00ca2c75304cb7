"""
Frames of which epochs have read a part: checked and decompressed, they are kept for the epochs that read the rest.

An epoch is cut where its bound says, so a large frame is read by several epochs, and by the planner, which looks where the cut falls. To
check and decompress it again for each would take longer than what an epoch does with its part. A slab never changes, and its token is
never used twice, so what was sound once stays right. Of a frame that is kept, only columns that nobody has asked for are still checked.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from streamkit.errors import CorruptionError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import RowShape
from streamkit.log.slab.frame_reader import check_rows
from streamkit.log.slab.slab import checked_rows_of
from streamkit.log.storage.storage import Storage

BYTES_MAX = 128 << 20

_TokenAndPlace = tuple[bytes | None, int, int]


@dataclass(frozen=True)
class _KeptFrame:
    """The rows of a frame, the columns that are sound (None: all), the shape that its schema was compared with, and its size."""

    rows: pa.RecordBatch
    columns: frozenset[str] | None
    topic: RowShape | None
    size: int


@dataclass(frozen=True)
class KeptFrames:
    """The rows of frames by token, position and partition, the one that was asked for last behind the others; safe for threads."""

    bytes_max: int = BYTES_MAX
    _kept: OrderedDict[_TokenAndPlace, _KeptFrame] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def rows(
        self, storage: Storage, extent: Extent, columns: Sequence[str] | None, topic: RowShape | None, *, is_last: bool
    ) -> pa.RecordBatch:
        """The rows as `checked_rows_of` gives them; with `is_last` they are forgotten, else kept if there is room."""
        place = (extent.token, extent.position, extent.partition)
        with self._lock:  # another thread may read the rows behind these at the same time
            found = self._kept.pop(place, None) if is_last else self._kept.get(place)
        known = None
        if found is not None:
            with suppress(CorruptionError):  # another copy of the file may be whole
                known = _with_columns(found, extent, columns, topic)
        if known is None:
            rows = checked_rows_of(storage, extent, columns, topic)
            known = _KeptFrame(rows, None if columns is None else frozenset(columns), topic, rows.nbytes)
        if not is_last and extent.token is not None:
            self._keep(place, known)
        return known.rows

    def _keep(self, place: _TokenAndPlace, frame: _KeptFrame) -> None:
        if frame.size > self.bytes_max:
            return
        with self._lock:
            self._kept[place] = frame
            self._kept.move_to_end(place)
            size = sum(kept.size for kept in self._kept.values())
            while size > self.bytes_max:
                size -= self._kept.popitem(last=False)[1].size


def _with_columns(frame: _KeptFrame, extent: Extent, columns: Sequence[str] | None, topic: RowShape | None) -> _KeptFrame:
    """The frame, when these columns are known to be sound, too, and its schema to be one of the topic; errors as of `check_rows`."""
    is_new_shape = topic is not None and topic != frame.topic
    wanted = None if columns is None else frozenset(columns)
    if frame.columns is None or (wanted is not None and wanted <= frame.columns):
        lacking: Sequence[str] | None = ()
        sound = frame.columns
    else:
        lacking = None if wanted is None else sorted(wanted - frame.columns)
        sound = None if wanted is None else wanted | frame.columns
    if lacking == () and not is_new_shape:
        return frame
    check_rows(frame.rows, extent, lacking, topic)
    return _KeptFrame(frame.rows, sound, topic or frame.topic, frame.size)


KEPT_FRAMES = KeptFrames()
