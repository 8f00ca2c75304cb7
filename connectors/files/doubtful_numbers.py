"""Columns of texts that are almost numbers: which value of one is none, and so makes the column one of texts."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.files.guessed_texts import NUMBER

_LONGEST = 60  # of a value in a message


@dataclass(frozen=True)
class NoNumber:
    """The first value of a column that is no number."""

    row: int
    text: str
    column: str

    def __str__(self) -> str:
        return f"column {self.column!r} has {self.text[:_LONGEST]!r}, which is no number; so the column is a string"


def first_no_number(column: str, texts: pa.Array) -> NoNumber | None:
    """The first text that is no number, if most are; None if each is one, or fewer than half."""
    are_numbers = pc.match_substring_regex(texts, NUMBER)
    row = pc.index(are_numbers, pa.scalar(False)).as_py()
    numbers = pc.sum(are_numbers).as_py() or 0
    return NoNumber(row, texts[row].as_py(), column) if row >= 0 and numbers * 2 >= len(texts) - texts.null_count else None
