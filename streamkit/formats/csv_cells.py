"""Values as the cells of CSV, each of which the reader takes for its column's type again: what it would not is an error."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from streamkit.data_type import INTEGERS, decimal_of, to_arrow
from streamkit.formats.float_range import FLOAT_END
from streamkit.formats.time_texts import times_of_texts
from streamkit.schema import SchemaColumn

_WHOLE = re.compile(r"-?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NOT_FINITE = ("nan", "inf", "infinity")


def cell_writer(column: SchemaColumn, delimiter: str) -> Callable[[Any], str]:
    """What writes a value of a column as a cell; it raises ValueError for a value that is not of the column's type."""
    fits = _fits(column.type)

    def write(value: Any) -> str:
        if value is None:
            return ""
        text = _text(value)
        if not fits(value, text):
            raise ValueError(f"column {column.name!r}: found {str(value)[:80]}, expected {column.type}")
        is_plain = text and not any(character in text for character in f'{delimiter}"\r\n')
        return text if is_plain else '"' + text.replace('"', '""') + '"'

    return write


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        return value.isoformat(" ").replace("+00:00", "Z")
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _fits(type: str) -> Callable[[Any, str], bool]:
    """Whether a value, and its text, are of a type."""
    if type in INTEGERS:
        end = 1 << (to_arrow(type).bit_width - 1)
        return lambda value, text: _WHOLE.fullmatch(text) is not None and -end <= int(text) < end
    if type in ("float", "double"):
        return partial(_is_float, end=FLOAT_END if type == "float" else math.inf)
    if decimal := decimal_of(type):
        return partial(_is_decimal, digits=decimal[0], scale=decimal[1])
    if type == "boolean":
        return lambda value, text: text.lower() in ("true", "false", "0", "1")
    if type == "binary":
        return lambda value, text: isinstance(value, bytes) or _is_base64(text)
    return (lambda value, text: True) if type == "string" else partial(_is_time, type=type)


def _is_float(value: Any, text: str, end: float) -> bool:
    if text.lstrip("+-").lower() in _NOT_FINITE:
        return True
    return _FLOAT.fullmatch(text) is not None and abs(float(text)) < end


def _is_decimal(value: Any, text: str, digits: int, scale: int) -> bool:
    if _FLOAT.fullmatch(text) is None:
        return False
    found = Decimal(text)
    places, exponent = list(found.as_tuple().digits), int(found.as_tuple().exponent)
    while len(places) > 1 and places[-1] == 0 and exponent < 0:
        places, exponent = places[:-1], exponent + 1
    return not found or (exponent >= -scale and len(places) + exponent <= digits - scale)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_time(value: Any, text: str, type: str) -> bool:
    if type == "timestamp" and value.__class__ is dt.datetime:
        return True
    try:
        times_of_texts(pa.array([text], pa.string()), type)
    except pa.ArrowInvalid:
        return False
    return True
