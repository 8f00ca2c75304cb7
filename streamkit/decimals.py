"""
Numbers, texts and decimals of Python as Arrow's decimals, and none as another number: whatever becomes a decimal goes through here.

Arrow multiplies at the width of a type, and takes what is left behind an overflow for the number. It divides by a power of ten
that it looks up in a table, also behind the end of the table. So what cannot fit is refused here, before Arrow computes.
By a divisor of more than one word of 32 bits, such as 10**13, it divides some numbers wrongly: 4294967295.999999999999999999 cut off to a
whole number is 4294967294. So digits behind the point go nine at a time.

Python computes with decimals by the context of the thread, which belongs to the user: its digits, its rounding, what it raises. Even `abs(x)`
rounds by it. So whatever is computed one by one goes by `DECIMAL_CONTEXT`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
)
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

DIGITS_MAX = 38
WIDE_DIGITS_MAX = 76
# Of JSON, what may have an exponent beyond Arrow's powers of ten; also where characters of a text are written by their numbers
SMALL_IN_JSON = r"[:\[,\s]\"?[+-]?[0-9.]+[eE]-0*[1-9][0-9]|[0-9.]{60}[eE]-|\\u00(?:2[bdeBDE]|3[0-9]|[46]5)"
ROUND_OF_ARROW = {
    "half_towards_infinity": ROUND_HALF_UP,
    "half_to_even": ROUND_HALF_EVEN,
    "up": ROUND_CEILING,
    "down": ROUND_FLOOR,
}
DECIMAL_CONTEXT = Context(1200, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX, 1, 0, [], [InvalidOperation, DivisionByZero])
WORD_DIGITS = 9  # so many digits are cut off at a time: 10**9 is one word
_INTEGER_DIGITS_MAX = 20
_EXPONENT_DIGITS_MAX = 9
_NUMBER = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?)0*([0-9]+))?")


def wide_decimal(type: pa.Decimal128Type) -> pa.Decimal256Type:
    """A type of the same scale, in which Arrow's reader of JSON sees that a number has too many digits."""
    return pa.decimal256(WIDE_DIGITS_MAX, type.scale)


def decimals_of_numbers(numbers: pa.Array | pa.ChunkedArray | pa.Scalar, type: pa.DataType) -> pa.Array:
    """Integers, floats or decimals in a decimal type; ArrowInvalid if one of them does not fit as it is."""
    if isinstance(numbers, pa.Scalar):
        return decimals_of_numbers(pa.repeat(numbers, 1), type)[0]
    if pa.types.is_integer(numbers.type):
        numbers = numbers.cast(pa.decimal128(DIGITS_MAX, min(type.scale, DIGITS_MAX - _INTEGER_DIGITS_MAX)))
    source = numbers.type
    if source == type or not pa.types.is_decimal(source):
        return numbers.cast(type)
    shift = type.scale - source.scale
    if source.bit_width < type.bit_width:  # Arrow computes at the width of what it gets
        wide = pa.decimal128(DIGITS_MAX, source.scale) if type.bit_width == 128 else pa.decimal256(WIDE_DIGITS_MAX, source.scale)
        return decimals_of_numbers(numbers.cast(wide), type)
    if abs(shift) > (WIDE_DIGITS_MAX if source.bit_width == 256 else DIGITS_MAX):
        raise pa.ArrowInvalid(f"there is no conversion from {source} to {type}, whose scales differ too much")
    if source.precision + shift > type.precision:
        _check_bounds(numbers, type)
    return _with_fewer_digits(numbers, type.scale + WORD_DIGITS, safe=True).cast(type)


def cut_off(numbers: pa.Array | pa.Scalar, scale: int) -> pa.Array | pa.Scalar:
    """Decimals in 256 bits with so many digits behind the point, cut off towards zero; a scale below 0 cuts before the point."""
    wide = numbers.cast(pa.decimal256(WIDE_DIGITS_MAX, numbers.type.scale))
    return _with_fewer_digits(wide, scale, safe=False)


def rounded(numbers: pa.Array | pa.Scalar, scale: int, mode: str) -> pa.Array | pa.Scalar:
    """
    Decimals in 256 bits, rounded to so many digits behind the point, or before it if that is negative.

    The mode is one of ROUND_OF_ARROW. The numbers have 74 digits at most.
    """
    wide = numbers.cast(pa.decimal256(WIDE_DIGITS_MAX, numbers.type.scale))
    if wide.type.scale <= scale:
        return wide
    type = pa.decimal256(WIDE_DIGITS_MAX, scale)
    if scale < -2:  # Arrow compares no decimals of scales below 0
        if isinstance(numbers, pa.Scalar):
            return rounded(pa.array([numbers], numbers.type), scale, mode)[0]
        unit = power_of_ten(-scale)
        return pa.array(
            [value and value.quantize(unit, ROUND_OF_ARROW[mode], DECIMAL_CONTEXT) for value in numbers.to_pylist()], type
        )
    near = cut_off(wide, scale + 2)
    if mode != "half_towards_infinity" and near.type != wide.type:
        near = _with_traces(near, wide)
    # Two digits are rounded at once, by 100, which is one word.
    return pc.round(near, ndigits=scale, round_mode=mode).cast(type, safe=False)


