"""
What a replay has filled becomes the application's: the rows of stores as changes in its changelogs, and the stream times that belong to them.

All of it is part of one epoch of the application. What a store had before, and the replay has not, is deleted in it; so local stores go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.epoch.stream_time import (
    StreamTimes,
    committed_times,
    of_closed,
    of_expired,
    of_given,
    of_grace,
    of_purge,
    of_store,
)
from streamkit.engine.rows.rows import concatenate, last_of_each
from streamkit.log.catalog.applications import ApplicationState, StoreState
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import TIMESTAMP_TYPE
from streamkit.log.slab.slab import FrameInput, read_rows
from streamkit.log.storage.storage import Storage
from streamkit.names import DELETED, TIMESTAMP
from streamkit.state.key import with_number

_NOTHING = pa.RecordBatch.from_arrays(  # by nulls, because an array of Python values loads pandas
    [pa.nulls(0, pa.binary()), pa.nulls(0, pa.binary()), pa.nulls(0, TIMESTAMP_TYPE)], names=["key", "value", TIMESTAMP]
)
ROWS_MAX = 1 << 20  # so many changes wait before only the newest of each key is kept


@dataclass(frozen=True)
class Adoption:
    """The stores of an application that get what those of the same names have that `replayed` left."""

    replayed: ApplicationState
    stores: tuple[str, ...]

    def frames(self, catalog: Catalog, storage: Storage, own: ApplicationState) -> Iterator[FrameInput]:
        """The changes that make the stores of `own` what the replay has; a frame for each changelog partition, one at a time in memory."""
        for name in self.stores:
            made, held = (changelog_frames(catalog, one.stores[name]) for one in (self.replayed, own))
            for partition in sorted(made | held):
                rows = _changes(storage, made.get(partition, ()), held.get(partition, ()), own.stores[name].number)
                if rows.num_rows:
                    yield own.stores[name].changelog_topic_id, partition, rows

    def times(self, own: ApplicationState, topic_ids: Sequence[int]) -> StreamTimes:
        """
        The stream times of the application, which reads these topics, with those of the replay for its stores.

        Up to when the records of their changelogs have expired is among them, since the replay may keep windows for longer.
        """
        names = {of(name): of(name) for name in self.stores for of in (of_store, of_closed, of_given, of_grace, of_purge)}
        changelogs = [(self.replayed.stores[name], own.stores[name]) for name in self.stores]
        names |= {of_expired(made.changelog_topic_id): of_expired(held.changelog_topic_id) for made, held in changelogs}
        kept = {name: time for name, time in committed_times(own, topic_ids).items() if name not in names.values()}
        return {**kept, **{names[name]: time for name, time in committed_times(self.replayed, ()).items() if name in names}}


def changelog_frames(catalog: Catalog, store: StoreState) -> dict[int, list[Extent]]:
    """The frames of a changelog, by partition."""
    found: dict[int, list[Extent]] = {}
    for extent in catalog.manifest.cut([store.changelog_topic_id], {}).extents:
        found.setdefault(extent.partition, []).append(extent)
    return found


def _changes(storage: Storage, made: Sequence[Extent], held: Sequence[Extent], number: int) -> pa.RecordBatch:
    """The changes from what a partition of a changelog holds to what another has made, in the order of keys."""
    rows, before = newest_rows(storage, made), newest_rows(storage, held)
    keys = with_number(rows["key"], number)
    gone = before.filter(pc.invert(pc.is_in(before["key"], value_set=keys)))
    keys = pa.concat_arrays([keys, gone["key"]])
    values = pa.concat_arrays([rows["value"], pa.nulls(gone.num_rows, pa.binary())])
    columns = {"key": keys, "value": values, TIMESTAMP: pa.concat_arrays([rows[TIMESTAMP], gone[TIMESTAMP]])}
    if gone.num_rows:
        columns[DELETED] = values.is_null()
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return batch.take(pc.array_sort_indices(keys))


def newest_rows(storage: Storage, extents: Sequence[Extent]) -> pa.RecordBatch:
    """The newest value of each key, with its time, without keys that were deleted."""
    found = [_NOTHING]
    for extent in extents:
        batch, _ = read_rows(storage, extent, extent.base_offset, extent.next_offset)
        values = batch["value"]
        if DELETED in batch.schema.names:
            values = pc.if_else(batch[DELETED], pa.scalar(None, pa.binary()), values)
        found.append(pa.RecordBatch.from_arrays([batch["key"], values, batch[TIMESTAMP]], schema=_NOTHING.schema))
        if sum(one.num_rows for one in found) > ROWS_MAX:
            found = [_last(found)]
    rows = _last(found)
    return rows.filter(rows["value"].is_valid())


def _last(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    rows = concatenate(batches)
    return rows.take(pa.array(np.asarray(last_of_each(rows["key"]))))
