"""
Reading frames: rows come out only after every check has passed, in the order of docs/log-format.md.

A frame may be shared by several partitions: then its rows are checked as a whole, and each extent is given its part.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, NoReturn

import google_crc32c
import numpy as np
import pyarrow as pa

from streamkit.data_type import from_arrow
from streamkit.errors import ConfigError, CorruptionError, SchemaError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import (
    HEADER_SIZE,
    HEADERS_TYPE,
    LOG_TYPES,
    PAYLOAD_BYTES_MAX,
    RATIO_MAX,
    TIMESTAMP_TYPE,
    FrameHeader,
    RowShape,
    kind_of,
    padded,
)
from streamkit.log.slab.frame_directory import FramePart, directory_size, shares, unpack_directory
from streamkit.log.topic.evolution import is_wider, widened
from streamkit.log.values.validation import validate, validate_column
from streamkit.names import DELETED, HEADERS, OFFSET, TIMESTAMP, is_inline

SCHEMAS_KEPT = 256
SHARED_BYTES_KEPT = (
    16 << 20
)  # of inline slabs whose shared frames were read, and of these: each of their partitions is asked for by itself
_MESSAGE = struct.Struct("<II")  # of Arrow: a mark, and the length of what describes the message
_MARK = 0xFFFF_FFFF
_END_OF_STREAM = _MESSAGE.pack(_MARK, 0)


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
    if (shared := frame.shared()) is not None:
        return frame.part(shared)
    return frame.checked(frame.batch(frame.payload(frame.header())), columns)


def check_rows(rows: pa.RecordBatch, extent: Extent, columns: Sequence[str] | None, topic: RowShape | None) -> None:
    """CorruptionError or SchemaError unless of rows that `checked_rows` gave `columns` are sound, too, and all are as `topic` has them."""
    frame = _FrameReader(pa.py_buffer(b""), extent, topic)
    frame.check_schema(rows.schema)
    frame.checked(rows, columns)


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
        return stored if kind is None or kind == kind_of(stored.type) else widened(stored, kind)
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
    if (shared := frame.shared()) is not None:
        return frame.part(shared)
    return frame.checked(frame.stored(frame.payload(frame.header()), extent.rows), None)


def stated_size(file: pa.Buffer, extent: Extent) -> int:
    """The size of the rows of a frame as it says; 0 if it does not. CorruptionError if it is not the one that the extent speaks of."""
    frame = _FrameReader(file, extent, None)
    if (shared := frame.shared()) is not None:
        return frame.own_part(shared)[1].size
    return frame.header().size


def check(file: pa.Buffer, extents: Sequence[Extent]) -> None:
    """CorruptionError unless header, place and checksums of the frame of these extents are sound; its rows are not looked at."""
    frame = _FrameReader(file, extents[0], None)
    found = frame.header()
    payload = frame.payload(found)
    if found.parts:
        parts = frame.directory(payload, found)
        for extent in extents:
            _FrameReader(file, extent, None).own_part(_SharedFrame(file, found, parts, None))


def extents_at(file: pa.Buffer, path: str, position: int) -> list[Extent]:
    """
    What a frame at a position of a slab holds by its own word, as if offsets began at 0; ValueError if there is no header.

    A shared frame that is damaged counts as one of no partition: whoever reads it gets the error.
    """
    found = FrameHeader.unpack(file.slice(position, min(HEADER_SIZE, file.size - position)).to_pybytes())
    length = padded(HEADER_SIZE + found.stored_length)
    whole = Extent(
        found.topic_id,
        found.partition,
        0,
        found.rows,
        path,
        position,
        length,
        found.min_timestamp,
        found.max_timestamp,
        found.rows,
    )
    if not found.parts:
        return [whole]
    frame = _FrameReader(file, whole, None)
    try:
        parts = frame.directory(frame.payload(found), found).values()
    except CorruptionError:
        return [whole]
    return [
        whole._replace(
            partition=part.partition, next_offset=part.rows, length=length, min_timestamp=part.min_timestamp,
            max_timestamp=part.max_timestamp, rows=part.rows,
        )
        for _, part, length in parts
    ]  # fmt: skip


class _SharedFrame(NamedTuple):
    """A shared frame of a file: its header, by partition its first row, what the directory says and the length of an extent; its rows."""

    file: pa.Buffer
    header: FrameHeader
    parts: Mapping[int, tuple[int, FramePart, int]]
    rows: pa.RecordBatch | None

    @property
    def bytes(self) -> int:
        """About how many it holds in memory."""
        return int(self.file.size) + self.header.raw_length


class _SharedFrames:
    """
    The shared frames of inline slabs that were read last, by path and position.

    The bytes of an inline slab are values of this process, which nobody changes: what was checked once stays sound. The file is kept with
    the rows, so no other one can have its address.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], _SharedFrame] = OrderedDict()
        self._bytes = 0

    def get(self, file: pa.Buffer, extent: Extent) -> _SharedFrame | None:
        """The frame of an extent, if it was read from this very file."""
        found = self._kept.get((extent.path, extent.position))
        return found if found is not None and (found.file.address, found.file.size) == (file.address, file.size) else None

    def keep(self, extent: Extent, shared: _SharedFrame) -> None:
        """Keep a frame, all of whose rows were checked."""
        with self._lock:
            before = self._kept.pop((extent.path, extent.position), None)
            self._kept[extent.path, extent.position] = shared
            self._bytes += shared.bytes - (before.bytes if before else 0)
            while self._bytes > SHARED_BYTES_KEPT:
                self._bytes -= self._kept.popitem(last=False)[1].bytes


