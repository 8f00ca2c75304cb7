"""
Promises of frames whose checksums are right and whose content is not: a clear error, bounded memory, and no crash.

Under torture there are 50,000 of them.
"""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
from dataclasses import replace

import google_crc32c
import pyarrow as pa
import pytest

from streamkit.errors import CorruptionError
from streamkit.log.slab.frame import COMPRESSIONS, PAYLOAD_BYTES_MAX, TIMESTAMP_TYPE, encode
from streamkit.log.slab.frame_reader import decode, decode_as_stored
from streamkit.log.slab.slab import pack_header, read_reference
from streamkit.log.storage.storage import MemoryStorage
from streamkit.names import SlabName
from tests.harness.damage import hostile
from tests.harness.damage.children import ROOT, run
from tests.harness.damage.hostile import file_of, with_offsets
from tests.harness.damage.victim import TOPICS, rows_of

COUNT = 50_000 if os.environ.get("STREAMKIT_TORTURE") else 600


@pytest.mark.timeout(1_800)
def test_hostile_payloads_crash_nothing(record_property):
    """Whatever an Arrow stream claims, it is refused as damaged, or its rows can be used."""
    tally = run("tests.harness.damage.hostile", 0, COUNT)

    record_property("tried", {f"hostile payloads {verdict}": count for verdict, count in tally.counts.items()})
    assert (tally.signals, tally.failures) == ([], [])
    assert tally.attempts == COUNT
    assert tally.counts["refused"] > COUNT / 2 > tally.counts["used"] > COUNT / 20


@pytest.mark.parametrize("number", [15_540, 17_118])
def test_types_that_python_has_no_class_for_are_refused(number):
    """Of the payloads above, those whose event times are intervals of days: Arrow reads them, and its library for Python cannot."""
    payload = hostile.hostile_payload(number)
    raw = payload.data if payload.compression == "none" else pa.decompress(payload.data, payload.raw_length, payload.compression)
    with pa.ipc.open_stream(raw) as reader:
        assert "day_time_interval" in {str(kind) for kind in reader.schema.types}
    assert hostile.verdict(number) == "refused"


BUGS = {
    "columns are not checked": "from streamkit.log.slab import frame_reader\nframe_reader._FrameReader.checked = lambda reader, batch, columns: batch\n"
}


@pytest.mark.parametrize("bug", BUGS)
def test_an_unchecked_payload_is_caught(bug, monkeypatch, tmp_path):
    """Without the check of columns the same payloads end the process, so the attempts are those that matter."""
    (tmp_path / "sitecustomize.py").write_text(BUGS[bug])
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")

    child = subprocess.run(
        [sys.executable, "-m", "tests.harness.damage.hostile", "0", "2000"], cwd=ROOT, capture_output=True, check=False
    )
    assert child.returncode < 0


@pytest.mark.parametrize("topic_id", TOPICS)
@pytest.mark.parametrize("rows", [0, 1, 11, 13, (1 << 32) - 1])
def test_a_header_that_lies_about_rows(topic_id, rows):
    """The catalog says how many rows there are."""
    file, extent = file_of(payload_of(topic_id), rows=rows)

    with pytest.raises(CorruptionError, match=r"it states \(topic id, partition, rows"):
        decode(file, extent)


@pytest.mark.parametrize("length", [0, 1, 64, 1 << 20, (1 << 31) + 1, 1 << 62, (1 << 64) - 1])
@pytest.mark.parametrize("topic_id", TOPICS)
def test_a_header_that_lies_about_stored_bytes(topic_id, length):
    """A length that does not fit the frame is refused before it is used."""
    file, extent = file_of(payload_of(topic_id), stored_length=length)

    with pytest.raises(CorruptionError, match=r"bytes of payload|checksum of its payload|not zero|claims to hold"):
        decode(file, extent)


@pytest.mark.parametrize("change", [-1, 1, 1_000, -1_000])
@pytest.mark.parametrize("topic_id", TOPICS)
def test_a_header_that_lies_about_raw_bytes(topic_id, change):
    """What comes out of a decompression must be as long as it was said to be."""
    payload = payload_of(topic_id)
    file, extent = file_of(payload, raw_length=max(payload.raw_length + change, 1))

    with pytest.raises(CorruptionError, match=r"raw|decompress"):
        decode(file, extent)


@pytest.mark.parametrize("raw_length", [1 << 26, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX + 1, 1 << 62])
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_bomb_does_not_go_off(compression, raw_length):
    """A few bytes that claim or expand to gigabytes are refused, and no memory is taken for them."""
    bomb = pa.compress(bytes(1 << 26), codec=compression)
    payload = replace(payload_of(2), data=bomb, raw_length=raw_length, compression=compression)
    for data in (bomb, bomb.slice(0, 2_000)):
        file, extent = file_of(replace(payload, data=data, checksum=google_crc32c.value(data)))
        before = pa.total_allocated_bytes()
        with pytest.raises(CorruptionError, match=r"claims to hold|decompress|states|no Arrow stream"):
            decode(file, extent)
        assert pa.total_allocated_bytes() - before < 1 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1_500_000


def test_rows_that_shrink_more_than_is_believed_are_stored_so_that_they_are():
    """Rows that zstd makes a thousand times smaller are compressed by lz4, which cannot, and are read again."""
    rows = pa.record_batch({"v": pa.array([7] * 100_000, pa.int64()), "_timestamp": pa.repeat(hostile.times(1)[0], 100_000)})
    payload = encode(1, 0, rows, "zstd")
    file, extent = file_of(payload)

    assert payload.compression == "lz4" and payload.raw_length < 256 * payload.data.size
    assert decode(file, extent).equals(rows)


