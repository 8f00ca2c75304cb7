"""Promises of the shared frame: few rows of several partitions lie in one frame, and are read as if each had its own."""

from __future__ import annotations

from dataclasses import replace

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import CorruptionError, EpochFailedError
from streamkit.log.slab import frame_reader
from streamkit.log.slab.frame import COMPRESSIONS, HEADER_SIZE, FrameHeader, padded
from streamkit.log.slab.frame_directory import SHARED, FramePart, directory_size, pack_directory, shares, unpack_directory
from streamkit.log.slab.frame_reader import extents_at
from streamkit.log.slab.slab import (
    SHARED_BYTES_MAX,
    SHARED_ROWS_MAX,
    check_slab,
    read_frame,
    read_reference,
    read_size,
    verify_slab,
    write_slab,
)
from streamkit.log.storage.inline_storage import storage_with
from streamkit.log.storage.storage import MemoryStorage
from streamkit.log.topic.topic import declare_topic
from streamkit.log.values.value_bytes import size_of
from streamkit.names import SlabName
from tests.kit.sampling import examples
from tests.unit.log.slab.test_slab import batch_of

NAME = SlabName("a1", 4, 9, "00112233445566778899aabbccddeeff")
TOPIC = declare_topic("t", "value string", partitions=8).with_id(1)
FRAMES = [(1, 0, batch_of("a", "b")), (1, 2, batch_of("c")), (1, 5, batch_of("d", None, "f"))]
IN_A_FILE, INLINE = 1, 1 << 16  # the most bytes of an inline slab: none has as few as one


def written(frames, inline_bytes_max=IN_A_FILE, compression="none"):
    """The reference of a slab, its storage, and the extents of its frames, as if offsets began at 10 in each."""
    files = MemoryStorage()
    slab = write_slab(files, NAME, frames, {1: compression}, inline_bytes_max=inline_bytes_max)
    storage = files if slab.data is None else storage_with(files, {slab.path: slab.data})
    return slab, storage, [one.extent(slab.path, 10, 10 + one.rows) for one in slab.frames]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("inline_bytes_max", [IN_A_FILE, INLINE])
def test_rows_come_back(compression, inline_bytes_max):
    """The rows of each partition are those that were written, in one frame, in a file or not; and the slab is found whole."""
    slab, storage, extents = written(FRAMES, inline_bytes_max, compression)

    assert [(one.topic_id, one.partition, one.rows) for one in slab.frames] == [(1, 0, 2), (1, 2, 1), (1, 5, 3)]
    assert len({one.position for one in slab.frames}) == 1
    for extent, (_, _, rows) in zip(extents, FRAMES, strict=True):
        assert read_frame(storage, extent).equals(rows)
        assert read_frame(storage, extent, ["_deleted", "value"], TOPIC).to_pydict()["value"] == rows["value"].to_pylist()
        assert read_size(storage, extent) == size_of(rows)
    verify_slab(storage, slab)
    check_slab(storage.map(slab.path), slab.path)
    assert read_reference(storage, slab.path) == slab


def test_the_lengths_of_extents_are_the_bytes_on_disk():
    """Whoever sums lengths of extents counts the bytes of the frame once."""
    slab, storage, _ = written(FRAMES)
    head = FrameHeader.unpack(storage.map(slab.path).slice(slab.frames[0].position, HEADER_SIZE).to_pybytes())

    assert sum(one.length for one in slab.frames) == padded(HEADER_SIZE + head.stored_length)
    assert all(one.length > 0 for one in slab.frames)


@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=40), st.integers(192, 1 << 20))
@examples(100)
def test_shares_add_up(counts, length):
    """Any spread of any length over any rows adds up, and is near what the rows of each part would have."""
    found = shares(counts, length)

    assert sum(found) == length
    assert all(abs(share - length * rows / sum(counts)) < 1 for share, rows in zip(found, counts, strict=True))


def frames_written(frames):
    """How many frames a slab of these has."""
    return len({one.position for one in written(frames)[0].frames})


MANY, LARGE = batch_of(*"x" * SHARED_ROWS_MAX), batch_of("x" * SHARED_BYTES_MAX)


