"""
The slab: immutable bytes that one attempt wrote, with frames for any number of topic partitions.

Layout: a 64-byte header, the frames, a footer that lists them, a 24-byte trailer that finds the footer. They are a file, whose reference
is handed out only when the file and its name are durable; or, where they are few, they travel with the reference into the catalog.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, groupby
from typing import TypeAlias

import google_crc32c
import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.chunks import one_batch
from streamkit.errors import CorruptionError, EpochFailedError, StorageFailedError, StorageFullError
from streamkit.failpoints import reach
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.frame import Payload, RowShape, check_columns, encode, encode_shared, header, padding
from streamkit.log.slab.frame_reader import check, checked_rows, select, stated_size
from streamkit.log.slab.reference import FrameReference, SlabReference, footer_bytes
from streamkit.log.storage.storage import FilePart, Storage
from streamkit.log.values.value_bytes import size_of
from streamkit.names import OFFSET, SlabName, fresh_token

RESTORE = "restore it from a backup, or run `streamkit storage repair` if the log has several storage roots"
MAGIC = b"SKS1"
VERSION = 1
HEADER_SIZE = 64
_HEADER = struct.Struct("<4sH2x16s36x")
_TRAILER = struct.Struct("<QIII4s")
_CHECKSUM = struct.Struct("<I")
TOGETHER_BYTES_MAX = 1 << 22
CheckedRows: TypeAlias = Callable[[Storage, Extent, Sequence[str] | None, RowShape | None], pa.RecordBatch]
FRAME_BYTES_MAX = 1 << 29  # of rows that are written as one frame: a reader takes a frame as a whole
SHARED_BYTES_MAX = 64 << 10  # of rows in a frame that several partitions share: who wants those of one reads all of it
SHARED_ROWS_MAX = 1_000
FrameInput = tuple[int, int, pa.RecordBatch]
RowShapes = Mapping[int, RowShape]  # by id


class SlabMissingError(CorruptionError):
    """A slab is not there: it was lost, or it left the manifest and has been deleted since."""


# The error of a reader whose slab has been deleted since: a root that fails cannot tell that it has no copy either.
GONE = (SlabMissingError, StorageFailedError)


def write_slab(
    storage: Storage,
    name: SlabName,
    frames: Iterable[FrameInput],
    compressions: Mapping[int, str] | None = None,
    topics: RowShapes | None = None,
    inline_bytes_max: int = 0,
) -> SlabReference:
    """
    Write frames of (topic id, partition, rows) to a new slab durably, and return its reference.

    Batches are as in `frame.encode`; those without rows are left out. By topic id: `topics` say which columns they have, so that another
    type is a SchemaError; only who makes slabs of no topic, such as a test, leaves them out. `compressions` gives none, lz4 or zstd by topic id.
    A slab of at most `inline_bytes_max` becomes no file: the reference has its bytes. If that is not 0, the commit is one of those that
    may be small, and few rows of several partitions share a frame.
    If an fsync or a write fails, the bytes go to a fresh token once, so the reference may name another token than `name`.
    StorageFullError if there is no room; nothing is left behind.
    """
    written = list(frames)
    shares = inline_bytes_max > 0
    return stage_slab(storage, name, lambda: payloads_of(written, compressions or {}, topics, shares=shares), inline_bytes_max)


def payloads_of(
    frames: Iterable[FrameInput], compressions: Mapping[int, str], topics: RowShapes | None = None, *, shares: bool = False
) -> Iterator[Payload]:
    """
    The frames that have rows, encoded one at a time, since they are as large as the rows again.

    What is too large for one frame becomes several. With `shares`, few rows of partitions that follow one another share a frame.
    """
    for together in _sharing(frames) if shares else ([frame] for frame in frames):
        if topics is not None:
            topic_id, _, batch = together[0]
            check_columns(batch, topics[topic_id])
        yield from _shared(together, compressions) or chain.from_iterable(_own(frame, compressions) for frame in together)


def _shared(together: Sequence[FrameInput], compressions: Mapping[int, str]) -> list[Payload]:
    """The frame that some share; empty if there is but one, or they have too many bytes for that."""
    topic_id = together[0][0]
    pieces = [(partition, rows) for _, partition, rows in together]
    found = encode_shared(topic_id, pieces, compressions.get(topic_id, "none"), SHARED_BYTES_MAX) if len(pieces) > 1 else None
    return [] if found is None else [found]


def _own(frame: FrameInput, compressions: Mapping[int, str]) -> Iterator[Payload]:
    """The frame, cut in halves until each part is small enough; a row that is larger alone stays whole."""
    topic_id, partition, batch = frame
    parts = [batch]
    while parts:
        part = parts.pop()
        if part.num_rows > 1 and part.nbytes > FRAME_BYTES_MAX:
            half = part.num_rows // 2
            parts += [part.slice(half), part.slice(0, half)]
        elif part.num_rows:
            yield encode(topic_id, partition, part, compressions.get(topic_id, "none"))


def _sharing(frames: Iterable[FrameInput]) -> Iterator[list[FrameInput]]:
    """
    The frames that have rows, in their order, those together that may share one.

    They are of one topic, their partitions ascend, they have the same columns without dictionaries, and few rows together. One that can
    share no frame comes at once: it may be large, and the next is made when it is asked for.
    """
    together: list[FrameInput] = []  # some wait here until it is known whether the next one shares their frame
    schema: pa.Schema | None = None  # of these
    rows = 0
    for frame in frames:
        topic_id, partition, batch = frame
        if not batch.num_rows:
            continue
        rows += batch.num_rows
        is_next = bool(together) and topic_id == together[-1][0] and partition > together[-1][1]
        if is_next and rows <= SHARED_ROWS_MAX and batch.schema.equals(schema):
            together.append(frame)
            continue
        if together:
            yield together
        together, rows, schema = [frame], batch.num_rows, batch.schema
        if rows >= SHARED_ROWS_MAX or any(map(pa.types.is_dictionary, schema.types)):
            yield together
            together = []
    if together:
        yield together


def stage_slab(
    storage: Storage, name: SlabName, payloads: Callable[[], Iterable[Payload]], inline_bytes_max: int = 0
) -> SlabReference:
    """
    Write encoded frames to a new slab durably, each as it comes, and return its reference; the rest as in `write_slab`.

    `payloads` gives them all, and gives them again if a write fails.
    """
    parts = _SlabParts(name, payloads)
    if inline_bytes_max and (slab := parts.inline(inline_bytes_max)) is not None:
        return slab
    try:
        return parts.written(storage)
    except StorageFullError:
        raise
    except OSError:
        # A file that saw an error cannot be trusted, even if a second fsync succeeds: the kernel may have dropped its pages.
        reach("slab.write_failed")
        return _SlabParts(replace(name, token=fresh_token()), payloads).written(storage)


def in_a_file(storage: Storage, slab: SlabReference) -> SlabReference:
    """The slab in a file, durably, if its bytes travel with the reference; else as it is. Errors are those of `Storage.create`."""
    if slab.data is None:
        return slab
    name = replace(slab.name, is_inline=False)
    storage.create(name.path, [slab.data])
    return replace(slab, path=name.path, data=None)


class _SlabParts:
    """The bytes of a slab in order, from the beginning whenever they are asked for; its frames and footer are those of the last time."""

    def __init__(self, name: SlabName, payloads: Callable[[], Iterable[Payload]]) -> None:
        self._name = name
        self._payloads = payloads
        self._frames: list[FrameReference] = []
        self._footer = b""
        self._begun: tuple[list[FilePart], Iterator[FilePart]] | None = None

    def __iter__(self) -> Iterator[FilePart]:
        begun, self._begun = self._begun, None
        if begun is None:
            yield from self._parts()
        else:  # what was made to find out how large the slab is
            yield from begun[0]
            yield from begun[1]

    def _parts(self) -> Iterator[FilePart]:
        token = bytes.fromhex(self._name.token)
        self._frames = []
        yield pack_header(token)
        position = HEADER_SIZE
        for ordinal, payload in enumerate(self._payloads()):
            yield header(payload, ordinal, position, token).pack()
            yield payload.data
            yield padding(payload.data.size)
            self._frames += payload.references(position)
            position += payload.frame_length
        self._footer = footer_bytes(self._name, tuple(self._frames))
        yield self._footer
        yield _trailer(position, self._footer)

    def inline(self, bytes_max: int) -> SlabReference | None:
        """The reference of the slab with its bytes; None if there are more than so many, and what was made of them waits for `written`."""
        held: list[FilePart] = []
        size, parts = 0, self._parts()
        for part in parts:
            held.append(part)
            size += len(part)
            if size > bytes_max:
                self._begun = held, parts
                return None
        return self._reference(replace(self._name, is_inline=True), size, b"".join(held))

    def written(self, storage: Storage) -> SlabReference:
        """The reference of the slab, once it is durable."""
        return self._reference(self._name, storage.create(self._name.path, self))

    def _reference(self, name: SlabName, size: int, data: bytes | None = None) -> SlabReference:
        checksum = google_crc32c.value(self._footer)
        return SlabReference(
            name.path, size, checksum, name.writer, name.generation, name.serial, name.token, tuple(self._frames), data
        )


def _trailer(position: int, footer: bytes) -> bytes:
    """The 24 bytes behind a footer that begins at that position."""
    return _TRAILER.pack(position, len(footer), google_crc32c.value(footer), 0, MAGIC)


def pack_header(token: bytes) -> bytes:
    """The 64 bytes at the head of a slab."""
    body = _HEADER.pack(MAGIC, VERSION, token)
    return body + _CHECKSUM.pack(google_crc32c.value(body))


def read_reference(storage: Storage, path: str) -> SlabReference:
    """The reference of a slab, from its own footer; CorruptionError if no copy of the file is there, whole and unchanged."""
    failure = None
    for file in storage.copies(path):
        try:
            return reference_in(file, path)
        except CorruptionError as error:
            failure = failure or error
    raise failure or SlabMissingError(f"the slab {path} is missing; {RESTORE}")


def reference_in(file: pa.Buffer, path: str) -> SlabReference:
    """The reference of the slab whose bytes these are, from its footer; CorruptionError if they were cut or changed."""
    name = SlabName.parse(path)
    if name is None:
        raise CorruptionError(f"{path} is not the path of a slab; expected slabs/WRITER/GENERATION/SERIAL-TOKEN.slab")
    head = pack_header(bytes.fromhex(name.token))
    if file.size < HEADER_SIZE + _TRAILER.size or file.slice(0, HEADER_SIZE).to_pybytes() != head:
        raise CorruptionError(f"the slab {path} does not begin with the header that its name demands; restore it from a copy")
    footer, checksum = _read_footer(file, path)
    frames = _frames_of(footer, path)
    if footer != footer_bytes(name, frames):
        raise CorruptionError(f"the footer of {path} names another writer, generation or serial; restore the slab from a copy")
    return SlabReference(path, file.size, checksum, name.writer, name.generation, name.serial, name.token, frames)


def check_slab(file: pa.Buffer, path: str) -> None:
    """CorruptionError unless every checksum in a slab is right: header, frames and footer."""
    _check_frames(file, path, reference_in(file, path).frames)


def _check_frames(file: pa.Buffer, path: str, frames: Sequence[FrameReference]) -> None:
    """CorruptionError unless the frames of a slab are what its footer says, by their headers and checksums."""
    for _, sharing in groupby(frames, lambda frame: frame.position):
        check(file, [frame.extent(path, 0, frame.rows) for frame in sharing])


def _frames_of(footer: bytes, path: str) -> tuple[FrameReference, ...]:
    try:
        return tuple(FrameReference.from_json(frame) for frame in json.loads(footer)["frames"])
    except (ValueError, LookupError, TypeError, RecursionError, EpochFailedError) as error:
        raise CorruptionError(f"the footer of {path} lists no frames: {error}; restore the slab from a copy") from error


def _read_footer(file: pa.Buffer, path: str) -> tuple[bytes, int]:
    position, length, checksum, zero, magic = _TRAILER.unpack(file.slice(file.size - _TRAILER.size).to_pybytes())
    if magic != MAGIC or zero or position + length + _TRAILER.size != file.size:
        raise CorruptionError(
            f"the slab {path} does not end with a trailer that fits its {file.size} bytes; restore it from a copy"
        )
    footer = file.slice(position, length).to_pybytes()
    if google_crc32c.value(footer) != checksum:
        raise CorruptionError(f"the checksum of the footer of {path} does not match; restore the slab from a copy")
    return footer, checksum


def verify_slab(storage: Storage, reference: SlabReference) -> None:
    """
    Check that the slab of a reference exists and ends in the footer that the reference states; else EpochFailedError.

    Of one that travels with its reference, every checksum is checked.
    """
    if reference.data is not None:
        _verify_inline(pa.py_buffer(reference.data), reference)
        return
    if any(_fits(file, reference) for file in storage.copies(reference.path)):
        return
    try:
        found = read_reference(storage, reference.path)
    except CorruptionError as error:
        raise EpochFailedError(f"a staged slab is not whole: {error}") from error
    if found != reference:
        raise EpochFailedError(f"the staged slab {reference.path} is not the one its writer reported; run the epoch again")


def _verify_inline(data: pa.Buffer, reference: SlabReference) -> None:
    if not _fits(data, reference):
        raise EpochFailedError(
            f"the bytes of the small slab {reference.path} are not what its writer reported; run the epoch again"
        )
    try:
        _check_frames(data, reference.path, reference.frames)  # which the footer lists, byte by byte
    except CorruptionError as error:
        raise EpochFailedError(f"the bytes of a small slab are not whole: {error}; run the epoch again") from error


def _fits(file: pa.Buffer, reference: SlabReference) -> bool:
    """Whether these bytes begin and end as a slab of that reference does."""
    if SlabName.parse(reference.path) != reference.name or file.size != reference.size:
        return False
    footer = footer_bytes(reference.name, reference.frames)
    position = file.size - len(footer) - _TRAILER.size
    return bool(
        position >= HEADER_SIZE
        and reference.checksum == google_crc32c.value(footer)
        and file.slice(position).to_pybytes() == footer + _trailer(position, footer)
        and file.slice(0, HEADER_SIZE).to_pybytes() == pack_header(bytes.fromhex(reference.token))
    )


def read_frame(
    storage: Storage, extent: Extent, columns: Sequence[str] | None = None, topic: RowShape | None = None
) -> pa.RecordBatch:
    """
    The rows of one frame, memory-mapped: without a copy when it is not compressed.

    `columns` and `topic` as in `frame.decode`. Where a copy is missing or damaged, the next one is read. SlabMissingError if
    there is no such file, CorruptionError if any check fails, SchemaError for rows in wider types than the topic has.
    """
    return select(checked_rows_of(storage, extent, columns, topic), columns, topic)


def checked_rows_of(storage: Storage, extent: Extent, columns: Sequence[str] | None, topic: RowShape | None) -> pa.RecordBatch:
    """The rows of one frame as `frame.checked_rows` gives them, of the first copy that is whole; errors as of `read_frame`."""
    failure = None
    for file in storage.copies(extent.path):
        try:
            return checked_rows(file, extent, columns, topic)
        except CorruptionError as error:
            failure = failure or error
    raise failure or _missing(extent, topic)


def read_together(
    storage: Storage,
    extents: Iterable[Extent],
    columns: Sequence[str] | None = None,
    topic: RowShape | None = None,
    bytes_max: int = TOGETHER_BYTES_MAX,
    rows_of: CheckedRows = checked_rows_of,
) -> Iterator[tuple[pa.RecordBatch, Integers]]:
    """
    All rows of frames whose offsets are dense, and the offset of each; see `read_frame`.

    Frames with the same columns that follow one another come as one batch, as long as they have `bytes_max` in memory together.
    `rows_of` gives a whole frame, as `checked_rows_of` does.
    """
    gathered: list[pa.RecordBatch] = []
    places: list[Integers] = []
    size = 0
    for extent in extents:
        rows = rows_of(storage, extent, columns, topic)
        more = rows.get_total_buffer_size()  # of a slice what it is a slice of: more than `nbytes` says, in a tenth of the time
        if gathered and (size + more > bytes_max or not rows.schema.equals(gathered[0].schema)):
            yield select(_joined(gathered), columns, topic), np.concatenate(places)
            gathered, places, size = [], [], 0
        gathered.append(rows)
        places.append(np.arange(extent.base_offset, extent.next_offset, dtype=np.int64))
        size += more
    if gathered:
        yield select(_joined(gathered), columns, topic), np.concatenate(places)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if any(map(pa.types.is_dictionary, batches[0].schema.types)):
        return one_batch(pa.Table.from_batches(batches))
    return pa.concat_batches(batches)  # which are too small together to be too long for a column


def read_size(storage: Storage, extent: Extent) -> int:
    """The size of the rows of a frame in bytes, as `streamkit.log.values.value_bytes` has it; errors as of `read_frame`."""
    for file in storage.copies(extent.path):
        with suppress(CorruptionError):  # of which another copy may be whole
            if size := stated_size(file, extent):
                return size
            break
    return size_of(read_frame(storage, extent))


def _missing(extent: Extent, topic: RowShape | None) -> SlabMissingError:
    message = (
        f"the file {extent.path} with offset {extent.base_offset} of partition {extent.partition} of topic "
        f"{topic.name if topic else extent.topic_id} is missing; {RESTORE}"
    )
    if topic is None:
        return SlabMissingError(message)
    return SlabMissingError(message, topic.name, extent.partition, extent.base_offset, extent.next_offset)


def read_rows(
    storage: Storage,
    extent: Extent,
    start: int,
    end: int,
    columns: Sequence[str] | None = None,
    topic: RowShape | None = None,
    rows_of: CheckedRows = checked_rows_of,
) -> tuple[pa.RecordBatch, Integers]:
    """
    The rows of one frame at the offsets from `start` to before `end`, and the offset of each; see `read_frame`.

    Offsets without a row, which compaction leaves, are passed over. `rows_of` gives the whole frame, as `checked_rows_of` does.
    """
    if extent.is_dense:
        first = min(max(start, extent.base_offset), extent.next_offset)
        following = max(min(end, extent.next_offset), first)
        batch = rows_of(storage, extent, columns, topic).slice(first - extent.base_offset, following - first)
        return select(batch, columns, topic), np.arange(first, following, dtype=np.int64)
    batch = rows_of(storage, extent, None if columns is None else [*columns, OFFSET], topic)
    offsets = batch[OFFSET].to_numpy()
    first, following = (int(row) for row in np.searchsorted(offsets, (start, end)))
    wanted = [name for name in (batch.schema.names if columns is None else columns) if name != OFFSET]
    return select(batch.slice(first, following - first), wanted, topic), offsets[first:following]
