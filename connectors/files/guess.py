"""A guess of what a file of records holds: columns and types, which of them is the key, and which the event time."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from streamkit.chunks import one_array
from streamkit.connectors.files.csv_lines import (
    OTHER_DELIMITERS,
    OTHER_ENCODINGS,
    UNCLOSED,
    another_delimiter,
    any_length,
    csv_lines,
    records_end,
    unclosed_line,
)
from streamkit.connectors.files.doubtful_numbers import first_no_number
from streamkit.connectors.files.doubtful_times import NoTime, first_no_time
from streamkit.connectors.files.guessed_json import SAY_WHAT_IT_IS, read_object, types_of_objects
from streamkit.connectors.files.guessed_texts import type_of_texts
from streamkit.connectors.files.guessed_values import column_type
from streamkit.connectors.files.json_layout import json_records, several_lines
from streamkit.connectors.files.line_ends import count_lines, first_line_end, lines_end
from streamkit.connectors.files.open_file import open_reading, whole
from streamkit.connectors.files.parquet_columns import declared, readable
from streamkit.connectors.files.recoded import check_encoding, recoded
from streamkit.connectors.files.record_blocks import HalfRecordError, header_of
from streamkit.connectors.files.record_file import FileFormat, RecordFile
from streamkit.connectors.files.record_text import parse_texts
from streamkit.connectors.files.spelling import ISO, Spelling
from streamkit.data_type import INTEGERS, from_arrow, is_nested, to_arrow
from streamkit.errors import ConfigError, SchemaError
from streamkit.log.topic.topic import declare_topic
from streamkit.names import LOG_COLUMNS, RESERVED_COLUMNS
from streamkit.schema import Schema, SchemaColumn, check_user_schema

BLOCK_BYTES = 16 << 20  # types are guessed from the first block
_ID = re.compile(r"(?i)^(id|key|uuid|.*_(id|key|no|number)|.*[a-z]Id)$")
_TIME = re.compile(r"(?i)^(ts|time|timestamp|datetime|date|.*_(at|ts|time|timestamp|date)|.*(At|Time))$")
_TIMES = ("timestamp", "timestamp_ntz")
_TOPIC_FIRST = (
    "; a topic says what it is: create one by `streamkit topics create --schema`, and load the file by `streamkit produce`"
)
_LOCAL = {to_arrow("timestamp_ntz"): to_arrow("timestamp")}


class NoRecordsError(ConfigError):
    """A file without records says no columns."""


@dataclass(frozen=True)
class Guess:
    """What a file seems to hold: the schema of a topic, its key and timestamp column, and the first rows in those types."""

    schema: Schema
    key: tuple[str, ...]
    timestamp: str | None
    sample: pa.Table
    spelled: Mapping[str, str]  # as the values are: local times, which are timestamps of a topic, are timestamp_ntz
    doubts: tuple[str, ...] = ()  # which columns are almost times or numbers, and why they are none, with the file and the line

    @property
    def group(self) -> str | None:
        """A column to count by: of those with few different values the one with most; None if every column is different in most rows."""
        counts = {
            column.name: pc.count_distinct(self.sample[column.name]).as_py()
            for column in self.schema
            if column.type in ("string", "boolean", *INTEGERS) and column.name not in self.key
        }
        few = [name for name, count in counts.items() if 1 < count <= self.sample.num_rows // 2]
        return max(few, key=lambda name: counts[name], default=None)

    @property
    def measure(self) -> str | None:
        """A column of numbers to take the mean of; None if there is none."""
        numbers = [column.name for column in self.schema if column.type in (*INTEGERS, "float", "double")]
        others = [name for name in numbers if name not in self.key and not _ID.match(name) and name != self.group]
        return others[0] if others else None

    @property
    def oldest_ms(self) -> int | None:
        """The least event time of the rows, in milliseconds since 1970; None without a timestamp column."""
        return None if self.timestamp is None else int(self._times_ms().min())

    @property
    def newest_ms(self) -> int | None:
        """The greatest event time of the rows, in milliseconds since 1970; None without a timestamp column."""
        return None if self.timestamp is None else int(self._times_ms().max())

    @property
    def disorder_ms(self) -> int:
        """By how much a row's event time is behind the largest before it, at most; 0 without a timestamp column."""
        if self.timestamp is None:
            return 0
        times_ms = self._times_ms()
        return int((np.maximum.accumulate(times_ms) - times_ms).max())

    def _times_ms(self) -> np.ndarray:
        times_ms: np.ndarray = self.sample[self.timestamp].cast(pa.timestamp("ms"), safe=False).to_numpy().astype("int64")
        return times_ms


