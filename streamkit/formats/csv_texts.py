"""
Rows as lines of CSV, built by the column: Arrow joins the cells of all columns, with the delimiter between them.

Each cell is the one that is written for the value of Python, byte for byte, so a row has the same line whichever way wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.formats.spelled_columns import spelled_bytes, spelled_floats, spelled_times

FEW_ROWS = 40  # one by one they are written before Arrow is done
_NOT_FINITE = ("nan", "inf", "-inf")
_OF_NUMBERS = frozenset("0123456789+-.:E TZ" + "nan inf true false")  # what numbers, times and booleans are spelled with
_QUOTE = '"'


def lines_of_cells(cells: Sequence[pa.Array], delimiter: str) -> pa.Array:
    """Lines of cells; ArrowInvalid for a text that is not UTF-8."""
    found = pc.binary_join_element_wise(*[one.fill_null("") if one.null_count else one for one in cells], delimiter)
    lines = found.cast(pa.binary())
    lines.cast(pa.string())  # refuses what is not UTF-8
    return lines


def cells_of(column: pa.Array, delimiter: str, between: str, *, any_year: bool = False) -> pa.Array:
    """
    A cell for each value, null where it is; `between` stands in front of the hours of times.

    A time beyond the years 1 to 9999 is a ValueError, unless it may be of `any_year`.
    """
    if pa.types.is_dictionary(column.type):
        return cells_of(column.dictionary, delimiter, between, any_year=any_year).take(column.indices)
    texts = _texts(column, between, any_year)
    is_plain = not (column.type in (pa.string(), pa.binary()) or delimiter in _OF_NUMBERS)
    return texts if is_plain else quoted(texts, delimiter)


def quoted(texts: pa.Array, delimiter: str) -> pa.Array:
    """The texts as cells: in quotes if they are empty, or have a delimiter, a quote or a line end."""
    is_in_quotes = pc.equal(pc.binary_length(texts), 0).fill_null(False).to_numpy(zero_copy_only=False)
    is_in_quotes[_rows_with(texts, f"{delimiter}{_QUOTE}\r\n")] = True
    if not is_in_quotes.any():
        return texts
    mask = pa.array(is_in_quotes)
    inside = pc.replace_substring(texts.filter(mask), _QUOTE, _QUOTE * 2)
    return pc.replace_with_mask(texts, mask, pc.binary_join_element_wise(_QUOTE, inside, _QUOTE, ""))


def _rows_with(texts: pa.Array, characters: str) -> Integers:
    """The rows whose texts have one of these characters of ASCII."""
    none: Integers = np.array([], np.int64)
    if not len(texts) or texts.buffers()[2] is None:
        return none
    bounds = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    data = np.frombuffer(texts.buffers()[2], np.uint8)[bounds[0] : bounds[-1]]
    is_one = np.zeros(256, bool)
    is_one[list(characters.encode())] = True
    places = np.flatnonzero(is_one[data])
    return np.searchsorted(bounds, places + bounds[0], side="right") - 1 if len(places) else none


def _texts(column: pa.Array, between: str, any_year: bool) -> pa.Array:
    kind = column.type
    if kind == pa.string():
        return column
    if kind == pa.binary():
        return spelled_bytes(column)
    if pa.types.is_temporal(kind):
        return spelled_times(column, between, any_year=any_year)
    if pa.types.is_floating(kind):
        return spelled_floats(column, _NOT_FINITE, is_repr=True)
    return column.cast(pa.string())
