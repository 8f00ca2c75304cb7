"""Texts as decimals, and none as another number: Arrow does not see that a text has more digits than its type."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

DIGITS_MAX = 38
WIDE_DIGITS_MAX = 76
_NUMBER = re.compile(r"([+-]?)0*(\d*)\.?(\d*?)0*((?:[eE][+-]?\d+)?)")


def wide_decimal(type: pa.Decimal128Type) -> pa.Decimal256Type:
    """A type of the same scale, in which Arrow's reader of JSON sees that a number has too many digits."""
    return pa.decimal256(WIDE_DIGITS_MAX, type.scale)


def decimals_of_texts(texts: pa.Array, type: pa.Decimal128Type) -> pa.Array:
    """The texts as decimals of that type; pa.ArrowInvalid if one of them is no number, or not one of that type."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest + type.scale <= DIGITS_MAX and not pc.any(pc.match_substring_regex(texts, "[eE]")).as_py():
        return texts.cast(type)
    if longest > WIDE_DIGITS_MAX:
        shortened = [None if text is None else _shortened(text) for text in texts.to_pylist()]
        texts = pa.array(shortened, pa.string())
    return texts.cast(wide_decimal(type)).cast(type)


def _shortened(text: str) -> str:
    """The text without zeros that say nothing; pa.ArrowInvalid if it has too many digits all the same."""
    if len(text) <= WIDE_DIGITS_MAX:
        return text
    match = _NUMBER.fullmatch(text)
    if match is None or not text.isascii() or len(match[2]) + len(match[3]) > WIDE_DIGITS_MAX:
        raise pa.ArrowInvalid(f"{text[:80]!r} is no decimal, or has too many digits")
    return f"{match[1]}{match[2] or 0}.{match[3] or 0}{match[4]}"