def guess(
    path: Path,
    form: FileFormat,
    rows_max: int,
    key: tuple[str, ...] = (),
    timestamp: str | None = None,
    delimiter: str = ",",
    encoding: str = "utf-8",
) -> Guess:
    """
    Guess what a file holds from its first rows; `key` and `timestamp` are columns that are known.

    Nothing is left out of the rows: a file that ends within a record is refused.

    ConfigError if the file cannot be read or a column is not there, SchemaError if its columns cannot be those of a topic.
    """
    try:
        written_in = "utf-8" if form is FileFormat.PARQUET else check_encoding(encoding)
        with whole(path), recoded(open_reading(path), written_in, path) as file:
            table, spelled, written = _read(file, path, form, rows_max, _Lines(delimiter, has_to_end=True))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except SchemaError as error:
        raise SchemaError(str(error).replace(SAY_WHAT_IT_IS, _TOPIC_FIRST), error.rows) from error
    table = table.rename_columns([_renamed(name) for name in table.schema.names])
    if form is FileFormat.PARQUET:  # a time without a zone is taken as UTC
        table = table.cast(pa.schema([field.with_type(_LOCAL.get(field.type, field.type)) for field in table.schema]))
    found = _guess(table, spelled, path, key, timestamp)
    empty = {
        name: one_array(column) for name, column in zip(table.schema.names, table.columns, strict=True) if name not in written
    }
    values = {_renamed(name): values for name, values in {**empty, **written}.items()}
    doubts, place = _no_times(found.schema, values), partial(_place, path, form, delimiter, written_in)
    texts = [column.name for column in found.schema if column.type == "string"] if form is FileFormat.CSV else []
    shown = [f"{place(one.row)}: {one}" for name in texts if (one := first_no_number(name, values[name])) is not None]
    if timestamp is not None:
        _check_times(found, timestamp, doubts.get(timestamp), place)
        return replace(found, doubts=tuple(shown))
    no_times = [f"{place(one.row)}: {one}; so the column cannot be the event time" for one in doubts.values() if one.is_rare]
    return replace(found, doubts=(*no_times, *shown))


def guess_open(
    file: BinaryIO,
    path: Path,
    form: FileFormat,
    rows_max: int,
    key: tuple[str, ...] = (),
    delimiter: str = ",",
    spelling: Spelling = ISO,
    *,
    is_tolerant: bool = False,
) -> Guess:
    """
    Guess what an open file holds, as `guess` does, without what a log wrote beside the columns; `path` is what messages call it.

    What it says, the reader reads, without a loss. A time of Parquet without a zone stays one. Where it `is_tolerant`, lines that are
    no records count for nothing.
    """
    table, spelled, _ = _read(file, path, form, rows_max, _Lines(delimiter, spelling, is_tolerant))
    own = [name for name in table.schema.names if name in LOG_COLUMNS]
    return _guess(table.drop_columns(own), spelled, path, key, None)


@dataclass(frozen=True)
class _Lines:
    """How the lines of a file are read, and whether the file has to end with a whole record."""

    delimiter: str
    spelling: Spelling = ISO
    is_tolerant: bool = False
    has_to_end: bool = False


