"""
The frame: consecutive rows of one topic partition as checked bytes. docs/log-format.md has the format.

A frame is encoded in two steps, since the payload does not depend on its position: `encode` makes the payload,
`header` binds it to a slab and a position. `decode` gives rows out only after every check has passed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn, Protocol

import google_crc32c
import numpy as np
import pyarrow as pa

from streamkit.data_type import from_arrow
from streamkit.errors import ConfigError, CorruptionError, SchemaError
from streamkit.log.slab.dictionary import with_dictionaries
from streamkit.log.slab.extent import Extent
from streamkit.log.topic.evolution import is_wider, widened
from streamkit.log.values.validation import validate, validate_column
from streamkit.log.values.value_bytes import size_of
from streamkit.names import DELETED, HEADERS, OFFSET, TIMESTAMP
from streamkit.schema import Schema

MAGIC = b"SKF1"
VERSION = 1
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
_HEADER = struct.Struct("<4sHHIIIIQQQqq16sIQ32s")
_CHECKSUM = struct.Struct("<I")
_MESSAGE = struct.Struct("<II")  # of Arrow: a mark, and the length of what describes the message
_MARK = 0xFFFF_FFFF
_END_OF_STREAM = _MESSAGE.pack(_MARK, 0)
SCHEMAS_KEPT = 256


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
    """Rows of a topic partition, encoded, before they have a place; their `size` is that of `streamkit.log.values.value_bytes`."""

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

    @property
    def frame_length(self) -> int:
        """The length of the frame in bytes, header and padding included."""
        return padded(HEADER_SIZE + self.data.size)


@dataclass(frozen=True)
class FrameHeader:
    """What the header of a frame says; lengths, positions and the size of the rows in bytes (0 if it does not say), times in ms."""

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

    def pack(self) -> bytes:
        """The 128 bytes of the header."""
        body = _HEADER.pack(
            MAGIC, VERSION, COMPRESSIONS.index(self.compression), self.topic_id, self.partition, self.rows, self.ordinal,
            self.position, self.raw_length, self.stored_length, self.min_timestamp, self.max_timestamp, self.token, self.checksum, self.size,
            b"",
        )  # fmt: skip
        return body + _CHECKSUM.pack(google_crc32c.value(body))

    @classmethod
    def unpack(cls, data: bytes) -> FrameHeader:
        """The header behind 128 bytes; ValueError says what is wrong with them."""
        magic, version, flags, *fields = _HEADER.unpack(data[: _HEADER.size])
        if magic != MAGIC:
            raise ValueError(f"it begins with {magic!r} instead of {MAGIC!r}")
        if version != VERSION:
            raise ValueError(f"it has version {version}; this StreamKit reads version {VERSION}")
        if google_crc32c.value(data[: _HEADER.size]) != _CHECKSUM.unpack_from(data, _HEADER.size)[0]:
            raise ValueError("the checksum of its header does not match")
        if flags >= len(COMPRESSIONS):
            raise ValueError(f"it has the unknown flags {flags:#x}")
        return cls(COMPRESSIONS[flags], *fields[:-1])


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
        kind = _kind(field.type)
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
        payload.size,
    )  # fmt: skip


def decode(
    file: pa.Buffer, extent: Extent, columns: Sequence[str] | None = None, topic: RowShape | None = None
) -> pa.RecordBatch:
    """
    The rows of one frame, without a copy when it is not compressed.

    `columns` None means all that are stored; `_deleted` and `_headers` can always be asked for. With `topic`, rows written
    under an older version of its schema come in its types, null where they lack a column, and errors name it; columns of a
    newer version can be left alone, but a type that got wider since is a SchemaError. CorruptionError if any check fails.
    """
    return select(checked_rows(file, extent, columns, topic), columns, topic)


def checked_rows(
    file: pa.Buffer, extent: Extent, columns: Sequence[str] | None = None, topic: RowShape | None = None
) -> pa.RecordBatch:
    """The rows of one frame in the columns that are stored, of which `columns` are sound; `select` gives these. Else as `decode`."""
    frame = _FrameReader(file, extent, topic)
    return frame.checked(frame.batch(frame.payload(frame.header())), columns)


def select(batch: pa.RecordBatch, columns: Sequence[str] | None, topic: RowShape | None) -> pa.RecordBatch:
    """The columns of rows as they are stored, whichever frames they are of, in the types of the topic; see `decode`."""
    names = batch.schema.names if columns is None else columns
    arrays = [_column(batch, name, topic) for name in names]
    fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _column(batch: pa.RecordBatch, name: str, topic: RowShape | None) -> pa.Array:
    index, kind = batch.schema.get_field_index(name), _known_type(name, topic)
    if index >= 0:
        stored = batch.column(index)
        return stored if kind is None or kind == _kind(stored.type) else widened(stored, kind)
    if name == DELETED:
        return pa.repeat(False, batch.num_rows)
    if name == HEADERS:
        return pa.nulls(batch.num_rows, HEADERS_TYPE)
    if topic is not None and name in topic.schema:
        return pa.nulls(batch.num_rows, kind)
    raise ConfigError(f"there is no column {name!r}; the frame has {', '.join(batch.schema.names)}")


def _known_type(name: str, topic: RowShape | None) -> pa.DataType | None:
    """The type in which a column is handed out; None if the topic does not know it, as when a newer version has it."""
    known = None if topic is None else topic.schema.arrow_types.get(name)
    return known or LOG_TYPES.get(name)


@lru_cache(SCHEMAS_KEPT)
def _plain_schema(message: bytes) -> pa.Schema | None:
    """The schema of such a message of Arrow; None if it is not one with sound names under which a batch is one message."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(message))
        names = schema.names
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None
    is_plain = len(set(names)) == len(names) and TIMESTAMP in names
    return schema if is_plain and not any(pa.types.is_dictionary(kind) for kind in schema.types) else None


