"""
Rows as JSON objects, built by the column: Arrow joins the texts of all columns, with the names between them.

Each text is the one that orjson writes for the value of Python, or in the spaced style Python's own json, byte for byte, so a row has the
same text whichever way wrote it. One by one are written: few rows, types that no column of a topic has, and what the quick way refuses, so
that the error is that of the value.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.formats.spelled_columns import is_atomic, spelled_bytes, spelled_floats, spelled_times, where_valid

_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
_FEW_ROWS = 64  # one by one they are written before Arrow is done
_CONTROLS_END = 32
_ESCAPED = {ord(one): orjson.dumps(one).decode()[1:-1] for one in ("\\", '"', *map(chr, range(_CONTROLS_END)))}
_QUOTE = '"'
_NOT_FINITE = ('"NaN"', '"Infinity"', '"-Infinity"')


@dataclass(frozen=True)
class JsonStyle:
    """What is written between the parts of a value, whether numbers are spelled as Python's repr spells them, and years that Python has not, too."""

    comma: str
    colon: str
    is_repr: bool
    has_any_year: bool = False


_COMPACT = JsonStyle(",", ":", is_repr=False, has_any_year=True)
_SPACED = JsonStyle(", ", ": ", is_repr=True)


def json_objects(rows: pa.RecordBatch) -> pa.Array:
    """The rows as JSON objects, binary; ValueError, OverflowError, TypeError or KeyError for what JSON cannot have."""
    found = _at_once(rows, _COMPACT)
    return _one_by_one(rows) if found is None else found.cast(pa.binary())


def spaced_json_objects(rows: pa.RecordBatch) -> pa.Array | None:
    """The rows as Python's json writes them, in UTF-8; None if they have to be written one by one."""
    return _at_once(rows, _SPACED)


def spaced_json_values(column: pa.Array) -> pa.Array | None:
    """Values as Python's json writes them, null where there is none; None if they have to be written one by one."""
    if len(column) < _FEW_ROWS or not _is_quick(column.type):
        return None
    try:
        texts, mark = _texts(_SPACED, column)
        texts = pc.binary_join_element_wise(mark, texts, mark, "") if mark else texts
        texts.cast(pa.binary()).cast(pa.string())  # refuses what is not UTF-8
    except (pa.ArrowException, ValueError):
        return None
    return texts


def _at_once(rows: pa.RecordBatch, style: JsonStyle) -> pa.Array | None:
    names = rows.schema.names
    if rows.num_rows < _FEW_ROWS or not all(_is_quick(one.type) for one in rows.columns) or len(set(names)) < len(names):
        return None
    try:
        texts = _objects(style, names, rows.columns, rows.num_rows)
        texts.cast(pa.binary()).cast(pa.string())  # refuses what is not UTF-8
    except (pa.ArrowException, ValueError):
        return None
    return texts


def _one_by_one(rows: pa.RecordBatch) -> pa.Array:
    try:
        found = rows.to_pylist(maps_as_pydicts="strict")
    except OverflowError:  # a date or a time of a year that Python has not
        if not all(_is_quick(one.type) for one in rows.columns):
            raise
        return _objects(_COMPACT, rows.schema.names, rows.columns, rows.num_rows).cast(pa.binary())
    if any(_is_no_json(column) for column in rows.columns):
        found = list(map(as_json, found))
    return pa.array([orjson.dumps(row, _atom, _OPTIONS) for row in found], pa.binary())


def _is_no_json(column: pa.Array) -> bool:
    """Whether a column has a number that JSON has not, at any depth, or keys of maps that are written as other texts."""
    kind = column.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.invert(pc.is_finite(column))).as_py())
    if pa.types.is_map(kind):
        is_text = pa.types.is_binary(kind.key_type) or pa.types.is_decimal(kind.key_type)
        return is_text or _is_no_json(column.keys) or _is_no_json(column.items)
    if pa.types.is_list(kind) or pa.types.is_struct(kind):
        return any(map(_is_no_json, [column.values] if pa.types.is_list(kind) else column.flatten()))
    return False


