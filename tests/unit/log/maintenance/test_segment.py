"""Promises of the segment: rows as they were, in few frames, with their holes written down."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import EpochFailedError, StorageFullError
from streamkit.failpoints import armed
from streamkit.log.maintenance.segment import FRAME_BYTES, FRAME_STORED_BYTES, ExtentPiece, SegmentWriter, filled, framed, grouped
from streamkit.log.maintenance.survivors import Selection
from streamkit.log.opening import open_log
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import FRAME_ROWS_MAX, HEADERS_TYPE
from streamkit.log.topic.topic import declare_topic
from streamkit.names import DELETED, HEADERS, OFFSET
from tests.kit.sampling import examples

pytestmark = pytest.mark.usefixtures("slabs_in_files")

TIMES = pa.timestamp("ms", "UTC")


def part(offsets, **columns):
    rows = len(offsets)
    times = pa.array(offsets, pa.int64()).cast(TIMES)
    extras = {DELETED: pa.repeat(False, rows), HEADERS: pa.nulls(rows, HEADERS_TYPE)} | columns
    batch = pa.record_batch({"v": pa.array([f"v{offset}" for offset in offsets]), "_timestamp": times, **extras})
    return batch, np.array(offsets, np.int64)


def covered(places):
    return int(places[0]), int(places[-1]) + 1


def test_a_frame_without_holes_has_no_offsets():
    """Consecutive rows, whatever frames they come from, make one dense frame, bound tightly."""
    ((rows, places),) = framed([part([5, 6]), part([7])])
    assert (covered(places), rows.schema.names) == ((5, 8), ["v", "_timestamp"])


def test_holes_are_written_down():
    """A frame with holes has the offset of each row."""
    ((rows, places),) = framed([part([5, 6]), part([9])])
    assert (covered(places), rows[OFFSET].to_pylist()) == ((5, 10), [5, 6, 9])


def test_frames_are_bounded_by_rows_and_bytes():
    """No frame has more rows, or more bytes, than it may; each row is in one, and they are of about the same size."""
    whole = part(range(100))
    assert [rows.num_rows for rows, _ in framed([whole], rows_max=40)] == [34, 34, 32]
    assert [rows.num_rows for rows, _ in framed([whole], bytes_max=whole[0].nbytes // 4 + 1)] == [25] * 4
    assert [rows.num_rows for rows, _ in framed([whole], bytes_max=1)] == [1] * 100
    assert np.concatenate([places for _, places in framed([whole], rows_max=7)]).tolist() == list(range(100))


def test_flags_and_headers_are_only_where_needed():
    """A frame has deletion flags if a row is deleted, headers if a row has some."""
    flags, marks = pa.array([True, False]), pa.array([None, [{"key": "h", "value": b"x"}]], HEADERS_TYPE)
    ((rows, _),) = framed([part([0]), part([1, 2], **{DELETED: flags, HEADERS: marks})])
    assert rows[DELETED].to_pylist() == [False, True, False]
    assert rows[HEADERS].to_pylist() == [None, None, [{"key": "h", "value": b"x"}]]
    ((rows, _),) = framed([part([1], **{DELETED: flags.slice(1), HEADERS: marks.slice(0, 1)})])
    assert rows.schema.names == ["v", "_timestamp"]


def test_dictionaries_are_no_difference():
    """Rows stored with a dictionary share a frame with those stored plain."""
    plain, encoded = part([0]), part([1], v=pa.array(["v1"]).dictionary_encode())
    ((rows, _),) = framed([plain, encoded])
    assert rows["v"].to_pylist() == ["v0", "v1"]


def test_no_more_is_read_than_fits_into_a_frame():
    """Rows come together as long as they fit, one part is read ahead and no more; a part that is too large comes alone."""
    parts = [part(range(10)), part(range(10, 20)), part(range(20, 60)), part(range(60, 61))]
    read: list[object] = []
    bytes_max = parts[0][0].nbytes + parts[1][0].nbytes
    together = filled(noted(parts, read), bytes_max)
    assert next(together) == parts[:2] and len(read) == 3
    assert list(together) == [parts[2:3], parts[3:]]


def noted(parts, read):
    for found in parts:
        read.append(found)
        yield found


def test_rows_that_compress_well_are_not_all_in_memory():
    """Frames of a few stored bytes and many in memory are merged with memory for a few frames, however many there are."""
    with open_log(":memory:") as log:
        log.create_topic("t", "v string", partitions=1, config={"retention.ms": -1, "compression.type": "zstd"})
        with log.producer() as producer:
            for _ in range(16):
                producer.send_batch("t", pa.table({"v": ["x" * 100_000] * 60}))
                producer.flush()
        before, taken = pa.total_allocated_bytes(), []
        with armed("segment.frame_written", lambda: taken.append(pa.total_allocated_bytes() - before)):
            log.merge("t")
        assert len(taken) == 8 and max(taken) < 4 * FRAME_BYTES < 16 * 60 * 100_000
        assert log.read("t").num_rows == 16 * 60


def test_nothing_gives_nothing():
    """Parts without rows make no frame."""
    assert list(framed([part([])])) == []


def extent(base, rows, size=100, times=(0, 0)):
    first, last = times
    return Extent(1, 0, base, base + rows, "slabs/p1/1/1-0.slab", 0, size, first, last, rows)


SIZES = st.lists(
    st.tuples(st.integers(1, FRAME_ROWS_MAX), st.integers(1, FRAME_STORED_BYTES), st.integers(0, 2_000)), max_size=30
)


@examples(100)
@given(SIZES, st.booleans())
def test_groups_fit_into_a_frame(sizes, is_selected):
    """Whatever the extents: all are in one group, in order, and a group of several is within the bounds of rows, bytes and time."""
    topic = declare_topic("t", "k string", "k", config={"cleanup.policy": "compact,delete", "retention.ms": 8_000})
    pieces = []
    for base, (rows, size, time_ms) in enumerate(sizes):
        found = extent(base * FRAME_ROWS_MAX, rows, size, (time_ms, time_ms + 10))
        selection = Selection(found, None, max(1, rows // 2), 0, 0) if is_selected else None
        pieces.append(ExtentPiece(found, found.base_offset, found.next_offset, selection))
    groups = grouped(topic, pieces)

    assert [piece for group in groups for piece in group] == pieces
    for group in groups:
        if len(group) > 1:
            assert sum(piece.rows for piece in group) <= FRAME_ROWS_MAX
            assert sum(piece.bytes for piece in group) <= FRAME_STORED_BYTES
            times = [(piece.extent.min_timestamp, piece.extent.max_timestamp) for piece in group]
            assert max(last for _, last in times) - min(first for first, _ in times) <= 1_000


def test_a_large_extent_becomes_several_frames():
    """Rows of one frame that is larger than frames should be are spread over several, all of them still there."""
    with open_log(":memory:") as log:
        log.create_topic("t", "v string", partitions=1, config={"retention.ms": -1})
        with log.producer() as producer:
            producer.send_batch("t", pa.table({"v": ["x" * 1_000] * 40_000}))
        topic = log.topic("t")
        before = log.catalog.manifest.extents(topic.id, 0)
        after = SegmentWriter(log.storage, log.catalog).rewrite(topic, before) or ()

        assert ([found.rows for found in before], [found.rows for found in after]) == ([40_000], [13_334, 13_334, 13_332])
        assert log.read("t")["v"].to_pylist() == ["x" * 1_000] * 40_000


@contextmanager
def four_extents():
    """A log, its topic, and the rows that lie in four files."""
    with open_log(":memory:") as log:
        log.create_topic("t", "v bigint", partitions=1)
        with log.producer() as producer:
            for number in range(4):
                producer.send("t", {"v": number})
                producer.flush()
        topic = log.topic("t")
        yield (
            log,
            topic,
            [ExtentPiece(found, found.base_offset, found.next_offset) for found in log.catalog.manifest.extents(topic.id, 0)],
        )


def test_a_swap_that_finds_no_room_leaves_no_file(monkeypatch):
    """A disk that is too full for the catalog is not filled further by the segments that were written for nothing."""

    def replace_nothing(replacement):
        raise StorageFullError("no room in the catalog")

    with four_extents() as (log, topic, pieces):
        before, writer = set(log.storage.list("slabs")), SegmentWriter(log.storage, log.catalog)
        with monkeypatch.context() as patch, pytest.raises(StorageFullError):
            patch.setattr(log.catalog.manifest, "replace", replace_nothing)
            writer.rewrite(topic, [piece.extent for piece in pieces])

        assert set(log.storage.list("slabs")) == before
        assert writer.rewrite(topic, [piece.extent for piece in pieces]) is not None


def test_a_swap_that_is_refused_leaves_no_file():
    """A segment whose extents have changed since is not put in their place, and its slab is gone; the writer goes on."""
    with four_extents() as (log, topic, pieces):
        writer = SegmentWriter(log.storage, log.catalog)
        late = writer.stage(topic, pieces)
        (taken,) = SegmentWriter(log.storage, log.catalog).rewrite(topic, [piece.extent for piece in pieces]) or ()
        with pytest.raises(EpochFailedError, match="changed while they were rewritten"):
            writer.swap(late)

        assert log.catalog.manifest.extents(topic.id, 0) == [taken]
        assert set(log.storage.list("slabs")) == {taken.path, *log.catalog.manifest.trash(1 << 62)}
        assert writer.rewrite(topic, [taken]) is not None
