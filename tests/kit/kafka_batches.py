"""Record batches of Kafka read and written by the letter of the protocol, a byte and a record at a time: what the product is held against."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass, replace

import google_crc32c
import pyarrow as pa
import zstandard

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
XERIAL_BLOCK_BYTES = 50


@dataclass(frozen=True)
class PlainRecord:
    """A record of a batch."""

    key: bytes | None = None
    value: bytes | None = None
    time_delta: int = 0
    offset_delta: int = 0
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    attributes: int = 0


@dataclass(frozen=True)
class PlainBatch:
    """A batch; its count and last offset are those of its records unless compaction took some."""

    records: tuple[PlainRecord, ...]
    base_offset: int = 0
    last_offset_delta: int | None = None
    base_time: int = 0
    max_time: int = 0
    is_append_time: bool = False
    is_transactional: bool = False
    is_control: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    leader_epoch: int = 0
    codec: int = NONE
    is_xerial: bool = False

    @property
    def behind(self):
        last = self.last_offset_delta
        return self.base_offset + 1 + (max(record.offset_delta for record in self.records) if last is None else last)


def control(producer_id, base_offset, *, is_abort):
    """The control batch that ends a transaction."""
    marker = PlainRecord(struct.pack(">hh", 0, 0 if is_abort else 1), struct.pack(">hi", 0, 0))
    return PlainBatch((marker,), base_offset, is_transactional=True, is_control=True, producer_id=producer_id, producer_epoch=0)


def varint(number):
    number = number << 1 if number >= 0 else (-number << 1) - 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes((*found, number))


def sized(value):
    return varint(-1) if value is None else varint(len(value)) + value


def record_bytes(record):
    body = struct.pack(">b", record.attributes) + varint(record.time_delta) + varint(record.offset_delta)
    body += sized(record.key) + sized(record.value) + varint(len(record.headers))
    body += b"".join(varint(len(name)) + name + sized(value) for name, value in record.headers)
    return varint(len(body)) + body


def compressed(codec, data, is_xerial):
    if codec == GZIP:
        return gzip.compress(data)
    if codec == SNAPPY and is_xerial:
        blocks = [data[at : at + XERIAL_BLOCK_BYTES] for at in range(0, len(data), XERIAL_BLOCK_BYTES)]
        small = [pa.Codec("snappy").compress(block, asbytes=True) for block in blocks]
        return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(block)) + block for block in small)
    if codec == ZSTD:
        return zstandard.ZstdCompressor().compress(data)
    return data if codec == NONE else pa.Codec(("", "", "snappy", "lz4")[codec]).compress(data, asbytes=True)


def batch_bytes(batch):
    body = compressed(batch.codec, b"".join(map(record_bytes, batch.records)), batch.is_xerial)
    attributes = batch.codec | batch.is_append_time << 3 | batch.is_transactional << 4 | batch.is_control << 5
    checked = struct.pack(
        ">hiqqqhii", attributes, batch.behind - batch.base_offset - 1, batch.base_time, batch.max_time,
        batch.producer_id, batch.producer_epoch, batch.base_sequence, len(batch.records),
    )  # fmt: skip
    return sealed(batch.base_offset, batch.leader_epoch, checked + body)


def sealed(base_offset, leader_epoch, checked, magic=2):
    """What is checked, with the part of the header before it."""
    length = 9 + len(checked)
    return struct.pack(">qiibI", base_offset, length, leader_epoch, magic, google_crc32c.value(bytes(checked))) + checked


def sealed_again(data):
    """Bytes of batches whose checksums are made right where a batch is still whole."""
    data, at = bytearray(data), 0
    while len(data) - at >= 61:
        (length,) = struct.unpack_from(">i", data, at + 8)
        if not 49 <= length <= len(data) - at - 12:
            break
        struct.pack_into(">I", data, at + 17, google_crc32c.value(bytes(data[at + 21 : at + 12 + length])))
        at += 12 + length
    return bytes(data)


def visible(batches, fetch_offset=0, aborted=None):
    """(key, value, time, offset, headers) of each record that a consumer is shown, by the rules; `aborted` as (producer, first offset)."""
    waiting, open_ = sorted(aborted or (), key=lambda found: found[1]), set()
    shown = []
    for batch in batches:
        while waiting and waiting[0][1] < batch.behind:
            open_.add(waiting.pop(0)[0])
        if batch.is_control:
            if batch.records and batch.records[0].key == b"\0\0\0\0":
                open_.discard(batch.producer_id)
            continue
        if aborted is not None and batch.is_transactional and batch.producer_id in open_:
            continue
        for record in batch.records:
            time = batch.max_time if batch.is_append_time else int64(batch.base_time + record.time_delta)
            headers = [{"key": name.decode(errors="replace"), "value": value} for name, value in record.headers]
            shown.append(
                (record.key, record.value, None if time < 0 else time, batch.base_offset + record.offset_delta, headers or None)
            )
    return [record for record in shown if record[3] >= fetch_offset]


def int64(number):
    """The number as 64 bits have it."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


class Cursor:
    """Bytes that are read one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        assert 0 <= count <= len(self.data) - self.at
        self.at += count
        return bytes(self.data[self.at - count : self.at])

    def varint(self):
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return (number >> 1) ^ -(number & 1)

    def sized(self):
        length = self.varint()
        return None if length < 0 else self.take(length)

    def record(self):
        stop = self.varint() + self.at
        (attributes,) = struct.unpack(">b", self.take(1))
        time_delta, offset_delta, key, value = self.varint(), self.varint(), self.sized(), self.sized()
        headers = tuple((self.take(self.varint()), self.sized()) for _ in range(self.varint()))
        assert self.at == stop
        return PlainRecord(key, value, time_delta, offset_delta, headers, attributes)


def batches_of(data):
    """The batches in these bytes, as `batch_bytes` was given them; the checksums are right."""
    found, cursor = [], Cursor(data)
    while cursor.at < len(data):
        base_offset, length, leader_epoch, magic, checksum = struct.unpack(">qiibI", cursor.take(21))
        checked = cursor.take(length - 9)
        assert magic == 2 and checksum == google_crc32c.value(checked)
        attributes, last, base_time, max_time, producer_id, producer_epoch, base_sequence, count = struct.unpack_from(
            ">hiqqqhii", checked
        )
        codec = attributes & 7
        body = checked[40:] if codec == NONE else decompressed(codec, checked[40:])
        records = Cursor(body)
        batch = PlainBatch(
            tuple(records.record() for _ in range(count)), base_offset, last, base_time, max_time,
            bool(attributes & 8), bool(attributes & 16), bool(attributes & 32), producer_id, producer_epoch, base_sequence, leader_epoch, codec,
        )  # fmt: skip
        assert records.at == len(body)
        found.append(batch)
    return found


def decompressed(codec, data):
    if codec == GZIP:
        return gzip.decompress(data)
    if codec == SNAPPY:
        return pa.Codec("snappy").decompress(data, decompressed_size=snappy_length(data), asbytes=True)
    if codec == ZSTD:
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return pa.CompressedInputStream(pa.BufferReader(data), "lz4").read()


def snappy_length(data):
    """The length that a block of snappy begins with, a varint without zigzag."""
    number = shift = 0
    for byte in data[:5]:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return number


def at_offset(data, base_offset):
    """The bytes of a batch at another offset, as a broker writes it down; the checksum does not count it."""
    return struct.pack(">q", base_offset) + data[8:]


def with_codec(batch, codec, is_xerial=False):
    return replace(batch, codec=codec, is_xerial=is_xerial)