def _guess(table: pa.Table, spelled: Mapping[str, str], path: Path, key: tuple[str, ...], timestamp: str | None) -> Guess:
    if not table.num_rows:
        raise NoRecordsError(f"{path} has no records; expected at least one to guess from")
    columns = tuple(SchemaColumn(field.name, from_arrow(field.type), True) for field in table.schema)
    try:
        schema = check_user_schema(Schema(columns))
    except SchemaError as error:
        raise SchemaError(f"{path}: {error}") from None
    for name in (*key, *([timestamp] if timestamp else [])):
        if name not in schema:
            raise ConfigError(f"{path} has no column {name!r}; it has {', '.join(schema.names)}")
    key = key or _guessed_key(schema, table)
    return Guess(schema, key, timestamp or _guessed_timestamp(schema, table), table, spelled)


def _no_times(schema: Schema, values: Mapping[str, pa.Array]) -> dict[str, NoTime]:
    """By column of texts or times, its first value that is no time."""
    found = {
        column.name: first_no_time(column.name, values[column.name]) for column in schema if column.type in ("string", *_TIMES)
    }
    return {name: one for name, one in found.items() if one is not None}


def _check_times(found: Guess, name: str, no_time: NoTime | None, place: Callable[[int], str]) -> None:
    """ConfigError if the column of the event time that a user names has a value that is none, or is of another type."""
    kind = found.schema[name].type
    if no_time is not None and kind in ("string", *_TIMES):
        raise ConfigError(
            f"{place(no_time.row)}: {no_time}; expected one in each record, such as 2026-01-31T12:00:00Z, for it is the event time"
        )
    if kind not in _TIMES:
        others = ", ".join(column.name for column in found.schema if column.type in _TIMES) or "none"
        is_mixed = kind == "string"
        reason = "some of its times have a zone and others have none" if is_mixed else f"it is {kind}, expected times"
        raise ConfigError(f"{place(0)}: column {name!r} cannot be the event time: {reason}; columns of times: {others}")


def _place(path: Path, form: FileFormat, delimiter: str, encoding: str, row: int) -> str:
    """Where a record is in a file."""
    if form is FileFormat.PARQUET:
        return f"{path}, record {row + 1}"
    with whole(path), recoded(open_reading(path), encoding, path) as file:
        if form is FileFormat.JSON:
            line = next((line for line, _ in islice(json_records(file.read()), row, None)), None)
        else:
            lines = [line for line, *_ in islice(csv_lines(file, delimiter), row + 1)]
            line = lines[row] if row < len(lines) else None
    return str(path) if line is None else f"{path}, line {line}"


def _read(
    file: BinaryIO, path: Path, form: FileFormat, rows_max: int, lines: _Lines
) -> tuple[pa.Table, dict[str, str], dict[str, pa.Array]]:
    """The first rows, in the types that are guessed, how their values are spelled, and all texts from which types were guessed."""
    try:
        if form is FileFormat.CSV:
            return _read_csv(file, rows_max, lines)
        return _read_json(file, rows_max, lines) if form is FileFormat.JSON else (*_read_parquet(file, rows_max), {})
    except SchemaError as error:
        raise SchemaError(f"{path}{'' if str(error).startswith((', ', ' ')) else ': '}{error}") from error
    except pa.ArrowException as error:
        raise SchemaError(f"{path} cannot be read as {form.value}: {error}") from error


