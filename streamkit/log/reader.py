"""Reading a topic: committed rows of one snapshot, by partition and offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamkit.errors import ConfigError, SchemaError
from streamkit.log.catalog import Catalog
from streamkit.log.extent import Extent
from streamkit.log.frame import HEADERS_TYPE, TIMESTAMP_TYPE
from streamkit.log.slab import read_frame
from streamkit.log.storage import Storage
from streamkit.log.topic import Topic
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP

Bounds = int | Mapping[int, int] | None
_PLACE = (TIMESTAMP, PARTITION, OFFSET)


class Reader:
    """A part of a topic as it stood when the reader was made: columns, partitions, and offsets from `start` to before `end`."""

    def __init__(
        self,
        storage: Storage,
        catalog: Catalog,
        topic: Topic,
        columns: Sequence[str] | None = None,
        partitions: Iterable[int] | None = None,
        start: Bounds = None,
        end: Bounds = None,
    ) -> None:
        self._storage = storage
        self._topic = topic
        self._columns = _check_columns(topic, columns)
        chosen = _check_partitions(topic, partitions)
        self._start = _check_bounds(topic, "start", start)
        self._end = _check_bounds(topic, "end", end)
        since = {topic.id: {partition: self._start.get(partition, 0) for partition in chosen}}
        snapshot = catalog.extents_of([topic.id], since)
        self._extents = [extent for extent in snapshot.extents if extent.partition in chosen and self._rows_of(extent)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, a frame at a time: the columns, then `_timestamp`, `_partition`, `_offset` and `_deleted`."""
        for extent in self._extents:
            yield self._batch(extent)

    def table(self) -> pa.Table:
        """All rows at once; `_deleted` is left out when no row is."""
        batches = list(self.batches())
        table = pa.Table.from_batches(batches, schema=self._schema())
        if DELETED in self._columns or any(batch.column(DELETED).true_count for batch in batches):
            return table
        return table.drop_columns([DELETED])

    def _rows_of(self, extent: Extent) -> range:
        """The rows of a frame that are asked for, counted in the frame."""
        first = max(self._start.get(extent.partition, 0), extent.base_offset)
        following = min(self._end.get(extent.partition, extent.next_offset), extent.next_offset)
        return range(first - extent.base_offset, following - extent.base_offset)

    def _batch(self, extent: Extent) -> pa.RecordBatch:
        rows = self._rows_of(extent)
        names = [name for name in self._columns if name != DELETED]
        frame = read_frame(self._storage, extent, [*names, TIMESTAMP, DELETED], self._topic).slice(rows.start, len(rows))
        *values, deleted = frame.columns
        offsets = np.arange(extent.base_offset + rows.start, extent.base_offset + rows.stop, dtype=np.int64)
        partition = np.full(len(rows), extent.partition, np.int32)
        plain = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in values]
        return pa.RecordBatch.from_arrays([*plain, pa.array(partition), pa.array(offsets), deleted], schema=self._schema())

    def _schema(self) -> pa.Schema:
        fields = [pa.field(name, _type(self._topic, name)) for name in self._columns if name != DELETED]
        places = [(TIMESTAMP, TIMESTAMP_TYPE), (PARTITION, pa.int32()), (OFFSET, pa.int64()), (DELETED, pa.bool_())]
        return pa.schema([*fields, *places])


def _type(topic: Topic, name: str) -> pa.DataType:
    return HEADERS_TYPE if name == HEADERS else topic.schema[name].arrow.type


def _check_columns(topic: Topic, columns: Sequence[str] | None) -> tuple[str, ...]:
    if columns is None:
        return topic.schema.names
    chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in chosen:
        if name not in topic.schema and name not in (*_PLACE, DELETED, HEADERS):
            raise SchemaError(f"topic {topic.name} has no column {name!r}; it has {topic.schema}")
    return tuple(dict.fromkeys(name for name in chosen if name not in _PLACE))


def _check_partitions(topic: Topic, partitions: Iterable[int] | None) -> frozenset[int]:
    chosen = range(topic.partitions) if partitions is None else [partitions] if isinstance(partitions, int) else list(partitions)
    for partition in chosen:
        if partition not in range(topic.partitions):
            raise ConfigError(f"topic {topic.name} has no partition {partition!r}; it has 0 to {topic.partitions - 1}")
    return frozenset(chosen)


def _check_bounds(topic: Topic, what: str, bounds: Bounds) -> dict[int, int]:
    if bounds is None:
        return {}
    chosen = dict.fromkeys(range(topic.partitions), bounds) if isinstance(bounds, int) else dict(bounds)
    for partition, offset in chosen.items():
        if partition not in range(topic.partitions) or type(offset) is not int or offset < 0:
            raise ConfigError(
                f"{what}={bounds!r} does not fit topic {topic.name}; expected an offset from 0, or offsets by partition 0 to {topic.partitions - 1}"
            )
    return chosen