def twice(rows):
    return pa.RecordBatch.from_arrays([*rows.columns, rows.column(0)], names=[*rows.schema.names, "id"])


def deep(levels):
    """A column of lists in lists in lists."""
    array = pa.array([1] * 12)
    for _ in range(levels):
        array = pa.ListArray.from_arrays(pa.array(range(13), pa.int32()), array)
    return array


CHANGES = {
    "a column twice": (twice, "expected each once"),
    "no times": (lambda rows: rows.drop_columns(["_timestamp"]), "expected each once"),
    "another type": (lambda rows: rows.set_column(0, "id", pa.array(["x"] * 12)), "type string"),
    "offsets where there are no holes": (with_offsets, "it has a column _offset"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_columns_that_no_writer_makes_are_refused(change):
    """The columns of a frame are those of its topic and of the log, each once."""
    make, reason = CHANGES[change]
    rows = make(rows_of(1, 12, 1))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    file, extent = file_of(hostile.with_data(payload_of(1), sink.getvalue().to_pybytes(), "none"))

    with pytest.raises(CorruptionError, match=reason):
        decode(file, extent, topic=TOPICS[1].with_id(1))


@pytest.mark.parametrize("levels", [10, 60, 300])
def test_a_deep_type_harms_nothing(levels):
    """Lists in lists in lists: refused, or left alone like any column of a newer version."""
    rows = rows_of(1, 12, 1).append_column("deep", deep(levels))
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        try:
            writer.write_batch(rows)
        except pa.ArrowInvalid:
            assert levels > 60
            return
    file, extent = file_of(hostile.with_data(payload_of(1), sink.getvalue().to_pybytes(), "none"))

    try:
        assert decode(file, extent, ["id"], TOPICS[1].with_id(1)).num_rows == 12
    except CorruptionError as error:
        assert levels > 10 and "no Arrow stream" in str(error)


def test_an_extension_type_is_refused():
    """A type that Arrow would look up by name, and might run code for, is not the topic's."""
    rows = rows_of(1, 12, 1)
    field = pa.field("id", pa.int64(), metadata={"ARROW:extension:name": "arrow.opaque", "ARROW:extension:metadata": "{}"})
    file, extent = file_of(encode(1, 0, rows.cast(pa.schema([field, *list(rows.schema)[1:]]))))

    with pytest.raises(CorruptionError):
        decode(file, extent, topic=TOPICS[1].with_id(1))


@pytest.mark.parametrize("offsets", [[70] * 12, [*range(82, 70, -1)], [*range(12)], [*range(80, 92)], [None, *range(71, 82)]])
def test_offsets_that_no_compaction_leaves_are_refused(offsets):
    """Offsets beside holes ascend within the extent."""
    rows = rows_of(1, 12, 1).append_column("_offset", pa.array(offsets, pa.int64()))
    file, extent = file_of(encode(1, 0, rows), holes=3)

    with pytest.raises(CorruptionError, match="ascending"):
        decode(file, extent)


@pytest.mark.parametrize(
    "footer",
    [b"", b"{", b"[]", b"7", b"null", b'{"frames": 1}', b'{"frames": [1]}', b'{"frames": [[1, 2]]}', b"\xff\xff", b"[" * 100_000],
)
def test_footers_that_list_nothing_are_refused(footer):
    """A footer whose checksum is right and which no writer made is damage, whatever it is."""
    storage, name = MemoryStorage(), SlabName("p1", 1, 1, "4" * 32)
    trailer = struct.pack("<QIII4s", 64, len(footer), google_crc32c.value(footer), 0, b"SKS1")
    storage.create(name.path, [pack_header(bytes.fromhex(name.token)), footer, trailer])

    with pytest.raises(CorruptionError, match=f"the footer of {name.path} lists no frames"):
        read_reference(storage, name.path)


def payload_of(topic_id):
    return encode(topic_id, 0, rows_of(topic_id, 12, 1), COMPRESSIONS[topic_id - 1])


def stream_of(column):
    """The Arrow stream of a batch that has event times alone."""
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays([column], names=["_timestamp"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def times_of(*values):
    return pa.array(values, pa.int64()).view(TIMESTAMP_TYPE)


DICTIONARY = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int32()), times_of(None, 5))
TIMED = encode(1, 0, pa.RecordBatch.from_arrays([times_of(1, 2, 3)], names=["_timestamp"]))


@pytest.mark.parametrize("read", [decode, decode_as_stored])
@pytest.mark.parametrize("column", [times_of(1, None, 3), DICTIONARY, pa.array([1, 2, 3])], ids=["null", "dictionary", "bigint"])
def test_rows_without_an_event_time_are_refused(column, read):
    """Every row has an event time, and readers count on it: a frame in which one has none, or something else, is damaged."""
    file, extent = file_of(hostile.with_data(TIMED, stream_of(column), "none"))

    with pytest.raises(CorruptionError, match=r"event times are .*, \d of them null; expected timestamp"):
        read(file, extent)


@pytest.mark.parametrize("read", [decode, decode_as_stored])
def test_a_bitmap_that_is_too_short_is_not_counted(read):
    """A stream that claims two thousand million rows, and leaves it to the reader to count nulls in a bitmap of one byte."""
    rows = 2_000_000_000
    raw = stream_of(times_of(1, None, 3)).replace(struct.pack("<qq", 3, 1), struct.pack("<qq", rows, -1))
    raw = raw.replace(struct.pack("<q", 3), struct.pack("<q", rows))
    file, extent = file_of(replace(hostile.with_data(TIMED, raw, "none"), rows=rows))

    with pytest.raises(CorruptionError, match="too small"):
        read(file, extent)
