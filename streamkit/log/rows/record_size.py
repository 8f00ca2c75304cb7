"""
How large records are, and the limit on it: `max.message.bytes`.

The size of a record is the sum of its values: fixed widths (boolean 1 byte), the bytes of strings and binaries, 8 bytes of
event time, names and values of headers. A nested value takes what the values in it take, and nothing beside. Kafka's limit
is on a batch as sent, compressed; here it is on each record, uncompressed, so that a record does not depend on its neighbours.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import AnyArray, Integers
from streamkit.data_type import element_of, entry_of, fields_of
from streamkit.errors import RecordTooLargeError
from streamkit.log.topic.settings import MAX_MESSAGE_BYTES
from streamkit.log.topic.topic import Topic
from streamkit.log.values.columns import BYTES_TYPES, fixed_dtype
from streamkit.log.values.nested_columns import entries, fields
from streamkit.names import HEADERS
from streamkit.schema import Schema

TIMESTAMP_BYTES = 8
ROWS_NAMED = 10  # of those that are refused, in errors


def fixed_bytes(schema: Schema) -> int:
    """What every record of a schema takes, whatever its strings, arrays and maps are; its event time included."""
    return TIMESTAMP_BYTES + sum(fixed_value_bytes(column.type) for column in schema)


def fixed_value_bytes(type_name: str) -> int:
    """What every value of a type takes, null or not: nothing where all that it takes depends on it."""
    if found := fields_of(type_name):
        return sum(fixed_value_bytes(kind) for _, kind in found)
    dtype = fixed_dtype(type_name)
    return 0 if dtype is None else dtype.itemsize


def record_bytes(topic: Topic, batch: pa.RecordBatch) -> Integers:
    """The size of each record of a batch in the types of its topic, in bytes."""
    sizes = np.full(batch.num_rows, fixed_bytes(topic.schema), np.int64)
    for column in topic.schema:
        sizes += _variable_bytes(batch.column(column.name), column.type)
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


def _variable_bytes(column: pa.Array, type_name: str) -> Integers | int:
    """What each value of a column takes beside `fixed_value_bytes`."""
    if type_name in BYTES_TYPES:
        return _lengths(column)
    if found := fields_of(type_name):
        return sum(_variable_bytes(child, kind) for child, (_, kind) in zip(column.flatten(), found, strict=True))
    if element := element_of(type_name):
        counts, content = entries(column)
        return _sums(_all_bytes(content, element), counts)
    if entry := entry_of(type_name):
        counts, content = entries(column)
        keys, items = fields(content)
        return _sums(_all_bytes(keys, entry[0]) + _all_bytes(items, entry[1]), counts)
    return 0


def _all_bytes(column: pa.Array, type_name: str) -> Integers:
    sizes = np.full(len(column), fixed_value_bytes(type_name), np.int64)
    sizes += _variable_bytes(column, type_name)
    return sizes


def _lengths(column: pa.Array) -> AnyArray:
    lengths: AnyArray = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return lengths


def _sums(sizes: Integers, counts: Integers) -> Integers:
    """The sum of the sizes for each row, which has so many of them."""
    ends = np.cumsum(counts, dtype=np.int64)
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    sums: Integers = before[ends] - before[ends - counts]
    return sums


def _header_bytes(headers: pa.ListArray) -> Integers:
    counts, pairs = entries(headers)
    names, values = fields(pairs)
    return _sums(_lengths(names) + _lengths(values), counts)
