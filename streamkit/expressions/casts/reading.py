"""Text to values, by the rules of Spark's ANSI casts; what cannot be read raises, with the text."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import to_arrow
from streamkit.decimals import DECIMAL_CONTEXT, decimals_of_python, power_of_ten
from streamkit.expressions.core.numbers import WIDEST, fit_decimal, with_validity
from streamkit.expressions.times.reading_times import read_moments

_BLANKS = "".join(map(chr, range(0x21)))
_CONTROLS = _BLANKS + "\x7f"  # what Spark trims around numbers, dates and booleans
_FLOAT = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_SPECIAL_FLOAT = r"^(?:[+-]?(?:inf|infinity)|nan)$"
_DECIMAL = r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<exponent>[eE][+-]?[0-9]+)?$"
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
TextArray: TypeAlias = pa.StringArray


def read_integers(texts: TextArray, type: str) -> pa.Array:
    """Digits with an optional sign; blanks around them do not count."""
    if not any(_any(pc.match_substring(texts, mark)) for mark in "xX"):  # Arrow alone reads hexadecimal numbers
        try:
            return texts.cast(to_arrow(type))
        except pa.ArrowInvalid:
            pass
    trimmed = pc.utf8_trim(texts, characters=_CONTROLS)
    _require(pc.match_substring_regex(trimmed, r"^[+-]?[0-9]+$"), texts, type)
    unsigned = pc.if_else(pc.starts_with(trimmed, "+"), pc.utf8_slice_codeunits(trimmed, 1), trimmed)
    return unsigned.cast(to_arrow(type))


def read_floats(texts: TextArray, type: str) -> pa.Array:
    """What Java reads as a double, and inf and nan in any case; hexadecimal floats are not read."""
    trimmed = pc.utf8_trim(texts, characters=_BLANKS)
    bare = pc.replace_substring_regex(trimmed, r"^([^a-zA-Z]*[0-9.](?:[eE][+-]?[0-9]+)?)[dDfF]$", r"\1")
    special = pc.match_substring_regex(bare, _SPECIAL_FLOAT, ignore_case=True)
    _require(pc.or_(special, pc.match_substring_regex(bare, _FLOAT)), texts, type)
    unsigned = pc.if_else(pc.starts_with(bare, "+"), pc.utf8_slice_codeunits(bare, 1), bare)
    return unsigned.cast(to_arrow(type))


def read_decimals(texts: TextArray, type: str) -> pa.Array:
    """A decimal number, rounded half up to the scale of the type."""
    trimmed = pc.utf8_trim(texts, characters=_BLANKS)
    parts = _extract(trimmed, _DECIMAL, texts, type)
    whole, part = parts.field("whole"), parts.field("part")
    _require(pc.greater(pc.add(pc.binary_length(whole), pc.binary_length(part)), 0), texts, type, texts.is_valid())
    if _any(pc.not_equal(parts.field("exponent"), "")):
        return _read_decimals_slowly(trimmed, type)
    scale = to_arrow(type).scale
    digits = pc.utf8_slice_codeunits(pc.utf8_rpad(part, scale + 1, "0"), 0, scale + 1)
    unscaled = pc.binary_join_element_wise(pc.if_else(pc.equal(parts.field("sign"), "-"), "-", ""), whole, digits, "")
    numbers = pc.if_else(texts.is_valid(), unscaled, None).cast(pa.decimal256(WIDEST, 0))
    rescaled = pa.Array.from_buffers(pa.decimal256(WIDEST, scale + 1), len(numbers), numbers.buffers(), offset=numbers.offset)
    return fit_decimal(rescaled, type)


def _read_decimals_slowly(texts: TextArray, type: str) -> pa.Array:
    """In Python, because exponents are rare."""
    target = to_arrow(type)
    step = power_of_ten(-target.scale)
    try:
        values = [
            None
            if text is None
            else decimal.Decimal(text, DECIMAL_CONTEXT).quantize(step, decimal.ROUND_HALF_UP, DECIMAL_CONTEXT)
            for text in texts.to_pylist()
        ]
    except decimal.InvalidOperation:
        raise pa.ArrowInvalid(f"a number does not fit into {type}") from None
    return decimals_of_python(values, target)


def read_booleans(texts: TextArray, type: str) -> pa.Array:
    """t, true, y, yes, 1 and their opposites, in any case."""
    word = pc.ascii_lower(pc.utf8_trim(texts, characters=_CONTROLS))
    true, false = (pc.is_in(word, value_set=pa.array(words, word.type)) for words in (_TRUE, _FALSE))
    _require(pc.or_(true, false), texts, type, texts.is_valid())
    return pc.if_else(texts.is_valid(), true, None)


def read_times(texts: TextArray, type: str) -> pa.Array:
    """A date, or a date and a time of day, perhaps with a zone; UTC without."""
    numbers, sound = read_moments(texts, type, "UTC")
    _require(pa.array(sound), texts, type, texts.is_valid())
    return with_validity(numbers, to_arrow(type), texts.is_valid())


def _extract(texts: TextArray, pattern: str, shown: TextArray, type: str) -> pa.StructArray:
    """The named groups of a pattern that every text must match."""
    fields = pc.extract_regex(texts, pattern=pattern)
    _require(fields.is_valid(), shown, type, texts.is_valid())
    return fields


def _require(holds: pa.BooleanArray, texts: TextArray, type: str, valid: pa.BooleanArray | None = None) -> None:
    """Raise ArrowInvalid with the first text for which `holds` is false, among the valid ones."""
    wrong = pc.fill_null(pc.invert(holds), False)
    if valid is not None:
        wrong = pc.and_(wrong, valid)
    if _any(wrong):
        raise pa.ArrowInvalid(f"{texts.filter(wrong)[0].as_py()!r} cannot be read as {type}")


def _any(holds: pa.BooleanArray) -> bool:
    return bool(pc.any(holds).as_py())


READERS: dict[str, Callable[[TextArray, str], pa.Array]] = {
    "integer": read_integers,
    "float": read_floats,
    "decimal": read_decimals,
    "boolean": read_booleans,
    "date": read_times,
    "timestamp": read_times,
    "timestamp_ntz": read_times,
}
