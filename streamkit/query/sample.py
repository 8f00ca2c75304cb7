"""Some rows of a topic, spread over all that it holds: only the frames in which they lie are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.errors import ConfigError
from streamkit.log.consume.reader import Reader, check_columns, placed_schema
from streamkit.log.log import Log
from streamkit.log.slab.extent import Extent
from streamkit.names import DELETED

SAMPLE_ROWS_MAX = 10_000


def sample_of(log: Log, topic: str, rows: int, columns: Sequence[str] | None = None) -> pa.Table:
    """
    So many rows of a topic, at even distances, by partition and offset; all of them if there are no more.

    As offsets grow with the time of writing, the rows are spread over partitions and over time. The same topic gives the same rows until
    something is written or deleted. The table has the columns of `Log.read`. ConfigError for a number out of range.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= SAMPLE_ROWS_MAX:
        raise ConfigError(
            f"topic {topic}: found a sample of {rows!r} rows; expected 1 to {SAMPLE_ROWS_MAX:,}; log.read({topic!r}) gives all rows"
        )
    found = log.topic(topic)
    batches = list(_chosen(Reader(log.storage, log.catalog, found, columns), rows))
    table = pa.Table.from_batches(batches, placed_schema(found, check_columns(found, columns)))
    return table if any(batch.column(DELETED).true_count for batch in batches) else table.drop_columns([DELETED])


def _chosen(reader: Reader, rows: int) -> Iterator[pa.RecordBatch]:
    for extent, places in places_in(reader.extents, rows):
        reader.extents = [extent]
        for batch in reader.batches():  # one; where compaction has left fewer rows meanwhile, some are not there
            yield batch.take(pa.array(places[places < batch.num_rows]))


def places_in(extents: Sequence[Extent], count: int) -> Iterator[tuple[Extent, Integers]]:
    """So many rows at even distances: the extents that have some of them, and which of their rows these are."""
    ends = np.cumsum([extent.rows for extent in extents], dtype=np.int64)
    whole = int(ends[-1]) if len(ends) else 0
    taken = min(count, whole)
    places = (2 * np.arange(taken, dtype=np.int64) + 1) * whole // (2 * max(taken, 1))  # the middles of equal parts
    first = np.searchsorted(places, ends - [extent.rows for extent in extents])
    for extent, start, until, end in zip(extents, first, np.searchsorted(places, ends), ends):
        if until > start:
            yield extent, places[start:until] - (end - extent.rows)
