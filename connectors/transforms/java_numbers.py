"""Numbers as Java converts them: casts that wrap around or stop at the limits, and texts that it reads."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

INTEGER_TEXT = r"^[+-]?[0-9]+$"
FLOAT_TEXT = r"^[\x00-\x20]*[+-]?(NaN|Infinity|0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?[\x00-\x20]*$"
_LIMITS = {pa.int32(): (-(2**31), 2**31 - 1), pa.int64(): (-(2**63), 2**63 - 1)}


def narrowed(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Numbers as another type, as Java's casts do it: integers wrap around, floats stop at the limits and lose their fraction."""
    if pa.types.is_floating(target):
        return pc.cast(pc.cast(column, pa.float64(), safe=False), target, safe=False)
    if pa.types.is_decimal(column.type):
        whole = [None if value is None else wrapped(int(value), 64) for value in column.to_pylist()]
        return narrowed(pa.array(whole, pa.int64()), target)
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        numbers = _truncated(numbers.astype(np.float64), pa.int64() if target == pa.int64() else pa.int32())
    return pa.array(numbers.astype(target.to_pandas_dtype()), target, mask=np.asarray(column.is_null()))


def wrapped(number: int, bits: int) -> int:
    """The low bits of a number, as a signed one."""
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


def integers(column: pa.Array, target: pa.DataType) -> tuple[pa.Array, pa.BooleanArray]:
    """Texts as integers, and which texts are none, or out of range."""
    is_text = pc.match_substring_regex(column, INTEGER_TEXT)
    digits = pc.replace_substring_regex(pc.utf8_ltrim(pc.if_else(is_text, column, "0"), "+"), r"^(-?)0+([0-9])", r"\1\2")
    fits = pc.less_equal(pc.utf8_length(digits), 20)
    wide = pc.cast(pc.if_else(fits, digits, "0"), pa.decimal128(38, 0))
    bits = target.bit_width
    low, high = (pa.scalar(decimal.Decimal(limit), pa.decimal128(38, 0)) for limit in (-(1 << bits - 1), (1 << bits - 1) - 1))
    fits = pc.and_(fits, pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high)))
    is_right = pc.and_(is_text, fits)
    return pc.cast(pc.if_else(is_right, wide, None), target), pc.invert(is_right.fill_null(True))


def floats(column: pa.Array, target: pa.DataType) -> tuple[pa.Array, pa.BooleanArray]:
    """Texts as floats, and which texts are none."""
    is_text = pc.match_substring_regex(column, FLOAT_TEXT)
    trimmed = pc.replace_substring_regex(pc.if_else(is_text, column, None), r"^[\x00-\x20]*\+?(.*?)[fFdD]?[\x00-\x20]*$", r"\1")
    values = np.array([np.nan if text is None else _float(text) for text in trimmed.to_pylist()], np.float64)
    with np.errstate(over="ignore"):
        found = pa.array(values, pa.float64(), mask=np.asarray(trimmed.is_null()))
    return pc.cast(found, target, safe=False), pc.invert(is_text.fill_null(True))


def _float(text: str) -> float:
    return float.fromhex(text) if "x" in text or "X" in text else float(text)


def _truncated(numbers: np.ndarray, target: pa.DataType) -> np.ndarray:
    low, high = _LIMITS[target]
    whole = np.nan_to_num(np.trunc(numbers), nan=0.0, posinf=np.inf, neginf=-np.inf)
    inside = (whole >= low) & (whole < float(high) + (1 if target == pa.int32() else 0))
    return np.where(inside, np.where(inside, whole, 0).astype(np.int64), np.where(whole < 0, low, high))
