"""What became of the rows of a key: the changes that a store's changelog still has, with the epochs that made them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.errors import CorruptionError, FormatVersionError
from streamkit.log.catalog.epoch_trail import EpochTrail, Place
from streamkit.log.slab.slab import read_rows
from streamkit.log.storage.storage import Storage
from streamkit.state.changelog import changes_within
from streamkit.state.state_reader import ChangelogPart
from streamkit.state.stored_rows import StoredRows, WantedRows

COLUMNS = (  # beside those of the row
    pa.field("epoch", pa.int64()),
    pa.field("committed_at", pa.timestamp("ms", tz="UTC")),
    pa.field("is_deleted", pa.bool_(), nullable=False),
)
ChosenKeys = Callable[[pa.BinaryArray], pa.BooleanArray]


def changes_of(
    storage: Storage,
    stored: StoredRows,
    groups: Sequence[int],
    wanted: WantedRows,
    parts: Mapping[Place, ChangelogPart],
    trail: EpochTrail,
) -> pa.Table:
    """
    The changes of the wanted rows, in the order in which they were made: the columns of `COLUMNS`, then those of the row.

    `epoch` and `committed_at` are null for a change that is older than the epochs which the catalog remembers. Of a deletion the values are
    null. Compaction leaves the newest change of each key among those that it has seen.
    """
    is_chosen = _chosen(stored, groups, wanted)
    found = [part for place, of in parts.items() for part in _of_partition(storage, stored, place, of, is_chosen, trail)]
    schema = pa.schema([*COLUMNS, *stored.schema])
    if not found:
        return schema.empty_table()
    table = pa.Table.from_batches(found, schema)
    epochs = pc.fill_null(table["epoch"], -1).to_numpy()  # what is older than all that are known comes first
    return table.take(pa.array(np.argsort(epochs, kind="stable")))


def _chosen(stored: StoredRows, groups: Iterable[int], wanted: WantedRows) -> ChosenKeys:
    """Whether state keys are among the wanted rows of the store in these key groups."""
    ranges = stored.ranges(groups, wanted)

    def is_chosen(keys: pa.BinaryArray) -> pa.BooleanArray:
        within = pa.array(np.zeros(len(keys), bool))
        for start, end in ranges:
            within = pc.or_(within, pc.and_(pc.greater_equal(keys, start), pc.less(keys, end)))
        wished = stored.is_wanted(keys, wanted)
        return within if wished is None else pc.and_(within, wished)

    return is_chosen


def _of_partition(
    storage: Storage, stored: StoredRows, place: Place, of: ChangelogPart, is_chosen: ChosenKeys, trail: EpochTrail
) -> Iterator[pa.RecordBatch]:
    for extent in of.extents:
        batch, offsets = read_rows(storage, extent, extent.base_offset, min(extent.next_offset, of.end))
        keys, values = changes_within(batch)
        chosen = is_chosen(keys).to_numpy(zero_copy_only=False)
        written_by = trail.of_offsets(place, offsets)
        for rows in (chosen & (written_by < 0), chosen & (written_by >= 0)):
            if rows.any():
                taken = pa.array(np.flatnonzero(rows))
                yield from _batch(stored, keys.take(taken), values.take(taken), trail, written_by[rows])


def _batch(
    stored: StoredRows, keys: pa.BinaryArray, values: pa.BinaryArray, trail: EpochTrail, written_by: Integers
) -> Iterator[pa.RecordBatch]:
    """The rows as changes; those of before the epochs that are known are left out if they are in another form."""
    known = written_by >= 0
    try:
        rows = stored.rows(keys, values)
    except (CorruptionError, FormatVersionError):
        if known.any():
            raise
        return
    if trail.is_converted and not known.any():
        return
    epochs, times = (known_of[written_by] if known.any() else written_by for known_of in (trail.numbers, trail.times_ms))
    facts = [pa.array(epochs, mask=~known), pa.array(times, mask=~known).cast(COLUMNS[1].type), values.is_null()]
    yield pa.RecordBatch.from_arrays([*facts, *rows.columns], schema=pa.schema([*COLUMNS, *rows.schema]))