_SHARED_FRAMES = _SharedFrames()


@dataclass(frozen=True)
class _FrameReader:
    """The checks of one frame, in the order of docs/log-format.md; each refuses by the frame's full address."""

    file: pa.Buffer
    extent: Extent
    topic: RowShape | None

    def shared(self) -> _SharedFrame | None:
        """The shared frame that has the rows, checked as a whole; None if the frame is that of one partition."""
        is_kept = is_inline(self.extent.path)
        if is_kept and (known := _SHARED_FRAMES.get(self.file, self.extent)) is not None:
            return known
        found = self.header()
        if not found.parts:
            return None
        payload = self.payload(found)
        parts = self.directory(payload, found)
        rows = self.checked(self.stored(payload.slice(directory_size(found.parts)), found.rows), None)
        shared = _SharedFrame(self.file, found, parts, rows)
        if is_kept:
            _SHARED_FRAMES.keep(self.extent, shared)
        return shared

    def directory(self, payload: pa.Buffer, found: FrameHeader) -> dict[int, tuple[int, FramePart, int]]:
        """By partition: its first row, what the directory says of it, and the length of its extent."""
        try:
            size = min(directory_size(found.parts), payload.size)
            parts = unpack_directory(payload.slice(0, size).to_pybytes(), found.parts, found.rows)
        except ValueError as error:
            self.refuse(str(error))
        counts = [part.rows for part in parts]
        starts = np.cumsum([0, *counts[:-1]]).tolist()
        lengths = shares(counts, padded(HEADER_SIZE + found.stored_length))
        return {part.partition: (start, part, length) for start, part, length in zip(starts, parts, lengths, strict=True)}

    def own_part(self, shared: _SharedFrame) -> tuple[int, FramePart]:
        """The first of the extent's rows, and what the directory says of them: as much as the catalog does."""
        extent = self.extent
        start, part, length = shared.parts.get(extent.partition, (0, None, 0))
        stated = part and (shared.header.topic_id, part.partition, part.rows, part.min_timestamp, part.max_timestamp, length)
        expected = (extent.topic_id, extent.partition, extent.rows, extent.min_timestamp, extent.max_timestamp, extent.length)
        if part is None or stated != expected:
            self.refuse(
                f"its directory states (topic id, partition, rows, first and last time, bytes) {stated}, the catalog {expected}"
            )
        return start, part

    def part(self, shared: _SharedFrame) -> pa.RecordBatch:
        """The rows of the extent."""
        start, part = self.own_part(shared)
        assert shared.rows is not None
        batch = shared.rows.slice(start, part.rows)
        self.check_schema(batch.schema)
        self._check_offsets(batch)
        return batch

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
        if found.parts:  # what it says of each of them is in its payload
            return
        stated = (found.topic_id, found.partition, found.rows, found.min_timestamp, found.max_timestamp)
        expected = (extent.topic_id, extent.partition, extent.rows, extent.min_timestamp, extent.max_timestamp)
        if stated != expected:
            self.refuse(f"it states (topic id, partition, rows, first and last time) {stated}, the catalog {expected}")

    def payload(self, found: FrameHeader) -> pa.Buffer:
        end, room = HEADER_SIZE + found.stored_length, self.extent.length
        if found.parts:
            room = min(padded(end), self.file.size - self.extent.position)
        if padded(end) != room or found.raw_length > PAYLOAD_BYTES_MAX:
            self.refuse(f"its header states {found.stored_length} bytes of payload, the catalog a frame of {room}")
        if self.file.slice(self.extent.position + end, room - end).to_pybytes().strip(b"\0"):
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
        batch = self.stored(payload, self.extent.rows)
        self.check_schema(batch.schema)
        self._check_offsets(batch)
        return batch

    def stored(self, payload: pa.Buffer, rows: int) -> pa.RecordBatch:
        if (plain := _plain_batch(payload)) is not None and plain.num_rows == rows:
            self._check_times(plain)
            return plain
        try:
            with pa.ipc.open_stream(payload) as reader:
                batches = list(reader)
        except (pa.ArrowException, OSError) as error:
            self.refuse(f"its payload is no Arrow stream: {error}")
        if [batch.num_rows for batch in batches] != [rows]:
            self.refuse(f"it holds batches of {[batch.num_rows for batch in batches]} rows instead of one of {rows}")
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

    def check_schema(self, schema: pa.Schema) -> None:
        if self.topic is None:
            return
        for field in schema:
            kind, expected = kind_of(field.type), _known_type(field.name, self.topic)
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
