"""Columns as record batches: the bytes of all records at once, cut into batches that a topic takes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.chunks import one_batch
from streamkit.connectors.kafka.record_batches.batch_header import (
    CHECKED_FROM,
    CHECKSUM_AT,
    HEADER,
    IS_TRANSACTIONAL,
    LENGTH_FROM,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
)
from streamkit.connectors.kafka.record_batches.byte_ranges import lengths_of
from streamkit.connectors.kafka.record_batches.compression import CODECS, check_codec, compress
from streamkit.connectors.kafka.record_batches.few_records import DELTAS_MIN, FewRecords, record_too_large
from streamkit.connectors.kafka.record_batches.header_columns import NO_HEADERS, header_bytes
from streamkit.connectors.kafka.record_batches.varints import LONG_BYTES_MAX, sizes_of, varint_array, zigzag

CHUNK_BYTES = 1 << 26  # of keys and values that are encoded at once
_ATTRIBUTES_BYTES = 1
_NOTHING = b""
SEQUENCES = 1 << 31  # the sequence behind the last is 0


@dataclass(frozen=True)
class ProducerIdentity:
    """Who writes, so that a broker can tell a batch that comes twice and a producer that was fenced; -1 is nobody."""

    producer_id: int = -1
    epoch: int = -1
    next_sequence: int = -1


@dataclass(frozen=True)
class EncodedBatch:
    """A record batch, ready to be sent; to be sent again as it is."""

    data: bytes
    first_row: int
    record_count: int


@dataclass(frozen=True)
class BatchEncoding:
    """
    How records become batches: at most so many bytes each, and the codec by Kafka's name, at its default level unless given.

    A record may have as many bytes as a batch, or `record_bytes_max`, both with a batch's header; if it has more than a batch
    may have, it is alone in its own.
    """

    batch_bytes_max: int
    codec: str = "none"
    level: int | None = None
    record_bytes_max: int | None = None

    def __post_init__(self) -> None:
        check_codec(self.codec, self.level)


def encode(
    records: pa.RecordBatch | pa.Table,
    encoding: BatchEncoding,
    producer: ProducerIdentity = ProducerIdentity(),
    *,
    is_transactional: bool = False,
) -> list[EncodedBatch]:
    """
    The rows of `records` as batches, in their order.

    The columns are `key`, `value`, `timestamp_ms` and `headers`, as `decode` gives them; the last two may be missing, and
    others are not looked at. The first batch has the producer's next sequence, and each further one goes on from there.
    Records that are larger than one may be, before they are compressed, are a RecordTooLargeError with their rows, as far as it
    looked; then nothing is encoded. So no batch is larger: one that the codec does not make smaller is left as it is.
    """
    batches: list[EncodedBatch] = []
    for first_row, chunk in _chunks(records):
        columns = FewRecords.of(chunk) if FewRecords.are_few(chunk) else _RecordColumns.of(chunk)
        columns.check(encoding.record_bytes_max or encoding.batch_bytes_max, first_row)
        edges = columns.edges(encoding.batch_bytes_max)
        for body, (begin, end) in zip(columns.bodies(edges), pairwise(edges)):
            first_ms, greatest_ms = columns.span_ms(begin, end)
            sequence = _behind(producer.next_sequence, first_row + begin)
            header = BatchHeader(
                base_offset=0, length=0, leader_epoch=-1, magic=MAGIC, checksum=0,
                attributes=IS_TRANSACTIONAL if is_transactional else 0, last_offset_delta=end - begin - 1,
                base_timestamp_ms=first_ms, max_timestamp_ms=greatest_ms,
                producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=sequence,
                record_count=end - begin,
            )  # fmt: skip
            batches.append(EncodedBatch(_sealed(header, body, encoding), first_row + begin, end - begin))
    return batches


def _chunks(records: pa.RecordBatch | pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows in parts that are encoded at once, each with the number of its first row."""
    first_row = 0
    table = records if isinstance(records, pa.Table) else pa.Table.from_batches([records])
    for batch in table.to_batches() if table.nbytes > CHUNK_BYTES else [one_batch(table)]:
        begin = 0
        if batch.nbytes > CHUNK_BYTES:
            sizes = np.cumsum(np.maximum(lengths_of(batch.column("key")), 0) + np.maximum(lengths_of(batch.column("value")), 0))
            for end in np.unique(np.searchsorted(sizes, np.arange(CHUNK_BYTES, sizes[-1], CHUNK_BYTES))).tolist():
                yield first_row + begin, batch.slice(begin, end - begin)
                begin = end
        if begin < batch.num_rows:
            yield first_row + begin, batch.slice(begin)
        first_row += batch.num_rows


