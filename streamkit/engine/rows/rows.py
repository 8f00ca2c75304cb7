"""
Rows as the operators see them: Arrow batches whose own columns come with record columns.

`_timestamp` (int64 ms) is always there; `_order, _input, _partition, _offset` if an operator downstream needs the order (see
`streamkit.engine.rows.place`); `_deleted` on rows of a table, and on those of a stream if one of them is a tombstone, whose value
columns are null; `_row_time` on changes of a join of tables, if one of them brings a row of another time than its own; `_headers` if
an output or a processor behind can see them, and a record has any; `_key_group` behind an exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.chunks import one_batch
from streamkit.engine.rows.place import no_paths
from streamkit.expressions.core.groups import one_of_equal_keys
from streamkit.log.slab.frame import HEADERS_TYPE
from streamkit.names import (
    CHANGE,
    DELETED,
    DUE,
    HEADERS,
    INPUT,
    INSTRUCTION,
    KEY_GROUP,
    OFFSET,
    ORDER,
    PARTITION,
    PATH,
    RESERVED_COLUMNS,
    ROW_TIME,
    TIMESTAMP,
    WINDOW,
)
from streamkit.schema import Schema

RECORD_FIELDS = {
    TIMESTAMP: pa.int64(),
    ROW_TIME: pa.int64(),
    ORDER: pa.int64(),
    INPUT: pa.int16(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    PATH: pa.binary(),
    DUE: pa.int64(),
    DELETED: pa.bool_(),
    KEY_GROUP: pa.int32(),
    CHANGE: pa.int8(),
    INSTRUCTION: pa.int8(),
    WINDOW: pa.int64(),
}


OPTIONAL = (ROW_TIME, PATH, DUE, DELETED, HEADERS)


OptionalBatch: TypeAlias = pa.RecordBatch | None


def concatenate(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """
    One batch of all rows; dictionaries are unified, and record columns that only some batches have are filled in.

    ColumnTooLargeError if a column would hold more than 2 GiB of texts.
    """
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(_alike(_with_same_columns(batches)))
    if not table.num_rows:
        return batches[0].slice(0, 0)
    return one_batch(table)


def _with_same_columns(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """The batches with the same columns in one order: an optional one that only some have is filled in."""
    optional = [name for name in OPTIONAL if any(name in batch.schema.names for batch in batches)]
    filled = [with_columns(batch, {name: _filled(batch, name) for name in optional}) for batch in batches]
    names = filled[0].schema.names
    return [batch if batch.schema.names == names else batch.select(names) for batch in filled]


def _filled(batch: pa.RecordBatch, name: str) -> pa.Array:
    if name in batch.schema.names:
        return batch[name]
    if name == ROW_TIME:
        return batch[TIMESTAMP]
    if name == PATH:
        return no_paths(batch.num_rows)
    if name in (HEADERS, DUE):
        return pa.nulls(batch.num_rows, HEADERS_TYPE if name == HEADERS else RECORD_FIELDS[DUE])
    return constant(0, batch.num_rows, pa.int8()).cast(pa.bool_())


def _alike(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """The batches with a column decoded in all of them if only some have it dictionary-encoded."""
    schemas = {batch.schema for batch in batches}
    mixed = {
        field.name
        for schema in schemas
        for field in schema
        if pa.types.is_dictionary(field.type) and any(other.field(field.name).type != field.type for other in schemas)
    }
    return [with_columns(batch, {name: plain(batch[name]) for name in mixed}) for batch in batches] if mixed else batches


def plain(column: pa.Array) -> pa.Array:
    """The column without a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def numbers(batch: pa.RecordBatch, name: str) -> Integers:
    """A record column as numpy; it has no nulls."""
    values: Integers = batch[name].to_numpy(zero_copy_only=False)
    return values


def row_times(batch: pa.RecordBatch) -> pa.Array:
    """The event times of the rows that changes of a table bring: those of the changes, unless these say otherwise."""
    return batch[ROW_TIME if ROW_TIME in batch.schema.names else TIMESTAMP]


def without_row_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as records, whose times are their own."""
    return batch.drop_columns([ROW_TIME]) if ROW_TIME in batch.schema.names else batch


def own_columns(batch: pa.RecordBatch) -> list[str]:
    """The names of the row's own columns."""
    return [name for name in batch.schema.names if name not in RESERVED_COLUMNS]