def _with_traces(near: pa.Array, numbers: pa.Array) -> pa.Array:
    """
    Numbers that were cut off, their last digit 1 instead of 0 where digits were lost.

    Without that a number just beside a tie, or beside a whole number, would be rounded as if it were one.
    """
    type = pa.decimal256(WIDE_DIGITS_MAX - 2, near.type.scale)  # a sum has a digit more
    narrow = near.cast(type)
    is_lossy = pc.not_equal(near.cast(numbers.type), numbers)
    ends_in_zero = pc.equal(cut_off(near, type.scale - 1).cast(type), narrow)
    up, down = (pa.scalar(Decimal((sign, (1,), -type.scale)), type) for sign in (0, 1))
    moved = pc.add(narrow, pc.if_else(pc.greater(numbers, pa.scalar(Decimal(0), numbers.type)), up, down))
    return pc.if_else(pc.and_(is_lossy, ends_in_zero), moved.cast(near.type), near)


def _with_fewer_digits(numbers: pa.Array | pa.ChunkedArray | pa.Scalar, scale: int, *, safe: bool) -> pa.Array | pa.ChunkedArray:
    """The decimals with at most so many digits behind the point, at their width; ArrowInvalid if `safe` and one of them has more."""
    make = pa.decimal128 if numbers.type.bit_width == 128 else pa.decimal256
    while numbers.type.scale > scale:
        numbers = numbers.cast(make(numbers.type.precision, max(scale, numbers.type.scale - WORD_DIGITS)), safe=safe)
    return numbers


def _check_bounds(numbers: pa.Array | pa.ChunkedArray, type: pa.DataType) -> None:
    """ArrowInvalid for decimals that have more digits before the point than the type has."""
    bounds = pc.min_max(numbers)
    end = power_of_ten(type.precision - type.scale)
    for bound in (bounds["min"], bounds["max"]):
        if bound.is_valid and bound.as_py().copy_abs() >= end:
            raise _too_large(type)


def decimals_of_python(values: Sequence[Decimal | None], type: pa.DataType) -> pa.Array:
    """Decimals of Python in a decimal type; ArrowInvalid if one of them does not fit as it is."""
    return pa.array([None if value is None else fitted(value, type) for value in values], type)


def fitted(value: Decimal, type: pa.DataType) -> Decimal:
    """The number with just the digits behind the point that the type has; ArrowInvalid if it does not fit as it is."""
    step, context = _step(type.precision, type.scale)
    found = value.quantize(step, None, context)
    if not found.is_finite():
        raise _too_large(type) if value.is_finite() else pa.ArrowInvalid("it is no number")
    if found != value:
        raise pa.ArrowInvalid(f"it has more than {type.scale} digits behind the point")
    return found


def is_fit(value: Decimal, type: pa.DataType) -> bool:
    """Whether a decimal type has the number as it is."""
    step, context = _step(type.precision, type.scale)
    found = value.quantize(step, None, context)
    return found.is_finite() and found == value


@cache
def _step(precision: int, scale: int) -> tuple[Decimal, Context]:
    """The distance between two decimals of a type, and a context that makes NaN of what has too many digits."""
    return power_of_ten(-scale), Context(precision, ROUND_HALF_EVEN, MIN_EMIN, MAX_EMAX, 1, 0, [], [])


def power_of_ten(exponent: int) -> Decimal:
    """10 to the power of a number, such as 0.001."""
    return Decimal((0, (1,), exponent))


def _too_large(type: pa.DataType) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(f"it has more than {type.precision - type.scale} digits before the point")


def decimals_of_texts(texts: pa.Array, type: pa.Decimal128Type) -> pa.Array:
    """The texts as decimals of that type; pa.ArrowInvalid if one of them is no number, or not one of that type."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    has_exponents = pc.any(pc.match_substring_regex(texts, "[eE]")).as_py()
    if longest + type.scale <= DIGITS_MAX and not has_exponents:
        return texts.cast(type)
    if longest > WIDE_DIGITS_MAX or has_exponents:
        texts = pa.array([None if text is None else _plain(text) for text in texts.to_pylist()], pa.string())
    return texts.cast(wide_decimal(type)).cast(type)


def _plain(text: str) -> str:
    """The text without an exponent and zeros that say nothing; pa.ArrowInvalid if it is no decimal, or none of `DIGITS_MAX` digits."""
    if len(text) <= WIDE_DIGITS_MAX and "e" not in text and "E" not in text:
        return text
    match = _NUMBER.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise pa.ArrowInvalid(f"{text[:80]!r} is no decimal")
    sign, whole, part, exponent_sign, exponent = match.groups()
    digits = (whole + part).strip("0")
    if not digits:
        return "0"
    if len(exponent or "") <= _EXPONENT_DIGITS_MAX:
        point = len(whole) - (len(whole + part) - len((whole + part).lstrip("0"))) + int(f"{exponent_sign or ''}{exponent or 0}")
        if -DIGITS_MAX < point <= DIGITS_MAX and len(digits) <= DIGITS_MAX:
            filled = f"{'0' * -point}{digits}".ljust(point, "0")
            return f"{sign}{filled[: max(point, 0)] or 0}.{filled[max(point, 0) :] or 0}"
    raise pa.ArrowInvalid(f"{text[:80]!r} has too many digits")
