"""Values that CSV and JSON write as text, in the types of a topic: times, decimals, bytes in base 64, headers; in CSV all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.files.spelling import ISO, Spelling, read_times
from streamkit.errors import SchemaError
from streamkit.formats.counted_times import TIME_MS_MAX
from streamkit.formats.number_texts import with_points
from streamkit.formats.time_texts import TIMES
from streamkit.formats.typed_texts import bytes_of_text, values_of_texts
from streamkit.log.rows.conversion import convert_arrow, convert_python
from streamkit.log.slab.frame import HEADERS_TYPE
from streamkit.names import HEADERS
from streamkit.schema import SchemaColumn

_EXPECTED = {
    "binary": "binary, as text in base 64",
    "date": "date, as ISO text such as 2026-01-31",
    "timestamp": "timestamp, as ISO text such as 2026-01-31T12:00:00Z, or milliseconds since 1970",
    "timestamp_ntz": "timestamp_ntz, as ISO text without a zone such as 2026-01-31T12:00:00, or milliseconds since 1970",
    "void": "void, which is always null",
}
_TEXT_IN_JSON = ("binary", "date", "string", "timestamp", "timestamp_ntz")


def parse_texts(column: SchemaColumn, texts: pa.Array, spelling: Spelling = ISO) -> pa.Array:
    """
    Texts as values of a column; SchemaError names the first row whose text is not a value.

    Where the spelling has no pattern for times, one without a zone is taken as UTC, an integer as milliseconds since 1970, and
    years that are not of 1 to 9999 have a sign.
    """
    format = spelling.format_of(column.type)
    read: Callable[[pa.Array], pa.Array]
    read = partial(values_of_texts if format is None else partial(read_times, format=format), type=column.type)
    if spelling.has_commas_in(column.type):
        read = _with_points(read)
    try:
        return read(texts)
    except (pa.ArrowInvalid, ValueError):
        row = _first_refused(read, texts)
        raise SchemaError(
            f"row {row}, column {column.name!r}: found {texts[row].as_py()!r}, expected {_expected(column, format)}", (row,)
        ) from None


def json_texts(column: SchemaColumn, values: Sequence[Any]) -> pa.Array:
    """
    Values from JSON of a column that JSON writes as text, as texts; times and decimals may be numbers.

    SchemaError names the first row that is neither.
    """
    if column.type in TIMES or column.type.startswith("decimal"):
        values = [str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value for value in values]
    row = next((row for row, value in enumerate(values) if value is not None and not isinstance(value, str)), None)
    if row is not None:
        shown = json.dumps(values[row], ensure_ascii=False)[:80]
        raise SchemaError(f"row {row}, column {column.name!r}: found {shown}, expected {_expected(column)}", (row,))
    return convert_python(SchemaColumn(column.name, "string"), values)


def is_text_in_json(column: SchemaColumn) -> bool:
    """Whether JSON has the values of a column as texts."""
    return column.type in _TEXT_IN_JSON or column.type.startswith("decimal")


def counted_times(name: str, counts: pa.Array) -> pa.Array:
    """Integers, in milliseconds since 1970, as times; SchemaError names the first row beyond all times."""
    milliseconds = convert_arrow(SchemaColumn(name, "bigint"), counts)
    outside = pc.fill_null(pc.or_(pc.less(milliseconds, -TIME_MS_MAX), pc.greater(milliseconds, TIME_MS_MAX)), False)
    row = pc.index(outside, True).as_py()
    if row >= 0:
        raise SchemaError(
            f"row {row}, column {name!r}: found {milliseconds[row]}, expected milliseconds since 1970, at most {TIME_MS_MAX} before or after it",
            (row,),
        )
    return milliseconds.cast(pa.timestamp("ms", "UTC"))


def _expected(column: SchemaColumn, format: str | None = None) -> str:
    if format is not None:
        return f"{column.type}, written as {format}"
    return _EXPECTED.get(column.type, column.type)


def parse_headers(rows: Sequence[Any]) -> pa.Array:
    """
    Headers as `consume` prints them, lists of pairs of a name and base 64, as they are stored; a text is read as JSON first.

    SchemaError names the first row that is none.
    """
    return pa.array([_headers(number, row) for number, row in enumerate(rows)], HEADERS_TYPE)


def _headers(number: int, row: Any) -> list[tuple[str, bytes | None]] | None:
    try:
        pairs = json.loads(row) if isinstance(row, str) else row
        return (
            None if pairs is None else [(_name(name), None if value is None else bytes_of_text(value)) for name, value in pairs]
        )
    except (ValueError, TypeError):
        raise SchemaError(
            f'row {number}, column {HEADERS!r}: found {str(row)[:80]!r}, expected pairs of a name and base 64, as in [["trace", "AP8="]]',
            (number,),
        ) from None


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError
    return name


def _with_points(read: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    return lambda texts: read(with_points(texts))


def _first_refused(read: Callable[[pa.Array], pa.Array], texts: pa.Array) -> int:
    sound, refused = 0, len(texts)
    while refused - sound > 1:
        middle = (sound + refused) // 2
        try:
            read(texts.slice(0, middle))
            sound = middle
        except (pa.ArrowInvalid, ValueError):
            refused = middle
    return sound