def record_columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The record columns that are there."""
    return {name: batch[name] for name in batch.schema.names if name in RESERVED_COLUMNS}


def rows_of(columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """A batch of these columns."""
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def is_null_key(batch: pa.RecordBatch, key: Sequence[str]) -> pa.BooleanArray:
    """Where every key column is null."""
    result = pc.is_null(batch[key[0]])
    for name in key[1:]:
        result = pc.and_(result, pc.is_null(batch[name]))
    return result


def without_null_keys(batch: pa.RecordBatch, key: Sequence[str]) -> tuple[pa.RecordBatch, int]:
    """The rows whose key is not null, and how many were dropped."""
    if all(batch[name].null_count for name in key):
        kept = batch.filter(pc.invert(is_null_key(batch, key)))
        return kept, batch.num_rows - kept.num_rows
    return batch, 0


def with_one_key(batch: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
    """The rows to be grouped, with one value for keys that are equal, so that a group's key does not depend on which row comes first."""
    return with_columns(batch, {name: one_of_equal_keys(batch[name]) for name in key})


def without_nulls(batch: pa.RecordBatch, columns: Sequence[str]) -> tuple[pa.RecordBatch, int]:
    """The rows that have a value in each of these columns, and how many were dropped."""
    kept = batch
    for name in columns:
        if kept[name].null_count:
            kept = kept.filter(pc.is_valid(kept[name]))
    return kept, batch.num_rows - kept.num_rows


def brought_by_time(batch: pa.RecordBatch) -> Mask:
    """Which rows no record brought, but time: they had a moment at which they were due."""
    if DUE not in batch.schema.names:
        return np.zeros(batch.num_rows, bool)
    brought: Mask = batch[DUE].is_valid().to_numpy(zero_copy_only=False)
    return brought


def deletions_of(batch: pa.RecordBatch) -> Mask:
    """Which rows delete their key."""
    if DELETED not in batch.schema.names:
        return np.zeros(batch.num_rows, bool)
    deleted: Mask = batch[DELETED].to_numpy(zero_copy_only=False)
    return deleted


def without_deletions(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, int]:
    """The rows that are not deletions, without that column, and how many were dropped."""
    if DELETED not in batch.schema.names:
        return batch, 0
    deleted, rows = batch[DELETED], batch.drop_columns([DELETED])
    if not deleted.true_count:
        return rows, 0
    return rows.filter(pc.invert(deleted)), deleted.true_count


def last_of_each(keys: pa.BinaryArray) -> Integers:
    """For each distinct key the position of its last row, in ascending order."""
    codes = keys.dictionary_encode().indices.to_numpy()  # the distinct keys as 0, 1, 2, …
    last = np.full(int(codes.max()) + 1 if len(codes) else 0, -1, np.int64)
    last[codes] = np.arange(len(codes))  # of several rows of a key the last one is written last
    return np.sort(last)


def empty_rows(schema: Schema, *record: str) -> pa.RecordBatch:
    """A batch without rows, of these columns and record columns."""
    fields = [*schema.arrow, *(pa.field(name, RECORD_FIELDS[name]) for name in record)]
    return pa.RecordBatch.from_pylist([], schema=pa.schema(fields))


def with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The batch with these columns added or replaced."""
    return rows_of({**{name: batch[name] for name in batch.schema.names}, **columns})


def repeated(batch: pa.RecordBatch, times: Integers) -> pa.RecordBatch:
    """Each row so many times."""
    parents: pa.Array | None = None
    columns = []
    for column in batch.columns:
        if pa.types.is_integer(column.type) and not column.null_count:
            columns.append(pa.array(np.repeat(column.to_numpy(), times)))
            continue
        if parents is None:
            parents = pa.array(np.repeat(np.arange(batch.num_rows), times))
        columns.append(column.take(parents))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def constant(value: int, rows: int, data_type: pa.DataType) -> pa.Array:
    """The same number `rows` times."""
    return pa.array(np.full(rows, value, data_type.to_pandas_dtype()), data_type)


def of_live_rows(batch: pa.RecordBatch, compute: Callable[[pa.RecordBatch], pa.Array]) -> pa.Array:
    """Apply a computation to the rows that are not deletions; null for deletions, which have no values."""
    return columns_of_live_rows(batch, lambda rows: {"": compute(rows)})[""]


def columns_of_live_rows(batch: pa.RecordBatch, compute: Callable[[pa.RecordBatch], dict[str, pa.Array]]) -> dict[str, pa.Array]:
    """As `of_live_rows`, for several columns at once."""
    live = pc.invert(batch[DELETED])
    if live.true_count == batch.num_rows:
        return compute(batch)
    is_live = live.to_numpy(zero_copy_only=False)
    # Where the result of each row stands among those of the live ones; null for a deletion, so that `take` gives null.
    places = pa.array(np.cumsum(is_live) - 1, mask=~is_live)
    return {name: column.take(places) for name, column in compute(batch.filter(live)).items()}
