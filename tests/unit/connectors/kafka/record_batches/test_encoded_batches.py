"""Columns as record batches: by the letter of the protocol the same records, no batch too large, and codecs that Kafka's own clients read."""

from __future__ import annotations

import random
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.connectors.kafka.record_batches import encoded_batches, few_records
from streamkit.connectors.kafka.record_batches.batch_header import HEADER
from streamkit.connectors.kafka.record_batches.compression import CODECS
from streamkit.connectors.kafka.record_batches.encoded_batches import BatchEncoding, EncodedBatch, ProducerIdentity, encode
from streamkit.connectors.kafka.record_batches.fetched_records import SCHEMA, decode
from streamkit.errors import ConfigError, RecordTooLargeError, SchemaError
from tests.kit.kafka_batches import at_offset, batches_of, int64, visible
from tests.kit.sampling import examples

SMALL = st.none() | st.binary(max_size=5) | st.integers(60, 140).map(bytes)
TIMES = st.none() | st.integers(0, 1 << 45) | st.integers(1_790_000_000_000, 1_790_000_000_300) | st.just((1 << 63) - 1)
PAIRS = st.lists(st.fixed_dictionaries({"key": st.text(max_size=3), "value": SMALL}), max_size=3)
ROWS = st.lists(st.tuples(SMALL, SMALL, TIMES, st.none() | PAIRS), max_size=40)
WAYS = st.tuples(st.sampled_from([0, 64]), st.sampled_from([400, 1 << 26]))  # FEW_ROWS and CHUNK_BYTES
WANTED = SCHEMA.remove(SCHEMA.get_field_index("offset"))


def table_of(rows):
    return pa.Table.from_pylist([dict(zip(WANTED.names, row)) for row in rows], WANTED)


