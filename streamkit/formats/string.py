"""Strings: values are UTF-8 text, in one column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.formats.decoded import Decoded, halved, put_back
from streamkit.formats.format import Format
from streamkit.formats.spelled_columns import spelled_times
from streamkit.formats.time_texts import TIMES, times_of_texts
from streamkit.recast import recast
from streamkit.schema import Schema


def read(format: Format, text: str | None, values: pa.Array, columns: Schema, skipped: int) -> Decoded:
    """The one column; of another type than string, what its text says."""
    (column,) = columns

    def cast(part: pa.Array) -> pa.RecordBatch:
        texts, kind = part.cast(pa.string()), column.arrow.type
        if column.type in (*TIMES, "date"):
            return pa.RecordBatch.from_arrays([times_of_texts(texts, column.type)], names=[column.name])
        found = recast(texts, kind)
        return pa.RecordBatch.from_arrays([found], names=[column.name])

    def reads(start: int, end: int) -> str | None:
        try:
            cast(values.slice(start, end - start))
        except pa.ArrowInvalid:
            return f"found {values[start].as_py()[:80]!r}, expected {'UTF-8 text' if column.type == 'string' else column.type}"
        return None

    failures = halved(len(values), reads, len(values))
    good = np.array([row for row in range(len(values)) if row not in failures], np.int64)
    rows = cast(values if not failures else values.take(pa.array(good)))
    return Decoded(put_back([(good, rows)], columns, len(values)), failures)


def write(format: Format, text: str | None, rows: pa.RecordBatch) -> pa.Array:
    """The one column as text."""
    values = rows.column(0)
    texts = values.cast(pa.string())
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        is_far = pc.invert(pc.match_substring_regex(texts, r"^\d{4}-")).fill_null(
            False
        )  # Arrow has no text of such a year, or none with a sign
        texts = pc.replace_with_mask(texts, is_far, spelled_times(values.filter(is_far), " ", any_year=True))
    return texts.cast(pa.binary())


def value_to_text(value: Any) -> bytes:
    """A text as UTF-8."""
    if not isinstance(value, str):
        raise TypeError(f"it is a {type(value).__name__}, not text")
    return value.encode()


def value_from_text(data: bytes) -> str:
    """The text of UTF-8."""
    return data.decode()