@dataclass(frozen=True)
class _RecordColumns:
    """What the records of a part consist of, and how large each is but for the deltas, which depend on the batch it gets into."""

    keys: pa.Array
    values: pa.Array
    times_ms: Integers
    headers: pa.Array | None
    key_lengths: Integers
    value_lengths: Integers
    sizes: Integers

    @classmethod
    def of(cls, records: pa.RecordBatch) -> _RecordColumns:
        keys, values = records.column("key"), records.column("value")
        names = records.schema.names
        times_ms = np.full(len(keys), NO_TIMESTAMP, np.int64)
        if "timestamp_ms" in names:
            times_ms = pc.fill_null(records.column("timestamp_ms"), NO_TIMESTAMP).to_numpy()
        headers = records.column("headers") if "headers" in names else None
        written = header_bytes(headers) if headers is not None and headers.null_count < len(headers) else None
        key_lengths, value_lengths = lengths_of(keys), lengths_of(values)
        sizes = np.full(len(keys), len(NO_HEADERS)) if written is None else lengths_of(written)
        sizes += _ATTRIBUTES_BYTES
        for lengths in (key_lengths, value_lengths):
            sizes += sizes_of(zigzag(lengths)) + np.maximum(lengths, 0)
        return cls(keys, values, times_ms, written, key_lengths, value_lengths, sizes)

    def check(self, record_bytes_max: int, first_row: int) -> None:
        """Refuse records that are too large even as the first of a batch, where their deltas are 0."""
        alone = self.sizes + DELTAS_MIN
        alone += sizes_of(zigzag(alone)) + HEADER.size
        if alone.max() > record_bytes_max:
            too_large = np.flatnonzero(alone > record_bytes_max)
            raise record_too_large(tuple((first_row + too_large).tolist()), int(alone[too_large[0]]), record_bytes_max)

    def edges(self, batch_bytes_max: int) -> list[int]:
        """
        The first row of each batch, and behind the last: as many rows a batch as surely fit, with the largest deltas there are.

        A record that has no room in any batch is alone.
        """
        room = batch_bytes_max - HEADER.size
        rows = len(self.sizes)
        span_ms = int(self.times_ms.max()) - int(self.times_ms.min())
        most = self.sizes + _varint_bytes(span_ms) + _varint_bytes(rows)
        ends = np.cumsum(most + sizes_of(zigzag(most)))
        edges = [0]
        while edges[-1] < rows:
            begin = edges[-1]
            before = int(ends[begin - 1]) if begin else 0
            edges.append(max(int(np.searchsorted(ends, before + room, side="right")), begin + 1))
        return edges

    def bodies(self, edges: list[int]) -> list[pa.Buffer]:
        """The records of each batch. All are written at once, so a batch is a range of one buffer."""
        counts = np.diff(edges)
        deltas = np.arange(edges[-1]) - np.repeat(edges[:-1], counts)
        deltas_ms = self.times_ms - np.repeat(self.times_ms[edges[:-1]], counts)
        sizes = self.sizes + sizes_of(zigzag(deltas)) + sizes_of(zigzag(deltas_ms))
        parts = [
            varint_array(sizes, 0, deltas_ms, deltas, self.key_lengths),
            self.keys,
            varint_array(self.value_lengths),
            self.values,
        ]
        parts = [part for part in parts if part.null_count < len(part)]
        parts.append(NO_HEADERS if self.headers is None else self.headers)
        written = pc.binary_join_element_wise(*parts, _NOTHING, null_handling="replace", null_replacement=b"")
        positions = np.frombuffer(written.buffers()[1], np.int32)[edges].tolist()
        return [written.buffers()[2][begin:end] for begin, end in pairwise(positions)]

    def span_ms(self, begin: int, end: int) -> tuple[int, int]:
        """The time of the first of these records, and the greatest."""
        return int(self.times_ms[begin]), int(self.times_ms[begin:end].max())


def _varint_bytes(number: int) -> int:
    """At most so many bytes has a number of this size, whatever its sign."""
    return min(-(-(2 * number).bit_length() // 7), LONG_BYTES_MAX) or 1


def _behind(sequence: int, count: int) -> int:
    return sequence if sequence < 0 else (sequence + count) % SEQUENCES


def _sealed(header: BatchHeader, body: pa.Buffer, encoding: BatchEncoding) -> bytes:
    """The bytes of a batch: compressed if that makes it smaller, and checked last, when all else is in its place."""
    small = compress(encoding.codec, encoding.level, body)
    codec = 0
    if small.size < body.size:
        body, codec = small, CODECS.index(encoding.codec)
    length = HEADER.size - LENGTH_FROM + body.size
    begin = bytearray(HEADER.pack(*header._replace(length=length, attributes=header.attributes | codec)))
    checksum = google_crc32c.extend(google_crc32c.value(bytes(begin[CHECKED_FROM:])), body)
    struct.pack_into(">I", begin, CHECKSUM_AT, checksum)
    return b"".join((begin, body))
