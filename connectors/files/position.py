"""What a position of FileSource looks like: a place in a file, and what the file was when it was read so far."""

from __future__ import annotations

from streamkit.connectors.position_form import (
    TEXT,
    TRUTH,
    WHOLE,
    PositionField,
    PositionForm,
    is_integer,
    is_text,
    is_whole,
    map_of,
    tuple_of,
)

_MARK = PositionField("a list of the file's size, and its time in ns", tuple_of(is_whole, is_integer))
_START = PositionField(
    "a list of the file's number, and of how many first bytes there is which checksum", tuple_of(is_whole, is_whole, is_whole)
)
_OPTIONAL = {
    "start": _START,
    "end": PositionField("a list of how many last bytes there is which checksum", tuple_of(is_whole, is_whole)),
    "byte": WHOLE,
    "line": WHOLE,
    "rows": WHOLE,
    "sum": WHOLE,
    "unended": TRUTH,
    "done": TRUTH,
    "moved": TRUTH,
    "error": TEXT,
    "schema": TEXT,
    "spelled": PositionField("an object of texts", map_of(is_text)),
}
_EXAMPLE = {"byte": 0}

POSITION_IN_FILE = PositionForm({"mark": _MARK}, _EXAMPLE, _OPTIONAL)
POSITION_AT_BEGINNING = PositionForm({}, _EXAMPLE, {"mark": _MARK, **_OPTIONAL})