def values(count, size=50):
    """So many values that compress a little."""
    chance = random.Random(count)
    return pa.table(
        {
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array([chance.randbytes(size // 2) * 2 for _ in range(count)], pa.binary()),
        }
    )


def written(batches):
    """What a broker writes down: each batch behind the one before."""
    return b"".join(at_offset(batch.data, batch.first_row) for batch in batches)


@examples(600, share=20)
@given(
    ROWS, st.integers(300, 2000), st.sampled_from(CODECS), st.booleans(), st.integers(0, (1 << 31) - 1), st.integers(1, 40), WAYS
)
def test_records_are_those_of_the_rows(rows, batch_bytes_max, codec, is_transactional, sequence, chunk_rows, way):
    """Batches have the rows in their order, with their sequences, whatever is cut; no batch is larger than it may be."""
    table = table_of(rows)
    table = pa.concat_tables([table.slice(0, chunk_rows), table.slice(chunk_rows)])
    alone = [encode(table.slice(row, 1), BatchEncoding(1 << 20)) for row in range(len(rows))]
    too_large = [row for row, (batch,) in enumerate(alone) if len(batch.data) > batch_bytes_max]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(few_records, "FEW_ROWS", way[0])
        patch.setattr(encoded_batches, "CHUNK_BYTES", way[1])
        if too_large:
            with pytest.raises(RecordTooLargeError) as error:
                encode(table, BatchEncoding(batch_bytes_max, codec))
            found = error.value.rows
            assert found == tuple(too_large[: len(found)])
            return
        batches = encode(
            table, BatchEncoding(batch_bytes_max, codec), ProducerIdentity(12, 3, sequence), is_transactional=is_transactional
        )

    data = written(batches)
    plain = batches_of(data)
    expected = [(key, value, time, row, pairs or None) for row, (key, value, time, pairs) in enumerate(rows)]
    assert visible(plain) == expected == [tuple(row.values()) for row in decode(data).records.to_pylist()]
    assert all(len(batch.data) <= batch_bytes_max for batch in batches)
    assert [batch.record_count for batch in batches] == [len(batch.records) for batch in plain]
    for batch, found in zip(batches, plain, strict=True):
        times = [int64(record.time_delta + found.base_time) for record in found.records]
        assert (found.producer_id, found.producer_epoch, found.is_transactional) == (12, 3, is_transactional)
        assert found.base_sequence == (sequence + batch.first_row) % (1 << 31)
        assert found.max_time == max(times)
        assert [record.offset_delta for record in found.records] == list(range(batch.record_count))


@examples(100)
@given(ROWS.filter(bool), st.integers(0, (1 << 31) - 1))
def test_few_records_are_the_same(rows, sequence):
    """One by one they are written to the byte as they are together."""
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for few_rows in (0, 64):
            patch.setattr(few_records, "FEW_ROWS", few_rows)
            found.append(encode(table_of(rows), BatchEncoding(1 << 20), ProducerIdentity(12, 3, sequence)))
    assert found[0] == found[1]


def test_batches_are_as_full_as_they_can_be():
    """A batch takes records until the next would not fit, so that a topic has few of them."""
    batches = encode(values(5000), BatchEncoding(16_384))

    assert all(16_384 - 200 < len(batch.data) <= 16_384 for batch in batches[:-1])
    assert sum(batch.record_count for batch in batches) == 5000


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 1 << 20])
def test_values_of_any_size(codec, size):
    """A value may be as large as a batch, and may not compress at all: the batch is never larger for it."""
    value = random.Random(size).randbytes(size)
    table = pa.table({"key": pa.array([value[:7]], pa.binary()), "value": pa.array([value], pa.binary())})
    largest = len(encode(table, BatchEncoding(1 << 22))[0].data)
    (batch,) = encode(table, BatchEncoding(largest, codec))

    assert [record[:2] for record in visible(batches_of(batch.data))] == [(value[:7], value)]
    assert len(batch.data) <= largest
    with pytest.raises(RecordTooLargeError, match=f"row 0: found a record of {largest} bytes.*at most {largest - 1}"):
        encode(table, BatchEncoding(largest - 1, codec))


def test_the_row_that_is_too_large_is_named():
    """The first record that no batch can take is named by its row, also behind other chunks."""
    table = pa.concat_tables([values(300), values(1, 5000), values(300)])
    with pytest.raises(RecordTooLargeError, match="row 300: ") as error:
        encode(table, BatchEncoding(4000, "gzip"))

    assert error.value.rows == (300,)


def test_a_record_may_be_larger_than_a_batch():
    """Where that is said, it is alone in a batch; those that are larger than any record may be are all named."""
    small, large = values(300), values(1, 5000)
    table = pa.concat_tables([small, large, small, large])
    batches = encode(table, BatchEncoding(4000, record_bytes_max=6000))

    assert [batch.first_row for batch in batches if batch.record_count == 1] == [300, 601]
    assert all(len(batch.data) <= 4000 for batch in batches if batch.record_count > 1)
    assert [record[1] for record in visible(batches_of(written(batches)))] == table["value"].to_pylist()
    with pytest.raises(RecordTooLargeError) as error:
        encode(table, BatchEncoding(4000, record_bytes_max=5000))
    assert error.value.rows == (300, 601)


def test_rows_of_a_slice():
    """A part of an array is written as itself, though its memory has more."""
    table = table_of([(b"%d" % row, None, row, [{"key": "h", "value": b"%d" % row}] * (row % 3)) for row in range(50)])
    part = table.combine_chunks().to_batches()[0].slice(7, 20)

    (batch,) = encode(part, BatchEncoding(1 << 20))
    assert [record[0] for record in visible(batches_of(batch.data))] == [b"%d" % row for row in range(7, 27)]
    assert [len(record.headers) for record in batches_of(batch.data)[0].records] == [row % 3 for row in range(7, 27)]


def test_no_rows_are_no_batch():
    """Nothing is written of an empty table."""
    assert encode(WANTED.empty_table(), BatchEncoding(1000)) == []


def test_without_a_producer():
    """A producer that wants no part in idempotence writes -1 for all that is said of it."""
    (batch,) = encode(values(3), BatchEncoding(1000))

    assert isinstance(batch, EncodedBatch)
    assert HEADER.unpack_from(batch.data)[9:] == (-1, -1, -1, 3)
    assert struct.unpack_from(">q", batch.data, 27) == (-1,)


def test_a_header_without_a_name_is_refused():
    """Kafka has no header whose name is null; the row is named."""
    table = table_of([(None, b"v", None, None), (None, b"v", None, [{"key": None, "value": b"x"}])])
    with pytest.raises(SchemaError, match="row 1: found a header whose name is null"):
        encode(table, BatchEncoding(1000))


def test_blocks_of_lz4_do_not_depend_on_each_other():
    """A frame says that its blocks are independent, and they are: each is decompressed by itself."""
    (batch,) = encode(values(5000, 100), BatchEncoding(1 << 20, "lz4"))
    frame = batch.data[HEADER.size :]
    assert frame[:7] == bytes.fromhex("04224d18 60 40 82")
    body = encode(values(5000, 100), BatchEncoding(1 << 20))[0].data[HEADER.size :]
    at, blocks = 7, list[bytes]()
    while length := struct.unpack_from("<I", frame, at)[0]:
        block = frame[at + 4 : at + 4 + (length & 0x7FFFFFFF)]
        size = min(65_536, len(body) - sum(len(block) for block in blocks))
        blocks.append(block if length >> 31 else pa.Codec("lz4_raw").decompress(block, decompressed_size=size, asbytes=True))
        at += 4 + len(block)

    assert len(blocks) > 3
    assert b"".join(blocks) == body
    assert at + 4 == len(frame)


@pytest.mark.parametrize(
    ("codec", "level", "message"),
    [
        ("brotli", None, "expected one of none, gzip, snappy, lz4, zstd"),
        ("snappy", 3, "has no levels"),
        ("none", 3, "has no levels"),
        ("gzip", 10, "expected 1 to 9"),
    ],
)
def test_codecs_and_levels_that_do_not_exist(codec, level, message):
    """A codec that Kafka does not have, or a level that the codec does not, is refused before anything is written."""
    with pytest.raises(ConfigError, match=message):
        BatchEncoding(1000, codec, level)


@pytest.mark.parametrize(("codec", "most"), [("gzip", 9), ("lz4", 9), ("zstd", 19)])
def test_levels_make_a_difference(codec, most):
    """The level reaches the codec."""
    text = b"".join(b"%d %d," % (number, number * number % 977) for number in range(20_000))
    table = pa.table({"key": pa.nulls(1, pa.binary()), "value": pa.array([text], pa.binary())})
    low, high = (encode(table, BatchEncoding(1 << 22, codec, level))[0].data for level in (1, most))

    assert len(low) > len(high)
    assert decode(high).records["value"].to_pylist() == [text]


def test_times_far_from_each_other():
    """Deltas may take all 64 bits."""
    times = [0, (1 << 63) - 1, 5, (1 << 62)]
    table = pa.table(
        {"key": pa.nulls(4, pa.binary()), "value": pa.nulls(4, pa.binary()), "timestamp_ms": pa.array(times, pa.int64())}
    )
    data = written(encode(table, BatchEncoding(1000)))

    assert decode(data).records["timestamp_ms"].to_pylist() == times
    assert np.diff(decode(data).records["offset"].to_numpy()).tolist() == [1, 1, 1]
