"""The bytes of a fetch as columns: all headers first, then the lengths of all records, then all numbers at once."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa

from streamkit.arrays import Bytes, Integers
from streamkit.connectors.kafka.record_batches.batch_header import (
    CHECKED_FROM,
    CODEC_MASK,
    HEADER,
    IS_APPEND_TIME,
    IS_CONTROL,
    IS_TRANSACTIONAL,
    LENGTH_FROM,
    LENGTH_MIN,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    check_header,
)
from streamkit.connectors.kafka.record_batches.byte_ranges import ends_of, gathered
from streamkit.connectors.kafka.record_batches.compression import decompress
from streamkit.connectors.kafka.record_batches.header_columns import read_headers
from streamkit.connectors.kafka.record_batches.varints import LONG_BYTES_MAX, check, read_varint, read_varints
from streamkit.errors import RecordBatchError
from streamkit.log.slab.frame import HEADERS_TYPE

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp_ms", pa.int64()),
        ("offset", pa.int64()),
        ("headers", HEADERS_TYPE),
    ]
)
RECORD_BYTES_MIN = 7  # a byte for the length, the attributes, both deltas, the lengths of key and value, the count of headers
IN_STEP_MIN = 48  # batches that go a step together; of fewer, Python finds the records sooner than numpy
CHUNK_BYTES = 1 << 25  # decoded at once where records are compressed, so that little memory is taken besides the columns
_PREFIX = struct.Struct(">qi")
_ABORT = 0  # the type of the record that ends an aborted transaction


@dataclass(frozen=True)
class AbortedTransaction:
    """Records of this producer from the offset on are not committed, until its next control record that says so."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True)
class FetchedRecords:
    """What a fetch brought of one partition, and where the next one begins."""

    records: pa.Table
    """`key`, `value`, `timestamp_ms`, `offset`, `headers`; a time or headers that a record does not have are null."""

    next_offset: int
    """Behind all that was looked at, also behind gaps, control records, and batches that compaction emptied."""

    cut_bytes: int
    """The bytes at the end that are a part of a batch. A fetch that brings nothing else has to ask for more bytes."""

    is_old_format: bool
    """Whether the next batch is of magic 0 or 1, which is not read here."""


class _Batch(NamedTuple):
    header: BatchHeader
    begin: int  # its records, perhaps compressed
    end: int


@dataclass(frozen=True)
class _WantedBatches:
    """The batches whose records are wanted, and what comes behind them."""

    batches: list[_Batch]
    next_offset: int
    cut_bytes: int
    is_old_format: bool
    error: RecordBatchError | None


def decode(data: bytes | pa.Buffer, fetch_offset: int = 0, aborted: Sequence[AbortedTransaction] | None = None) -> FetchedRecords:
    """
    The records from `fetch_offset` on in what a fetch brought of one partition: whole batches, the last perhaps cut short.

    `aborted` is None to read what is not committed, too; else the transactions that the fetch's answer names. Control records
    are left out. Bytes that are no batch are a RecordBatchError with what was found, what was expected, and the batch's offset.
    Records before such a batch are returned first: the error is raised where there are none, as it will be for the next fetch.
    """
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    scan = _scan(buffer, fetch_offset, aborted)
    try:
        tables = [_decoded(*chunk, fetch_offset) for chunk in _chunks(buffer, scan.batches)]
    except RecordBatchError:
        tables, next_offset, error = _decoded_singly(buffer, scan.batches, fetch_offset)
        scan = _WantedBatches([], next_offset, 0, is_old_format=False, error=error)
    records = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    if scan.error is not None and not records.num_rows:
        raise scan.error
    return FetchedRecords(records, max(scan.next_offset, fetch_offset), scan.cut_bytes, scan.is_old_format)


def _scan(buffer: pa.Buffer, fetch_offset: int, aborted: Sequence[AbortedTransaction] | None) -> _WantedBatches:
    """Read all headers; stop at what is cut short, of an old format, or unsound."""
    batches: list[_Batch] = []
    transactions = _AbortedProducers(aborted) if aborted is not None else None
    view = memoryview(buffer).cast("B")
    at, behind, size = 0, 0, len(view)
    is_old_format, error = False, None
    while size - at > MAGIC_AT:
        base_offset, length = _PREFIX.unpack_from(view, at)
        if view[at + MAGIC_AT] < MAGIC:
            is_old_format = True
            break
        if length > size - at - LENGTH_FROM:
            break
        try:
            if length < LENGTH_MIN:
                raise RecordBatchError(f"found a batch of {length} bytes; expected {LENGTH_MIN} or more", offset=base_offset)
            batch = _Batch(BatchHeader._make(HEADER.unpack_from(view, at)), at + HEADER.size, at + LENGTH_FROM + length)
            _check(batch, buffer, at, behind)
            is_wanted = transactions is None or transactions.is_committed(batch, buffer)
        except RecordBatchError as found:
            error = found
            break
        header = batch.header
        behind = base_offset + header.last_offset_delta + 1
        if is_wanted and header.record_count and behind > fetch_offset and not header.attributes & IS_CONTROL:
            batches.append(batch)
        at = batch.end
    cut_bytes = 0 if is_old_format or error else size - at
    return _WantedBatches(batches, behind, cut_bytes, is_old_format, error)


