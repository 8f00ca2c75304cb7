"""Promises of the frame: its bytes, its checks, its rows."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.errors import ConfigError, CorruptionError, SchemaError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import (
    COMPRESSIONS,
    HEADER_SIZE,
    TIMESTAMP_TYPE,
    FrameHeader,
    encode,
    header,
    padding,
)
from streamkit.log.slab.frame_reader import decode
from streamkit.log.topic.topic import declare_topic
from streamkit.schema import Schema, SchemaColumn
from tests.kit.sampling import examples

TOKEN = "00112233445566778899aabbccddeeff"
PATH = f"slabs/p1/1/1-{TOKEN}.slab"
TIMES = pa.array([1_700_000_000_000, -5], pa.int64()).view(TIMESTAMP_TYPE)
BATCH = pa.record_batch({"user": ["ann", None], "amount": [1.5, 2.5], "_timestamp": TIMES})
TOPIC = declare_topic("payments", "user string, amount double", key="user").with_id(7)


def frame_of(batch, position=0, compression="none", topic_id=7, partition=3):
    """The bytes of a frame at a position, and the extent that names it."""
    payload = encode(topic_id, partition, batch, compression)
    head = header(payload, 0, position, bytes.fromhex(TOKEN)).pack()
    data = bytes(position) + head + payload.data.to_pybytes() + padding(payload.data.size)
    extent = Extent(
        topic_id,
        partition,
        10,
        10 + batch.num_rows,
        PATH,
        position,
        payload.frame_length,
        payload.min_timestamp,
        payload.max_timestamp,
        batch.num_rows,
    )
    return data, extent


def read(data, extent, columns=None, topic=None):
    return decode(pa.py_buffer(bytes(data)), extent, columns, topic)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_schema_is_made_once_for_many_frames(compression, monkeypatch):
    """A frame of one batch needs no stream of Arrow's, which would make the schema again: that takes most of the time of a small one."""
    data, extent = frame_of(BATCH, compression=compression)

    def refuse(*_):
        raise AssertionError("a stream was opened")

    monkeypatch.setattr(pa.ipc, "open_stream", refuse)
    assert read(data, extent).equals(BATCH)


def test_header_bytes_are_fixed():
    """The 128 bytes of a header are those of docs/log-format.md, for ever."""
    head = FrameHeader("zstd", 7, 3, 1000, 2, 4096, 123456, 65432, -1, 1_700_000_000_000, bytes.fromhex(TOKEN), 0xDEADBEEF)

    assert head.pack().hex() == (
        "534b4631" "0100" "0200" "07000000" "03000000" "e8030000" "02000000" "0010000000000000" "40e2010000000000"
        "98ff000000000000" "ffffffffffffffff" "0068e5cf8b010000" "00112233445566778899aabbccddeeff" "efbeadde"
        + "00" * 40 + "6244af5c"
    )  # fmt: skip
    assert FrameHeader.unpack(head.pack()) == head


def test_frames_fill_whole_lines():
    """A frame is a multiple of 64 bytes long, its payload stands 128 bytes behind its start."""
    data, extent = frame_of(BATCH)

    assert len(data) == extent.length and extent.length % 64 == 0
    assert data[HEADER_SIZE : HEADER_SIZE + 4] == b"\xff\xff\xff\xff"  # how an Arrow stream begins


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_rows_come_back(compression):
    """What was encoded is decoded, under each compression."""
    data, extent = frame_of(BATCH, 64, compression)

    assert read(data, extent, topic=TOPIC).equals(BATCH)


def test_uncompressed_rows_are_not_copied():
    """Columns of a frame that is not compressed lie in the bytes of the file."""
    data, extent = frame_of(BATCH)
    file = pa.py_buffer(data)

    for column in decode(file, extent).columns:
        for buffer in filter(None, column.buffers()):
            assert file.address <= buffer.address < file.address + file.size


def test_columns_are_chosen():
    """Only the columns asked for come back, in the order asked; those of the log are always there to ask for."""
    data, extent = frame_of(BATCH)

    batch = read(data, extent, ["_deleted", "amount", "_headers"])
    assert batch.schema.names == ["_deleted", "amount", "_headers"]
    assert batch.column(0).to_pylist() == [False, False] and batch.column(2).null_count == 2
    with pytest.raises(ConfigError, match="no column 'price'; the frame has user, amount, _timestamp"):
        read(data, extent, ["price"])


def test_a_column_that_came_later_is_null():
    """A frame older than a column of its topic reads as null there."""
    data, extent = frame_of(BATCH)
    wider = declare_topic("payments", "user string, amount double, note string", key="user")

    assert read(data, extent, ["note"], wider).to_pydict() == {"note": [None, None]}


def test_dictionaries_are_kept():
    """A dictionary-encoded column stays one, and fits a topic by its values."""
    batch = BATCH.set_column(0, "user", BATCH.column("user").dictionary_encode())
    data, extent = frame_of(batch)

    assert read(data, extent, topic=TOPIC).equals(batch)


def test_a_cut_frame_is_refused():
    """A file that ends anywhere inside a frame gives no rows, only an error with the full address."""
    data, extent = frame_of(BATCH)

    for length in range(len(data)):
        with pytest.raises(CorruptionError, match=f"topic payments, partition 3, offset 10, in {PATH} at position 0"):
            read(data[:length], extent, topic=TOPIC)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_flipped_bit_is_refused(compression):
    """Each single bit of a frame counts: header, payload and the padding after a compressed one."""
    data, extent = frame_of(BATCH, 0, compression)
    assert compression == "none" or data.endswith(b"\0")

    for index in range(len(data)):
        damaged = bytearray(data)
        damaged[index] ^= 1 << (index % 8)
        with pytest.raises(CorruptionError):
            read(damaged, extent, topic=TOPIC)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("width", [1, 64, 512])