@pytest.mark.parametrize(
    ("frames", "count"),
    [
        (FRAMES, 1),
        ([(1, 2, batch_of("a")), (1, 0, batch_of("b"))], 2),
        ([(1, 0, batch_of("a")), (1, 0, batch_of("b"))], 2),
        ([(1, 0, batch_of("a")), (2, 1, batch_of("b"))], 2),
        ([(1, 0, batch_of("a")), (1, 1, MANY)], 2),
        ([(1, 0, MANY), (1, 1, batch_of("a")), (1, 2, batch_of("b"))], 2),
        ([(1, 0, batch_of("a")), (1, 1, LARGE), (1, 2, batch_of("b")), (1, 3, batch_of("c"))], 4),
        ([(1, 0, batch_of("a")), (1, 1, batch_of()), (1, 2, batch_of("b"))], 1),
        ([(1, 0, batch_of("a")), (1, 1, batch_of("b").select(["_timestamp"]))], 2),
        ([(1, at, batch_of("a").set_column(0, "value", batch_of("a")["value"].dictionary_encode())) for at in (0, 1)], 2),
    ],
    ids=["small", "down", "again", "topics", "many", "behind", "large", "empty", "columns", "dictionaries"],
)
def test_what_shares_a_frame(frames, count):
    """Few rows of one topic, whose partitions ascend and whose columns are the same and plain; every row comes back in any case."""
    assert frames_written(frames) == count
    _, storage, extents = written(frames)
    rows = [rows for _, _, rows in frames if rows.num_rows]
    assert all(read_frame(storage, extent).equals(one) for extent, one in zip(extents, rows, strict=True))


def test_frames_are_shared_only_where_a_commit_may_be_small():
    """Who writes files alone, such as maintenance, writes a frame for each partition, as it always was."""
    slab = write_slab(MemoryStorage(), NAME, FRAMES)

    assert len({one.position for one in slab.frames}) == 3


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_flipped_bit_is_refused(compression):
    """Each single bit of the frame counts for each of its partitions."""
    slab, storage, extents = written(FRAMES, compression=compression)
    data = storage.map(slab.path).to_pybytes()
    start = slab.frames[0].position

    for index in range(start, start + sum(one.length for one in slab.frames)):
        damaged = bytearray(data)
        damaged[index] ^= 1 << (index % 8)
        found = MemoryStorage()
        found.create(slab.path, [bytes(damaged)])
        for extent in extents:
            with pytest.raises(
                CorruptionError, match=f"partition {extent.partition}, offset 10, in {slab.path} at position {start}"
            ):
                read_frame(found, extent, topic=TOPIC)


@pytest.mark.parametrize("inline_bytes_max", [IN_A_FILE, INLINE])
@pytest.mark.parametrize(
    "change",
    [
        {"topic_id": 2},
        {"partition": 1},
        {"partition": SHARED},
        {"next_offset": 13, "rows": 3},
        {"min_timestamp": -1},
        {"max_timestamp": 7},
        {"length": 1},
    ],
)
def test_a_part_of_another_place_is_refused(change, inline_bytes_max):
    """A part is not taken for the one that the catalog means, also when the frame has been read before."""
    _, storage, extents = written(FRAMES, inline_bytes_max)
    read_frame(storage, extents[1])

    with pytest.raises(CorruptionError, match="its directory states"):
        read_frame(storage, extents[0]._replace(**change))


def test_rows_with_holes_are_not_expected_in_it():
    """A part has a row at each offset, whatever the catalog says."""
    _, storage, extents = written(FRAMES)

    with pytest.raises(CorruptionError, match="lacks a column _offset"):
        read_frame(storage, extents[0]._replace(next_offset=20))


PARTS = (FramePart(1, 2, 0, 1, 7), FramePart(4, 1, 5, 5, 3))


def test_directory_bytes_are_fixed():
    """A directory is that of docs/log-format.md, for ever."""
    data = pack_directory(PARTS)

    assert data.hex() == (
        "01000000" "02000000" "0000000000000000" "0100000000000000" "0700000000000000"
        "04000000" "01000000" "0500000000000000" "0500000000000000" "0300000000000000"
    )  # fmt: skip
    assert len(data) == directory_size(2) == 64 and directory_size(3) == 128
    assert unpack_directory(data, 2, 3) == PARTS


@pytest.mark.parametrize(
    ("data", "parts", "rows", "reason"),
    [
        (pack_directory(PARTS)[:63], 2, 3, "too short"),
        (pack_directory(PARTS), 3, 3, "too short"),
        (pack_directory(PARTS), 2, 4, "and 4 rows together"),
        (pack_directory(PARTS[:1]), 2, 2, "ascending order"),
        (pack_directory(PARTS[::-1]), 2, 3, "ascending order"),
        (pack_directory((PARTS[0], PARTS[1]._replace(rows=0))), 2, 2, "at least one row"),
        (pack_directory((*PARTS, PARTS[1]._replace(partition=SHARED))), 3, 4, "ascending order"),
        (pack_directory(PARTS[:1])[:-1] + b"x", 1, 2, "behind it"),
    ],
)
def test_a_directory_that_no_writer_makes_is_refused(data, parts, rows, reason):
    """What a directory says is checked before it is used, however right its checksum is."""
    with pytest.raises(ValueError, match=reason):
        unpack_directory(data, parts, rows)


