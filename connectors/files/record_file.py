"""Records in files: CSV with a line of names, JSON one object a line, Parquet; a piece at a time, in the types of a topic."""

from __future__ import annotations

import codecs
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import chain, islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from streamkit.chunks import one_array
from streamkit.connectors.files.csv_lines import (
    OTHER_DELIMITERS,
    OTHER_ENCODINGS,
    UNCLOSED,
    another_delimiter,
    csv_blocks,
    csv_lines,
    unclosed_line,
)
from streamkit.connectors.files.guessed_values import check_json, check_texts, check_type, keeps_doubles, of_guess
from streamkit.connectors.files.json_layout import several_lines
from streamkit.connectors.files.line_ends import count_lines, lines_end
from streamkit.connectors.files.nested_json import json_values, nested_texts, once
from streamkit.connectors.files.parquet_columns import declared, readable
from streamkit.connectors.files.record_text import counted_times, is_text_in_json, json_texts, parse_headers, parse_texts
from streamkit.connectors.files.spelling import ISO, Spelling
from streamkit.data_type import FLOATS, from_arrow, is_nested
from streamkit.errors import ConfigError, SchemaError
from streamkit.formats.avro_json import avro_reader
from streamkit.formats.format import Format
from streamkit.formats.json_columns import NOT_ARROWS, are_finite
from streamkit.formats.json_numbers import (
    WrittenNumber,
    json_numbers,
    parse_number,
    parse_whole,
    refuse_constant,
    written_documents,
)
from streamkit.formats.protobuf_json import protobuf_reader
from streamkit.formats.time_texts import TIMES
from streamkit.log.rows.conversion import convert_arrow, convert_python
from streamkit.log.rows.encoded_column import encoded_column
from streamkit.log.topic.formats import VALUE
from streamkit.log.topic.topic import Topic
from streamkit.names import DELETED, HEADERS, OFFSET, PARTITION, TIMESTAMP
from streamkit.schema import SchemaColumn

BLOCK_BYTES = 4 << 20
_HEADERS_IN_JSON = pa.list_(pa.list_(pa.string()))
_LOG = {TIMESTAMP: SchemaColumn(TIMESTAMP, "timestamp"), DELETED: SchemaColumn(DELETED, "boolean")}
_PLACES = {
    PARTITION: SchemaColumn(PARTITION, "int"),
    OFFSET: SchemaColumn(OFFSET, "bigint"),
}  # what `consume` prints, and no record has of itself


