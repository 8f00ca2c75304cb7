"""Few records, written one by one: numpy would take longer for them, and a transaction each few milliseconds has no more."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from streamkit.connectors.kafka.record_batches.batch_header import HEADER, NO_TIMESTAMP
from streamkit.connectors.kafka.record_batches.header_columns import NO_HEADERS, header_bytes
from streamkit.connectors.kafka.record_batches.varints import varint
from streamkit.errors import RecordTooLargeError

FEW_ROWS, FEW_BYTES = 64, 1 << 16  # fewer of both are few
DELTAS_MIN = 2  # the bytes of the deltas of a batch's first record, which are 0


@dataclass(frozen=True)
class FewRecords:
    """As `_RecordColumns` of `encoded_batches.py`: what the records consist of but for their lengths and deltas, which depend on the batch."""

    times_ms: list[int]
    rests: list[bytes]

    @staticmethod
    def are_few(records: pa.RecordBatch) -> bool:
        """Whether records are so few that this is the way."""
        return bool(records.num_rows < FEW_ROWS and records.nbytes < FEW_BYTES)

    @classmethod
    def of(cls, records: pa.RecordBatch) -> FewRecords:
        names = records.schema.names
        count = records.num_rows
        times_ms = records.column("timestamp_ms").to_pylist() if "timestamp_ms" in names else [None] * count
        headers = [NO_HEADERS] * count
        if "headers" in names and records.column("headers").null_count < count:
            headers = header_bytes(records.column("headers")).to_pylist()
        columns = (records.column("key").to_pylist(), records.column("value").to_pylist(), headers)
        rests = [_with_length(key) + _with_length(value) + written for key, value, written in zip(*columns, strict=True)]
        return cls([NO_TIMESTAMP if time_ms is None else time_ms for time_ms in times_ms], rests)

    def check(self, record_bytes_max: int, first_row: int) -> None:
        """Refuse records that are too large even as the first of a batch."""
        sizes = [HEADER.size + _with_own_length(1 + DELTAS_MIN + len(rest)) for rest in self.rests]
        too_large = tuple(first_row + row for row, size in enumerate(sizes) if size > record_bytes_max)
        if too_large:
            raise record_too_large(too_large, sizes[too_large[0] - first_row], record_bytes_max)

    def edges(self, batch_bytes_max: int) -> list[int]:
        """The first row of each batch, and behind the last: as many rows a batch as fit; a record that has no room in any is alone."""
        edges, size = [0], HEADER.size
        for row in range(len(self.rests)):
            written = len(self._record(row, edges[-1]))
            if row > edges[-1] and size + written > batch_bytes_max:
                edges.append(row)
                size, written = HEADER.size, len(self._record(row, row))
            size += written
        return [*edges, len(self.rests)]

    def bodies(self, edges: list[int]) -> list[pa.Buffer]:
        """The records of each batch."""
        return [pa.py_buffer(b"".join(self._record(row, begin) for row in range(begin, end))) for begin, end in pairwise(edges)]

    def span_ms(self, begin: int, end: int) -> tuple[int, int]:
        """The time of the first of these records, and the greatest."""
        return self.times_ms[begin], max(self.times_ms[begin:end])

    def _record(self, row: int, begin: int) -> bytes:
        """A record of the batch that begins at row `begin`."""
        rest = b"\0" + varint(self.times_ms[row] - self.times_ms[begin]) + varint(row - begin) + self.rests[row]
        return varint(len(rest)) + rest


def record_too_large(rows: tuple[int, ...], size: int, record_bytes_max: int) -> RecordTooLargeError:
    """The error for rows that are too large; `size` is that of the first."""
    return RecordTooLargeError(
        f"row {rows[0]}: found a record of {size} bytes with the header of a batch; expected at most {record_bytes_max}", rows
    )


def _with_length(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def _with_own_length(size: int) -> int:
    return size + len(varint(size))
