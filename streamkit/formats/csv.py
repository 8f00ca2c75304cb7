"""CSV: a line of values as a row; a value that is nothing is null, a quoted one never is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from streamkit.chunks import one_array
from streamkit.data_type import INTEGERS, is_nested, to_arrow
from streamkit.errors import SchemaError
from streamkit.formats.csv_cells import cell_writer
from streamkit.formats.csv_texts import FEW_ROWS, cells_of, lines_of_cells
from streamkit.formats.decoded import Decoded, empty_rows, halved, nullable, put_back
from streamkit.formats.format import DELIMITER, Format
from streamkit.formats.number_texts import is_number
from streamkit.formats.spelled_columns import is_atomic
from streamkit.formats.time_texts import TIMES
from streamkit.formats.typed_texts import values_of_texts
from streamkit.recast import recast
from streamkit.schema import Schema, SchemaColumn

_READ_AS_TEXT = (*TIMES, "date", "binary", "boolean")
BYTE_ORDER_MARK = (
    b"\xef\xbb\xbf"  # Arrow drops one at the start, so it gets one: that of the first value stays, as those of the others do
)


def check_csv_schema(schema: Any) -> str:
    """The columns of CSV, as SQL text; SchemaError for columns of nested types, which a value of CSV cannot be."""
    found = Schema.parse(schema)
    for column in found:
        if is_nested(column.type) or column.type == "void":
            raise SchemaError(f"the column {column.name!r} is {column.type}, which CSV cannot hold; expected atomic types")
    return found.ddl()


def read(format: Format, text: str, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """The wanted columns of lines that have all columns of `text`."""
    written = Schema.from_ddl(text)
    wanted = Schema(tuple(column for column in columns if column.name in written))

    def rows(part: pa.Array) -> pa.RecordBatch:
        return _rows(part, written, wanted, columns, format.setting(DELIMITER, ","))

    try:
        return Decoded(rows(values))
    except (pa.ArrowException, ValueError):
        pass

    def reads(start: int, end: int) -> str | None:
        try:
            rows(values.slice(start, end - start))
        except (pa.ArrowException, ValueError) as error:
            return f"found {values[start].as_py()[:80]!r}: {error}"
        return None

    failures = halved(len(values), reads, len(values))
    good = np.array([row for row in range(len(values)) if row not in failures], np.int64)
    return Decoded(put_back([(good, rows(values.take(pa.array(good))))], columns, len(values)), failures)


def _rows(values: pa.Array, written: Schema, wanted: Schema, columns: Schema, delimiter: str) -> pa.RecordBatch:
    if not len(values) or not len(columns):
        return empty_rows(columns, len(values))
    if pc.any(pc.not_equal(pc.bit_wise_and(pc.count_substring(values, b'"'), 1), 0)).as_py():
        raise ValueError("a quote is not closed")
    lines = b"\n".join(value.rstrip(b"\r\n") for value in values.to_pylist()) + b"\n"
    table = _parsed(lines, written, wanted, delimiter, is_checked=b"0x" in lines or b"0X" in lines)
    if any(pa.types.is_floating(one.type) and pc.any(pc.is_inf(one)).as_py() for one in table.columns):
        table = _parsed(lines, written, wanted, delimiter, is_checked=True)
    if table.num_rows != len(values):
        raise ValueError("a value is not one line of CSV")
    return _in_types(table, wanted, columns, len(values))


def _parsed(lines: bytes, written: Schema, wanted: Schema, delimiter: str, *, is_checked: bool) -> pa.Table:
    """The wanted columns; if it `is_checked` numbers are texts, since Arrow takes hexadecimal ones, and makes infinities."""
    types = {
        column.name: pa.string() if _is_read_as_text(column) or (is_checked and is_number(column.type)) else column.arrow.type
        for column in written
    }
    return pa.csv.read_csv(
        pa.BufferReader(BYTE_ORDER_MARK + lines),
        pa.csv.ReadOptions(column_names=list(written.names), use_threads=False, block_size=max(1 << 20, len(lines) + 4)),
        pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=False),
        pa.csv.ConvertOptions(
            column_types=types, include_columns=list(wanted.names) or [written.names[0]], null_values=[""],
            strings_can_be_null=True, quoted_strings_can_be_null=False,
        ),
    )  # fmt: skip


def _in_types(table: pa.Table, wanted: Schema, columns: Schema, count: int) -> pa.RecordBatch:
    arrays = []
    for column in columns:
        found = one_array(table[column.name]) if column.name in wanted else pa.nulls(count, column.arrow.type)
        if pa.types.is_string(found.type):
            found = values_of_texts(pc.utf8_trim(found, " \t") if is_number(column.type) else found, column.type)
        arrays.append(recast(found, to_arrow(column.type)))
    return nullable(pa.RecordBatch.from_arrays(arrays, names=list(columns.names)))


def _is_read_as_text(column: SchemaColumn) -> bool:
    return column.type in _READ_AS_TEXT or column.type.startswith("decimal")


def write(format: Format, text: str, rows: pa.RecordBatch) -> pa.Array:
    """The rows as lines, without their ends; the columns are those of `text`. ValueError for a value that is not of its column's type."""
    columns = Schema.from_ddl(text)
    rows = rows.select([name for name in columns.names if name in rows.schema.names])
    if rows.num_rows >= FEW_ROWS:
        try:
            return _lines(format, columns, rows)
        except (pa.ArrowException, ValueError, TypeError, ArithmeticError):
            pass  # the error is that of the first row which has one
    encode = value_writer(format, text)
    try:
        values = rows.to_pylist()
    except OverflowError:  # a date or a time of a year that Python has not
        return _lines(format, columns, rows)
    return pa.array([encode(row) for row in values], pa.binary())


