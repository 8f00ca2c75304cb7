"""Text to values, by the rules of Spark's ANSI casts; what cannot be read raises, with the text."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import to_arrow
from streamkit.expressions.calendar import days_from_civil
from streamkit.expressions.numbers import WIDEST, fit_decimal, with_validity

_BLANKS = "".join(map(chr, range(0x21)))
_CONTROLS = _BLANKS + "\x7f"  # what Spark trims around numbers, dates and booleans
_FLOAT = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_SPECIAL_FLOAT = r"^(?:[+-]?(?:inf|infinity)|nan)$"
_DECIMAL = r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?P<exponent>[eE][+-]?[0-9]+)?$"
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_DATE = r"(?s)^(?P<sign>[+-]?)(?P<year>[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T].*)?)?)?$"
_TIMESTAMP = (
    r"^(?P<sign>[+-]?)(?P<year>[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T](?P<hour>[0-9]{1,2})"
    r"(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?(?P<zone>[^0-9.].*)?)?)?)?)?)?$"
)
_ZONE = r"^(?:UTC|GMT|UT|Z)?(?:(?P<sign>[+-])(?P<hour>[0-9]{1,2})(?::?(?P<minute>[0-9]{1,2})(?::?(?P<second>[0-9]{2}))?)?)?$"
Texts: TypeAlias = pa.StringArray


def read_integers(texts: Texts, type: str) -> pa.Array:
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


def read_floats(texts: Texts, type: str) -> pa.Array:
    """What Java reads as a double, and inf and nan in any case; hexadecimal floats are not read."""
    trimmed = pc.utf8_trim(texts, characters=_BLANKS)
    bare = pc.replace_substring_regex(trimmed, r"^([^a-zA-Z]*[0-9.](?:[eE][+-]?[0-9]+)?)[dDfF]$", r"\1")
    special = pc.match_substring_regex(bare, _SPECIAL_FLOAT, ignore_case=True)
    _require(pc.or_(special, pc.match_substring_regex(bare, _FLOAT)), texts, type)
    unsigned = pc.if_else(pc.starts_with(bare, "+"), pc.utf8_slice_codeunits(bare, 1), bare)
    return unsigned.cast(to_arrow(type))


def read_decimals(texts: Texts, type: str) -> pa.Array:
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


def _read_decimals_slowly(texts: Texts, type: str) -> pa.Array:
    """In Python, because exponents are rare."""
    target = to_arrow(type)
    step = decimal.Decimal(1).scaleb(-target.scale)
    context = decimal.Context(prec=2 * WIDEST, rounding=decimal.ROUND_HALF_UP)
    try:
        values = [None if text is None else decimal.Decimal(text).quantize(step, context=context) for text in texts.to_pylist()]
    except decimal.InvalidOperation:
        raise pa.ArrowInvalid(f"a number does not fit into {type}") from None
    return pa.array(values, target)


def read_booleans(texts: Texts, type: str) -> pa.Array:
    """t, true, y, yes, 1 and their opposites, in any case."""
    word = pc.ascii_lower(pc.utf8_trim(texts, characters=_CONTROLS))
    true, false = (pc.is_in(word, value_set=pa.array(words, word.type)) for words in (_TRUE, _FALSE))
    _require(pc.or_(true, false), texts, type, texts.is_valid())
    return pc.if_else(texts.is_valid(), true, None)


def read_dates(texts: Texts, type: str) -> pa.Array:
    """yyyy, yyyy-m, yyyy-m-d, and anything after a blank or T."""
    try:
        return texts.cast(pa.date32())
    except pa.ArrowInvalid:
        fields = _extract(pc.utf8_trim(texts, characters=_CONTROLS), _DATE, texts, type)
        return with_validity(_days(fields, texts, type).astype(np.int32), pa.date32(), texts.is_valid())


def read_timestamps(texts: Texts, type: str) -> pa.Array:
    """A date, then perhaps h:m:s with a fraction and a zone (Z, UTC, an offset); UTC without; timestamp_ntz ignores the zone."""
    try:
        return texts.cast(pa.timestamp("us")).cast(to_arrow(type))
    except pa.ArrowInvalid:
        return _read_timestamps_slowly(texts, type)


def _read_timestamps_slowly(texts: Texts, type: str) -> pa.Array:
    trimmed = pc.utf8_trim(texts, characters=_CONTROLS)
    fields = _extract(trimmed, _TIMESTAMP, texts, type)
    hour, minute, second = (_numbers(fields.field(name), 0) for name in ("hour", "minute", "second"))
    _require(pa.array((hour < 24) & (minute < 60) & (second < 60)), texts, type, texts.is_valid())
    fraction = _numbers(pc.utf8_slice_codeunits(pc.utf8_rpad(fields.field("fraction"), 6, "0"), 0, 6), 0)
    seconds = _days(fields, texts, type) * 86_400 + hour * 3600 + minute * 60 + second
    offset = _offset_seconds(fields.field("zone"), texts, type)
    if type == "timestamp":
        seconds -= offset
    _require(pa.array(np.abs(seconds) < (1 << 63) // 1_000_000), texts, type, texts.is_valid())
    return with_validity(seconds * 1_000_000 + fraction, to_arrow(type), texts.is_valid())


def _offset_seconds(zones: pa.StringArray, texts: Texts, type: str) -> np.ndarray:
    fields = _extract(pc.utf8_trim(zones.fill_null(""), characters=_CONTROLS), _ZONE, texts, f"{type} (zones: Z, UTC, an offset)")
    hour, minute, second = (_numbers(fields.field(name), 0) for name in ("hour", "minute", "second"))
    offset = hour * 3600 + minute * 60 + second
    _require(pa.array((offset <= 18 * 3600) & (minute < 60) & (second < 60)), texts, type, texts.is_valid())
    return np.asarray(np.where(_is_negative(fields), -offset, offset))


def _days(fields: pa.StructArray, texts: Texts, type: str) -> np.ndarray:
    """Days since 1970 of the fields sign, year, month and day; a day that does not exist raises."""
    year, month, day = _numbers(fields.field("year"), 1970), _numbers(fields.field("month"), 1), _numbers(fields.field("day"), 1)
    year = np.where(_is_negative(fields), -year, year)
    days, exists = days_from_civil(year, month, day)
    _require(pa.array(exists), texts, type, texts.is_valid())
    return days


def _is_negative(fields: pa.StructArray) -> np.ndarray:
    return np.asarray(pc.equal(fields.field("sign"), "-").fill_null(False))


def _numbers(digits: pa.StringArray, missing: int) -> np.ndarray:
    present = pc.if_else(pc.greater(pc.binary_length(digits).fill_null(0), 0), digits, str(missing))
    return np.asarray(present.cast(pa.int64()))


def _extract(texts: Texts, pattern: str, shown: Texts, type: str) -> pa.StructArray:
    """The named groups of a pattern that every text must match."""
    fields = pc.extract_regex(texts, pattern=pattern)
    _require(fields.is_valid(), shown, type, texts.is_valid())
    return fields


def _require(holds: pa.BooleanArray, texts: Texts, type: str, valid: pa.BooleanArray | None = None) -> None:
    """Raise ArrowInvalid with the first text for which `holds` is false, among the valid ones."""
    wrong = pc.fill_null(pc.invert(holds), False)
    if valid is not None:
        wrong = pc.and_(wrong, valid)
    if _any(wrong):
        raise pa.ArrowInvalid(f"{texts.filter(wrong)[0].as_py()!r} cannot be read as {type}")


def _any(holds: pa.BooleanArray) -> bool:
    return bool(pc.any(holds).as_py())


READERS: dict[str, Callable[[Texts, str], pa.Array]] = {
    "integer": read_integers,
    "float": read_floats,
    "decimal": read_decimals,
    "boolean": read_booleans,
    "date": read_dates,
    "timestamp": read_timestamps,
    "timestamp_ntz": read_timestamps,
}