def _check(batch: _Batch, buffer: pa.Buffer, at: int, behind: int) -> None:
    header = batch.header
    if header.magic != MAGIC:
        raise RecordBatchError(f"found a batch of magic {header.magic}; expected {MAGIC} or less", offset=header.base_offset)
    found = google_crc32c.value(buffer[at + CHECKED_FROM : batch.end])
    if found != header.checksum:
        raise RecordBatchError(
            f"found the checksum {header.checksum:08x} in the batch at offset {header.base_offset}; expected {found:08x}, that of its bytes",
            offset=header.base_offset,
        )
    check_header(header, behind)


class _AbortedProducers:
    """Which producers are in an aborted transaction, batch by batch."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._open: set[int] = set()

    def is_committed(self, batch: _Batch, buffer: pa.Buffer) -> bool:
        """Whether the batch is in no aborted transaction; a control record may end one."""
        header = batch.header
        last_offset = header.base_offset + header.last_offset_delta
        while self._waiting and self._waiting[-1].first_offset <= last_offset:
            self._open.add(self._waiting.pop().producer_id)
        if header.producer_id not in self._open:
            return True
        if not header.attributes & IS_CONTROL:
            return not header.attributes & IS_TRANSACTIONAL
        if header.record_count and _control_type(batch, buffer) == _ABORT:
            self._open.discard(header.producer_id)
        return True


def _control_type(batch: _Batch, buffer: pa.Buffer) -> int:
    """The type in the key of a control record, which follows a version there."""
    try:
        data = decompress(batch.header.attributes & CODEC_MASK, buffer[batch.begin : batch.end]).to_pybytes()
        at = read_varint(data, 0)[1] + 1
        for _ in range(2):  # the deltas
            _, at = read_varint(data, at)
        _, at = read_varint(data, at)
        return int(struct.unpack_from(">hh", data, at)[1])
    except (IndexError, struct.error):
        offset = batch.header.base_offset
        raise RecordBatchError(
            f"found a control record at offset {offset} that ends early; expected a version and a type in its key", offset=offset
        ) from None


def _chunks(buffer: pa.Buffer, batches: Sequence[_Batch]) -> Iterator[tuple[pa.Buffer, Integers, Integers, list[_Batch]]]:
    """Bytes with the records of some batches, where each begins and ends there, and the batches."""
    if not any(batch.header.attributes & CODEC_MASK for batch in batches):
        if batches:
            yield buffer, _integers(batch.begin for batch in batches), _integers(batch.end for batch in batches), [*batches]
        return
    pieces: list[pa.Buffer] = []
    taken: list[_Batch] = []
    size = 0
    for batch in batches:
        piece = decompress(batch.header.attributes & CODEC_MASK, buffer[batch.begin : batch.end])
        if pieces and size + piece.size > CHUNK_BYTES:
            yield _joined(pieces, taken)
            pieces, taken, size = [], [], 0
        pieces.append(piece)
        taken.append(batch)
        size += piece.size
    if taken:
        yield _joined(pieces, taken)


def _joined(pieces: list[pa.Buffer], batches: list[_Batch]) -> tuple[pa.Buffer, Integers, Integers, list[_Batch]]:
    ends = np.cumsum(_integers(piece.size for piece in pieces))
    body = pieces[0] if len(pieces) == 1 else pa.py_buffer(b"".join(pieces))
    return body, ends - _integers(piece.size for piece in pieces), ends, batches


def _integers(numbers: Iterable[int]) -> Integers:
    return np.fromiter(numbers, np.int64)


def _decoded_singly(
    buffer: pa.Buffer, batches: Sequence[_Batch], fetch_offset: int
) -> tuple[list[pa.Table], int, RecordBatchError]:
    """The records of the batches before the first that is unsound, its offset, and what is wrong with it."""
    tables: list[pa.Table] = []
    for batch in batches:
        try:
            tables += [_decoded(*chunk, fetch_offset) for chunk in _chunks(buffer, [batch])]
        except RecordBatchError as error:
            offset = batch.header.base_offset
            return tables, offset, RecordBatchError(f"{error}, of the batch at offset {offset}", offset=offset)
    raise AssertionError("batches that are sound one by one are so together")


def _decoded(body: pa.Buffer, begins: Integers, ends: Integers, batches: list[_Batch], fetch_offset: int) -> pa.Table:
    """The columns of batches whose records lie between these positions of `body`, in this order."""
    counts = _integers(batch.header.record_count for batch in batches)
    check(counts * RECORD_BYTES_MIN <= ends - begins, "fewer bytes than so many records have")
    data = np.frombuffer(body, np.uint8)
    starts, stops = _places(data, body, begins, ends, counts)

    # Each number begins where what is before it ends, and no number and no value reaches beyond its record's stop.
    deltas_ms, at = read_varints(data, starts + 1, stops, LONG_BYTES_MAX)
    deltas, at = read_varints(data, at, stops)
    key_lengths, key_begins = read_varints(data, at, stops)
    key_ends = ends_of(key_begins, key_lengths, stops)
    value_lengths, value_begins = read_varints(data, key_ends, stops)
    value_ends = ends_of(value_begins, value_lengths, stops)
    headers, at = read_headers(data, body, value_ends, stops)
    check(at == stops, "bytes behind the last header")

    offsets = deltas + _spread((batch.header.base_offset for batch in batches), counts)
    last_deltas = _spread((batch.header.last_offset_delta for batch in batches), counts)
    check((deltas >= 0) & (deltas <= last_deltas), "an offset behind the last of its batch")
    columns = [
        gathered(body, key_begins, key_ends, key_lengths < 0),
        gathered(body, value_begins, value_ends, value_lengths < 0),
        _times(deltas_ms, batches, counts),
        pa.array(offsets),
        headers,
    ]
    table = pa.Table.from_arrays(columns, schema=SCHEMA)
    return table.filter(pa.array(offsets >= fetch_offset)) if batches[0].header.base_offset < fetch_offset else table


def _spread(numbers: Iterable[int], counts: Integers) -> Integers:
    """A number of each batch for each of its records."""
    return np.repeat(_integers(numbers), counts)


def _times(deltas_ms: Integers, batches: list[_Batch], counts: Integers) -> pa.Array:
    """The time of each record: the broker's, one for the whole batch, or the producer's; null where there was none."""
    times_ms = deltas_ms + _spread((batch.header.base_timestamp_ms for batch in batches), counts)
    is_append_time = [bool(batch.header.attributes & IS_APPEND_TIME) for batch in batches]
    if any(is_append_time):
        appended_ms = _spread((batch.header.max_timestamp_ms for batch in batches), counts)
        times_ms = np.where(_spread(is_append_time, counts) > 0, appended_ms, times_ms)
    has_none = times_ms < 0
    return pa.array(times_ms, mask=has_none if has_none.any() else None)


def _places(data: Bytes, body: pa.Buffer, begins: Integers, ends: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Where each record begins, behind its length, and where it stops. Each batch is filled by its records."""
    if counts.sum() >= IN_STEP_MIN * counts.max():
        return _places_in_step(data, begins, ends, counts)
    found = _lengths_at(body.to_pybytes(), begins, ends, counts)
    stops = np.append(found[1:], 0)
    stops[np.cumsum(counts) - 1] = ends  # the last record of a batch stops where the batch does, the others where the next begins
    return read_varints(data, found, stops)[1], stops