def _lines(format: Format, columns: Schema, rows: pa.RecordBatch) -> pa.Array:
    """The rows as lines, all at once."""
    delimiter, absent = format.setting(DELIMITER, ","), pa.nulls(rows.num_rows)
    found = [rows[column.name] if column.name in rows.schema.names else absent for column in columns]
    return lines_of_cells([_cells(*one, delimiter) for one in zip(columns, found, strict=True)], delimiter)


def _cells(column: SchemaColumn, values: pa.Array, delimiter: str) -> pa.Array:
    """A cell for each value; those that may not fit in the column are looked at alone."""
    if column.type in INTEGERS and pa.types.is_integer(values.type):
        values = recast(values, column.arrow.type)  # refuses those that do not fit
    is_sure = column.type == "string" or values.type in (column.arrow.type, pa.null())
    if is_sure and is_atomic(values.type):
        return cells_of(values, delimiter, " ", any_year=True)
    write = cell_writer(column, delimiter)
    return pa.array([None if value is None else write(value) for value in values.to_pylist()], pa.string())


def value_writer(format: Format, text: str) -> Callable[[Any], bytes]:
    """What writes a dict of columns as a line; ValueError for a value that is not of its column's type."""
    columns, delimiter = Schema.from_ddl(text), format.setting(DELIMITER, ",")
    names = columns.names
    cells = [(column.name, cell_writer(column, delimiter)) for column in columns]

    def encode(value: Any) -> bytes:
        if not isinstance(value, Mapping):
            raise TypeError(f"it is no dict of the columns {', '.join(names)}")
        unknown = sorted(set(value) - set(names))
        if unknown:
            raise ValueError(f"there is no column {unknown[0]!r}; the format has {', '.join(names)}")
        return delimiter.join(write(value.get(name)) for name, write in cells).encode()

    return encode


def value_reader(format: Format, text: str) -> Callable[[bytes], Any]:
    """What reads a line as a dict of columns."""
    columns = Schema.from_ddl(text)

    def decode(data: bytes) -> Any:
        found = read(format, text, pa.array([data], pa.binary()), columns, 0)
        if found.failures:
            raise ValueError(found.failures[0])
        return found.rows.to_pylist()[0]

    return decode