def _plain_batch(payload: pa.Buffer) -> pa.RecordBatch | None:
    """
    The batch of a stream that is a schema known by now and one batch; None if it has another form.

    Small frames of a topic have the same schema, and to make it again for each takes most of the time.
    """
    bytes_ = memoryview(payload).cast("B")  # of a buffer of Arrow they are signed, and equal to no bytes above 127
    mark, length = _MESSAGE.unpack_from(bytes_) if len(bytes_) >= _MESSAGE.size else (0, 0)
    start = _MESSAGE.size + length
    if mark != _MARK or start > len(bytes_) - len(_END_OF_STREAM) or bytes_[-len(_END_OF_STREAM) :] != _END_OF_STREAM:
        return None
    if (schema := _plain_schema(bytes(bytes_[:start]))) is None:
        return None
    rest = payload.slice(start, len(bytes_) - start - len(_END_OF_STREAM))
    try:
        message = pa.ipc.read_message(rest)
        _, length = _MESSAGE.unpack_from(bytes_, start)
        if message.type != "record batch" or _MESSAGE.size + length + message.body.size != rest.size:
            return None
        return pa.ipc.read_record_batch(message, schema)
    except (pa.ArrowException, OSError, struct.error):
        return None


def decode_as_stored(file: pa.Buffer, extent: Extent) -> pa.RecordBatch:
    """
    All columns of a frame, `_offset` too where it is stored, under the schema that is stored with them, metadata included.

    For who does not know its offsets: those of the extent are not looked at. CorruptionError if any other check fails.
    """
    frame = _FrameReader(file, extent, None)
    return frame.checked(frame.stored(frame.payload(frame.header())), None)


def read_header(file: pa.Buffer, extent: Extent) -> FrameHeader:
    """The header of a frame, checked; its payload is not looked at. CorruptionError if it is not the one that the extent speaks of."""
    return _FrameReader(file, extent, None).header()


