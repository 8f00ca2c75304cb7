"""Values that CSV and JSON write as text, in the types of a topic: times, decimals, bytes in base 64, headers; in CSV all of them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import SchemaError
from streamkit.log.frame import HEADERS_TYPE
from streamkit.names import HEADERS
from streamkit.schema import Column, to_arrow

_ZONE = r"(Z|[+-]\d\d:?\d\d)$"
_DATE = r"^\d{4}-\d\d-\d\d$"
_MILLISECONDS = r"^-?\d+$"


def parse_texts(column: Column, texts: pa.Array) -> pa.Array:
    """
    Texts as values of a column; SchemaError names the first row that is none.

    A time without a zone is taken as UTC; one that is a whole number as milliseconds since 1970.
    """
    read = _reader(column.type)
    try:
        return read(texts)
    except (pa.ArrowInvalid, ValueError):
        row = _first_refused(read, texts)
        raise SchemaError(
            f"row {row}, column {column.name!r}: found {texts[row].as_py()!r}, expected {column.type}", (row,)
        ) from None


def parse_headers(rows: Sequence[Any]) -> pa.Array:
    """
    Headers as `consume` prints them, lists of pairs of a name and base 64, as they are stored; a text is read as JSON first.

    SchemaError names the first row that is none.
    """
    return pa.array([_headers(number, row) for number, row in enumerate(rows)], HEADERS_TYPE)


def _headers(number: int, row: Any) -> list[tuple[str, bytes | None]] | None:
    try:
        pairs = json.loads(row) if isinstance(row, str) else row
        return None if pairs is None else [(_name(name), _decoded(value)) for name, value in pairs]
    except (ValueError, TypeError):
        raise SchemaError(
            f'row {number}, column {HEADERS!r}: found {str(row)[:80]!r}, expected pairs of a name and base 64, as in [["trace", "AP8="]]',
            (number,),
        ) from None


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError
    return name


def _decoded(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value, validate=True)


def _reader(type_name: str) -> Callable[[pa.Array], pa.Array]:
    if type_name == "timestamp":
        return _times
    if type_name == "binary":
        return _bytes
    return lambda texts: pc.cast(texts, to_arrow(type_name))


def _times(texts: pa.Array) -> pa.Array:
    numbers = pc.match_substring_regex(texts, _MILLISECONDS)
    spelled = pc.if_else(pc.match_substring_regex(texts, _DATE), pc.binary_join_element_wise(texts, "T00:00:00", ""), texts)
    zoned = pc.if_else(pc.match_substring_regex(spelled, _ZONE), spelled, pc.binary_join_element_wise(spelled, "Z", ""))
    none = pa.scalar(None, pa.string())
    times = pc.cast(pc.if_else(numbers, none, zoned), to_arrow("timestamp"))
    stamps = pc.cast(pc.cast(pc.if_else(numbers, texts, none), pa.int64()), pa.timestamp("ms", "UTC"))
    return pc.if_else(numbers, pc.cast(stamps, to_arrow("timestamp")), times)


def _bytes(texts: pa.Array) -> pa.Array:
    try:
        values = [_decoded(text) for text in texts.to_pylist()]
    except binascii.Error as error:
        raise ValueError(str(error)) from error
    return pa.array(values, pa.binary())


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
