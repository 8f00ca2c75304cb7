"""Offsets by time: Kafka's offsetsForTimes."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa

from streamkit.log.catalog.catalog import Catalog
from streamkit.log.consume.reader import milliseconds
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.slab import GONE, read_rows
from streamkit.log.storage.replicated_storage import current_storage
from streamkit.log.storage.storage import Storage
from streamkit.log.topic.topic import Topic
from streamkit.names import TIMESTAMP


def offsets_for_times(storage: Storage, catalog: Catalog, topic: Topic, moment: int | dt.datetime) -> dict[int, int | None]:
    """
    The first offset of each partition whose event time is the given one or later; None where there is none.

    The manifest knows the times that each frame spans, so that one frame a partition is read, and of it one column.
    """
    timestamp_ms = milliseconds(moment)
    starts = catalog.manifest.start_offsets(topic.id)
    return {
        partition: _first_offset(storage, catalog, topic, partition, timestamp_ms, start) for partition, start in starts.items()
    }


def _first_offset(storage: Storage, catalog: Catalog, topic: Topic, partition: int, timestamp_ms: int, start: int) -> int | None:
    missing: Extent | None = None
    while extent := catalog.manifest.first_extent_since(topic.id, partition, timestamp_ms, start):
        try:
            rows, offsets = read_rows(storage, extent, start, extent.next_offset, [TIMESTAMP], topic)
        except GONE:
            if extent == missing:
                raise
            missing = extent  # merged or compacted since, or on a new root: the catalog says where the rows are now
            storage = current_storage(storage, catalog.replication())
            continue
        found = np.flatnonzero(rows.column(0).view(pa.int64()).to_numpy() >= timestamp_ms)
        if len(found):
            return int(offsets[found[0]])
        start = extent.next_offset
    return None
