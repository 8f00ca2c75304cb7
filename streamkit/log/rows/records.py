"""Data from users as the rows of a topic: every column of the schema, then `_timestamp` and, where needed, `_deleted` and `_headers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.errors import SchemaError
from streamkit.log.rows.conversion import convert_arrow, convert_headers, convert_python
from streamkit.log.rows.encoded_column import encoded_column
from streamkit.log.rows.event_time import TIME_MS_MAX, check_times
from streamkit.log.rows.given_rows import EXPECTED, gathered, is_pandas
from streamkit.log.rows.record_size import ROWS_NAMED, check_record_sizes
from streamkit.log.rows.refused_rows import refused_rows
from streamkit.log.slab.frame import TIMESTAMP_TYPE
from streamkit.log.topic.formats import KEY, VALUE
from streamkit.log.topic.topic import Topic
from streamkit.log.values.whole_number import as_whole_number
from streamkit.names import DELETED, HEADERS, TIMESTAMP
from streamkit.schema import SchemaColumn

_EXTRA = (TIMESTAMP, DELETED, HEADERS)
_STAMP = SchemaColumn(TIMESTAMP, "timestamp")
_FLAG = SchemaColumn(DELETED, "boolean")


def records_of(topic: Topic, data: Any, now_ms: int, timestamp_ms: int | None = None) -> list[pa.RecordBatch]:
    """
    The rows of a RecordBatch, Table, DataFrame or list of dicts, checked and in the types of the topic; a stream of these is read first.

    Beside the topic's columns, `data` may have `_timestamp`, `_deleted` and `_headers`. A dict whose `_deleted` is True is a tombstone,
    and may have the key columns alone. The event time of a row is that of
    the topic's timestamp column, also of a deletion that has one; else its `_timestamp`; else `timestamp_ms`; else `now_ms`. Under LogAppendTime it is
    `now_ms`, until the rows are staged (`stamped`). Headers are lists of pairs of a
    name and bytes. SchemaError names row and column, and lists the first rows that do not fit, such as those whose event time
    lies further from `now_ms` than the topic allows; RecordTooLargeError likewise.
    """
    with _naming(topic):
        data = gathered(data)
        try:
            return _records(topic, data, now_ms, timestamp_ms)
        except SchemaError as error:
            raise _listing(error, lambda part: _records(topic, part, now_ms, timestamp_ms), data) from error.__cause__


def _records(topic: Topic, data: Any, now_ms: int, timestamp_ms: int | None) -> list[pa.RecordBatch]:
    batches = []
    first_row = 0
    for columns, rows in _parts(topic, data):
        batch = _ColumnsByName(topic, columns, rows, first_row).batch(now_ms, timestamp_ms)
        check_record_sizes(topic, batch, first_row)
        check_times(topic, batch, now_ms, first_row)
        batches.append(batch)
        first_row += rows
    return batches


def _listing(error: SchemaError, convert: Callable[[Any], Any], data: Any) -> SchemaError:
    """The error with all rows that do not fit, up to `ROWS_NAMED`; as it is if it is not about rows."""
    if not error.rows:
        return error
    rows = refused_rows(convert, data, ROWS_NAMED) or error.rows
    if len(rows) == 1:
        return error
    which = f"the first {ROWS_NAMED} rows" if len(rows) == ROWS_NAMED else "the rows"
    return type(error)(f"{error}; {which} that do not fit are {', '.join(map(str, rows))}", rows)


def event_time_ms(topic: Topic, found: Any) -> int:
    """An event time that a caller gives: whole ms since 1970, of Python or NumPy; SchemaError for anything else."""
    time_ms = as_whole_number(found)
    if time_ms is not None and abs(time_ms) <= TIME_MS_MAX:
        return time_ms
    raise SchemaError(
        f"topic {topic.name}: timestamp_ms={found!r} ({type(found).__name__}); expected whole milliseconds since 1970, at most "
        f"{TIME_MS_MAX} before or after it"
    )


def rows_of(topic: Topic, columns: Mapping[str, pa.Array], times_ms: Sequence[int] | None, now_ms: int) -> pa.RecordBatch:
    """The rows of columns that were checked and are in the types of the topic; `times_ms` are their event times where no column has them."""
    count = len(next(iter(columns.values())))
    with _naming(topic):
        stamps = {} if times_ms is None else {TIMESTAMP: pa.array(times_ms, TIMESTAMP_TYPE)}
        return _ColumnsByName(topic, {**columns, **stamps}, count, 0, is_checked=True).batch(now_ms, None)


def stamped(batch: pa.RecordBatch, time_ms: int) -> pa.RecordBatch:
    """The rows of a topic, all with this event time."""
    times = pa.array(np.full(batch.num_rows, time_ms, np.int64)).view(TIMESTAMP_TYPE)
    return batch.set_column(batch.schema.get_field_index(TIMESTAMP), TIMESTAMP, times)


def tombstone_of(topic: Topic, key: Mapping[str, Any], timestamp_ms: int, now_ms: int) -> pa.RecordBatch:
    """The row that deletes a key; SchemaError if `key` does not have exactly the key columns, or if the time lies too far from now."""
    with _naming(topic):
        if not topic.key:
            raise SchemaError("it has no key, so there is nothing to delete by")
        if not isinstance(key, Mapping) or set(key) != set(topic.key):
            found = f"the columns {sorted(key)}" if isinstance(key, Mapping) else repr(key)
            raise SchemaError(f"found {found}, expected a dict of its key columns {list(topic.key)}")
        columns = {column.name: _from_values(topic, column.name, [key.get(column.name)]) for column in topic.schema}
        tombstone = _ColumnsByName(topic, columns | {DELETED: pa.array([True])}, 1, 0).batch(timestamp_ms, timestamp_ms)
        check_times(topic, tombstone, now_ms)
        return tombstone


@contextmanager
def _naming(topic: Topic) -> Iterator[None]:
    try:
        yield
    except SchemaError as error:
        raise type(error)(f"topic {topic.name}: {error}", error.rows) from error.__cause__


def _parts(topic: Topic, data: Any) -> Iterator[tuple[dict[str, pa.Array], int]]:
    if isinstance(data, pa.Table):
        _check_names(topic, data.schema.names)
        yield from (part for batch in data.to_batches() if batch.num_rows for part in _parts(topic, batch))
    elif isinstance(data, pa.RecordBatch):
        _check_names(topic, data.schema.names)
        yield dict(zip(data.schema.names, data.columns, strict=True)), data.num_rows
    elif isinstance(data, Sequence):
        yield _from_rows(topic, data), len(data)
    elif is_pandas(data):
        _check_names(topic, list(data.columns))
        yield {name: _converted(topic, name, data[name]) for name in data.columns}, len(data)
    else:
        raise SchemaError(f"found {type(data).__name__}, expected {EXPECTED}")


def _from_rows(topic: Topic, rows: Sequence[Mapping[str, Any]]) -> dict[str, pa.Array]:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise SchemaError(f"row {number} is a {type(row).__name__}, expected a dict of column names and values", (number,))
        needed = topic.key if row.get(DELETED) is True else topic.schema.names
        _check_names(topic, list(row), f"row {number} has ", (number,), needed)
    extra = [name for name in _EXTRA if any(name in row for row in rows)]
    return {name: _from_values(topic, name, [row.get(name) for row in rows]) for name in (*topic.schema.names, *extra)}


def _from_values(topic: Topic, name: str, values: list[Any]) -> pa.Array:
    """Python values as a column: in its type, or as bytes of the topic's format."""
    if topic.format is not None and name in topic.schema:
        return encoded_column(topic.format, name, values)
    return _converted(topic, name, values)


