"""Promises of packing: rows as they were, in few frames, with their holes written down."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.log.frame import HEADERS_TYPE
from streamkit.log.packing import pack
from streamkit.names import DELETED, HEADERS, OFFSET

TIMES = pa.timestamp("ms", "UTC")


def piece(offsets, **columns):
    rows = len(offsets)
    times = pa.array(offsets, pa.int64()).cast(TIMES)
    batch = pa.record_batch({"v": pa.array([f"v{offset}" for offset in offsets]), "_timestamp": times, **columns})
    assert batch.num_rows == rows
    return batch, np.array(offsets, np.int64)


def test_a_frame_without_holes_has_no_offsets():
    """Consecutive rows, whatever frames they come from, make one dense frame, bound tightly."""
    (frame,) = pack([piece([5, 6]), piece([7])])
    assert (frame.base_offset, frame.next_offset, frame.rows.schema.names) == (5, 8, ["v", "_timestamp"])


def test_holes_are_written_down():
    """A frame with holes has the offset of each row."""
    (frame,) = pack([piece([5, 6]), piece([9])])
    assert (frame.base_offset, frame.next_offset, frame.rows[OFFSET].to_pylist()) == (5, 10, [5, 6, 9])


def test_frames_are_bounded_by_rows_and_bytes():
    """No frame has more rows, or about more bytes, than it may; each row is in one."""
    batch = piece(range(100))
    assert [frame.rows.num_rows for frame in pack([batch], frame_rows=40)] == [40, 40, 20]
    assert max(frame.rows.num_rows for frame in pack([batch], frame_bytes=batch[0].nbytes // 4)) in range(15, 26)
    assert [frame.rows.num_rows for frame in pack([batch], frame_bytes=1)] == [1] * 100


def test_flags_and_headers_are_only_where_needed():
    """A frame has deletion flags if a row is deleted, headers if a row has some; rows that lacked the column get none."""
    flags, marks = pa.array([True, False]), pa.array([None, [{"key": "h", "value": b"x"}]], HEADERS_TYPE)
    (frame,) = pack([piece([0]), piece([1, 2], **{DELETED: flags, HEADERS: marks})])
    assert frame.rows[DELETED].to_pylist() == [False, True, False]
    assert frame.rows[HEADERS].to_pylist() == [None, None, [{"key": "h", "value": b"x"}]]
    (frame,) = pack([piece([1], **{DELETED: flags.slice(1), HEADERS: marks.slice(0, 1)})])
    assert frame.rows.schema.names == ["v", "_timestamp"]


def test_rows_of_different_schemas_stay_apart():
    """Rows written before a column was added and after it keep their own frames; dictionaries are no difference."""
    words = pa.array(["v1"]).dictionary_encode()
    times = pa.array([1], pa.int64()).cast(TIMES)
    encoded = pa.record_batch({"v": words, "_timestamp": times}), np.array([1])
    wider = pa.record_batch({"v": ["v2"], "w": [1], "_timestamp": times}), np.array([2])
    assert [frame.rows.schema.names for frame in pack([piece([0]), encoded, wider])] == [
        ["v", "_timestamp"],
        ["v", "w", "_timestamp"],
    ]


def test_nothing_gives_nothing():
    """Batches without rows make no frame."""
    assert list(pack([piece([])])) == []
