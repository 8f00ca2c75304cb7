"""
DELIMITED: a line of values, as ksqlDB reads and writes it.

Nothing is null both ways, a line has as many values as there are columns, and times are milliseconds, dates days, bytes base 64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.formats.csv import check_csv_schema
from streamkit.formats.csv_texts import lines_of_cells
from streamkit.formats.decoded import Decoded, empty_rows, put_back
from streamkit.formats.delimited_cells import cells_in, line_of, text_of, value_of
from streamkit.formats.delimited_columns import plain_cells, read_plain
from streamkit.formats.format import DELIMITER, Format
from streamkit.formats.ksql_values import UnreadableValueError, plain_values, rows_of_values
from streamkit.schema import Schema

_FEW_READ, _FEW_WRITTEN = 128, 32  # rows that are done one by one before Arrow is


def check_delimited_schema(schema: Any) -> str:
    """The columns of a line, as SQL text, whose names may differ in case only; SchemaError for columns of nested types."""
    return check_csv_schema(Schema.parse(schema, keeps_case=True) if schema != "" else Schema(()))


def read(format: Format, text: str | None, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """The wanted columns of lines that have all columns of `text`."""
    written = Schema.from_ddl(str(text))
    if not len(written):
        reason = "there are no columns, and each line has a value"
        return Decoded(empty_rows(columns, len(values)), dict.fromkeys(range(len(values)), reason))
    delimiter = format.setting(DELIMITER, ",")
    if len(values) < _FEW_READ:
        return read_one_by_one(values.to_pylist(), written, columns, delimiter)
    arrays, odd = read_plain(values, written, columns, delimiter)
    rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([column.arrow.with_nullable(True) for column in columns]))
    if not len(odd):
        return Decoded(rows)
    found = read_one_by_one(values.take(pa.array(odd)).to_pylist(), written, columns, delimiter)
    plain = np.setdiff1d(np.arange(len(values)), odd)
    both = put_back([(plain, rows), (odd, found.rows)], columns, len(values))
    return Decoded(both, {int(odd[row]): reason for row, reason in found.failures.items()})


def read_one_by_one(values: Sequence[bytes], written: Schema, columns: Schema, delimiter: str) -> Decoded:
    """The wanted columns of lines that have all columns, also of lines with quotes and of damaged ones."""
    places = [written.names.index(name) for name in columns.names]
    types = [column.type for column in columns]

    def row(data: bytes) -> list[Any]:
        cells = cells_in(data.decode(), delimiter)
        if len(cells) != len(written):
            raise UnreadableValueError(f"it has {len(cells)} values; expected {len(written)}: {', '.join(written.names)}")
        return [value_of(cells[place], type) for place, type in zip(places, types, strict=True)]

    return rows_of_values(values, columns, row)


def write(format: Format, text: str | None, rows: pa.RecordBatch) -> pa.Array:
    """The rows as lines, without their ends."""
    columns = Schema.from_arrow(rows.schema)
    delimiter = format.setting(DELIMITER, ",")
    if not len(columns):
        return pa.array([b""] * rows.num_rows, pa.binary())
    if rows.num_rows >= _FEW_WRITTEN:
        try:
            cells = [
                plain_cells(rows.column(place), column.type, delimiter, is_first=not place)
                for place, column in enumerate(columns)
            ]
            return lines_of_cells(cells, delimiter)
        except (pa.ArrowException, ValueError):
            pass  # the error is that of the first value which has one
    texts = [[text_of(value) for value in plain_values(rows.column(place), column.type)] for place, column in enumerate(columns)]
    return pa.array([line_of(list(row), delimiter).encode() for row in zip(*texts, strict=True)], pa.binary())


def value_writer(format: Format, text: str | None) -> Any:
    """What writes one value of Python: a line as it is, or a list or dict of the values of one."""
    delimiter = format.setting(DELIMITER, ",")

    def write_one(value: Any) -> bytes:
        if isinstance(value, str | bytes):
            return value.encode() if isinstance(value, str) else value
        is_one = not isinstance(value, dict | list | tuple)
        cells = [value] if is_one else list(value.values()) if isinstance(value, dict) else list(value)
        return line_of([text_of(one) for one in cells], delimiter).encode()

    return write_one


def value_reader(format: Format, text: str | None) -> Any:
    """What reads one value: the line."""
    return lambda data: data.decode()