def _read_csv(file: BinaryIO, rows_max: int, lines: _Lines) -> tuple[pa.Table, dict[str, str], dict[str, pa.Array]]:
    head, _ = _head(file, partial(_csv_end, delimiter=lines.delimiter))
    opened = io.BufferedReader(io.BytesIO(head))
    try:
        header = header_of(opened, lines.delimiter)
    except HalfRecordError as error:
        raise SchemaError(f", {error}") from None
    names, records = _csv_names(header, lines.delimiter), head[opened.tell() :]
    _check_encoded(head)
    _check_delimiter(names, records)
    if not records.strip(b"\r\n"):
        return pa.table({}), {}, {}
    if lines.has_to_end and records_end(records, lines.delimiter) < len(records):
        raise SchemaError(_unclosed(head, lines.delimiter) or UNCLOSED)
    try:
        table = _texts(records, names, lines)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            _unclosed(head, lines.delimiter) or _uneven(head, lines.delimiter) or f" cannot be read as csv: {error}"
        ) from None
    columns = [one_array(column) for column in table.columns]
    types = [type_of_texts(texts, lines.spelling) for texts in columns]
    sample = [
        parse_texts(SchemaColumn(name, column_type(type)), texts.slice(0, rows_max), lines.spelling)
        for name, type, texts in zip(names, types, columns, strict=True)
    ]
    named = dict(zip(names, types, strict=True))
    return pa.table(sample, names=names), named, dict(zip(names, columns, strict=True))


def _texts(records: bytes, names: Sequence[str], lines: _Lines) -> pa.Table:
    """The records of CSV as columns of texts."""
    return pyarrow.csv.read_csv(
        pa.BufferReader(records),
        pyarrow.csv.ReadOptions(column_names=names, block_size=len(records) + 1),
        pyarrow.csv.ParseOptions(
            delimiter=lines.delimiter, newlines_in_values=True, invalid_row_handler=_skipped if lines.is_tolerant else None
        ),
        pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), null_values=list(lines.spelling.nulls),
            strings_can_be_null=True, quoted_strings_can_be_null=False,
        ),
    )  # fmt: skip


def _csv_names(header: bytes, delimiter: str) -> list[str]:
    try:
        text = header.decode()
    except UnicodeDecodeError as error:
        raise SchemaError(
            f", line 1: found names of columns that are not UTF-8 ({error}); expected a file in UTF-8{OTHER_ENCODINGS}"
        ) from None
    with any_length():
        names = next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row), [])
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise SchemaError(f"columns have the same name, {twice[0]!r}; expected distinct names")
    return names


def _unclosed(head: bytes, delimiter: str) -> str | None:
    """The line of the record whose quote is open at the end."""
    line = unclosed_line(io.BytesIO(head), delimiter)
    return None if line is None else f", line {line}: {UNCLOSED}"


def _uneven(head: bytes, delimiter: str) -> str | None:
    """The line of the first record that has more or fewer values than there are names."""
    for line, values, names in csv_lines(io.BytesIO(head), delimiter):
        if len(values) != len(names):
            return f", line {line}: found {len(values)} values, expected {len(names)}: {', '.join(names)}"
    return None


def _check_encoded(head: bytes) -> None:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        line = head[error.start :].splitlines()[0][:80]
        raise SchemaError(
            f", line {count_lines(head[: error.start]) + 1}: found {line!r}, expected text in UTF-8{OTHER_ENCODINGS}"
        ) from None


def _check_delimiter(names: Sequence[str], records: bytes) -> None:
    """SchemaError where one name, and the first record, have what stands between values elsewhere."""
    first = records[: first_line_end(records)].decode()
    other = next(
        (one for one in OTHER_DELIMITERS if len(names) == 1 and one in names[0] and names[0].count(one) == first.count(one)), None
    )
    if other is not None:
        raise SchemaError(f", line 1: found one column, {names[0]!r}{another_delimiter(other)}")


def _skipped(row: object) -> str:
    return "skip"


