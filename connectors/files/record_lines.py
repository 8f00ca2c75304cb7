"""Records as lines of JSON and CSV, and values as text that says all of them."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.chunks import one_array, one_batch
from streamkit.formats.csv_texts import FEW_ROWS, cells_of, lines_of_cells, quoted
from streamkit.formats.format import Format
from streamkit.formats.json_numbers import WrittenNumber, document_text, holds_written_number
from streamkit.formats.json_texts import spaced_json_objects, spaced_json_values
from streamkit.formats.spelled_columns import is_atomic
from streamkit.log.topic.formats import rows_of
from streamkit.names import DELETED

_HALF = re.compile("[\ud800-\udfff]")
_DELIMITER = ","
_QUOTED = re.compile('[,"\r\n]')  # what a value of CSV can only have within quotes


def write_json(file: TextIO, records: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object a record, one record a line; only a deletion says that it is one."""
    for record in records:
        if not record.get(DELETED):
            record.pop(DELETED, None)
        file.write(json_text(record) + "\n")


def json_lines(format: Format | None, rows: pa.Table) -> bytes:
    """The rows as `write_json` writes them, by the column where that is possible; keys and values of a format are decoded."""
    lines = None if format is not None else json_lines_at_once(rows)
    if lines is not None:
        return lines
    file = io.StringIO()
    write_json(file, rows_of(format, rows))
    return file.getvalue().encode()


def json_lines_at_once(rows: pa.Table) -> bytes | None:
    """The rows as `write_json` writes them; None if they have to be written one by one."""
    if not rows.num_columns:
        return None
    full = spaced_json_objects(one_batch(rows))
    if full is None or DELETED not in rows.column_names:
        return None if full is None else _joined(full)
    live = spaced_json_objects(one_batch(rows.drop_columns([DELETED])))
    return None if live is None else _joined(pc.if_else(one_array(rows[DELETED]).fill_null(False), full, live))


def csv_lines(format: Format | None, rows: pa.Table) -> bytes:
    """The rows as `write_csv` writes them, by the column where that is possible; keys and values of a format are decoded."""
    lines = None if format is not None else csv_lines_at_once(rows)
    if lines is not None:
        return lines
    file = io.StringIO()
    write_csv(file, rows.column_names, rows_of(format, rows))
    return file.getvalue().encode()


def csv_lines_at_once(rows: pa.Table) -> bytes | None:
    """The rows as `write_csv` writes them; None if they have to be written one by one."""
    if rows.num_rows < FEW_ROWS or not rows.num_columns:
        return None
    try:
        cells = [_cells_at_once(one_array(column)) for column in rows.columns]
        return None if None in cells else _joined(lines_of_cells(cells, _DELIMITER).cast(pa.string()))
    except (pa.ArrowException, ValueError):
        return None


def _cells_at_once(column: pa.Array) -> pa.Array | None:
    if not pa.types.is_nested(column.type):
        return cells_of(column, _DELIMITER, "T") if is_atomic(column.type) else None
    texts = spaced_json_values(column)
    return None if texts is None else quoted(texts, _DELIMITER)


def _joined(lines: pa.Array) -> bytes:
    """Texts as lines, each with its end."""
    text: bytes = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")[0].as_buffer().to_pybytes()
    return text + b"\n"


def write_csv(file: TextIO, columns: Sequence[str], records: Iterable[dict[str, Any]]) -> None:
    """Write records as comma-separated values, a line each."""
    for record in records:
        write_csv_line(file, [record[name] for name in columns])


def write_csv_line(file: TextIO, values: Sequence[Any]) -> None:
    """Write a line of comma-separated values; null is nothing, an empty text is quoted."""
    file.write(_DELIMITER.join("" if value is None else _quoted(str(cell_text(value))) for value in values) + "\n")


def _quoted(text: str) -> str:
    return text if text and not _QUOTED.search(text) else '"' + text.replace('"', '""') + '"'


def cell_text(value: Any) -> Any:
    """A value for a cell: nested ones, which only formats have, as JSON."""
    if isinstance(value, str):
        return _encodable(value)
    return json_text(value) if isinstance(value, dict | list | tuple) else plain(value)


def plain(value: Any) -> Any:
    """A value as text that says all of it: times in UTC, bytes in base 64; numbers and texts as they are."""
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, int | float | str) or value is None else str(value)


def json_text(value: Any) -> str:
    """
    A value as JSON on one line; NaN and infinities, for which JSON has no number, as the texts that `formats` reads.

    Numbers that were read from JSON have the digits that they had there.
    Keys of maps are texts, as JSON has no others: numbers, times and bytes as they are written elsewhere.
    """
    try:
        if holds_written_number(value):
            text = document_text(_finite(value), " ", plain)
        else:
            text = json.dumps(value, default=plain, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError):
        text = json.dumps(_finite(value), default=plain, ensure_ascii=False, allow_nan=False)
    return _encodable(text)


def _encodable(text: str) -> str:
    """The text with halves of characters, which only JSON can have, as JSON spells them."""
    return text if text.isascii() else _HALF.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _spelled(number: float) -> str:
    """NaN and infinities as Spark's JSON has them: "NaN", "Infinity", "-Infinity"."""
    return json.dumps(number)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key_text(name): _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    is_spelled = isinstance(value, float) and not isinstance(value, WrittenNumber) and not math.isfinite(value)
    return _spelled(value) if is_spelled else value


def _key_text(key: Any) -> str:
    return _spelled(key) if isinstance(key, float) else str(plain(key))
