"""
JSON texts as Spark's parser reads them, and values as its writer writes them.

A document is read up to its end; what follows is not looked at. Text may stand in single quotes. Objects keep all their pairs.
"""

from __future__ import annotations

import decimal
import json
import math
import re
from typing import Any

import pyarrow as pa

from streamkit.expressions.casts.writing import java_form

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_NAMED_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_OUTSIDE = re.compile(r"[\U00010000-\U0010ffff]")
_SPACE = " \t\n\r"
_DOUBLE = pa.float64()


class JsonObject(dict[str, Any]):
    """A JSON object: a dict in which the last value of a name wins, and `pairs` with all of them."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class MalformedError(ValueError):
    """The text is no JSON document."""


def _refuse_constant(text: str) -> float:
    raise MalformedError(text)


def _decoder(**settings: Any) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=JsonObject, **settings)


_LENIENT = _decoder(strict=False, parse_constant=_refuse_constant)  # of functions that look into a text
_STRICT = _decoder(parse_float=decimal.Decimal)  # of from_json: digits are kept, NaN and Infinity are numbers


def read_document(text: str) -> Any:
    """The document of a text; MalformedError if it is none. Control characters may stand in texts, NaN is no number."""
    return _read(_LENIENT, text)


def read_exact_document(text: str) -> Any:
    """As `read_document`, with numbers that are not whole as decimals; NaN is a number, control characters must be escaped."""
    return _read(_STRICT, text)


def _read(decoder: json.JSONDecoder, text: str) -> Any:
    start = len(text) - len(text.lstrip(_SPACE))
    try:
        value, end = decoder.raw_decode(text, start)
    except (ValueError, RecursionError, decimal.InvalidOperation) as error:
        if "'" not in text:
            raise MalformedError(text) from error
        return _read(decoder, _with_double_quotes(text))
    if not isinstance(value, (dict, list, str)) and end < len(text) and text[end] not in _SPACE:
        raise MalformedError(text)
    return value


def _with_double_quotes(text: str) -> str:
    """The text with double quotes where single ones enclose a text; MalformedError if there are none."""
    parts, place, is_changed = [], 0, False
    while place < len(text):
        quote = text[place]
        if quote not in "\"'":
            parts.append(quote)
            place += 1
            continue
        end = _closing(text, place)
        inner = text[place + 1 : end]
        parts.append('"{}"'.format(inner if quote == '"' else inner.replace('"', '\\"')))
        is_changed |= quote == "'"
        place = end + 1
    if not is_changed:
        raise MalformedError(text)
    return "".join(parts)


def _closing(text: str, start: int) -> int:
    """Where the text that starts with a quote ends."""
    place = start + 1
    while place < len(text) and text[place] != text[start]:
        if text[place] == "\\" and text[place + 1 : place + 2] == "'":
            raise MalformedError(text)
        place += 2 if text[place] == "\\" else 1
    if place >= len(text):
        raise MalformedError(text)
    return place


def write_value(value: Any) -> str:
    """A value as JSON without spaces, as Spark's generator of bytes writes it."""
    if isinstance(value, JsonObject):
        return "{{{}}}".format(",".join(f"{write_text(name)}:{write_value(inner)}" for name, inner in value.pairs))
    if isinstance(value, list):
        return f"[{','.join(map(write_value, value))}]"
    if isinstance(value, str):
        return write_text(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) if isinstance(value, int) else write_double(float(value))


def write_double(value: float) -> str:
    """A double in Java's form; in quotes if it is no number."""
    text = repr(value)
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    return text if 1e-3 <= abs(value) < 1e7 or value == 0 else java_form(text, _DOUBLE)


def escaped(text: str) -> str:
    """What stands between the quotes of a JSON text."""
    return _ESCAPED.sub(lambda match: _NAMED_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}", text)


def write_text(text: str) -> str:
    """A JSON text; characters beyond 16 bits as two escapes."""
    return f'"{_OUTSIDE.sub(_surrogates, escaped(text))}"'


def _surrogates(match: re.Match[str]) -> str:
    offset = ord(match[0]) - 0x10000
    return f"\\u{0xD800 + (offset >> 10):04X}\\u{0xDC00 + (offset & 0x3FF):04X}"


def storable(text: str) -> str:
    """The text with ? for halves of characters, which no column can hold."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text
