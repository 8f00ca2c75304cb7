"""
The payload: the rows for one task, as they are within a process, and as bytes in pieces between processes.

The bytes are one Arrow stream. Each of its bytes is copied through pipes and the JVM, so the buffers of many rows are compressed, and
their integers are made small before: a column has as few bytes a number as hold what is above its least; event times and the
numbers of a place are the steps from row to row. docs/decisions.md has what that costs and saves.

The stream is cut into pieces, since each is a row of Spark's.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from streamkit.errors import EpochFailedError
from streamkit.log.slab.dictionary import compacted
from streamkit.names import OFFSET, ORDER, TIMESTAMP

PIECE_BYTES = 1 << 20
HEADER = struct.Struct("<IIQ")  # the sender, the number of the piece, and the rows of the whole stream
COMPRESSED_BYTES_MIN = 16 << 10
PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
SMALL = b"small"  # in the schema: which columns were made small, and how
STEPPED = (TIMESTAMP, ORDER, OFFSET)  # these grow by small steps where rows are in canonical order
SMALLER = (np.uint8, np.uint16, np.uint32)
INDEX = pa.int32()  # of dictionaries


@dataclass(frozen=True)
class Small:
    """How a column of integers was made small: the type it had, what was taken from each number, and what is in front of the first step."""

    type: str
    least: int = 0
    before: int | None = None


@dataclass(frozen=True, eq=False)
class SentRows:
    """Rows for a task of the same process, and whose they are."""

    sender: int
    batch: pa.RecordBatch

    def pieces(self) -> Iterator[bytes]:
        """The rows for another process."""
        return pieces_of(self.batch, self.sender)


def sent_rows(batch: pa.RecordBatch, sender: int) -> SentRows:
    """The rows with what a payload has of them: columns without metadata, in dictionaries only what these rows use."""
    columns = [compacted(column) if pa.types.is_dictionary(column.type) else column for column in batch.columns]
    return SentRows(sender, pa.RecordBatch.from_arrays(columns, names=batch.schema.names))


def pieces_of(batch: pa.RecordBatch, sender: int) -> Iterator[bytes]:
    """The rows as pieces of one stream, which say whose they are and how they follow each other; none if there are no rows."""
    if not batch.num_rows:
        return
    stream = _stream_of(batch)
    for number, start in enumerate(range(0, stream.size, PIECE_BYTES)):
        yield HEADER.pack(sender, number, batch.num_rows) + memoryview(stream)[start : start + PIECE_BYTES]


def batches_of(payloads: Iterable[pa.Buffer | SentRows]) -> list[pa.RecordBatch]:
    """
    The rows of all payloads, in whatever order these come: a batch for each sender, in order of their numbers.

    EpochFailedError unless each has all the rows that were sent.
    """
    payloads = list(payloads)
    numbered = [(HEADER.unpack_from(piece), piece) for piece in payloads if not isinstance(piece, SentRows)]
    numbered.sort(key=lambda one: one[0])
    sent = [SentRows(sender, _batch_of(list(own))) for sender, own in groupby(numbered, key=lambda one: one[0][0])]
    sent += [rows for rows in payloads if isinstance(rows, SentRows)]
    return [rows.batch for rows in sorted(sent, key=lambda rows: rows.sender)]


def rows_in(payload: bytes | pa.Buffer | SentRows) -> int:
    """How many rows there are, in the stream if it begins with this piece; none if it is a later piece."""
    if isinstance(payload, SentRows):
        return int(payload.batch.num_rows)
    _, number, rows = HEADER.unpack_from(payload)
    return 0 if number else int(rows)


def _stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    is_large = batch.nbytes >= COMPRESSED_BYTES_MIN
    if is_large:
        batch = _made_small(batch)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=COMPRESSED if is_large else PLAIN) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _batch_of(numbered: Sequence[tuple[tuple[int, int, int], pa.Buffer]]) -> pa.RecordBatch:
    sender, _, rows = numbered[0][0]
    parts = [memoryview(piece)[HEADER.size :] for _, piece in numbered]
    batches = list(pa.ipc.open_stream(parts[0] if len(parts) == 1 else b"".join(parts)))
    found = [batch.num_rows for batch in batches]
    if found != [rows] or [number for (_, number, _), _ in numbered] != list(range(len(numbered))):
        raise EpochFailedError(
            f"sender {sender} sent {rows} rows in one batch, and batches of {found} rows arrived in {len(numbered)} pieces; "
            "run the epoch again"
        )
    return _as_it_was(batches[0])


def _made_small(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns: list[pa.Array] = []
    small: dict[str, Small] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            entries = len(column.dictionary)
            columns.append(_with_index(column, pa.uint8() if entries <= 1 << 8 else pa.uint16() if entries <= 1 << 16 else INDEX))
        elif pa.types.is_signed_integer(column.type) and not column.null_count:
            values, small[name] = _smaller(column, name in STEPPED)
            columns.append(values)
        else:
            columns.append(column)
    metadata = {SMALL: json.dumps({name: asdict(one) for name, one in small.items()})}
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names).replace_schema_metadata(metadata)


def _smaller(column: pa.Array, has_steps: bool) -> tuple[pa.Array, Small]:
    """
    The numbers in as few bytes each as hold what is above the least of them, and how they are made whole again.

    With steps, the numbers become the differences from row to row first: the first one is 0, and `before` is where they start.
    """
    values, before = column.to_numpy(), None
    if has_steps:
        before = int(values[0])
        values = np.diff(values, prepend=values[:1])  # a step beyond 64 bits comes round, there and back
    least, greatest = int(values.min()), int(values.max())
    for kind in SMALLER:  # the narrowest comes first; their difference is one of Python, which cannot overflow
        if np.dtype(kind).itemsize < values.dtype.itemsize and greatest - least <= np.iinfo(kind).max:
            return pa.array((values - least if least else values).astype(kind)), Small(str(column.type), least, before)
    return pa.array(values), Small(str(column.type), 0, before)


def _as_it_was(batch: pa.RecordBatch) -> pa.RecordBatch:
    small = json.loads((batch.schema.metadata or {}).get(SMALL, b"{}"))
    columns: list[pa.Array] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in small:
            columns.append(_restored(column, Small(**small[name])))
        elif pa.types.is_dictionary(column.type) and column.type.index_type != INDEX:
            columns.append(_with_index(column, INDEX))
        else:
            columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _restored(column: pa.Array, small: Small) -> pa.Array:
    """The inverse of `_smaller`: what was taken off is added in the column's own width, then the steps are summed up."""
    if small.before is None and not small.least:
        return column.cast(small.type)
    values = column.to_numpy().astype(small.type)
    values += small.least
    if small.before is not None:
        values[0] += small.before
        np.cumsum(values, out=values)
    return pa.array(values)


def _with_index(column: pa.DictionaryArray, data_type: pa.DataType) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(column.indices.cast(data_type), column.dictionary, safe=False)
