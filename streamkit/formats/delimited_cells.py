"""A line of DELIMITED and the values in it, one by one."""

from __future__ import annotations

import decimal
import re
from typing import Any

from streamkit.data_type import decimal_of
from streamkit.formats.ksql_values import (
    MOMENTS,
    UnreadableValueError,
    bytes_of_text,
    decimal_text,
    double_of_text,
    double_text,
    fitting_decimal,
    is_moment,
)

SIGNS = ('"', "\n", "\r")  # a line without them is cut at each delimiter
COUNT_BITS = {"int": 31, "bigint": 63, "smallint": 15, "tinyint": 7, "date": 31, **dict.fromkeys(MOMENTS, 63)}
_IS_DECIMAL = re.compile(r"[^\s_]+")  # which Python reads with blanks and underscores, and Java does not
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_QUOTED_FIRST = "#"  # a character up to this one at the start of a value puts it in quotes


def cells_in(line: str, delimiter: str) -> list[str]:
    """The values of a line."""
    if not any(sign in line for sign in SIGNS):
        return line.split(delimiter)
    lines = _lines(line, delimiter)
    if not lines:
        raise UnreadableValueError("it has no values")
    return lines[0]


def _lines(text: str, delimiter: str) -> list[list[str]]:
    """The values of each line that is not empty, as commons-csv has them. Only the first one counts, but quotes must be whole in all."""
    found: list[list[str]] = []
    place = 0
    end_of_cell = re.compile(rf"{re.escape(delimiter)}|[\r\n]")
    while place < len(text):
        if text[place] in "\r\n":
            place += 1
            continue
        cells: list[str] = []
        while True:
            if text.startswith('"', place):
                cell, place = _quoted_cell(text, place, delimiter)
            else:
                match = end_of_cell.search(text, place)
                end = match.start() if match else len(text)
                cell, place = text[place:end], end
            cells.append(cell)
            if not text.startswith(delimiter, place):
                break
            place += len(delimiter)
        found.append(cells)
    return found


def _quoted_cell(text: str, start: int, delimiter: str) -> tuple[str, int]:
    """The text between quotes, two of which are one within it, and where its cell ends; blanks may follow the last quote."""
    match = _QUOTED.match(text, start)
    if match is None:
        raise UnreadableValueError("a quote is not closed")
    place = match.end()
    while place < len(text) and text[place] not in (delimiter, "\r", "\n"):
        if not text[place].isspace():
            raise UnreadableValueError(f"{text[place]!r} follows a closing quote; expected {delimiter!r}")
        place += 1
    return match[1].replace('""', '"'), place


def value_of(cell: str, type: str) -> Any:
    """The value of a cell; nothing is null."""
    if cell == "":
        return None
    if type in COUNT_BITS:
        found = int(cell) if cell.strip() == cell and "_" not in cell else _refuse(cell, type)
        bits = COUNT_BITS[type]
        is_known = type not in MOMENTS or is_moment(found)
        return found if is_known and -(1 << bits) <= found < (1 << bits) else _refuse(cell, type)
    if type in ("double", "float"):
        return double_of_text(cell)
    if type == "boolean":
        return cell.lower() == "true"
    if decimal_of(type):
        try:
            return fitting_decimal(decimal.Decimal(cell), type) if _IS_DECIMAL.fullmatch(cell) else _refuse(cell, type)
        except decimal.InvalidOperation:
            return _refuse(cell, type)
    if type == "binary":
        return bytes_of_text(cell if "=" in cell else cell + "=" * (-len(cell) % 4))
    return cell


def _refuse(cell: str, type: str) -> Any:
    raise UnreadableValueError(f"{cell!r} is not {type}")


def line_of(cells: list[str | None], delimiter: str) -> str:
    """The cells as a line; null is nothing."""
    return delimiter.join("" if cell is None else quoted(cell, delimiter, is_first=not place) for place, cell in enumerate(cells))


def quoted(cell: str, delimiter: str, *, is_first: bool) -> str:
    """A cell, in quotes where commons-csv 1.4 has them: so also the first one of a line that begins with no letter or digit, as -5 does."""
    if cell == "":
        return '""' if is_first else ""
    first, last = cell[0], cell[-1]
    is_odd = is_first and not (first.isascii() and first.isalnum())
    needs = is_odd or first <= _QUOTED_FIRST or last <= " " or any(sign in cell for sign in (*SIGNS, delimiter))
    return '"{}"'.format(cell.replace('"', '""')) if needs else cell


def text_of(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return double_text(value)
    return decimal_text(value) if isinstance(value, decimal.Decimal) else str(value)