def _read_json(file: BinaryIO, rows_max: int, lines: _Lines) -> tuple[pa.Table, dict[str, str], dict[str, pa.Array]]:
    objects, kept = [], []
    head, is_all = _head(file, len)
    for number, line in json_records(head, has_to_end=lines.has_to_end and is_all):
        try:
            objects.append(read_object(line))
            kept.append(line)
        except (ValueError, RecursionError, SchemaError) as error:
            if not lines.is_tolerant:
                raise _no_object(number, line, error) from None
    if not objects:
        return pa.table({}), {}, {}
    types = {name: type for name, type in types_of_objects(objects, lines.spelling).items() if name not in LOG_COLUMNS}
    columns = tuple(SchemaColumn(name, column_type(type)) for name, type in types.items())
    topic = declare_topic("guessed", check_user_schema(Schema(columns)))
    records = RecordFile(
        io.BytesIO(b"\n".join(kept[:rows_max])), "", FileFormat.JSON, topic, None, lines.spelling, is_sparse=True
    )
    texts = {name: [one.get(name) for one in objects] for name, type in types.items() if type in ("string", *_TIMES)}
    written = {name: pa.array(values, pa.string()) for name, values in texts.items()}
    return pa.Table.from_batches([piece.records.select(list(types)) for piece in records.pieces()]), types, written


def _no_object(line: int, text: bytes, error: Exception) -> SchemaError:
    reason = (
        str(error)
        if isinstance(error, SchemaError)
        else f"found {text[:80].decode(errors='replace')!r}, which is no JSON: {error}{several_lines(text)}"
    )
    return SchemaError(f", line {line}: {reason}; it cannot be read as json, which has objects")


def _csv_end(text: bytes, delimiter: str) -> int:
    """Where the last whole record ends; 0 if the names are all there is."""
    end = records_end(text, delimiter)
    return end if end > first_line_end(text) else 0


def _head(file: BinaryIO, whole: Callable[[bytes], int]) -> tuple[bytes, bool]:
    """
    The first whole records of a file, and whether they are all of it; `whole` says where the last of some lines ends.

    Arrow's own readers of a stream would read up to 32 blocks ahead.
    """
    head = b""
    while more := file.read(BLOCK_BYTES):
        head += more
        if len(head) >= BLOCK_BYTES and (end := whole(head[: lines_end(head)])):
            return head[:end], False
    return head, True


def _read_parquet(file: BinaryIO, rows_max: int) -> tuple[pa.Table, dict[str, str]]:
    """The first rows as they are; of types that no column has, as the reader takes them."""
    with pq.ParquetFile(file) as opened:
        found = _first_rows(opened.iter_batches(min(rows_max, 65_536)), opened.schema_arrow, rows_max)
    arrays = []
    for field, values in zip(found.schema, found.columns, strict=True):
        try:
            type = from_arrow(readable(field.type))
        except SchemaError as error:
            raise SchemaError(f"column {field.name!r}: {error}; leave it out, or write it in another type") from None
        try:
            arrays.append(declared(SchemaColumn(field.name, type), one_array(values)))
        except SchemaError as error:
            row = error.rows[0] if error.rows else 0
            raise SchemaError(f", record {row + 1}: {str(error).removeprefix(f'row {row}, ')}") from None
    table = pa.table(arrays, names=found.schema.names)
    return table, {field.name: from_arrow(field.type) for field in table.schema}


def _first_rows(batches: object, schema: pa.Schema, rows_max: int) -> pa.Table:
    taken, rows = [], 0
    for batch in islice(batches, rows_max):  # type: ignore[call-overload]
        taken.append(batch)
        rows += batch.num_rows
        if rows >= rows_max:
            break
    return pa.Table.from_batches(taken, schema).slice(0, rows_max)


def _renamed(name: str) -> str:
    """A name that a column can have: one of StreamKit's own gets an underscore at its end."""
    return f"{name}_" if name.lower() in RESERVED_COLUMNS else name


def _guessed_key(schema: Schema, table: pa.Table) -> tuple[str, ...]:
    """The first column that is called as an identifier and is never null; no key if there is none."""
    for column in schema:
        if _ID.match(column.name) and not is_nested(column.type) and not table[column.name].null_count:
            return (column.name,)
    return ()


def _guessed_timestamp(schema: Schema, table: pa.Table) -> str | None:
    """The first column of times that is called as one, else the first column of times, if it is never null."""
    times = [column.name for column in schema if column.type in _TIMES and not table[column.name].null_count]
    return next((name for name in times if _TIME.match(name)), times[0] if times else None)