class FileFormat(str, Enum):
    """How records lie in a file."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


@dataclass(frozen=True)
class FilePiece:
    """Some records of a file, the number of the first of them, and how many bytes of the file have been read."""

    records: pa.RecordBatch
    first: int
    read_bytes: int


class RecordFile:
    """
    The records of an open file. `timestamp_column` is the column with the event time, for topics that take it from none.

    SchemaError names the line of a record that cannot be read; where there are no lines to count, its number. Where it `is_sparse`,
    objects of JSON may lack columns that can be null, and fields. Columns whose types were `guessed` take no other spelling.
    """

    def __init__(
        self,
        file: BinaryIO,
        name: str,
        form: FileFormat,
        topic: Topic,
        timestamp_column: str | None,
        spelling: Spelling = ISO,
        *,
        is_sparse: bool = False,
        delimiter: str = ",",
        guessed: Mapping[str, str] | None = None,
    ) -> None:
        if timestamp_column is not None and topic.timestamp not in (None, timestamp_column):
            raise ConfigError(
                f"--timestamp-column {timestamp_column}: topic {topic.name} has the event time in its column {topic.timestamp}"
            )
        if topic.format is not None and form is FileFormat.CSV:
            raise ConfigError(
                f"topic {topic.name} is opaque, its values are {topic.format.name}; expected JSON lines with key and value"
            )
        self._opaque = topic.format
        self._file = file
        self._name = name
        self._form = form
        self._timestamp_column = timestamp_column if topic.timestamp is None else None  # whose own the producer looks at
        self._spelling = spelling
        self._delimiter = delimiter
        self._columns = {column.name: column for column in topic.schema} | _LOG | _PLACES
        if timestamp_column is not None:
            self._columns.setdefault(timestamp_column, SchemaColumn(timestamp_column, "timestamp"))
        for column in self._columns.values():
            spelling.check_column(column.name, column.type)
        self._is_nested = any(is_nested(column.type) for column in topic.schema)
        self._topic = topic.name
        self._schema = topic.schema
        self._key = topic.key
        self._is_sparse = is_sparse
        self._guessed = {name: SchemaColumn(name, type) for name, type in (guessed or {}).items()}
        self._has_guessed_floats = any(column.type in FLOATS for column in self._guessed.values())
        self._optional = (
            {column.name for column in topic.schema if column.nullable} if is_sparse and form is FileFormat.JSON else set()
        )
        self._block_first = 0  # of the JSON read last: the number of its first record, and the line of each
        self._block_lines: Sequence[int] = ()
        self._has_written_numbers = False

    def pieces(self) -> Iterator[FilePiece]:
        """The records, in order."""
        readers = {FileFormat.CSV: self._read_csv, FileFormat.JSON: self._read_json, FileFormat.PARQUET: self._read_parquet}
        first = 0
        for batch, read_bytes in readers[self._form]():
            if self._is_sparse and self._opaque is None:
                self._check_present(batch, first)
            yield FilePiece(self._arranged(batch, first), first, read_bytes)
            first += batch.num_rows

    def _check_present(self, batch: pa.RecordBatch, first: int) -> None:
        """SchemaError for a null in a column that is NOT NULL; a deletion has no columns but its key's."""
        for column in self._schema:
            values = batch.column(column.name) if not column.nullable and column.name in batch.schema.names else None
            if values is None or not values.null_count:
                continue
            missing = values.is_null()
            if DELETED in batch.schema.names and column.name not in self._key:
                missing = pc.and_not(missing, pc.fill_null(batch.column(DELETED), False))
            row = pc.index(missing, True).as_py()
            if row >= 0:
                refused = SchemaError(f"row {row}, column {column.name!r}: found null, and the column is NOT NULL", (row,))
                raise self.refusal(refused, first)

    def refusal(self, error: SchemaError, first: int) -> SchemaError:
        """The error with the line of the record that it is about, instead of its row in a piece."""
        if not error.rows:
            return SchemaError(f"{self._name}: {error}")
        noun, places = self._places([first + row for row in error.rows])
        row, rows = error.rows[0], ", ".join(map(str, error.rows))
        reason = str(error).replace(f"row {row}, ", "", 1).replace(f"row {row} takes", "it takes", 1)  # which nobody could find
        reason = reason.replace(f"that do not fit are {rows}", f"that do not fit are {noun}s {', '.join(places)}", 1)
        return type(error)(f"{self._name}, {noun} {places[0]}: {reason}", error.rows)

    def _complaint(self, found: Sequence[str], *, is_deletion: bool = False) -> str | None:
        """What is wrong with the names of columns. None if they are the topic's (for a deletion its key's), perhaps with the log's own."""
        wanted = self._key if is_deletion else self._schema.names
        missing = [name for name in wanted if name not in found and (is_deletion or name not in self._optional)]
        unknown = [f"the unknown column {name!r}" for name in found if name not in self._columns and name != HEADERS]
        wrong = [*(f"no column {name!r}" for name in missing[:1]), *unknown[:1]]
        advice = (
            "; a column without a value is written too: null in JSON, empty in CSV"
            if missing and self._schema[missing[0]].nullable
            else ""
        )
        return (
            f"{' and '.join(wrong)}; found {', '.join(found) or 'none'}; the topic has {self._schema}{advice}" if wrong else None
        )

    def _check_names(self, found: Sequence[str]) -> None:
        twice = [name for name, count in Counter(found).items() if count > 1]
        if twice:
            raise SchemaError(f"{self._name}: the column {twice[0]!r} is there twice")
        complaint = self._complaint(found)
        if complaint:
            is_csv = self._form is FileFormat.CSV and len(found) == 1
            other = next((one for one in OTHER_DELIMITERS if is_csv and one in found[0]), None)
            advice = "" if other is None else another_delimiter(other)
            raise SchemaError(f"{self._name}: topic {self._topic}: the data have {complaint}{advice}")

    def _arranged(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The records with their event time under its name, and without where they lay in a log."""
        if self._timestamp_column is not None:
            if self._timestamp_column not in batch.schema.names:
                raise SchemaError(
                    f"{self._name} has no column {self._timestamp_column!r}; it has {', '.join(batch.schema.names)}"
                )
            times = self._times(batch, self._timestamp_column, first)
            batch = _without(batch, (TIMESTAMP,)).append_column(TIMESTAMP, times)
            if self._timestamp_column not in (*self._schema.names, TIMESTAMP):
                batch = _without(batch, (self._timestamp_column,))
        return _without(batch, _PLACES)

    def _times(self, batch: pa.RecordBatch, name: str, first: int) -> pa.Array:
        times = batch.column(name)
        try:
            if pa.types.is_date(times.type):  # its midnight, in UTC
                return convert_arrow(_LOG[TIMESTAMP], times.cast(pa.timestamp("s")))
            return counted_times(name, times) if pa.types.is_integer(times.type) else times
        except SchemaError as error:
            raise self.refusal(error, first) from None

    # CSV

    def _read_csv(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        first, read_bytes = 0, 0
        names: Sequence[str] | None = None
        for block in self._csv_blocks():
            read_bytes += len(block)
            texts = self._parse_csv(block, names)
            if names is None:
                names = texts.schema.names
                self._check_names(names)
            for batch in _up_to_refused(partial(self._typed, first=first), texts):
                yield batch, read_bytes
            first += texts.num_rows
        if names is None:
            raise self._uneven("it is empty")

    def _csv_blocks(self) -> Iterator[bytes]:
        try:
            yield from csv_blocks(_blocks(self._file), self._delimiter)
        except SchemaError as error:
            self._check_closed()
            raise SchemaError(f"{self._name}: {error}") from None

    def _parse_csv(self, block: bytes, names: Sequence[str] | None) -> pa.RecordBatch:
        """The records of a block as texts; the first block, when no names are known yet, begins with them."""
        try:
            table = pa.csv.read_csv(
                _arrow_memory(block if block.endswith(b"\n") else block + b"\n"),
                pa.csv.ReadOptions(block_size=len(block) + 2, column_names=names),
                pa.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys((*self._columns, HEADERS), pa.string()),
                    null_values=list(self._spelling.nulls), strings_can_be_null=True, quoted_strings_can_be_null=False,
                ),
            )  # fmt: skip
            found = table.schema.names
        except UnicodeDecodeError:
            raise SchemaError(
                f"{self._name}, line 1: found {block[:80]!r}, expected the names of columns, as text in UTF-8{OTHER_ENCODINGS}"
            ) from None
        except pa.ArrowInvalid as error:
            raise self._uneven(str(error)) from error
        return pa.RecordBatch.from_arrays([one_array(column) for column in table.columns], found)

    def _typed(self, texts: pa.RecordBatch, first: int) -> pa.RecordBatch:
        try:
            arrays = [
                self._guessed_or_not(self._from_csv, name, column)
                for name, column in zip(texts.schema.names, texts.columns, strict=True)
            ]
        except SchemaError as error:
            raise self.refusal(error, first) from None
        return pa.RecordBatch.from_arrays(arrays, names=texts.schema.names)

    def _guessed_or_not(self, read: Callable[[str, Any], pa.Array], name: str, values: Any) -> pa.Array:
        """The values of a column; the error of a guessed one says how to do without a guess."""
        try:
            return read(name, values)
        except SchemaError as error:
            if name not in self._guessed:
                raise
            raise of_guess(self._guessed[name], error) from error.__cause__

    def _from_csv(self, name: str, texts: pa.Array) -> pa.Array:
        if name == HEADERS:
            return parse_headers(texts.to_pylist())
        column = self._columns.get(name)
        if column is None:
            return texts
        guessed = self._guessed.get(name)
        if is_nested(column.type):
            if guessed is not None:
                nested_texts(guessed, texts, self._spelling, is_sparse=self._is_sparse, is_guessed=True)
            return nested_texts(column, texts, self._spelling, is_sparse=self._is_sparse)
        values = parse_texts(column, texts, self._spelling)
        if guessed is not None:
            check_texts(guessed, texts, values, self._spelling)
        return values

    def _uneven(self, reason: str) -> SchemaError:
        self._check_closed()
        for line, values, names in csv_lines(self._file, self._delimiter):
            if len(values) != len(names):
                return SchemaError(
                    f"{self._name}, line {line}: found {len(values)} values, expected {len(names)}: {', '.join(names)}"
                )
            for name, value in zip(names, values, strict=True):
                if not _is_text(value):
                    data = value.encode(errors="surrogateescape")[:80]
                    return SchemaError(
                        f"{self._name}, line {line}: column {name!r}: found {data!r}, expected text in UTF-8{OTHER_ENCODINGS}"
                    )
        return SchemaError(f"{self._name} cannot be read as CSV: {reason}")

    def _check_closed(self) -> None:
        line = unclosed_line(self._file, self._delimiter)
        if line is not None:
            raise SchemaError(f"{self._name}, line {line}: {UNCLOSED}")

    # JSON

    def _read_json(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        read_bytes, line = 0, 1
        for block in _blocks(self._file):
            lines = (block if read_bytes else block.removeprefix(codecs.BOM_UTF8)).splitlines()
            numbered = [(line + number, text) for number, text in enumerate(lines) if text.strip()]
            self._block_first += len(self._block_lines)
            self._block_lines = [number for number, _ in numbered]
            line += count_lines(block)
            read_bytes += len(block)
            for batch in _up_to_refused(self._parse_json, [text for _, text in numbered]):
                yield batch, read_bytes

    def _parse_json(self, lines: Sequence[bytes]) -> pa.RecordBatch:
        is_plain = self._opaque is None and not self._is_nested and all(text.lstrip().startswith(b"{") for text in lines)
        is_plain = is_plain and not any(mark in text for text in lines for mark in NOT_ARROWS)
        found = self._parse_at_once(b"\n".join(lines), len(lines)) if is_plain else None
        return self._parse_one_by_one(lines) if found is None else found

    def _parse_at_once(self, block: bytes, count: int) -> pa.RecordBatch | None:
        """
        The short way, for a block of that many lines; None if the long way has to look at them.

        Arrow takes objects wherever they begin and end, and dies of a null alone and of columns that nest some thousand deep.
        """
        kinds = {name: pa.string() if is_text_in_json(column) else column.arrow.type for name, column in self._columns.items()}
        wanted = pa.schema([*kinds.items(), (HEADERS, _HEADERS_IN_JSON)])
        try:
            table = pa.json.read_json(
                _arrow_memory(block),
                pa.json.ReadOptions(block_size=len(block) + 1),
                pa.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="error"),
            )
            columns = {name: one_array(table[name]) for name in table.schema.names}
            if columns[HEADERS].null_count == len(columns[HEADERS]):
                del columns[HEADERS]
            if table.num_rows != count or not self._is_complete(block, columns) or not all(map(are_finite, columns.values())):
                return None
            return self._from_json(columns) if self._are_spelled(block, columns) else None
        except (ValueError, SchemaError):
            return None

    def _are_spelled(self, block: bytes, columns: Mapping[str, pa.Array]) -> bool:
        """Whether guessed columns have only values that are spelled so, as far as that can be said at once."""
        for name, guessed in self._guessed.items():
            is_text = name in columns and pa.types.is_string(columns[name].type) and guessed.type != "string"
            if is_text and columns[name].null_count < len(columns[name]):
                if guessed.type not in (*TIMES, "date"):
                    return False
                check_texts(guessed, columns[name], columns[name], self._spelling)
        return not self._has_guessed_floats or keeps_doubles(block)

    def _is_complete(self, block: bytes, columns: Mapping[str, pa.Array]) -> bool:
        """Whether each record has just the columns that it may have: every null was written as null."""
        required = [name for name in self._schema.names if name not in self._optional]
        wanted = [*required, *([self._timestamp_column] if self._timestamp_column else [])]
        nulls = {name: columns[name].null_count for name in wanted if columns[name].null_count}
        return all(count == _nulls_written(block, name) for name, count in nulls.items())

    def _parse_one_by_one(self, lines: Sequence[bytes]) -> pa.RecordBatch:
        """The long way, which can say which line is wrong."""
        self._has_written_numbers = False
        rows = [self._row(number, text) for number, text in enumerate(lines)]
        names = dict.fromkeys(chain(self._schema.names, *rows))
        try:
            values = {name: self._guessed_or_not(self._values, name, [row.get(name) for row in rows]) for name in names}
            return self._from_json(values)
        except SchemaError as error:
            raise self.refusal(error, self._block_first) from None

    def _row(self, number: int, text: bytes) -> dict[str, Any]:
        shown = text[:80].decode(errors="replace")
        try:
            row = json.loads(
                text,
                object_pairs_hook=once,
                parse_float=self._number,
                parse_int=parse_whole if b"-0" in text else None,
                parse_constant=refuse_constant,
            )
        except SchemaError as error:
            raise self.refusal(SchemaError(str(error), (number,)), self._block_first) from None
        except (ValueError, RecursionError) as error:
            refused = SchemaError(f"found {shown!r}, which is no JSON: {error}{several_lines(text)}", (number,))
            raise self.refusal(refused, self._block_first) from None
        if not isinstance(row, dict):
            refused = SchemaError(f"found {shown!r}, expected an object of names and values", (number,))
            raise self.refusal(refused, self._block_first)
        complaint = self._complaint(list(row), is_deletion=row.get(DELETED) is True) or self._untimed(row)
        if complaint:
            raise self.refusal(SchemaError(f"the record has {complaint}", (number,)), self._block_first)
        return row

    def _number(self, text: str) -> float:
        number = parse_number(text)
        self._has_written_numbers |= isinstance(number, WrittenNumber)
        return number

    def _untimed(self, row: Mapping[str, Any]) -> str | None:
        if self._timestamp_column is None or self._timestamp_column in row:
            return None
        return f"no column {self._timestamp_column!r}, expected the event time there; found {', '.join(row)}"

    def _values(self, name: str, values: list[Any]) -> pa.Array:
        if name == HEADERS:
            return parse_headers(values)
        column = self._columns[name]
        if self._opaque is not None and name in self._schema:
            return self._encoded(self._opaque, name, values)
        guessed = self._guessed.get(name)
        if is_nested(column.type):
            if guessed is not None:
                json_values(guessed, values, self._spelling, is_sparse=self._is_sparse, is_guessed=True)
            return json_values(column, values, self._spelling, is_sparse=self._is_sparse)
        if guessed is not None:
            check_json(guessed, values, self._spelling)
        if is_text_in_json(column):
            return json_texts(column, values)
        return convert_python(column, json_numbers(column, values))

    def _encoded(self, opaque: Format, name: str, values: list[Any]) -> pa.Array:
        """Keys or values as bytes of the topic's format; where these are bytes already, JSON has them in base 64."""
        if opaque.name == "bytes":
            return parse_texts(SchemaColumn(name, "binary"), convert_python(SchemaColumn(name, "string"), values))
        if opaque.schema is not None and name == VALUE and opaque.name in ("avro", "protobuf"):
            read = avro_reader(opaque.schema) if opaque.name == "avro" else protobuf_reader(opaque, opaque.schema)
            values = self._read_for(opaque.name, read, values)
        encoded = encoded_column(opaque, name, values)
        return (
            written_documents(values, name) if self._has_written_numbers and opaque.name == "json" and name == VALUE else encoded
        )

    def _read_for(self, format: str, read: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
        """Values of JSON as the writer of a format takes them; SchemaError with the row of the first that does not fit."""
        found = []
        for row, value in enumerate(values):
            try:
                found.append(None if value is None else read(value))
            except (ValueError, RecursionError) as error:
                shown = json.dumps(value, ensure_ascii=False)[:80]
                reason = f"row {row}, column {VALUE!r}: found {shown}, expected a value of format {format}: {str(error) or type(error).__name__}"
                raise SchemaError(reason, (row,)) from None
        return found

    def _from_json(self, columns: dict[str, pa.Array]) -> pa.RecordBatch:
        arrays = {name: self._guessed_or_not(self._from_text, name, column) for name, column in columns.items()}
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def _from_text(self, name: str, column: pa.Array) -> pa.Array:
        if name == HEADERS and column.type == _HEADERS_IN_JSON:
            return parse_headers(column.to_pylist())
        known = self._columns.get(name)
        if known is None or known.type == "string" or not pa.types.is_string(column.type):
            return column
        return parse_texts(known, column, replace(self._spelling, has_commas=False))

    # Parquet

    def _read_parquet(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        source = self._file if self._file.seekable() else io.BytesIO(self._file.read())
        size = source.seek(0, os.SEEK_END)
        try:
            file = pq.ParquetFile(source)
        except pa.ArrowInvalid as error:
            raise SchemaError(f"{self._name} cannot be read as Parquet: {error}") from error
        self._check_names(file.schema_arrow.names)
        rows = 0
        for batch in file.iter_batches():
            found = self._declared(batch, rows)
            rows += batch.num_rows
            yield found, size * rows // max(1, file.metadata.num_rows)

    def _declared(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """The records of Parquet in the types of the topic, as a producer converts them."""
        try:
            for name, values in zip(batch.schema.names, batch.columns, strict=True):
                if name in self._guessed:
                    check_type(self._guessed[name], from_arrow(readable(values.type)))
            arrays = [
                declared(self._schema[name], values) if name in self._schema and self._opaque is None else values
                for name, values in zip(batch.schema.names, batch.columns, strict=True)
            ]
        except SchemaError as error:
            named = SchemaError(f"topic {self._topic}: {error}", error.rows)
            raise self.refusal(named, first) from None
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    def _places(self, records: Sequence[int]) -> tuple[str, list[str]]:
        """Where records are: their lines, if they have lines that can be counted, else their numbers from 1 on."""
        lines = self._lines(records)
        if len(lines) == len(records):
            return "line", [str(line) for line in lines]
        return "record", [str(record + 1) for record in records]

    def _lines(self, records: Sequence[int]) -> Sequence[int]:
        if self._form is FileFormat.JSON:
            return [self._block_lines[record - self._block_first] for record in records]
        if self._form is FileFormat.CSV:
            numbered = enumerate(islice(csv_lines(self._file, self._delimiter), max(records) + 1))
            return [line for number, (line, _, _) in numbered if number in records]
        return ()


def _up_to_refused(parse: Callable[[Any], pa.RecordBatch], records: Any) -> Iterator[pa.RecordBatch]:
    """The parsed records; if one is refused, those before it, and then the error."""
    if not len(records):
        return
    try:
        parsed = parse(records)
    except SchemaError as error:
        if error.rows and error.rows[0]:
            yield parse(records[: error.rows[0]])
        raise
    yield parsed


def _is_text(value: str) -> bool:
    return not any("\udc80" <= character <= "\udcff" for character in value)


def _nulls_written(block: bytes, name: str) -> int:
    """How many records of a block of JSON, whose objects do not nest, say that a column is null."""
    quoted = re.escape(json.dumps(name, ensure_ascii=False).encode())
    return len(re.findall(quoted + rb"(?<=[{,\s]" + quoted + rb")\s*:\s*null", block))


def _arrow_memory(data: bytes) -> pa.BufferReader:
    """
    A file of Arrow's own memory. Arrow reads ahead in threads that may outlive an error of the reader; one that calls into
    Python, or frees what Python owns, while the interpreter ends takes the process with it.
    """
    memory = pa.BufferOutputStream()
    memory.write(data)
    return pa.BufferReader(memory.getvalue())


def _without(batch: pa.RecordBatch, names: Any) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name not in names])


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """The bytes of a file in whole lines; as soon as they are there, so that a pipe does not wait."""
    rest = b""
    read = getattr(file, "read1", file.read)
    while data := read(BLOCK_BYTES):
        rest += data
        if end := lines_end(rest):
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest
