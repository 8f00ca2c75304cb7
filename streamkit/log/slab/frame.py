"""
The frame: consecutive rows of one topic partition as checked bytes. docs/log-format.md has the format.

A frame is encoded in two steps, since the payload does not depend on its position: `encode` makes the payload,
`header` binds it to a slab and a position. `frame_reader.decode` gives rows out only after every check has passed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import google_crc32c
import numpy as np
import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.log.slab.dictionary import with_dictionaries
from streamkit.log.slab.frame_directory import SHARED, FramePart, pack_directory, shares
from streamkit.log.slab.reference import FrameReference
from streamkit.log.topic.evolution import is_wider
from streamkit.log.values.value_bytes import size_of, sizes_between
from streamkit.names import DELETED, HEADERS, OFFSET, TIMESTAMP
from streamkit.schema import Schema

MAGIC = b"SKF1"
VERSION = 1
SHARED_VERSION = 2  # of a frame that several partitions share
HEADER_SIZE = 128
ALIGNMENT = 64
FRAME_ROWS_MAX = 131_072  # what writers put into a frame: a few MB, so that a slice of it is cheap to reach
PAYLOAD_BYTES_MAX = 1 << 31
RATIO_MAX = 1_000  # raw to stored bytes, so that a small file cannot claim much memory
COMPRESSIONS = ("none", "lz4", "zstd")

TIMESTAMP_TYPE = pa.timestamp("ms", tz="UTC")
HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
LOG_TYPES: dict[str, pa.DataType] = {TIMESTAMP: TIMESTAMP_TYPE, DELETED: pa.bool_(), HEADERS: HEADERS_TYPE, OFFSET: pa.int64()}

SIZED_BYTES_MIN = 1 << 20
WRITING = pa.ipc.IpcWriteOptions()  # without options Arrow asks the environment about formats of old, for every frame
_HEADER = struct.Struct("<4sHHIIIIQQQqq16sIQI28s")
_CHECKSUM = struct.Struct("<I")


class RowShape(Protocol):
    """The shape in which rows are read: a topic, or the input of a program."""

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> Schema: ...


@dataclass(frozen=True)
class TopicColumns:
    """The columns of a topic by its name, for who writes without the topic at hand."""

    name: str
    schema: Schema


@dataclass(frozen=True)
class Payload:
    """
    Rows of a topic partition, encoded, before they have a place; their `size` is that of `streamkit.log.values.value_bytes`.

    Or those of several partitions: then `parts` says which are whose, and the partition is `SHARED`.
    """

    topic_id: int
    partition: int
    rows: int
    compression: str
    raw_length: int
    data: pa.Buffer
    min_timestamp: int
    max_timestamp: int
    checksum: int
    size: int = 0
    parts: tuple[FramePart, ...] = ()

    @property
    def frame_length(self) -> int:
        """The length of the frame in bytes, header and padding included."""
        return padded(HEADER_SIZE + self.data.size)

    def references(self, position: int) -> list[FrameReference]:
        """What refers to the frame, once it lies at a position: one for each of its partitions."""
        if not self.parts:
            return [
                FrameReference(
                    self.topic_id, self.partition, position, self.frame_length, self.rows, self.min_timestamp, self.max_timestamp,
                    self.checksum,
                )
            ]  # fmt: skip
        lengths = shares([part.rows for part in self.parts], self.frame_length)
        return [
            FrameReference(
                self.topic_id, part.partition, position, length, part.rows, part.min_timestamp, part.max_timestamp, self.checksum
            )
            for part, length in zip(self.parts, lengths, strict=True)
        ]


@dataclass(frozen=True)
class FrameHeader:
    """
    What the header of a frame says; lengths, positions and the size of the rows in bytes (0 if it does not say), times in ms.

    A frame that several partitions share has so many `parts`; another one has none.
    """

    compression: str
    topic_id: int
    partition: int
    rows: int
    ordinal: int
    position: int
    raw_length: int
    stored_length: int
    min_timestamp: int
    max_timestamp: int
    token: bytes
    checksum: int
    size: int = 0
    parts: int = 0

    def pack(self) -> bytes:
        """The 128 bytes of the header."""
        body = _HEADER.pack(
            MAGIC, SHARED_VERSION if self.parts else VERSION, COMPRESSIONS.index(self.compression), self.topic_id, self.partition, self.rows, self.ordinal,
            self.position, self.raw_length, self.stored_length, self.min_timestamp, self.max_timestamp, self.token, self.checksum, self.size,
            self.parts, b"",
        )  # fmt: skip
        return body + _CHECKSUM.pack(google_crc32c.value(body))

    @classmethod
    def unpack(cls, data: bytes) -> FrameHeader:
        """The header behind 128 bytes; ValueError says what is wrong with them."""
        magic, version, flags, *fields = _HEADER.unpack(data[: _HEADER.size])
        if magic != MAGIC:
            raise ValueError(f"it begins with {magic!r} instead of {MAGIC!r}")
        if version not in (VERSION, SHARED_VERSION):
            raise ValueError(f"it has version {version}; this StreamKit reads versions {VERSION} and {SHARED_VERSION}")
        if google_crc32c.value(data[: _HEADER.size]) != _CHECKSUM.unpack_from(data, _HEADER.size)[0]:
            raise ValueError("the checksum of its header does not match")
        if flags >= len(COMPRESSIONS):
            raise ValueError(f"it has the unknown flags {flags:#x}")
        found = cls(COMPRESSIONS[flags], *fields[:-1])
        if (version == SHARED_VERSION) != (found.parts > 0) or (found.parts and found.partition != SHARED):
            raise ValueError(
                f"it has version {version}, partition {found.partition} and {found.parts} parts, which do not go together"
            )
        return found


def padded(length: int) -> int:
    """The length with the zeros that follow it."""
    return -(-length // ALIGNMENT) * ALIGNMENT


def padding(length: int) -> bytes:
    """The zeros that follow bytes of that length."""
    return bytes(padded(length) - length)


def check_columns(batch: pa.RecordBatch, topic: RowShape) -> None:
    """SchemaError unless each column has its type in the topic, or a narrower one, whatever made it: nobody could read it again."""
    for field in batch.schema:
        expected = topic.schema.arrow_types.get(field.name) or LOG_TYPES.get(field.name)
        kind = kind_of(field.type)
        if expected is None or kind == expected or is_wider(expected, kind):  # the second under an earlier version of the topic
            continue
        raise SchemaError(
            f"rows for the topic {topic.name} have a column {field.name} of Arrow's type {kind}; expected {expected}, since "
            f"the topic has {topic.schema}; nothing was written"
        )


def encode(topic_id: int, partition: int, batch: pa.RecordBatch, compression: str = "none") -> Payload:
    """
    Encode the rows of a batch as the payload of a frame.

    `batch` has the columns of the topic, then `_timestamp` (timestamp[ms, UTC], no nulls), then `_deleted` and `_headers`
    where a row needs them. SchemaError if it has no rows or no such column of times.
    """
    least, greatest = _timestamp_range(batch)
    batch = with_dictionaries(batch)
    raw = _stream_of(batch)
    compression, data = _compressed(raw, compression)
    if raw.size > PAYLOAD_BYTES_MAX:
        raise SchemaError(
            f"{batch.num_rows} rows take {raw.size} bytes; expected at most {PAYLOAD_BYTES_MAX} in one frame: send smaller batches"
        )
    return Payload(
        topic_id,
        partition,
        batch.num_rows,
        compression,
        raw.size,
        data,
        least,
        greatest,
        google_crc32c.value(data),
        size_of(batch),
    )


def encode_shared(
    topic_id: int, pieces: Sequence[tuple[int, pa.RecordBatch]], compression: str = "none", bytes_max: int = PAYLOAD_BYTES_MAX
) -> Payload | None:
    """
    Encode few rows of several partitions as the payload of one frame; the partitions ascend. None if they have too many bytes for it.

    All batches have the same columns, without dictionaries; else as in `encode`.
    """
    rows = pa.concat_batches([batch for _, batch in pieces])
    if rows.nbytes > bytes_max:
        return None
    least, greatest = _timestamp_range(rows)
    counts = [batch.num_rows for _, batch in pieces]
    borders = list(accumulate(counts, initial=0))
    times = rows[TIMESTAMP].view(pa.int64()).to_numpy()
    bounds = np.minimum.reduceat(times, borders[:-1]).tolist(), np.maximum.reduceat(times, borders[:-1]).tolist()
    sizes = sizes_between(rows, borders)
    parts = tuple(map(FramePart, (partition for partition, _ in pieces), counts, *bounds, sizes))
    sink = pa.BufferOutputStream()
    sink.write(pack_directory(parts))
    _write(rows, sink)
    raw = sink.getvalue()
    compression, data = _compressed(raw, compression)
    return Payload(
        topic_id,
        SHARED,
        rows.num_rows,
        compression,
        raw.size,
        data,
        least,
        greatest,
        google_crc32c.value(data),
        sum(sizes),
        parts,
    )


def _stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    """The rows as an Arrow stream; of many rows in a buffer of its very size, since one that grows is copied and keeps what it has too much."""
    if batch.nbytes < SIZED_BYTES_MIN:
        sink = pa.BufferOutputStream()
        _write(batch, sink)
        return sink.getvalue()
    counted = pa.MockOutputStream()
    _write(batch, counted)
    raw = pa.allocate_buffer(counted.size())
    with pa.FixedSizeBufferWriter(raw) as target:
        _write(batch, target)
    return raw


def _write(batch: pa.RecordBatch, target: pa.NativeFile) -> None:
    with pa.ipc.new_stream(target, batch.schema, options=WRITING) as writer:
        writer.write_batch(batch)


def _compressed(raw: pa.Buffer, compression: str) -> tuple[str, pa.Buffer]:
    """The bytes as they are stored, and the compression they have: lz4, which never exceeds 255, where zstd exceeds the ratio."""
    if compression == "none":
        return compression, raw
    data = _packed(raw, compression)
    return (compression, data) if raw.size <= RATIO_MAX * data.size else ("lz4", _packed(raw, "lz4"))


def _packed(raw: pa.Buffer, codec: str) -> pa.Buffer:
    return pa.py_buffer(pa.compress(raw, codec=codec, asbytes=True))  # a buffer would hold on to as much room as the raw bytes


def _timestamp_range(batch: pa.RecordBatch) -> tuple[int, int]:
    index = batch.schema.get_field_index(TIMESTAMP)
    if index < 0 or batch.schema.field(index).type != TIMESTAMP_TYPE:
        raise SchemaError(f"a frame needs the column {TIMESTAMP} of type {TIMESTAMP_TYPE}; found {batch.schema.names}")
    times = batch.column(index)
    if not len(times) or times.null_count:
        raise SchemaError(
            f"a frame needs at least one row and a time in each; found {len(times)} rows, {times.null_count} without"
        )
    milliseconds = times.view(pa.int64()).to_numpy()
    if len(milliseconds) == 1:
        return int(milliseconds[0]), int(milliseconds[0])
    return int(milliseconds.min()), int(milliseconds.max())


def header(payload: Payload, ordinal: int, position: int, token: bytes) -> FrameHeader:
    """The header that binds a payload to its place in a slab."""
    return FrameHeader(
        payload.compression, payload.topic_id, payload.partition, payload.rows, ordinal, position, payload.raw_length,
        payload.data.size, payload.min_timestamp, payload.max_timestamp, token, payload.checksum,
        payload.size, len(payload.parts),
    )  # fmt: skip


def kind_of(data_type: pa.DataType) -> pa.DataType:
    """The type of a column's values, whatever its layout."""
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type
