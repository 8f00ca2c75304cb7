"""
The type of a column of texts: the narrowest of which each value says what its text says.

A number is one only if it prints as its text, or as another spelling of the same digits: `1.50` is, and `007`, `+49`, `0x1F` and `1E5`
are texts. What Arrow guesses itself is wider than what is read, and loses texts.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.files.record_text import parse_texts
from streamkit.connectors.files.spelling import ISO, Spelling
from streamkit.decimals import DIGITS_MAX
from streamkit.errors import SchemaError
from streamkit.formats.number_texts import with_points
from streamkit.schema import SchemaColumn

DOUBLE_DIGITS = 15  # which every double keeps
BOOLEAN = r"^(?i:true|false)$"
WHOLE = r"^(0|-?[1-9]\d*)$"
_JSON_WHOLE = r"^-?\d+$"
ZERO = r"^-0(\.0*)?$"
_POINT = r"^-?(0|[1-9]\d*)?\.\d+$"
_EXPONENT = r"^-?\d(\.\d+)?[eE][+-]\d+$|^-?\d+\.\d+[eE]\d+$"
NOT_FINITE = r"^(NaN|nan|-?inf|-?Infinity)$"
NUMBER = f"{WHOLE}|{ZERO}|{_POINT}|{_EXPONENT}"
_YEAR = r"^(000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d\d\d)-\d\d-\d\d"
DATE = rf"{_YEAR}$"
_TIME = rf"{_YEAR}[T ]\d\d:\d\d(:\d\d(\.\d{{1,6}})?)?"
LOCAL = rf"{_TIME}$"
ZONED = rf"{_TIME}(Z|[+-]\d\d(:?\d\d)?)$"


def type_of_texts(texts: pa.Array, spelling: Spelling = ISO) -> str:
    """The type of a column of CSV; of nothing but nulls, and of what has no other type, it is a text."""
    texts = pc.unique(texts).drop_null()
    if not len(texts):
        return "string"
    if by_pattern := _type_by_pattern(texts, spelling):
        return by_pattern  # also of what could be a number, such as 20260131
    if _all(texts, BOOLEAN):
        return _read_as("boolean", texts)
    return type_of_numbers(_with_points(texts) if spelling.has_commas else texts) or type_of_times(texts, spelling)


def _type_by_pattern(texts: pa.Array, spelling: Spelling) -> str | None:
    """The type whose pattern all texts fit, if the spelling has one."""
    for type in ("date", spelling.timestamp_type):
        if type is not None and spelling.format_of(type) is not None and _read_as(type, texts, spelling) == type:
            return type
    return None


def _with_points(texts: pa.Array) -> pa.Array:
    """The texts as numbers that have points; as they are not numbers if one cannot be one."""
    try:
        return with_points(texts)
    except pa.ArrowInvalid:
        return pa.array(["no number"])


def type_of_times(texts: pa.Array, spelling: Spelling = ISO) -> str:
    """
    `date`, `timestamp` of times with a zone, `timestamp_ntz` of those without one, or `string`.

    A pattern is the only spelling of its type: where there is one, ISO texts are texts.
    """
    texts = pc.unique(texts).drop_null()
    if not len(texts):
        return "string"
    if by_pattern := _type_by_pattern(texts, spelling):
        return by_pattern
    if spelling.date_format is None and _all(texts, DATE):
        return _read_as("date", texts)
    if spelling.timestamp_format is not None:
        return "string"
    if _all(texts, ZONED):
        return _read_as("timestamp", texts)
    if _all(texts, f"{LOCAL}|{DATE}") and _read_as("timestamp", texts) == "timestamp":
        return "timestamp_ntz"
    return "string"


def type_of_numbers(texts: pa.Array) -> str | None:
    """The type of texts as numbers, None if one of them is none, or if no type keeps all of them."""
    if _all(texts, WHOLE):
        return _of_whole(texts)
    finite = texts.filter(pc.invert(pc.match_substring_regex(texts, NOT_FINITE)))
    is_whole = len(finite) == len(texts) and not pc.any(pc.match_substring_regex(texts, r"[.eE]")).as_py()
    if is_whole or not len(finite) or not _all(finite, NUMBER):
        return None
    return _of_fractions(finite, is_finite=len(finite) == len(texts))


def type_of_json_numbers(texts: pa.Array) -> str | None:
    """The type of numbers of JSON, whose spelling says nothing; None if no type keeps all of them."""
    texts = pc.unique(texts)
    if _all(texts, _JSON_WHOLE):
        return _of_whole(texts)
    finite = texts.filter(pc.invert(pc.match_substring_regex(texts, NOT_FINITE)))
    return _of_fractions(finite, is_finite=len(finite) == len(texts))


def _of_whole(texts: pa.Array) -> str | None:
    try:
        pc.cast(texts, pa.int64())
    except pa.ArrowInvalid:
        longest = pc.max(pc.utf8_length(pc.utf8_trim(texts, "-"))).as_py()
        return f"decimal({DIGITS_MAX},0)" if longest <= DIGITS_MAX else None
    return "bigint"


def _of_fractions(texts: pa.Array, *, is_finite: bool) -> str | None:
    """`double` if the nearest double of each prints all digits, else a decimal with room for all of them."""
    is_short = pc.and_not(pc.less_equal(pc.binary_length(texts), DOUBLE_DIGITS), pc.match_substring_regex(texts, "[eE]"))
    if all(_is_double(text.as_py()) for text in texts.filter(pc.invert(is_short))):
        return "double"
    if not is_finite or pc.any(pc.match_substring_regex(texts, ZERO)).as_py():
        return None
    digits, scale = 1, 0
    for text in texts.to_pylist():
        number = Decimal(text).as_tuple()
        exponent = int(number.exponent)
        scale = max(scale, -exponent)
        digits = max(digits, len(number.digits) + exponent)
    return f"decimal({DIGITS_MAX},{scale})" if scale <= DIGITS_MAX and digits + scale <= DIGITS_MAX else None


def _is_double(text: str) -> bool:
    """Whether the nearest double of a text prints all of its digits."""
    return keeps_digits(text, repr(float(text)))


def keeps_digits(text: str, printed: str) -> bool:
    """Whether a number that is printed so has all digits of a text."""
    try:
        return Decimal(text) == Decimal(printed)
    except InvalidOperation:
        return False


def _read_as(type_name: str, texts: pa.Array, spelling: Spelling = ISO) -> str:
    """The type, if the reader takes all texts for it, else `string`."""
    try:
        found = parse_texts(SchemaColumn("", type_name), texts, spelling)
        if type_name != "boolean":
            found.to_pylist()  # years beyond those of Python
    except (SchemaError, OverflowError, ValueError):
        return "string"
    return type_name


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())