def test_a_header_and_its_parts_go_together():
    """A shared frame has parts and no partition, another frame a partition and no parts."""
    shared = FrameHeader("none", 7, SHARED, 3, 0, 64, 9, 9, 0, 1, bytes(16), 0, 5, 2)

    assert FrameHeader.unpack(shared.pack()) == shared
    for lie in (replace(shared, partition=3).pack(), version_of(shared, 1), version_of(replace(shared, parts=0), 2)):
        with pytest.raises(ValueError, match="do not go together"):
            FrameHeader.unpack(lie)


def version_of(head, version):
    """A header with another version, and a right checksum."""
    data = bytearray(head.pack())
    data[4:6] = version.to_bytes(2, "little")
    return bytes(data[:-4]) + google_crc32c.value(bytes(data[:-4])).to_bytes(4, "little")


def test_a_frame_is_decoded_once_for_all_its_partitions(monkeypatch):
    """Of an inline slab: its bytes are those of this process, so what was checked once is sound."""
    _, storage, extents = written(FRAMES, INLINE)
    decoded = []
    plain = frame_reader._plain_batch

    def noted(payload):
        decoded.append(payload.size)
        return plain(payload)

    monkeypatch.setattr(frame_reader, "_plain_batch", noted)

    for extent in extents * 2:
        read_frame(storage, extent)
    assert len(decoded) == 1


def test_other_bytes_of_the_same_name_are_looked_at(monkeypatch):
    """What was kept of one copy of a slab does not stand for another one, which may be damaged."""
    slab, storage, extents = written(FRAMES, INLINE)
    assert read_frame(storage, extents[0]).num_rows == 2
    damaged = bytearray(slab.data)
    damaged[slab.frames[0].position + HEADER_SIZE + 5] ^= 1

    with pytest.raises(CorruptionError, match="checksum of its payload"):
        read_frame(storage_with(MemoryStorage(), {slab.path: bytes(damaged)}), extents[0])
    assert read_frame(storage, extents[1]).num_rows == 1


def test_what_is_kept_is_bounded(monkeypatch):
    """Frames beyond the bound go, the oldest first, and are read again."""
    kept = frame_reader._SharedFrames()
    slab, storage, extents = written(FRAMES, INLINE)
    shared = frame_reader._FrameReader(storage.map(slab.path), extents[0], None).shared()
    assert shared is not None
    monkeypatch.setattr(frame_reader, "SHARED_BYTES_KEPT", 2 * shared.bytes)
    places = [extents[0]._replace(path=f"inline/{number}") for number in range(3)]
    for place in (*places, places[2]):
        kept.keep(place, shared)

    assert [kept.get(shared.file, place) is not None for place in places] == [False, True, True]


def test_a_reference_whose_parts_lie_is_refused():
    """What a task says of the parts of its inline slab is held against their directory."""
    slab, storage, _ = written(FRAMES, INLINE)
    first, *others = slab.frames
    verify_slab(storage, slab)

    with pytest.raises(EpochFailedError, match="not what its writer reported"):
        verify_slab(storage, replace(slab, frames=(replace(first, partition=1), *others)))


def test_parts_are_found_without_a_footer():
    """A frame tells its parts itself, for who has lost the footer; one that is damaged counts as a whole, of no partition."""
    slab, storage, extents = written(FRAMES)
    file, position = storage.map(slab.path), slab.frames[0].position

    found = extents_at(file, slab.path, position)
    assert [one._replace(base_offset=10, next_offset=10 + one.rows) for one in found] == extents
    damaged = bytearray(file.to_pybytes())
    damaged[position + HEADER_SIZE] ^= 1
    assert [one.partition for one in extents_at(pa.py_buffer(bytes(damaged)), slab.path, position)] == [SHARED]


@given(st.lists(st.lists(st.none() | st.text(max_size=9), max_size=9), min_size=1, max_size=20), st.sampled_from(COMPRESSIONS))
@examples(40)
def test_any_rows_come_back(values, compression):
    """Whatever partitions have, nulls and nothing included, each reads as it was written, with its size and times."""
    frames = [(1, partition, batch_of(*some)) for partition, some in enumerate(values)]
    slab, storage, extents = written(frames, compression=compression)

    rows = [rows for _, _, rows in frames if rows.num_rows]
    for extent, one, expected in zip(extents, slab.frames, rows, strict=True):
        assert read_frame(storage, extent, topic=TOPIC).equals(expected)
        times = np.array(expected["_timestamp"].view(pa.int64()))
        assert (one.min_timestamp, one.max_timestamp) == (times.min(), times.max())
        assert read_size(storage, extent) == size_of(expected)