def _converted(topic: Topic, name: str, values: Any) -> pa.Array:
    if name == HEADERS:
        return convert_headers(values)
    return convert_python({TIMESTAMP: _STAMP, DELETED: _FLAG}.get(name) or topic.schema[name], values)


def _check_names(
    topic: Topic,
    found: Sequence[str],
    what: str = "the data have ",
    rows: tuple[int, ...] = (),
    needed: Sequence[str] | None = None,
) -> None:
    expected = set(topic.schema.names)
    missing = [name for name in (topic.schema.names if needed is None else needed) if name not in found]
    unknown = [name for name in found if name not in expected and name not in _EXTRA]
    if missing or unknown or len(set(found)) < len(found):
        complaint = "a column twice"
        if missing or unknown:
            complaint = f"no column {missing[0]!r}" if missing else f"the unknown column {unknown[0]!r}"
        names = ", ".join(map(str, found)) or "none"
        advice = "; a column without a value is written too, as None" if missing and topic.schema[missing[0]].nullable else ""
        raise SchemaError(f"{what}{complaint}; found {names}; the topic has {topic.schema}{advice}", rows)


class _ColumnsByName:
    """Columns by name, on their way to a batch of the topic."""

    def __init__(
        self, topic: Topic, columns: Mapping[str, pa.Array], rows: int, first_row: int, *, is_checked: bool = False
    ) -> None:
        self.topic = topic
        self.is_checked = is_checked
        self.columns = columns
        self.rows = rows
        self.first_row = first_row

    def batch(self, now_ms: int, timestamp_ms: int | None) -> pa.RecordBatch:
        deleted = self._deleted()
        arrays = {column.name: self._values(column, deleted) for column in self.topic.schema}
        self._check_keys(arrays, deleted)
        times = self._times(arrays, deleted, now_ms, timestamp_ms)
        arrays[TIMESTAMP] = pa.array(times, pa.int64()).view(TIMESTAMP_TYPE)
        if deleted is not None:
            arrays[DELETED] = pa.array(deleted)
        if HEADERS in self.columns:
            arrays[HEADERS] = convert_headers(self.columns[HEADERS], self.first_row)
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def _deleted(self) -> Mask | None:
        """Which rows delete their key: those that say so, and in an opaque topic those with a key and no value, as in Kafka."""
        deleted = np.zeros(self.rows, np.bool_)
        if DELETED in self.columns:
            flags = convert_arrow(_FLAG, self.columns[DELETED], self.first_row).fill_null(False)
            deleted = flags.to_numpy(zero_copy_only=False)
        if deleted.any() and not self.topic.key:
            self._refuse(deleted, DELETED, "it deletes a key, and the topic has none")
        if self.topic.format is not None and self.topic.key and self.columns[VALUE].null_count:
            deleted = deleted | (_nulls(self.columns[VALUE]) & ~_nulls(self.columns[KEY]))
        return deleted if deleted.any() else None

    def _values(self, column: SchemaColumn, deleted: Mask | None) -> pa.Array:
        values = self.columns[column.name]
        if not self.is_checked:
            values = convert_arrow(column, values, self.first_row)
        is_value = column.name not in self.topic.key
        if deleted is not None and is_value:
            values = pc.if_else(pa.array(deleted), pa.nulls(len(values), values.type), values)
        if not column.nullable and values.null_count:
            missing = _nulls(values) if deleted is None or not is_value else _nulls(values) & ~deleted
            self._refuse(missing, column.name, "found null, and the column is NOT NULL")
        return values

    def _check_keys(self, arrays: Mapping[str, pa.Array], deleted: Mask | None) -> None:
        topic = self.topic
        if not topic.key or (deleted is None and not topic.is_compacted):
            return
        missing = np.logical_and.reduce([_nulls(arrays[name]) for name in topic.key])
        if topic.is_compacted:
            self._refuse(missing, topic.key[0], "the key is null, and a compacted topic keeps rows by key")
        elif deleted is not None:
            self._refuse(missing & deleted, topic.key[0], "it deletes a key that is null")

    def _times(self, arrays: Mapping[str, pa.Array], deleted: Mask | None, now_ms: int, timestamp_ms: int | None) -> Integers:
        if self.topic.is_stamped_on_append:
            return np.full(self.rows, now_ms, np.int64)
        fallback = now_ms if timestamp_ms is None else timestamp_ms
        times = np.full(self.rows, fallback, np.int64)
        if TIMESTAMP in self.columns:
            own = self.columns[TIMESTAMP]
            if self.is_checked and own.type == TIMESTAMP_TYPE and not own.null_count:
                times = own.view(pa.int64()).to_numpy()
            else:
                times = _milliseconds(convert_arrow(_STAMP, own, self.first_row), times)
        if self.topic.timestamp is None:
            return times
        if deleted is None:
            stamps = arrays[self.topic.timestamp]
            unstamped = _nulls(stamps)
        else:  # whose time is kept, though not its column
            column = self.topic.schema[self.topic.timestamp]
            stamps = convert_arrow(column, self.columns[column.name], self.first_row)
            unstamped = _nulls(stamps) & ~deleted
        self._refuse(unstamped, self.topic.timestamp, "found null, and the column is the topic's event time")
        return _milliseconds(stamps, times)

    def _refuse(self, rows: Mask, column: str, reason: str) -> None:
        """Raise SchemaError for the first row that is marked, if there is one."""
        if rows.any():
            row = self.first_row + int(rows.argmax())
            raise SchemaError(f"row {row}, column {column!r}: {reason}", (row,))


def _nulls(values: pa.Array) -> Mask:
    mask: Mask = values.is_null().to_numpy(zero_copy_only=False)
    return mask


def _milliseconds(stamps: pa.Array, fallback: Integers) -> Integers:
    """Microseconds as milliseconds, rounded down also before 1970; `fallback` where there is none."""
    microseconds = stamps.view(pa.int64())
    filled = microseconds.fill_null(0) if stamps.null_count else microseconds
    times: Integers = filled.to_numpy() // 1000
    return np.where(_nulls(stamps), fallback, times) if stamps.null_count else times
