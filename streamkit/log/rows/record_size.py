"""
How large records are, and the limit on it: `max.message.bytes`.

The size of a record is the sum of its values: fixed widths (boolean 1 byte), the bytes of strings and binaries, 8 bytes of
event time, names and values of headers. Kafka's limit is on a batch as sent, compressed; here it is on each record, uncompressed,
so that a record does not depend on its neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import RecordTooLargeError
from streamkit.log.topic.settings import MAX_MESSAGE_BYTES
from streamkit.log.topic.topic import Topic
from streamkit.log.values.columns import BYTES_TYPES, fixed_dtype
from streamkit.names import HEADERS
from streamkit.schema import Schema

TIMESTAMP_BYTES = 8
ROWS_NAMED = 10  # of those that are refused, in errors
Sizes = npt.NDArray[np.int64]


def fixed_bytes(schema: Schema) -> int:
    """What every record of a schema takes, whatever its strings are; its event time included."""
    dtypes = [fixed_dtype(column.type) for column in schema]
    return TIMESTAMP_BYTES + sum(dtype.itemsize for dtype in dtypes if dtype is not None)


def record_bytes(topic: Topic, batch: pa.RecordBatch) -> Sizes:
    """The size of each record of a batch in the types of its topic, in bytes."""
    sizes = np.full(batch.num_rows, fixed_bytes(topic.schema), np.int64)
    for column in topic.schema:
        if column.type in BYTES_TYPES:
            sizes += _lengths(batch.column(column.name))
    if HEADERS in batch.schema.names:
        sizes += _header_bytes(batch.column(HEADERS))
    return sizes


def check_record_sizes(topic: Topic, batch: pa.RecordBatch, first_row: int = 0) -> None:
    """RecordTooLargeError, which names the first record beyond the topic's limit, if there is one."""
    limit = topic.max_message_bytes
    if batch.nbytes <= limit:
        return  # then no single record is larger
    sizes = record_bytes(topic, batch)
    rows = np.flatnonzero(sizes > limit)
    if len(rows):
        raise RecordTooLargeError(
            f"row {first_row + int(rows[0])} takes {int(sizes[rows[0]])} bytes, the topic allows {MAX_MESSAGE_BYTES}={limit}; "
            "send smaller records, or raise the setting",
            tuple(first_row + int(row) for row in rows[:ROWS_NAMED]),
        )


def _lengths(column: pa.Array) -> npt.NDArray[Any]:
    lengths: npt.NDArray[Any] = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return lengths


def _header_bytes(headers: pa.ListArray) -> Sizes:
    counts = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(counts, dtype=np.int64)
    pairs = pc.list_flatten(headers)
    lengths = _lengths(pairs.field("key")) + _lengths(pairs.field("value")) if len(pairs) else np.zeros(0, np.int64)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    sizes: Sizes = before[ends] - before[ends - counts]
    return sizes
