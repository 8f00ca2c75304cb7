"""A guess of what a file of records holds: columns and types, which of them is the key, and which the event time."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from streamkit.chunks import one_array
from streamkit.connectors.files.csv_lines import records_end
from streamkit.connectors.files.record_file import Format
from streamkit.data_type import INTEGERS, from_arrow, is_nested, to_arrow
from streamkit.errors import ConfigError, SchemaError
from streamkit.formats.decimal_texts import DIGITS_MAX, decimals_of_texts
from streamkit.names import LOG_COLUMNS, RESERVED_COLUMNS
from streamkit.schema import Column, Schema, check_user_schema

DOUBLE_DIGITS = 15  # which every double keeps
BLOCK_BYTES = 16 << 20  # types are guessed from the first block
_ID = re.compile(r"(?i)^(id|key|uuid|.*_(id|key|no|number)|.*[a-z]Id)$")
_TIME = re.compile(r"(?i)^(ts|time|timestamp|datetime|date|.*_(at|ts|time|timestamp|date)|.*(At|Time))$")
_TIMES = ("timestamp", "timestamp_ntz")


class NoRecordsError(ConfigError):
    """A file without records says no columns."""


@dataclass(frozen=True)
class Guess:
    """What a file seems to hold: the schema of a topic, its key and timestamp column, and the first rows in those types."""

    schema: Schema
    key: tuple[str, ...]
    timestamp: str | None
    sample: pa.Table

    @property
    def group(self) -> str | None:
        """A column to count by: of those with few different values the one with most; None if every column is different in most rows."""
        counts = {name: pc.count_distinct(self.sample[name]).as_py() for name in self._countable()}
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
    def disorder_ms(self) -> int:
        """By how much a row's event time is behind the largest before it, at most; 0 without a timestamp column."""
        if self.timestamp is None:
            return 0
        times_ms = self._times_ms()
        return int((np.maximum.accumulate(times_ms) - times_ms).max())

    def _times_ms(self) -> np.ndarray:
        times_ms: np.ndarray = self.sample[self.timestamp].cast(pa.timestamp("ms"), safe=False).to_numpy().astype("int64")
        return times_ms

    def _countable(self) -> list[str]:
        return [
            column.name
            for column in self.schema
            if column.type in ("string", "boolean", *INTEGERS) and column.name not in self.key
        ]


def guess(path: Path, form: Format, rows_max: int, key: tuple[str, ...] = (), timestamp: str | None = None) -> Guess:
    """
    Guess what a file holds from its first rows; `key` and `timestamp` are columns that are known.

    ConfigError if the file cannot be read or a column is not there, SchemaError if its columns cannot be those of a topic.
    """
    return _guess(_read(path, path, form, rows_max), path, key, timestamp)


def guess_open(file: BinaryIO, path: Path, form: Format, rows_max: int, key: tuple[str, ...] = (), delimiter: str = ",") -> Guess:
    """
    Guess what an open file holds, as `guess` does, without what a log wrote beside the columns; `path` is what messages call it.

    A time of Parquet without a zone stays one, since it says so.
    """
    table = _read(file, path, form, rows_max, delimiter)
    return _guess(table.drop_columns([name for name in _names(table, path) if name in LOG_COLUMNS]), path, key, None, form)


def _guess(table: pa.Table, path: Path, key: tuple[str, ...], timestamp: str | None, form: Format | None = None) -> Guess:
    if not table.num_rows:
        raise NoRecordsError(f"{path} has no records; expected at least one to guess from")
    table = table.rename_columns([_renamed(name) for name in _names(table, path)])
    schema = check_user_schema(Schema(tuple(Column(field.name, _type(field, form), True) for field in table.schema)))
    table = table.cast(pa.schema([pa.field(column.name, to_arrow(column.type)) for column in schema]))
    for name in (*key, *([timestamp] if timestamp else [])):
        if name not in schema:
            raise ConfigError(f"{path} has no column {name!r}; it has {', '.join(schema.names)}")
    return Guess(schema, key or _guessed_key(schema, table), timestamp or _guessed_timestamp(schema, table), table)


def _names(table: pa.Table, path: Path) -> list[str]:
    try:
        return list(table.schema.names)
    except UnicodeDecodeError as error:
        raise SchemaError(f"{path} has names of columns that are not UTF-8 ({error}); expected a file in UTF-8") from None


def _read(file: Path | BinaryIO, path: Path, form: Format, rows_max: int, delimiter: str = ",") -> pa.Table:
    try:
        return _read_csv(file, rows_max, delimiter) if form is Format.CSV else _READERS[form](file, rows_max)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except pa.ArrowInvalid as error:
        raise SchemaError(f"{path} cannot be read as {form.value}: {error}") from error


