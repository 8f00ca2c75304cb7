"""What a fetch brought, as columns: the same records as by the letter of the protocol, and an error for bytes that are no batch."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.connectors.kafka.record_batches import compression, fetched_records, header_columns
from streamkit.connectors.kafka.record_batches.fetched_records import AbortedTransaction, decode
from streamkit.errors import RecordBatchError
from tests.kit.kafka_batches import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    PlainBatch,
    PlainRecord,
    at_offset,
    batch_bytes,
    compressed,
    control,
    record_bytes,
    sealed,
    sealed_again,
    varint,
    visible,
    with_codec,
)
from tests.kit.sampling import TAKES_ALL, examples

CODECS = [(NONE, False), (GZIP, False), (SNAPPY, False), (SNAPPY, True), (LZ4, False), (ZSTD, False)]
SHORT = st.binary(max_size=6)
HEADERS = st.lists(st.tuples(st.text(max_size=3).map(str.encode) | SHORT, st.none() | SHORT), max_size=4).map(tuple)


@st.composite
def batches(draw, most=9):
    """Batches as a log has them: gaps between and within, transactions of three producers, control batches, emptied ones."""
    found, offset = [], draw(st.integers(0, 300))
    for _ in range(draw(st.integers(0, most))):
        offset += draw(st.sampled_from([0, 0, 0, 3, 1 << 40]))
        producer = draw(st.sampled_from([-1, 7, 8, 9]))
        if producer > 0 and draw(st.booleans()):
            found.append(control(producer, offset, is_abort=draw(st.booleans())))
        else:
            deltas = draw(st.lists(st.integers(0, 200), max_size=8, unique=True).map(sorted))
            records = tuple(
                PlainRecord(
                    draw(st.none() | SHORT), draw(st.none() | SHORT | st.just(b"v" * 130)),
                    draw(st.sampled_from([0, 1, 64, -1, 1 << 50, -(1 << 33)])), delta, draw(st.just(()) | HEADERS), draw(st.integers(0, 1)),
                )
                for delta in deltas
            )  # fmt: skip
            codec, is_xerial = draw(st.sampled_from(CODECS))
            found.append(
                PlainBatch(
                    records, offset, max([*deltas, draw(st.integers(0, 210))]), draw(st.sampled_from([0, -1, 1_790_000_000_000])),
                    draw(st.integers(-1, 1 << 42)), draw(st.booleans()), producer > 0 and draw(st.booleans()), producer_id=producer,
                    codec=codec, is_xerial=is_xerial,
                )
            )  # fmt: skip
        offset = found[-1].behind
    return found


def rows_of(found):
    """The rows of a table, as `visible` gives them."""
    found.records.validate(full=True)
    assert found.records.schema == fetched_records.SCHEMA
    return [tuple(row.values()) for row in found.records.to_pylist()]


def many(count, records=3, **batch):
    """So many batches one after the other."""
    records = tuple(PlainRecord(b"k%d" % number, b"v" * number, number, number) for number in range(records))
    return [PlainBatch(records, number * len(records), **batch) for number in range(count)]


def data_of(batches):
    return b"".join(map(batch_bytes, batches))


@examples(1000, share=25)
@given(batches(), st.data())
def test_records_are_those_of_the_protocol(found, data):
    """Whatever a log has, each record that a consumer is to see is there once, from the offset on, at both isolation levels."""
    data_ = data_of(found)
    end = found[-1].behind if found else 0
    offset = data.draw(st.integers(0, end + 5) | st.sampled_from([0, *(batch.base_offset + 1 for batch in found)]))
    pairs = data.draw(st.none() | st.lists(st.tuples(st.sampled_from([7, 8, 9]), st.integers(0, end))))
    aborted = None if pairs is None else [AbortedTransaction(*pair) for pair in pairs]
    in_step = data.draw(st.sampled_from([1, 3, 10**9]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetched_records, "IN_STEP_MIN", in_step)
        patch.setattr(header_columns, "IN_STEP_MIN", in_step)
        patch.setattr(fetched_records, "CHUNK_BYTES", data.draw(st.sampled_from([1, 300, 1 << 25])))
        result = decode(data_, offset, aborted)

    assert rows_of(result) == visible(found, offset, pairs)
    assert (result.next_offset, result.cut_bytes, result.is_old_format) == (max(end, offset), 0, False)


@pytest.mark.parametrize("in_step", [1, 10**9])
def test_a_tail_that_is_cut_is_left_for_the_next_fetch(in_step, monkeypatch):
    """Wherever the bytes end, whole batches are read, and the next fetch begins with the one that is cut."""
    monkeypatch.setattr(fetched_records, "IN_STEP_MIN", in_step)
    found = many(3)
    data = data_of(found)
    ends = [len(data_of(found[:count])) for count in range(4)]
    for size in range(len(data) + 1):
        whole = max(count for count in range(4) if ends[count] <= size)
        result = decode(data[:size])

        assert rows_of(result) == visible(found[:whole])
        assert (result.next_offset, result.cut_bytes) == (3 * whole, size - ends[whole])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 70_000, 300_000, 1 << 21])
def test_values_of_any_size(codec, size):
    """A value may be empty or as large as a batch, whatever compresses it."""
    value = random.Random(size).randbytes(size)
    batch = with_codec(PlainBatch((PlainRecord(None, value), PlainRecord(value, None, offset_delta=1))), *codec)

    assert rows_of(decode(batch_bytes(batch))) == visible([batch])


def test_transactions_of_several_producers():
    """What an aborted producer wrote is left out until its marker; others, and what it writes behind, are there."""
    batch = {producer: many(1, 2, producer_id=producer, is_transactional=True)[0] for producer in (7, 8)}
    found = [
        batch[7], replace(batch[8], base_offset=2), control(7, 4, is_abort=True), replace(batch[7], base_offset=5),
        control(8, 7, is_abort=False), control(7, 8, is_abort=False), replace(batch[8], base_offset=9), control(8, 11, is_abort=True),
    ]  # fmt: skip
    data = data_of(found)
    aborted = [AbortedTransaction(8, 9), AbortedTransaction(7, 0)]

    assert decode(data, 0, aborted).records["offset"].to_pylist() == [2, 3, 5, 6]
    assert decode(data, 0, None).records["offset"].to_pylist() == [0, 1, 2, 3, 5, 6, 9, 10]
    assert decode(data, 0, []).records["offset"].to_pylist() == [0, 1, 2, 3, 5, 6, 9, 10]
    assert decode(data, 0, aborted).next_offset == 12


def test_a_control_record_may_be_gone():
    """A control batch that compaction emptied ends nothing, and is passed over."""
    gone = replace(control(7, 3, is_abort=True), records=(), last_offset_delta=0)
    found = [*many(1, producer_id=7, is_transactional=True), gone, replace(many(1)[0], base_offset=4)]

    assert rows_of(decode(data_of(found), 0, [AbortedTransaction(7, 0)])) == visible(found[2:])


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_said_so(magic):
    """A batch of magic 0 or 1 is not read; what is before it is, and the next offset is its own."""
    old = struct.pack(">qiIb", 3, 14, 0, magic) + bytes(9)

    assert decode(old, 3).is_old_format
    found = decode(data_of(many(1)) + old)
    assert (found.records.num_rows, found.next_offset, found.is_old_format) == (3, 3, True)


BATCH = batch_bytes(PlainBatch((PlainRecord(b"k", b"value"),)))
CHECKED = BATCH[21:]


def with_body(body, count=1, codec=0, last=None):
    """A batch at offset 5 with these bytes for its records."""
    last = max(count - 1, 0) if last is None else last
    return sealed(5, 0, struct.pack(">hiqqqhii", codec, last, 0, 0, -1, -1, -1, count) + body)


def sized_record(body):
    return varint(len(body)) + body


UNSOUND = {
    "expected 0 to": with_body(b"", -1),
    "with 2147483647 records": with_body(b"\x0e\0\0\0\1\1\0", 2**31 - 1, last=0),
    "fewer bytes than so many records have": with_body(b"\x0e\0\0\0\1\1\0", 2**31 - 1),
    "whose last record is -5 behind": with_body(b"", 0, last=-5),
    "do not fill the 8 bytes|its records do not fill": with_body(b"\x0c\0\0\0\1\1\0\0"),
    "do not fill the 16|reaches beyond its batch": with_body(b"\xfe\xff\xff\xff\x0f\0\0\0\1\1\0" + b"\0" * 5),
    "a length below 0|reaches beyond its batch": with_body(b"\x01" * 9),
    "more than 5 bytes": with_body(b"\xff" * 12),
    "a length below -1": with_body(sized_record(b"\0\0\0\x03\1\0\0\0\0")),
    "a length below -1, or beyond": with_body(sized_record(b"\0\0\0\x80\x01\1\0\0")),
    "begins behind the end of its record": with_body(sized_record(b"\0\0\0\x06abc")),
    "bytes behind the last header": with_body(sized_record(b"\0\0\0\1\1\0\0")),
    "an offset behind the last": with_body(sized_record(b"\0\0\x08\1\1\0")),
    "a count of headers below 0": with_body(sized_record(b"\0\0\0\1\1\x01")),
    "or beyond the end of its record": with_body(sized_record(b"\0\0\0\1\1\xfe\x01\0\0")),
    "whose name is null": with_body(sized_record(b"\0\0\0\1\1\x02\x01\0")),
    "headers that go on behind": with_body(sized_record(b"\0\0\0\1\1\x04\x02a\0\x08")),
    "by codec 5": with_body(b"\x0e\0\0\0\1\1\0", codec=5),
    "that are not gzip": with_body(b"\x0e\0\0\0\1\1\0", codec=GZIP),
    "that are not zstd": with_body(compressed(ZSTD, bytes(100), False)[:-2], codec=ZSTD),
    "that are not lz4": with_body(compressed(LZ4, bytes(100), False)[:-6], codec=LZ4),
    "no block shrinks so far": with_body(b"\xff\xff\xff\xff\x0f" + b"\0" * 9, codec=SNAPPY),
    "that has no length": with_body(b"\xff" * 14, codec=SNAPPY),
    "that are not snappy": with_body(b"\x20" + b"\xff" * 14, codec=SNAPPY),
    "a block of snappy of 4294967295 bytes": with_body(b"\x82SNAPPY\0" + bytes(8) + b"\xff\xff\xff\xff" + bytes(9), codec=SNAPPY),
    "the checksum": BATCH[:-1] + b"\1",
    "magic 3": sealed(5, 0, CHECKED, magic=3),
    "a batch of 48 bytes": struct.pack(">qiib", 5, 48, 0, 2) + bytes(60),
    "a batch of -1 bytes": struct.pack(">qiib", 5, -1, 0, 2) + bytes(60),
    "expected 0 or more": at_offset(BATCH, -4),
    "expected 0 to -1": at_offset(BATCH, (1 << 63) - 1),
}


@pytest.mark.parametrize("what", UNSOUND)
@pytest.mark.parametrize("in_step", [1, 10**9])
def test_bytes_that_are_no_batch(what, in_step, monkeypatch):
    """Each fault is an error that says what was found, and where; records before it come first."""
    monkeypatch.setattr(fetched_records, "IN_STEP_MIN", in_step)
    unsound = UNSOUND[what]
    with pytest.raises(RecordBatchError, match=what) as error:
        decode(unsound)
    assert error.value.offset == struct.unpack_from(">q", unsound)[0]

    found = decode(data_of(many(1)) + unsound)
    assert rows_of(found) == visible(many(1))
    assert found.next_offset in (3, 5)  # behind what was read, or at the batch
    with pytest.raises(RecordBatchError):
        decode(unsound, found.next_offset)


def test_a_batch_cannot_come_before_another():
    """Offsets ascend, whatever the bytes say, so that positions do."""
    data = data_of(many(2)) + batch_bytes(many(1)[0])

    assert decode(data).next_offset == 6
    with pytest.raises(RecordBatchError, match="begins at offset 0; expected 3"):
        decode(data_of(many(1)) + at_offset(data_of(many(1)), 0), 3)


def test_a_control_record_that_ends_early():
    """The marker of an aborted producer is read with care, too."""
    marker = replace(control(7, 5, is_abort=True), records=(PlainRecord(b"\0"),))

    assert decode(batch_bytes(marker), 0, None).next_offset == 6
    with pytest.raises(RecordBatchError, match="ends early"):
        decode(
            batch_bytes(replace(marker, records=(PlainRecord(None, None),), last_offset_delta=0)), 0, [AbortedTransaction(7, 0)]
        )


@pytest.mark.parametrize("codec", [GZIP, ZSTD, LZ4])
def test_a_few_bytes_take_no_more_memory_than_a_batch_may_have(codec, monkeypatch):
    """What decompresses to more than a batch may have is refused when so much has come."""
    monkeypatch.setattr(compression, "UNCOMPRESSED_BYTES_MAX", 1 << 20)
    before = pa.total_allocated_bytes()
    with pytest.raises(RecordBatchError, match="more than 1048576"):
        decode(with_body(compressed(codec, bytes(1 << 24), False), codec=codec))
    assert pa.total_allocated_bytes() - before < 1 << 20


def mutated(data, chance):
    """The bytes with some changed, added or taken away, and checksums that are right again, so that they get past them."""
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 8])):
        at = chance.randrange(len(data))
        kind = chance.random()
        if kind < 0.8:
            data[at] = chance.choice(
                [0, 1, 2, 126, 127, 128, 254, 255, chance.randrange(256), data[at] ^ 1 << chance.randrange(8)]
            )
        elif kind < 0.9:
            data[at:at] = chance.randbytes(chance.randrange(4))
        else:
            del data[at : at + chance.randrange(4)]
    return sealed_again(data[: chance.randrange(len(data))] if chance.random() < 0.05 else data)


def headed(number):
    return (("name", b"v" * number), ("", None), ("ä", b""))[: number % 4]


SEEDS = [
    data_of(many(1, 40)),
    data_of(many(80, 2)),
    data_of([control(7, 0, is_abort=True), replace(many(1, 5, producer_id=7, is_transactional=True)[0], base_offset=1)]),
    *(data_of([with_codec(batch, *codec) for batch in many(3, 20)]) for codec in CODECS),
    data_of([PlainBatch(tuple(PlainRecord(None, b"x", 0, n, tuple((k.encode(), v) for k, v in headed(n))) for n in range(60)))]),
]


@pytest.mark.parametrize("in_step", [1, 10**9])
def test_changed_bytes_break_nothing(in_step, monkeypatch):
    """Bytes that are damaged beneath their checksum give sound columns or an error, and nothing else."""
    monkeypatch.setattr(fetched_records, "IN_STEP_MIN", in_step)
    monkeypatch.setattr(header_columns, "IN_STEP_MIN", in_step)
    chance = random.Random()
    read = 0
    for _ in range(20_000 if TAKES_ALL else 150):
        data = mutated(chance.choice(SEEDS), chance)
        try:
            found = decode(data, chance.choice([0, 0, 3]), chance.choice([None, [AbortedTransaction(7, 0)]]))
        except RecordBatchError:
            continue
        found.records.validate(full=True)
        assert found.records.num_rows <= len(data) * 1000
        read += 1
    assert read


def test_records_are_counted_by_their_smallest_size():
    """The smallest record has as many bytes as the bound on counts takes for granted."""
    assert len(record_bytes(PlainRecord())) == fetched_records.RECORD_BYTES_MIN
