"""Columns as the texts that ksqlDB's formats write, all values at once, each as `ksql_values` writes it alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import INTEGERS
from streamkit.formats.ksql_values import DOUBLE_RANGE, MOMENTS, decimal_text, double_text
from streamkit.formats.spelled_columns import spelled_bytes, spelled_floats

NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def texts_of_column(column: pa.Array, type: str, not_finite: tuple[str, str, str] = NOT_FINITE) -> pa.Array | None:
    """
    A text for each value, null where it is; None for columns whose values are written one by one.

    Texts are as they are, without quotes; `not_finite` stand for the doubles that are no numbers.
    """
    kind = column.type
    if kind == pa.string():
        return column if type == "string" else None
    if kind == pa.binary():
        return spelled_bytes(column)
    if kind == pa.bool_() or (type in INTEGERS and pa.types.is_integer(kind)):
        return column.cast(pa.string())
    if kind == pa.date32():
        return column.cast(pa.int32()).cast(pa.string())
    if kind in (pa.float32(), pa.float64()):
        return _texts_of_doubles(column.cast(pa.float64()), not_finite)
    if type in MOMENTS and pa.types.is_timestamp(kind):
        return _texts_of_times(column.cast(pa.timestamp("us")).cast(pa.int64()))
    if pa.types.is_decimal128(kind):
        texts = column.cast(pa.string())
        return _replaced(texts, column, pc.match_substring(texts, "E"), decimal_text)
    return None


def _texts_of_doubles(column: pa.Array, not_finite: tuple[str, str, str]) -> pa.Array:
    sizes = pc.abs(column)
    is_plain = pc.or_(pc.and_(pc.greater_equal(sizes, DOUBLE_RANGE[0]), pc.less(sizes, DOUBLE_RANGE[1])), pc.equal(sizes, 0))
    is_other = pc.and_(pc.invert(is_plain), pc.is_finite(column))
    return _replaced(spelled_floats(column, not_finite, is_repr=False), column, is_other, double_text)


def _texts_of_times(microseconds: pa.Array) -> pa.Array:
    numbers = microseconds.fill_null(0).to_numpy(zero_copy_only=False) // 1000
    is_null = np.asarray(microseconds.is_null()) if microseconds.null_count else None
    return pa.array(numbers, pa.int64(), mask=is_null).cast(pa.string())


def _replaced(texts: pa.Array, column: pa.Array, is_other: pa.Array, text_of: Callable[[Any], str]) -> pa.Array:
    """The texts; for the values marked as other, Python writes them."""
    is_other = is_other.fill_null(False)
    if not pc.any(is_other).as_py():
        return texts
    return pc.replace_with_mask(texts, is_other, pa.array(map(text_of, column.filter(is_other).to_pylist()), pa.string()))
