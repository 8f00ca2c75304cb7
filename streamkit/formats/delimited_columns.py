"""
Lines of DELIMITED a column at a time: Arrow cuts them at their delimiters, and joins cells to lines.

It gets lines without quotes and line ends, and columns all values of which are spelled as most writers spell them. Each value is the one
that `delimited_cells` gives, and each cell the one that it writes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.data_type import decimal_of, to_arrow
from streamkit.decimals import decimals_of_texts
from streamkit.formats.delimited_cells import COUNT_BITS, text_of, value_of
from streamkit.formats.ksql_texts import texts_of_column
from streamkit.formats.ksql_values import MOMENT_MS_MAX, MOMENTS, array_of, plain_values
from streamkit.recast import recast
from streamkit.schema import Schema

_ODD = r'["\r\n]'
_WHOLE = r"^-?[0-9]{1,18}$"  # so few digits always fit into 64 bits
_NUMBER = r"^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?$"
_DECIMAL = r"^-?[0-9]{1,38}(\.[0-9]{1,38})?$"
_IN_QUOTES = r'^[\x00-#]|[\x00-\x20]\z|["\r\n]'
_ODD_FIRST = r"^[^A-Za-z0-9]"
_NEGATIVE_FIRST = r'^"(-[0-9][0-9.eE+\-]*)"'
_NUMBERS_LACK = frozenset(",;|\t ")  # delimiters that no number, time or boolean is spelled with
_QUOTE = '"'


def read_plain(values: pa.Array, written: Schema, columns: Schema, delimiter: str) -> tuple[list[pa.Array], Integers]:
    """The wanted columns of plain lines, and the rows of the other lines, which are to be read one by one and have no row here."""
    every = np.arange(len(values))
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:  # a line is no UTF-8
        return [pa.nulls(0, column.arrow.type) for column in columns], every
    if delimiter in _NUMBERS_LACK and pc.any(pc.starts_with(texts, '"-')).as_py():
        texts = pc.replace_substring_regex(texts, rf"{_NEGATIVE_FIRST}(\x{{{ord(delimiter):x}}}|\z)", r"\1\2")
    lines = pc.split_pattern(texts, delimiter)
    is_plain = pc.and_not(pc.equal(pc.list_value_length(lines), len(written)), pc.match_substring_regex(texts, _ODD))
    plain = np.flatnonzero(is_plain.to_numpy(zero_copy_only=False))
    cells = (lines if len(plain) == len(lines) else lines.take(pa.array(plain))).flatten()
    is_read: Mask = np.ones(len(plain), np.bool_)
    arrays = []
    for column in columns:
        places = np.arange(written.names.index(column.name), len(cells), len(written))
        arrays.append(_typed(cells.take(pa.array(places)), column.type, is_read))
    if not is_read.all():
        arrays = [array.filter(pa.array(is_read)) for array in arrays]
    return arrays, np.setdiff1d(every, plain[is_read])


def _typed(cells: pa.Array, type: str, is_read: Mask) -> pa.Array:
    """The cells in a type, nothing as null; rows whose cell is none are marked as not read."""
    found = pc.if_else(pc.equal(cells, ""), None, cells)
    try:
        return _converted(found, type)
    except (pa.ArrowException, ValueError):
        pass
    values = []
    for row, cell in enumerate(cells.to_pylist()):
        try:
            values.append(value_of(cell, type))
        except (ValueError, ArithmeticError):
            is_read[row] = False
            values.append(None)
    return array_of(values, type)


def _converted(cells: pa.Array, type: str) -> pa.Array:
    """The cells in a type; ValueError or ArrowInvalid if one is not spelled as most are."""
    if type == "string":
        return cells
    if type == "boolean":
        return pc.equal(pc.ascii_lower(cells), "true")
    arrow = to_arrow(type)
    if type in COUNT_BITS:
        numbers = _all_like(cells, _WHOLE).cast(pa.int64())
        if type not in MOMENTS:
            return recast(numbers.cast(pa.int32()) if type == "date" else numbers, arrow)
        least, most = pc.min_max(numbers).as_py().values()
        if least is not None and (least < -MOMENT_MS_MAX or most > MOMENT_MS_MAX):
            raise ValueError("a time is beyond what is counted in microseconds")
        return recast(pc.multiply(numbers, 1000), arrow)
    if type in ("double", "float"):
        return recast(_all_like(cells, _NUMBER).cast(pa.float64()), arrow)
    if decimal_of(type):
        return decimals_of_texts(_all_like(cells, _DECIMAL), arrow)
    raise ValueError(f"cells of {type} are read one by one")


def _all_like(cells: pa.Array, pattern: str) -> pa.Array:
    if not pc.all(pc.match_substring_regex(cells, pattern)).as_py():
        raise ValueError("a cell has another spelling")
    return cells


def plain_cells(column: pa.Array, type: str, delimiter: str, *, is_first: bool) -> pa.Array:
    """A cell for each value, in quotes where it needs them; null where it is."""
    texts = texts_of_column(column, type)
    if texts is None:
        texts = pa.array([text_of(value) for value in plain_values(column, type)], pa.string())
    if type not in ("string", "binary") and delimiter in _NUMBERS_LACK and not is_first:
        return texts
    signs = f"{_IN_QUOTES}|\\x{{{ord(delimiter):x}}}" + (f"|{_ODD_FIRST}" if is_first else "")
    needs = pc.match_substring_regex(texts, signs)
    if is_first:
        needs = pc.or_(needs, pc.equal(texts, ""))
    if not pc.any(needs).as_py():
        return texts
    return pc.if_else(
        needs, pc.binary_join_element_wise(_QUOTE, pc.replace_substring(texts, _QUOTE, _QUOTE * 2), _QUOTE, ""), texts
    )
