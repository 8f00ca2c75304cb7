"""Frames that are read in parts are checked once: as often as they are asked for, the rows are those of the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamkit.errors import CorruptionError, SchemaError
from streamkit.log.log import Log
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.kept_frames import KeptFrames
from streamkit.log.slab.slab import read_rows, write_slab
from streamkit.log.storage.storage import Storage
from streamkit.names import TIMESTAMP, SlabName, application_writer
from streamkit.schema import Schema

ROWS = 1000


@dataclass
class CountedStorage:
    """A storage that counts how often files are read."""

    inner: Storage
    reads: int = 0

    def copies(self, path: str) -> Iterator[pa.Buffer]:
        self.reads += 1
        return self.inner.copies(path)


@dataclass(frozen=True)
class Shape:
    """The shape in which rows are read."""

    name: str
    schema: Schema


@pytest.fixture
def log(empty_log: Log) -> Log:
    empty_log.create_topic("t", "v bigint, s string", key="v", partitions=2)
    with empty_log.producer() as producer:
        producer.send_batch("t", pa.table({"v": range(ROWS), "s": [f"text {number % 7}" for number in range(ROWS)]}))
    return empty_log


def extents(log: Log) -> list[Extent]:
    topic = log.topic("t").id
    return [extent for partition in range(2) for extent in log.catalog.manifest.extents(topic, partition)]


def parts(
    storage: Any, extent: Extent, kept: KeptFrames, size: int = 100, columns: tuple[str, ...] = ("s", "v")
) -> list[tuple[str, int]]:
    """The rows of a frame, read in parts of so many offsets."""
    found = []
    for start in range(extent.base_offset, extent.next_offset, size):
        end = min(start + size, extent.next_offset)
        rows_of = partial(kept.rows, is_last=extent.next_offset <= end)
        batch, offsets = read_rows(storage, extent, start, end, columns, None, rows_of)
        assert offsets.tolist() == [*range(start, end)]
        found += [(row["s"], row["v"]) for row in batch.to_pylist()]
    return found


def test_a_frame_is_read_once(log: Log) -> None:
    """All parts of all frames have the log's rows, while each file is mapped once for each frame; then nothing is kept."""
    storage: Any = CountedStorage(log.storage)
    kept = KeptFrames()
    found = [row for extent in extents(log) for row in parts(storage, extent, kept)]
    assert sorted(found, key=lambda row: row[1]) == [(f"text {number % 7}", number) for number in range(ROWS)]
    assert storage.reads == len(extents(log))
    assert not kept._kept


def test_other_columns_and_shapes_are_checked_without_another_look_at_the_file(log: Log) -> None:
    """Whoever asks for other columns, or in another shape, gets the rows that are kept, each in its own shape."""
    storage: Any = CountedStorage(log.storage)
    kept, extent = KeptFrames(), extents(log)[0]
    shapes = [None, Shape("t", Schema.parse("v bigint, s string")), Shape("t", Schema.parse("v bigint, s string, more int"))]
    for columns in (("v",), ("v", "s"), None):
        for shape in shapes:
            for _ in range(2):
                batch, _ = read_rows(storage, extent, 3, 9, columns, shape, partial(kept.rows, is_last=False))
                assert batch.equals(read_rows(log.storage, extent, 3, 9, columns, shape)[0])
    assert storage.reads == 1


def test_what_is_kept_is_refused_as_what_is_read(log: Log) -> None:
    """A column that is not sound, or a narrower type, is found when it is asked for first, though other columns were right."""
    name = SlabName(application_writer(1), 1, 1, "ab" * 16)
    soiled = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff"))
    rows = pa.record_batch({"v": pa.array([1, 2]), "s": soiled, TIMESTAMP: pa.array([5, 6], pa.timestamp("ms", "UTC"))})
    slab = write_slab(log.storage, name, [(7, 0, rows)])
    extent = slab.frames[0].extent(slab.path, 0, 2)
    storage: Any = CountedStorage(log.storage)
    kept = KeptFrames()
    assert kept.rows(storage, extent, ("v",), None, is_last=False)["v"].to_pylist() == [1, 2]
    for is_last in (False, True):
        with pytest.raises(CorruptionError, match="its columns are not sound"):
            kept.rows(storage, extent, ("v", "s"), Shape("t", Schema.parse("v bigint, s string")), is_last=is_last)
        kept.rows(storage, extent, ("v",), None, is_last=False)
    with pytest.raises(SchemaError, match="written under a newer version"):
        kept.rows(storage, extent, ("v",), Shape("t", Schema.parse("v int, s string")), is_last=False)


def test_little_is_kept(log: Log) -> None:
    """The frames that were asked for last are kept, as far as they fit."""
    one, other = extents(log)
    sizes = [KeptFrames().rows(log.storage, extent, ("v",), None, is_last=False).nbytes for extent in (one, other)]
    storage: Any = CountedStorage(log.storage)
    kept = KeptFrames(bytes_max=max(sizes))
    for extent in (one, one, other, other, one):
        read_rows(storage, extent, 0, 1, ("v",), None, partial(kept.rows, is_last=False))
    assert storage.reads == 3
    nothing = KeptFrames(bytes_max=10)
    read_rows(storage, one, 0, 1, ("v",), None, partial(nothing.rows, is_last=False))
    assert not nothing._kept