def _lengths_at(data: bytes, begins: Integers, ends: Integers, counts: Integers) -> Integers:
    """Where the length of each record stands. Positions only grow, so a batch that ends where it should never left its bytes."""
    found = array("q")
    append = found.append
    for begin, end, count in zip(begins.tolist(), ends.tolist(), counts.tolist()):
        at = begin
        try:
            for _ in range(count):
                append(at)
                byte = data[at]
                if byte < 128:
                    length, at = byte, at + 1
                elif (second := data[at + 1]) < 128:
                    length, at = byte & 127 | second << 7, at + 2
                else:
                    length, at = read_varint(data, at)
                    length <<= 1  # as it is in the bytes, below 0 if the length is
                if length & 1 or length < 0:
                    raise RecordBatchError("found a record with a length below 0")
                at += length >> 1
        except IndexError:
            at = len(data) + 1
        if at != end:
            raise RecordBatchError(f"found {count} records that do not fill the {end - begin} bytes of their batch")
    return np.frombuffer(found, np.int64)


def _places_in_step(data: Bytes, begins: Integers, ends: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """
    The same, a record of each batch at a time.

    Batches with more records come first, so the ones that still have records are always the first so many.
    """
    order = np.argsort(-counts, kind="stable")
    at, limits, rows = begins[order], ends[order], (np.cumsum(counts) - counts)[order]
    starts, stops = np.empty(int(counts.sum()), np.int64), np.empty(int(counts.sum()), np.int64)
    going = np.searchsorted(-counts[order], -np.arange(counts.max()), side="left")  # batches with more records than this
    for step, left in enumerate(going.tolist()):
        lengths, begin = read_varints(data, at[:left], limits[:left])
        stop = begin + lengths
        check((lengths >= 0) & (stop <= limits[:left]), "a record that reaches beyond its batch")
        row = rows[:left] + step
        starts[row], stops[row] = begin, stop
        at[:left] = stop
    check(at == limits, "a batch that its records do not fill")
    return starts, stops