def as_json(value: Any) -> Any:
    """A value in which texts are written for numbers that JSON has not, and for keys that are bytes or decimals."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {_atom(name) if isinstance(name, bytes | Decimal) else as_json(name): as_json(one) for name, one in value.items()}
    return [as_json(one) for one in value] if isinstance(value, list) else value


def _atom(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _is_quick(kind: pa.DataType) -> bool:
    """Whether the columns of a type can be written at once: those of topics, and words of a dictionary."""
    if pa.types.is_struct(kind):
        return len(set(kind.names)) == len(kind.names) and all(_is_quick(one.type) for one in kind)
    if pa.types.is_map(kind):
        return _is_quick(kind.key_type) and _is_quick(kind.item_type)
    if pa.types.is_list(kind):
        return _is_quick(kind.value_type)
    return is_atomic(kind)


def _objects(style: JsonStyle, names: list[str], columns: list[pa.Array], count: int) -> pa.Array:
    """An object for each row. The constants between the columns have the quotes around texts, unless a text is null."""
    pieces: list[Any] = []
    before = "{"
    for name, column in zip(names, columns, strict=True):
        texts, mark = _texts(style, column)
        if mark and texts.null_count:
            texts, mark = pc.binary_join_element_wise(mark, texts, mark, ""), ""
        pieces += [f"{before}{orjson.dumps(name).decode()}{style.colon}{mark}", _with_nulls(texts)]
        before = f"{mark}{style.comma}"
    if not pieces:
        return pa.repeat(pa.scalar("{}"), count)
    return pc.binary_join_element_wise(*pieces, before.removesuffix(style.comma) + "}", "")


def _values(style: JsonStyle, column: pa.Array) -> pa.Array:
    """A text for each value, `null` for none."""
    texts, mark = _texts(style, column)
    return _with_nulls(pc.binary_join_element_wise(mark, texts, mark, "") if mark else texts)


def _with_nulls(texts: pa.Array) -> pa.Array:
    return texts.fill_null("null") if texts.null_count else texts


def _texts(style: JsonStyle, column: pa.Array) -> tuple[pa.Array, str]:
    """The texts of a column, null where it is, and the mark that belongs on both sides of each."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _texts(style, column.dictionary_decode())
    if kind == pa.string():
        return _escaped(column), _QUOTE
    if kind == pa.binary():
        return spelled_bytes(column), _QUOTE
    if pa.types.is_temporal(kind):
        return spelled_times(column, "T", any_year=style.has_any_year), _QUOTE
    if pa.types.is_decimal(kind):
        return column.cast(pa.string()), _QUOTE
    if pa.types.is_floating(kind):
        return spelled_floats(column, _NOT_FINITE, is_repr=style.is_repr), ""
    if pa.types.is_struct(kind):
        return where_valid(column, _objects(style, kind.names, column.flatten(), len(column))), ""
    if pa.types.is_map(kind):
        return _maps(style, column), ""
    if pa.types.is_list(kind):
        joined = pc.binary_join(_lists(column, _values(style, column.flatten())), style.comma)
        return pc.binary_join_element_wise("[", joined, "]", ""), ""
    return column.cast(pa.string()), ""


def _escaped(texts: pa.Array) -> pa.Array:
    """Texts as they stand between quotes; the backslash goes first, as the escapes of the others have one."""
    if not len(texts) or texts.buffers()[2] is None:
        return texts
    bounds = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    data = np.frombuffer(texts.buffers()[2], np.uint8)[bounds[0] : bounds[-1]]
    found = set(np.unique(data[(data < _CONTROLS_END) | (data == ord(_QUOTE)) | (data == ord("\\"))]).tolist())
    for number, escape in _ESCAPED.items():
        if number in found:
            texts = pc.replace_substring(texts, chr(number), escape)
    return texts


def _maps(style: JsonStyle, column: pa.MapArray) -> pa.Array:
    """Maps as objects, a name for each key; ValueError for two keys of a map that are equal."""
    kind = column.type
    if not (kind.key_type == pa.string() or pa.types.is_integer(kind.key_type)):
        if style != _COMPACT:
            raise ValueError("these keys are written one by one")
        dumps = partial(orjson.dumps, default=_atom, option=_OPTIONS)
        values = column.to_pylist(maps_as_pydicts="strict")
        return pa.array([None if value is None else dumps(as_json(value)) for value in values], pa.binary()).cast(pa.string())
    keys, items = _entries(column)
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    maps = np.repeat(np.arange(len(column)), _counts(column))
    if len(np.unique(maps * (len(keys) + 1) + codes)) < len(keys):
        raise ValueError("two keys of a map are equal")
    entries = pc.binary_join_element_wise(_QUOTE, _texts(style, keys)[0], f"{_QUOTE}{style.colon}", _values(style, items), "")
    return pc.binary_join_element_wise("{", pc.binary_join(_lists(column, entries), style.comma), "}", "")


def _entries(column: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """The keys and the items of all maps; what lies below a null is left out."""
    offsets = column.offsets.to_numpy()
    start, end = offsets[[0, -1]].tolist()
    keys, items = column.keys[start:end], column.items[start:end]
    if column.null_count:
        kept = pa.array(np.repeat(column.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets)))
        keys, items = keys.filter(kept), items.filter(kept)
    return keys, items


def _lists(column: pa.Array, elements: pa.Array) -> pa.Array:
    """Lists of these elements in place of those of the column, null where it is."""
    offsets = np.concatenate([[0], np.cumsum(_counts(column))]).astype(np.int32)
    return where_valid(column, pa.ListArray.from_arrays(pa.array(offsets), elements))


def _counts(column: pa.Array) -> Integers:
    """How many elements each list has; a null has none, whatever lies below it."""
    counts: Integers = np.diff(column.offsets.to_numpy()).astype(np.int64)
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), counts, 0)
