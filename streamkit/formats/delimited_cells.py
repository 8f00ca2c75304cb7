"""A line of DELIMITED and the values in it, one by one."""

from __future__ import annotations

import csv
import decimal
import io
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
_QUOTED_FIRST = "#"  # a character up to this one at the start of a value puts it in quotes


def cells_in(line: str, delimiter: str) -> list[str]:
    """The values of a line."""
    if not any(sign in line for sign in SIGNS):
        return line.split(delimiter)
    try:
        lines = list(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise UnreadableValueError(str(error)) from None
    if len(lines) > 1:
        raise UnreadableValueError("it is several lines")
    return lines[0] if lines else [""]


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
        return bytes_of_text(cell)
    return cell


def _refuse(cell: str, type: str) -> Any:
    raise UnreadableValueError(f"{cell!r} is not {type}")


def line_of(cells: list[str | None], delimiter: str) -> str:
    """The cells as a line; null is nothing."""
    return delimiter.join("" if cell is None else quoted(cell, delimiter, is_first=not place) for place, cell in enumerate(cells))


def quoted(cell: str, delimiter: str, *, is_first: bool) -> str:
    """A cell, in quotes where it needs them, or where it begins with a sign that some readers take for more."""
    if cell == "":
        return '""' if is_first else ""
    first, last = cell[0], cell[-1]
    is_odd = is_first and not (first.isascii() and (first.isalnum() or first in " !$%&'()*+-./:;<=>?@[\\]^_`{|}~"))
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