def test_zeroed_blocks_are_refused(compression, width):
    """Blocks that read as zero, as after a lost write, are found wherever they lie."""
    data, extent = frame_of(BATCH, 0, compression)

    for start in range(0, len(data), width):
        damaged = data[:start] + bytes(len(data[start : start + width])) + data[start + width :]
        if damaged != data:
            with pytest.raises(CorruptionError):
                read(damaged, extent)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"path": f"slabs/p1/1/1-{'f' * 32}.slab"}, "belongs to the slab"),
        ({"topic_id": 8}, "the catalog"),
        ({"partition": 2}, "the catalog"),
        ({"next_offset": 13, "rows": 3}, "the catalog"),
        ({"next_offset": 13}, "lacks a column _offset"),
        ({"min_timestamp": -6}, "the catalog"),
        ({"max_timestamp": 0}, "the catalog"),
        ({"length": 128}, "bytes of payload"),
        ({"length": 1 << 40}, "it ends at byte"),
    ],
)
def test_a_frame_of_another_place_is_refused(change, reason):
    """A sound frame is not taken for the one that the catalog means."""
    data, extent = frame_of(BATCH)

    with pytest.raises(CorruptionError, match=reason):
        read(data, extent._replace(**change))


def test_a_frame_at_another_position_is_refused():
    """A block that was written to the wrong position is found."""
    data, extent = frame_of(BATCH)

    with pytest.raises(CorruptionError, match="written at position 0"):
        read(bytes(64) + data, extent._replace(position=64))


def test_a_frame_of_another_schema_is_refused():
    """Columns that the topic has with a type that neither widens into the other are not handed out as its rows."""
    data, extent = frame_of(BATCH)

    with pytest.raises(CorruptionError, match="column amount of type double; the topic has user string, amount int"):
        read(data, extent, topic=declare_topic("payments", "user string, amount int"))
    with pytest.raises(CorruptionError, match="column user of type string; the topic has user binary"):
        read(data, extent, topic=declare_topic("payments", "user binary, amount double"))


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (BATCH.select(["user"]), "needs the column _timestamp"),
        (BATCH.set_column(2, "_timestamp", pa.array([1, 2])), "needs the column _timestamp"),
        (BATCH.slice(0, 0), "at least one row"),
        (BATCH.set_column(2, "_timestamp", pa.nulls(2, TIMESTAMP_TYPE)), "2 without"),
    ],
)
def test_rows_without_times_make_no_frame(batch, reason):
    """A frame needs rows, and an event time in each."""
    with pytest.raises(SchemaError, match=reason):
        encode(1, 0, batch)


VALUES = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(1 << 15), (1 << 15) - 1),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=12),
    "binary": st.binary(max_size=12),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(dt.timezone.utc)),
    "timestamp_ntz": st.datetimes(),
    "decimal(38,6)": st.decimals(-(10**20), 10**20, places=6).map(lambda value: value.quantize(decimal.Decimal("0.000001"))),
}


@st.composite
def batches(draw):
    """A schema of any types, and rows of it with nulls, sliced somewhere."""
    types = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5))
    rows = draw(st.integers(1, 20))
    schema = Schema(tuple(SchemaColumn(f"c{number}", name) for number, name in enumerate(types)))
    columns = [
        pa.array(draw(st.lists(st.none() | VALUES[column.type], min_size=rows, max_size=rows)), column.arrow.type)
        for column in schema
    ]
    times = pa.array(draw(st.lists(st.integers(-(1 << 60), 1 << 60), min_size=rows, max_size=rows)), pa.int64()).view(
        TIMESTAMP_TYPE
    )
    batch = pa.RecordBatch.from_arrays([*columns, times], names=[*schema.names, "_timestamp"])
    return schema, batch.slice(draw(st.integers(0, rows - 1)))


@examples(60, share=8)
@given(batches(), st.sampled_from(COMPRESSIONS), st.integers(0, 3))
def test_rows_of_every_type_come_back(case, compression, lines):
    """Any rows of any schema, sliced or not, null or not, are decoded as they were encoded, with their range of times."""
    schema, batch = case
    data, extent = frame_of(batch, 64 * lines, compression)

    found = read(data, extent, topic=declare_topic("t", schema))
    times = np.array(batch.column("_timestamp").view(pa.int64()))
    assert found.equals(batch)
    assert (extent.min_timestamp, extent.max_timestamp) == (times.min(), times.max())


def unchecked(offsets, content):
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32))]
    return pa.Array.from_buffers(pa.list_(content.type), len(offsets) - 1, buffers, children=[content])


TEXTS = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff")])


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (unchecked([0, 1, 2], TEXTS), "columns are not sound: .*UTF8"),
        (unchecked([0, 2, 1], pa.array(["a", "b"])), "columns are not sound"),
        (pa.array([[1], [2]]), "holds a column v of type list<item: int64>; the topic has v array<string>"),
        (
            pa.array([["a"], []]).cast(pa.list_(pa.dictionary(pa.int8(), pa.string()))),
            "holds a column v of type list<item: dictionary",
        ),
        (pa.array([{"a": 1}, None]), "holds a column v of type struct"),
    ],
    ids=["text", "offsets", "elements", "dictionary", "kind"],
)
def test_frames_with_other_nested_columns_are_refused(column, reason):
    """A frame whose checksums are right and whose nested columns are not is damage, not a crash."""
    batch = pa.RecordBatch.from_arrays([column, TIMES], names=["v", "_timestamp"])
    data, extent = frame_of(batch)
    with pytest.raises(CorruptionError, match=reason):
        read(data, extent, topic=declare_topic("t", "v array<string>").with_id(7))
