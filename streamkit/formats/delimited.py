"""
DELIMITED: a line of values, as ksqlDB reads and writes it.

Nothing is null both ways, a line has as many values as there are columns, and times are milliseconds, dates days, bytes base 64.
"""

from __future__ import annotations

import csv
import decimal
import io
from typing import Any

import pyarrow as pa

from streamkit.data_type import decimal_of
from streamkit.formats.csv import check_csv_schema
from streamkit.formats.decoded import Decoded
from streamkit.formats.format import DELIMITER, Format
from streamkit.formats.ksql_values import (
    MOMENTS,
    UnreadableValueError,
    array_of,
    bytes_of_text,
    decimal_text,
    double_text,
    fitting_decimal,
    is_moment,
    plain_values,
    rows_of_values,
)
from streamkit.schema import Schema

COUNTS = ("int", "bigint", "smallint", "tinyint", "timestamp", "timestamp_ntz", "date")
_RANGES = {"int": 31, "smallint": 15, "tinyint": 7, "date": 31}
_QUOTED_FIRST = "#"  # a character up to this one at the start of a value puts it in quotes

__all__ = ["array_of", "check_delimited_schema", "read", "value_reader", "value_writer", "write"]


def check_delimited_schema(schema: Any) -> str:
    """The columns of a line, as SQL text, whose names may differ in case only; SchemaError for columns of nested types."""
    return check_csv_schema(Schema.parse(schema, keeps_case=True))


def read(format: Format, text: str | None, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """The wanted columns of lines that have all columns of `text`."""
    written = Schema.from_ddl(str(text))
    places = [written.names.index(name) for name in columns.names]
    types = [column.type for column in columns]
    delimiter = format.setting(DELIMITER, ",")

    def row(data: bytes) -> list[Any]:
        cells = cells_in(data.decode(), delimiter)
        if len(cells) != len(written):
            raise UnreadableValueError(f"it has {len(cells)} values; expected {len(written)}: {', '.join(written.names)}")
        return [value_of(cells[place], type) for place, type in zip(places, types, strict=True)]

    return rows_of_values(values.to_pylist(), columns, row)


def cells_in(line: str, delimiter: str) -> list[str]:
    """The values of a line."""
    lines = list(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter, strict=True))
    if len(lines) > 1:
        raise UnreadableValueError("it is several lines")
    return lines[0] if lines else [""]


def value_of(cell: str, type: str) -> Any:
    """The value of a cell; nothing is null."""
    if cell == "":
        return None
    if type in COUNTS:
        found = int(cell) if cell.strip() == cell and "_" not in cell else _refuse(cell, type)
        bits = _RANGES.get(type, 63)
        is_known = type not in MOMENTS or is_moment(found)
        return found if is_known and -(1 << bits) <= found < (1 << bits) else _refuse(cell, type)
    if type in ("double", "float"):
        return float(cell)
    if type == "boolean":
        return cell.lower() == "true"
    if decimal_of(type):
        try:
            return fitting_decimal(decimal.Decimal(cell), type)
        except decimal.InvalidOperation:
            return _refuse(cell, type)
    if type == "binary":
        return bytes_of_text(cell)
    return cell


def _refuse(cell: str, type: str) -> Any:
    raise UnreadableValueError(f"{cell!r} is not {type}")


def write(format: Format, text: str | None, rows: pa.RecordBatch) -> pa.Array:
    """The rows as lines, without their ends."""
    columns = Schema.from_arrow(rows.schema)
    delimiter = format.setting(DELIMITER, ",")
    cells = [[_text(value) for value in plain_values(rows.column(place), column.type)] for place, column in enumerate(columns)]
    return pa.array([line_of(list(row), delimiter).encode() for row in zip(*cells, strict=True)], pa.binary())


def line_of(cells: list[str | None], delimiter: str) -> str:
    """The cells as a line; null is nothing."""
    return delimiter.join("" if cell is None else quoted(cell, delimiter, is_first=not place) for place, cell in enumerate(cells))


def quoted(cell: str, delimiter: str, *, is_first: bool) -> str:
    """A cell, in quotes where it needs them, or where it begins with a sign that some readers take for more."""
    if cell == "":
        return '""' if is_first else ""
    first, last = cell[0], cell[-1]
    is_odd = is_first and not (first.isascii() and (first.isalnum() or first in " !$%&'()*+-./:;<=>?@[\\]^_`{|}~"))
    needs = is_odd or first <= _QUOTED_FIRST or last <= " " or any(sign in cell for sign in ("\n", "\r", '"', delimiter))
    return '"{}"'.format(cell.replace('"', '""')) if needs else cell


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return double_text(value)
    return decimal_text(value) if isinstance(value, decimal.Decimal) else str(value)


def value_writer(format: Format, text: str | None) -> Any:
    """What writes one value of Python: a line as it is, or a list or dict of the values of one."""
    delimiter = format.setting(DELIMITER, ",")

    def write_one(value: Any) -> bytes:
        if isinstance(value, str | bytes):
            return value.encode() if isinstance(value, str) else value
        is_one = not isinstance(value, dict | list | tuple)
        cells = [value] if is_one else list(value.values()) if isinstance(value, dict) else list(value)
        return line_of([_text(one) for one in cells], delimiter).encode()

    return write_one


def value_reader(format: Format, text: str | None) -> Any:
    """What reads one value: the line."""
    return lambda data: data.decode()