def check(file: pa.Buffer, extent: Extent) -> None:
    """CorruptionError unless header, place and checksums of a frame are sound; its rows are not looked at."""
    frame = _FrameReader(file, extent, None)
    frame.payload(frame.header())


@dataclass(frozen=True)
class _FrameReader:
    """The checks of one frame, in the order of docs/log-format.md; each refuses by the frame's full address."""

    file: pa.Buffer
    extent: Extent
    topic: RowShape | None

    def header(self) -> FrameHeader:
        extent = self.extent
        if extent.position + max(extent.length, HEADER_SIZE) > self.file.size:
            self.refuse(f"it ends at byte {extent.position + extent.length}, the file at {self.file.size}")
        try:
            found = FrameHeader.unpack(self.file.slice(extent.position, HEADER_SIZE).to_pybytes())
        except ValueError as error:
            self.refuse(str(error))
        self._check_place(found)
        return found

    def _check_place(self, found: FrameHeader) -> None:
        extent = self.extent
        if found.token != extent.token:
            self.refuse(f"it belongs to the slab {found.token.hex()}")
        if found.position != extent.position:
            self.refuse(f"it was written at position {found.position}")
        stated = (found.topic_id, found.partition, found.rows, found.min_timestamp, found.max_timestamp)
        expected = (extent.topic_id, extent.partition, extent.rows, extent.min_timestamp, extent.max_timestamp)
        if stated != expected:
            self.refuse(f"it states (topic id, partition, rows, first and last time) {stated}, the catalog {expected}")

    def payload(self, found: FrameHeader) -> pa.Buffer:
        end = HEADER_SIZE + found.stored_length
        if padded(end) != self.extent.length or found.raw_length > PAYLOAD_BYTES_MAX:
            self.refuse(f"its header states {found.stored_length} bytes of payload, the catalog a frame of {self.extent.length}")
        if self.file.slice(self.extent.position + end, self.extent.length - end).to_pybytes().strip(b"\0"):
            self.refuse("the bytes after its payload are not zero")
        stored = self.file.slice(self.extent.position + HEADER_SIZE, found.stored_length)
        if google_crc32c.value(stored) != found.checksum:
            self.refuse("the checksum of its payload does not match")
        if found.compression != "none":
            return self._decompressed(stored, found)
        if found.raw_length != found.stored_length:
            self.refuse(f"its header states {found.raw_length} raw bytes in {found.stored_length} that are not compressed")
        return stored

    def _decompressed(self, stored: pa.Buffer, found: FrameHeader) -> pa.Buffer:
        if found.raw_length > RATIO_MAX * found.stored_length:
            self.refuse(
                f"it claims to hold {found.raw_length} bytes in {found.stored_length}; expected at most {RATIO_MAX} to one"
            )
        try:
            # One byte more than it may have shows that it has more; one call of `decompress` would hide that it has less.
            raw = pa.CompressedInputStream(pa.BufferReader(stored), found.compression).read_buffer(found.raw_length + 1)
        except (pa.ArrowException, OSError) as error:
            self.refuse(f"its payload cannot be decompressed: {error}")
        if raw.size != found.raw_length:
            self.refuse(f"its payload decompresses to other than the {found.raw_length} bytes that its header states")
        return raw

    def batch(self, payload: pa.Buffer) -> pa.RecordBatch:
        batch = self.stored(payload)
        self._check_schema(batch.schema)
        self._check_offsets(batch)
        return batch

    def stored(self, payload: pa.Buffer) -> pa.RecordBatch:
        if (plain := _plain_batch(payload)) is not None and plain.num_rows == self.extent.rows:
            self._check_times(plain)
            return plain
        try:
            with pa.ipc.open_stream(payload) as reader:
                batches = list(reader)
        except (pa.ArrowException, OSError) as error:
            self.refuse(f"its payload is no Arrow stream: {error}")
        if [batch.num_rows for batch in batches] != [self.extent.rows]:
            self.refuse(f"it holds batches of {[batch.num_rows for batch in batches]} rows instead of one of {self.extent.rows}")
        self._check_names(batches[0].schema)
        self._check_times(batches[0])
        return batches[0]

    def _check_times(self, batch: pa.RecordBatch) -> None:
        index = batch.schema.get_field_index(TIMESTAMP)
        kind, nulls = batch.schema.field(index).type, 0
        if kind == TIMESTAMP_TYPE:
            try:
                validate_column(times := batch.column(index))  # before that nothing counts nulls: Arrow would trust their bitmap
            except pa.ArrowException as error:
                self.refuse(f"its columns are not sound: {error}")
            nulls = times.null_count
        if kind != TIMESTAMP_TYPE or nulls:
            self.refuse(f"its event times are {kind}, {nulls} of them null; expected {TIMESTAMP_TYPE}, none null")

    def _check_offsets(self, batch: pa.RecordBatch) -> None:
        extent = self.extent
        if (OFFSET in batch.schema.names) == extent.is_dense:
            self.refuse(f"it {'has' if extent.is_dense else 'lacks'} a column {OFFSET}, with {extent.rows} rows for its offsets")
        if extent.is_dense:
            return
        offsets = self.checked(batch, [OFFSET])[OFFSET].to_numpy(zero_copy_only=False)
        is_ascending = offsets.dtype == np.int64 and bool((np.diff(offsets) > 0).all())
        if not is_ascending or offsets[0] < extent.base_offset or offsets[-1] >= extent.next_offset:
            self.refuse(f"its offsets are not ascending from {extent.base_offset} to before {extent.next_offset}")

    def _check_names(self, schema: pa.Schema) -> None:
        try:
            names = schema.names
        except UnicodeDecodeError as error:
            self.refuse(f"the name of a column is no text: {error}")
        if len(set(names)) < len(names) or TIMESTAMP not in names:
            self.refuse(f"it holds the columns {', '.join(names)}; expected each once, and {TIMESTAMP}")

    def _check_schema(self, schema: pa.Schema) -> None:
        if self.topic is None:
            return
        for field in schema:
            kind, expected = _kind(field.type), _known_type(field.name, self.topic)
            if expected is None or kind == expected or is_wider(expected, kind):
                continue
            if is_wider(kind, expected):
                assert self.topic is not None
                raise SchemaError(
                    f"topic {self.topic.name}: at offset {self.extent.base_offset} of partition {self.extent.partition} the column {field.name!r} is "
                    f"{from_arrow(kind)}, and here it is known as {self.topic.schema[field.name].type}: the rows were written under a newer version of "
                    "the schema; open the topic again, or restart the application"
                )
            self.refuse(f"it holds a column {field.name} of type {kind}; the topic has {self.topic.schema}")

    def checked(self, batch: pa.RecordBatch, columns: Sequence[str] | None) -> pa.RecordBatch:
        # Checksums say that the bytes are those that were written, not that a sound writer wrote them: whoever may write to
        # the folder of a log can make them fit. Arrow trusts lengths, offsets and indexes, and reads out of bounds where they
        # lie. So the columns that are used, and only they, are checked whole: 2 ns for a text of ASCII, 4 to 11 for
        # another, 0 for a number.
        used = batch if columns is None else batch.select([name for name in batch.schema.names if name in columns])
        try:
            validate(used)
        except pa.ArrowException as error:
            self.refuse(f"its columns are not sound: {error}")
        return batch

    def refuse(self, reason: str) -> NoReturn:
        extent = self.extent
        topic = self.topic.name if self.topic else f"with id {extent.topic_id}"
        message = (
            f"the frame of topic {topic}, partition {extent.partition}, offset {extent.base_offset}, "
            f"in {extent.path} at position {extent.position} is damaged: {reason}; restore the file from a copy"
        )
        if self.topic is None:
            raise CorruptionError(message)
        raise CorruptionError(message, topic, extent.partition, extent.base_offset, extent.next_offset)


def _kind(data_type: pa.DataType) -> pa.DataType:
    """The type of a column's values, whatever its layout."""
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type
