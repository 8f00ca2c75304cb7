"""The records of a request's body, as they are written: a number keeps its digits, and an object its names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from streamkit.errors import SchemaError
from streamkit.formats.json_numbers import refuse_constant

_BLANKS = re.compile(r"[ \t\r\n]*")
_LINE_ENDS = str.maketrans("\r\n", "  ")
_DECODER = json.JSONDecoder(parse_constant=refuse_constant)


def records_of(body: bytes, *, takes_any_bytes: bool = False) -> list[bytes]:
    """
    Each record on one line: those of a list, else the values one behind the other. SchemaError for what is not JSON.

    If it `takes_any_bytes` a text within a record may have bytes that are no UTF-8, which stay as they are.
    """
    errors = "surrogateescape" if takes_any_bytes else "strict"
    try:
        text = body.decode("utf-8-sig", errors).strip()
        if text.startswith("["):
            _DECODER.decode(text)
            places = _places(text, 1, len(text) - 1)
        else:
            places = _places(text, 0, len(text))
        return [text[start:end].translate(_LINE_ENDS).encode(errors=errors) for start, end in places]
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the request is not JSON: {error}") from None


def _places(text: str, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Where values begin and end, between blanks, and in a list commas."""
    is_list = at > 0
    while (at := _behind_blanks(text, at)) < end:
        start, (_, at) = at, _DECODER.raw_decode(text, at)
        yield start, at
        at = _behind_blanks(text, at)
        at += is_list and text[at] == ","


def _behind_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    return at if match is None else match.end()
