"""Columns that are almost times: which value of one is none, and so keeps the column from being the event time."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.files.guessed_texts import DATE, LOCAL, ZONED
from streamkit.connectors.files.record_text import parse_texts
from streamkit.connectors.files.spelling import ISO, Spelling
from streamkit.errors import SchemaError
from streamkit.schema import SchemaColumn

_LONGEST = 60  # of a value in a message


@dataclass(frozen=True)
class NoTime:
    """The first value of a column that is no time; `text` is None if it is empty."""

    row: int
    text: str | None
    column: str
    is_rare: bool = True

    def __str__(self) -> str:
        if self.text is None:
            return f"column {self.column!r} is empty"
        return f"column {self.column!r} has {self.text[:_LONGEST]!r}, which is no time"


def first_no_time(column: str, values: pa.Array, spelling: Spelling = ISO) -> NoTime | None:
    """
    The first value that is no time; it `is_rare` if most values of the column are times. None if each is one.

    Values are texts as they are written, or times with nulls.
    """
    if not pa.types.is_string(values.type):
        row = pc.index(pc.is_null(values), pa.scalar(True)).as_py()
        return None if row < 0 else NoTime(row, None, column, values.null_count * 2 <= len(values))
    rows = [row for row in (_no_time(values, spelling), pc.index(pc.is_null(values), pa.scalar(True)).as_py()) if row >= 0]
    if not rows:
        return None
    times = pc.sum(pc.match_substring_regex(values, f"{ZONED}|{LOCAL}|{DATE}")).as_py() or 0
    return NoTime(min(rows), values[min(rows)].as_py(), column, times * 2 >= len(values))


def _no_time(texts: pa.Array, spelling: Spelling) -> int:
    """The row of the first text that no reader takes for a time; -1 if there is none."""
    try:
        parse_texts(SchemaColumn("", spelling.timestamp_type or "timestamp"), texts, spelling)
    except SchemaError as error:
        return error.rows[0] if error.rows else -1
    return -1