def _read_csv(file: Path | BinaryIO, rows_max: int, delimiter: str) -> pa.Table:
    head = _head(file, partial(_csv_end, delimiter=delimiter))
    if not head.strip():
        return pa.table({})
    reading = pyarrow.csv.ReadOptions(block_size=max(len(head), 1))
    nulls = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""])
    parsing = pyarrow.csv.ParseOptions(delimiter=delimiter)
    table = pyarrow.csv.read_csv(pa.BufferReader(head), reading, parsing, nulls).slice(0, rows_max)
    numbers = _numbers(table)
    if not numbers:
        return table
    nulls.include_columns, nulls.column_types = numbers, dict.fromkeys(numbers, pa.string())
    return _without_loss(table, pyarrow.csv.read_csv(pa.BufferReader(head), reading, parsing, nulls).slice(0, rows_max))


def _numbers(table: pa.Table) -> list[str]:
    """The columns of numbers; none where names are none, or come twice, which is said elsewhere."""
    try:
        names = table.schema.names
    except UnicodeDecodeError:
        return []
    if len(set(names)) < len(names):
        return []
    return [
        name
        for name, kind in zip(names, table.schema.types, strict=True)
        if pa.types.is_integer(kind) or pa.types.is_floating(kind)
    ]


def _without_loss(table: pa.Table, texts: pa.Table) -> pa.Table:
    """The table with other types for numbers that would lose digits: text for `007` and for what no decimal holds, else a decimal."""
    for name in texts.schema.names:
        written = one_array(texts[name])
        found: pa.Array | None = None
        if pc.any(pc.match_substring_regex(written, r"^[+-]?0\d")).as_py():
            found = written
        elif pa.types.is_floating(table.schema.field(name).type):
            long = written.filter(pc.greater(pc.binary_length(written), DOUBLE_DIGITS))
            if not all(_is_double(text.as_py()) for text in long):
                found = _as_decimals(written)
        if found is not None:
            table = table.set_column(table.schema.get_field_index(name), name, found)
    return table


def _is_double(text: str) -> bool:
    """Whether the nearest double of a text prints all of its digits."""
    try:
        number = Decimal(text)
    except InvalidOperation:  # NaN and the like as CSV has them
        return True
    return not number.is_finite() or number == Decimal(repr(float(text)))


def _as_decimals(texts: pa.Array) -> pa.Array:
    """The texts as decimals of the most digits behind the point, as texts if those are too many."""
    points = pc.replace_substring_regex(texts.drop_null(), r"^[^.]*\.?", "")
    scale = min(pc.max(pc.binary_length(points)).as_py() or 0, DIGITS_MAX)
    try:
        return decimals_of_texts(texts, pa.decimal128(DIGITS_MAX, scale))
    except pa.ArrowInvalid:
        return texts


def _read_json(file: Path | BinaryIO, rows_max: int) -> pa.Table:
    head = _head(file, len)
    if not head.strip():
        return pa.table({})
    return pyarrow.json.read_json(pa.BufferReader(head), pyarrow.json.ReadOptions(block_size=max(len(head), 1))).slice(
        0, rows_max
    )


def _csv_end(text: bytes, delimiter: str) -> int:
    """Where the last whole record ends; 0 if the names are all there is."""
    end = records_end(text, delimiter)
    return end if end > text.find(b"\n") + 1 else 0


def _head(file: Path | BinaryIO, whole: Callable[[bytes], int]) -> bytes:
    """
    The first whole records of a file; `whole` says where the last of some lines ends.

    Arrow's own readers of a stream would read up to 32 blocks ahead.
    """
    with nullcontext(file) if not isinstance(file, Path) else pa.input_stream(str(file)) as opened:
        head = b""
        while more := opened.read(BLOCK_BYTES):
            head += more
            if len(head) >= BLOCK_BYTES and (end := whole(head[: head.rfind(b"\n") + 1])):
                return head[:end]
        return head


def _read_parquet(file: Path | BinaryIO, rows_max: int) -> pa.Table:
    with pq.ParquetFile(file) as opened:
        return _first_rows(opened.iter_batches(min(rows_max, 65_536)), opened.schema_arrow, rows_max)


def _first_rows(batches: object, schema: pa.Schema, rows_max: int) -> pa.Table:
    taken, rows = [], 0
    for batch in islice(batches, rows_max):  # type: ignore[call-overload]
        taken.append(batch)
        rows += batch.num_rows
        if rows >= rows_max:
            break
    return pa.Table.from_batches(taken, schema).slice(0, rows_max)


_READERS: dict[Format, Callable[[Path | BinaryIO, int], pa.Table]] = {
    Format.JSON: _read_json,
    Format.PARQUET: _read_parquet,
}


def _renamed(name: str) -> str:
    """A name that a column can have: one of StreamKit's own gets an underscore at its end."""
    return f"{name}_" if name.lower() in RESERVED_COLUMNS else name


def _type(field: pa.Field, form: Format | None) -> str:
    """The type of a column; of a column without any value a text, and a time without zone is taken as UTC where it is a text."""
    if pa.types.is_null(field.type):
        return "string"
    if pa.types.is_time(field.type) or pa.types.is_duration(field.type):
        return "string"
    type = from_arrow(field.type)
    return "timestamp" if type == "timestamp_ntz" and form is not Format.PARQUET else type


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
