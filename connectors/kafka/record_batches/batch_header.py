"""The header of a record batch: where its fields stand, and what its attributes mean."""

from __future__ import annotations

import struct
from typing import NamedTuple

from streamkit.errors import RecordBatchError

MAGIC = 2
CODEC_MASK, IS_APPEND_TIME, IS_TRANSACTIONAL, IS_CONTROL = 7, 8, 16, 32  # bits of the attributes
NO_TIMESTAMP = -1
OFFSET_MAX = (1 << 63) - 2  # so that the offset behind it is an int64, too
HEADER = struct.Struct(">qiibIhiqqqhii")
LENGTH_FROM = 12  # the length counts the bytes that follow it
MAGIC_AT = 16  # in all formats there ever were
CHECKSUM_AT = 17
CHECKED_FROM = 21
LENGTH_MIN = HEADER.size - LENGTH_FROM


class BatchHeader(NamedTuple):
    """The fields of a header, in their order; a tuple, since a fetch may have thousands."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    checksum: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


def check_header(header: BatchHeader, next_offset: int) -> None:
    """Refuse numbers that no batch has; `next_offset` is the one behind the batch before, or 0."""
    base, last = header.base_offset, header.last_offset_delta
    if base < next_offset:
        raise RecordBatchError(f"found a batch that begins at offset {base}; expected {next_offset} or more", offset=base)
    if last < 0 or base + last > OFFSET_MAX:
        raise RecordBatchError(
            f"found a batch at offset {base} whose last record is {last} behind; expected 0 to {OFFSET_MAX - base}", offset=base
        )
    if header.record_count < 0 or header.record_count > last + 1:
        raise RecordBatchError(
            f"found a batch at offset {base} with {header.record_count} records; expected 0 to {last + 1}, the offsets it has",
            offset=base,
        )
