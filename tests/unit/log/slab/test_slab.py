"""Promises of the slab: its bytes, its reference, what happens when the disk fails."""

from __future__ import annotations

import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from streamkit.errors import CorruptionError, EpochFailedError, StorageFullError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import TIMESTAMP_TYPE
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import HEADER_SIZE, pack_header, read_frame, read_reference, verify_slab, write_slab
from streamkit.log.storage.storage import FileStorage, MemoryStorage
from streamkit.names import SlabName
from tests.kit.faults import FaultyStorage

NAME = SlabName("a1", 4, 9, "00112233445566778899aabbccddeeff")
GOLDEN_SLAB = Path(__file__).parents[1] / "data" / "golden.slab"
GOLDEN_HEAD = "534b53310100000000112233445566778899aabbccddeeff" + "00" * 36 + "630a09cf"


def batch_of(*values):
    times = pa.array(range(len(values)), pa.int64()).view(TIMESTAMP_TYPE)
    return pa.record_batch({"value": pa.array(values, pa.string()), "_timestamp": times})


FRAMES = [(1, 0, batch_of("a", "b")), (2, 5, batch_of("c")), (1, 0, batch_of("d", "e", "f"))]


@pytest.fixture
def storage(tmp_path):
    return FileStorage(str(tmp_path))


def extents_of(reference):
    """Extents for the frames, as if offsets began at 0 in each."""
    return [
        Extent(f.topic_id, f.partition, 0, f.rows, reference.path, f.position, f.length, f.min_timestamp, f.max_timestamp, f.rows)
        for f in reference.frames
    ]


def test_frames_are_read_by_their_references(storage):
    """Each frame that was written can be read where its reference says."""
    reference = write_slab(storage, NAME, FRAMES)

    assert [read_frame(storage, extent).to_pydict()["value"] for extent in extents_of(reference)] == [
        ["a", "b"],
        ["c"],
        ["d", "e", "f"],
    ]
    assert [(f.topic_id, f.partition, f.rows) for f in reference.frames] == [(1, 0, 2), (2, 5, 1), (1, 0, 3)]


def test_bytes_are_fixed(storage, tmp_path):
    """Header, footer and trailer are those of docs/log-format.md, for ever."""
    reference = write_slab(storage, NAME, FRAMES)
    data = (tmp_path / NAME.path).read_bytes()

    last = reference.frames[-1]
    end = last.position + last.length
    footer = data[end:-24]
    assert data[:HEADER_SIZE].hex() == GOLDEN_HEAD == pack_header(bytes.fromhex(NAME.token)).hex()
    assert json.loads(footer) == {
        "writer": "a1", "generation": 4, "step": 9, "frames": [frame.to_json() for frame in reference.frames],
    }  # fmt: skip
    assert (
        data[-24:]
        == end.to_bytes(8, "little")
        + len(footer).to_bytes(4, "little")
        + reference.checksum.to_bytes(4, "little")
        + bytes(4)
        + b"SKS1"
    )


def test_slabs_of_before_are_read(tmp_path):
    """A slab that the first version wrote, with a compressed frame in it, reads as ever."""
    file = tmp_path / NAME.path
    file.parent.mkdir(parents=True)
    shutil.copy(GOLDEN_SLAB, file)
    storage = FileStorage(str(tmp_path))

    extents = extents_of(read_reference(storage, NAME.path))
    assert [read_frame(storage, extent).to_pydict()["value"] for extent in extents] == [["a", "b"], ["c"], ["d", "e", "f"]]


def test_a_reference_survives_its_travel(storage):
    """A reference says the same after JSON, and as the footer of the file."""
    reference = write_slab(storage, NAME, FRAMES)

    assert SlabReference.from_json(json.loads(json.dumps(reference.to_json()))) == reference
    assert read_reference(storage, reference.path) == reference
    verify_slab(storage, reference)


@pytest.mark.parametrize(
    "change", [{"path": "slabs/../x"}, {"size": "9"}, {"size": True}, {"frames": [[1, 2]]}, {"frames": [["1"] * 8]}]
)
def test_a_reference_that_no_writer_makes_is_refused(storage, change):
    """What a task reports is data: names and numbers are checked before use."""
    value = write_slab(storage, NAME, FRAMES).to_json() | change

    with pytest.raises(EpochFailedError):
        SlabReference.from_json(value)


def test_content_does_not_depend_on_the_token(storage):
    """Two attempts that wrote the same rows have the same content hash; other rows have another."""
    first = write_slab(storage, NAME, FRAMES)
    second = write_slab(storage, replace(NAME, token="f" * 32), FRAMES)
    third = write_slab(storage, replace(NAME, token="e" * 32), [*FRAMES[:2], (1, 0, batch_of("d", "e", "g"))])

    assert first.content == second.content != third.content


