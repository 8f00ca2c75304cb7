"""
Frames of which epochs have read a part: checked and decompressed, they are kept for the epochs that read the rest.

An epoch is cut where its bound says, so a large frame is read by several epochs. To check and decompress it again for each would take
longer than what an epoch does with its part. A slab never changes, and its token is never used twice, so what was sound once stays right.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import RowShape
from streamkit.log.slab.slab import checked_rows_of
from streamkit.log.storage.storage import Storage

BYTES_MAX = 128 << 20

_PlaceAndColumns = tuple[bytes | None, int, int, tuple[str, ...] | None]


@dataclass(frozen=True)
class KeptFrames:
    """The rows of frames by token, position, partition and columns, the one that was asked for last behind the others; safe for threads."""

    bytes_max: int = BYTES_MAX
    _kept: OrderedDict[_PlaceAndColumns, tuple[RowShape | None, pa.RecordBatch]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def rows(
        self, storage: Storage, extent: Extent, columns: Sequence[str] | None, topic: RowShape | None, *, is_last: bool
    ) -> pa.RecordBatch:
        """The rows as `checked_rows_of` gives them; with `is_last` they are forgotten, else kept if there is room."""
        place = (extent.token, extent.position, extent.partition, None if columns is None else tuple(columns))
        with self._lock:
            found = self._kept.pop(place, None)
        if found is not None and found[0] == topic:
            rows = found[1]
        else:
            rows = checked_rows_of(storage, extent, columns, topic)
        if not is_last and extent.token is not None:
            self._keep(place, topic, rows)
        return rows

    def _keep(self, place: _PlaceAndColumns, topic: RowShape | None, rows: pa.RecordBatch) -> None:
        if (size := rows.nbytes) > self.bytes_max:
            return
        with self._lock:
            self._kept[place] = topic, rows
            size = sum(kept.nbytes for _, kept in self._kept.values())
            while size > self.bytes_max:
                _, (_, oldest) = self._kept.popitem(last=False)
                size -= oldest.nbytes


KEPT_FRAMES = KeptFrames()