def test_batches_without_rows_make_no_frame(storage):
    """Empty batches are left out; a slab without frames is sound."""
    assert write_slab(storage, NAME, [(1, 0, batch_of())]).frames == ()


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compression_is_chosen_by_topic(storage, compression):
    """Frames of a topic are compressed as it says, and take less room."""
    rows = batch_of(*["the same again"] * 1000)
    plain, packed = write_slab(storage, NAME, [(1, 0, rows), (2, 0, rows)], {2: compression}).frames

    assert packed.length < plain.length / 2


def test_every_cut_is_noticed(storage, tmp_path):
    """A slab that lost any of its end is not whole."""
    reference = write_slab(storage, NAME, FRAMES[:1])
    data = (tmp_path / NAME.path).read_bytes()

    for length in range(len(data)):
        (tmp_path / NAME.path).write_bytes(data[:length])
        with pytest.raises(EpochFailedError):
            verify_slab(storage, reference)


def test_every_flip_of_head_and_end_is_noticed(storage, tmp_path):
    """Header, footer and trailer are checked whole."""
    reference = write_slab(storage, NAME, FRAMES[:1])
    data = (tmp_path / NAME.path).read_bytes()
    end = reference.frames[-1].position + reference.frames[-1].length

    for index in [*range(HEADER_SIZE), *range(end, len(data))]:
        damaged = bytearray(data)
        damaged[index] ^= 1 << (index % 8)
        (tmp_path / NAME.path).write_bytes(damaged)
        with pytest.raises(EpochFailedError):
            verify_slab(storage, reference)


def test_exchanged_files_are_noticed(storage, tmp_path):
    """Two slabs of equal shape cannot stand in for each other."""
    other = replace(NAME, token="f" * 32)
    first, second = write_slab(storage, NAME, FRAMES), write_slab(storage, other, FRAMES)
    os.rename(tmp_path / NAME.path, tmp_path / "aside")
    os.rename(tmp_path / other.path, tmp_path / NAME.path)
    os.rename(tmp_path / "aside", tmp_path / other.path)

    for reference in (first, second):
        with pytest.raises(EpochFailedError):
            verify_slab(storage, reference)
        with pytest.raises(CorruptionError, match="belongs to the slab"):
            read_frame(storage, extents_of(reference)[0])


@pytest.mark.parametrize("change", [{"size": 1}, {"checksum": 1}, {"frames": ()}])
def test_a_reference_must_be_that_of_the_file(storage, change):
    """What a task reports about its slab is held against the slab."""
    reference = write_slab(storage, NAME, FRAMES)

    with pytest.raises(EpochFailedError, match="not the one its writer reported"):
        verify_slab(storage, replace(reference, **change))


def test_a_missing_slab_is_named(storage):
    """A file that is gone is an error that says which rows are."""
    reference = write_slab(storage, NAME, FRAMES)
    storage.delete(reference.path)

    with pytest.raises(EpochFailedError, match="missing"):
        verify_slab(storage, reference)
    with pytest.raises(CorruptionError, match=f"{reference.path} with offset 0 of partition 0 of topic 1 is missing"):
        read_frame(storage, extents_of(reference)[0])


@pytest.mark.parametrize("number", [1, 2])
def test_a_failed_sync_goes_to_a_fresh_token(storage, monkeypatch, number):
    """After an error of fsync, of the file or of its folder, the same bytes are staged once more, under another name."""
    write_slab(storage, replace(NAME, token="0" * 32), FRAMES)
    sync, calls = os.fsync, []

    def fail_once(descriptor):
        calls.append(descriptor)
        if len(calls) == number:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)
    reference = write_slab(storage, NAME, FRAMES)

    assert reference.token != NAME.token and not storage.exists(NAME.path)
    verify_slab(storage, reference)
    assert [read_frame(storage, extent).num_rows for extent in extents_of(reference)] == [2, 1, 3]


def test_a_second_failure_is_raised():
    """A disk that keeps failing is reported, not tried for ever."""
    storage = FaultyStorage(MemoryStorage())
    storage.fault.arm("late", 1, lasts=True)

    with pytest.raises(OSError, match="Input/output"):
        write_slab(storage, NAME, FRAMES)
    assert len(storage.fault.calls) == 2


def test_a_full_disk_is_not_tried_again():
    """Without room there is one attempt, and nothing is left behind."""
    storage = FaultyStorage(MemoryStorage())
    storage.fault.arm("full", 1)

    with pytest.raises(StorageFullError):
        write_slab(storage, NAME, FRAMES)
    assert (len(storage.fault.calls), storage.list("slabs")) == (1, ())
