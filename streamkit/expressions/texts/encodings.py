"""Texts of bytes and numbers: hexadecimal, Base64, binary, other bases, character sets."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.expressions.core.column import Column
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.mapping import each_constant, each_value, on_arrays
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    RuleError,
    always,
    always_nullable,
    fitted,
    operation,
)
from streamkit.expressions.core.recording import constant, given, recorded
from streamkit.expressions.texts.characters import are_long, array_of_bytes, bytes_of, gathered, offsets_of
from streamkit.plan.expression import TypedExpression

__all__ = [
    "base64",
    "bin",
    "conv",
    "decode",
    "encode",
    "hex",
    "is_valid_utf8",
    "make_valid_utf8",
    "to_binary",
    "try_to_binary",
    "try_validate_utf8",
    "unbase64",
    "unhex",
    "validate_utf8",
]

_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_VALUES = np.full(256, -1, np.int8)  # of hexadecimal digits
_VALUES[np.frombuffer(b"0123456789", np.uint8)] = range(10)
_VALUES[np.frombuffer(b"abcdef", np.uint8)] = _VALUES[np.frombuffer(b"ABCDEF", np.uint8)] = range(10, 16)


def _hex_rule(call: Invocation) -> TypedExpression:
    """Of bytes, or of a whole number."""
    return TypedExpression("hex", "string", fitted(call, "bigint|binary|string"))


def hex(column: Column | str) -> Column:
    """The hexadecimal digits of bytes, a text or a whole number."""
    return recorded("hex", column)


@operation("hex", rule=_hex_rule, grows=2)
@on_arrays
def _hex(_: TypedExpression, value: pa.Array) -> pa.Array:
    """Two digits a byte; of a number the digits of its 64 bits without zeros in front."""
    if pa.types.is_integer(value.type):
        return _number_digits(value, 4)
    rows = bytes_of(value)
    data = rows.data[rows.offsets[0] : rows.offsets[-1]]
    digits = np.empty((len(data), 2), np.uint8)
    digits[:, 0], digits[:, 1] = _DIGITS[data >> 4], _DIGITS[data & 15]
    return array_of_bytes(digits.ravel(), (rows.offsets - rows.offsets[0]) * 2, value, pa.string())


def bin(column: Column | str) -> Column:
    """The bits of a whole number."""
    return recorded("bin", column)


@operation("bin", takes="bigint", gives="string")
@on_arrays
def _bin(_: TypedExpression, value: pa.Array) -> pa.Array:
    """The 64 bits without zeros in front."""
    return _number_digits(value, 1)


def _number_digits(values: pa.Array, bits: int) -> pa.Array:
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
    places = 64 // bits
    shifts = np.arange(places - 1, -1, -1, dtype=np.uint64) * np.uint64(bits)
    digits = (numbers[:, None] >> shifts) & np.uint64((1 << bits) - 1)
    shown = np.logical_or.accumulate(digits != 0, axis=1)
    shown[:, -1] = True
    return array_of_bytes(_DIGITS[digits[shown]], offsets_of(shown.sum(axis=1)), values, pa.string())


def unhex(text: Column | str) -> Column:
    """The bytes of hexadecimal digits; null where a character is not such a digit."""
    return recorded("unhex", text)


@operation("unhex", takes="string", gives="binary", nullable=always_nullable)
@on_arrays
def _unhex(_: TypedExpression, text: pa.Array) -> pa.Array:
    """The bytes; null where a character is no digit. An odd number of digits has a zero in front."""
    even = pc.if_else(pc.equal(pc.bit_wise_and(pc.binary_length(text), 1), 1), pc.binary_join_element_wise("0", text, ""), text)
    rows = bytes_of(even)
    values = _VALUES[rows.data[rows.offsets[0] : rows.offsets[-1]]]
    full = rows.sizes > 0
    sound = np.ones(len(text), bool)
    if len(values):
        sound[full] = ~np.logical_or.reduceat(values < 0, (rows.offsets - rows.offsets[0])[:-1][full])
    offsets = rows.offsets - rows.offsets[0]
    pairs = values.view(np.uint8).reshape(-1, 2)
    found = array_of_bytes((pairs[:, 0] << 4) | (pairs[:, 1] & 15), offsets // 2, even, pa.binary())
    return pc.if_else(pa.array(sound), found, pa.scalar(None, pa.binary()))


def base64(column: Column | str) -> Column:
    """Bytes in Base64, in lines of 76 characters."""
    return recorded("base64", column)


@operation("base64", takes="binary", gives="string", grows=1.4)
@on_arrays
def _base64(_: TypedExpression, value: pa.Array) -> pa.Array:
    """Every row filled up to groups of three bytes, and all rows encoded at once."""
    rows = bytes_of(value)
    if are_long(rows.sizes):
        pieces = [_lines_of(rows.data[start:end]) for start, end in zip(rows.offsets[:-1], rows.offsets[1:], strict=True)]
        return array_of_bytes(np.concatenate(pieces), offsets_of(np.array([*map(len, pieces)])), value, pa.string())
    filled = -(-rows.sizes // 3) * 3
    starts = offsets_of(filled)
    padded = np.zeros(int(starts[-1]), np.uint8)
    data, offsets = gathered(rows.data, rows.offsets[:-1], rows.sizes)
    padded[np.repeat(starts[:-1] - offsets[:-1], rows.sizes) + np.arange(len(data))] = data
    encoded = np.frombuffer(bytearray(binascii.b2a_base64(padded.tobytes(), newline=False)), np.uint8)
    ends = starts // 3 * 4
    for missing in (1, 2):
        encoded[ends[1:][filled - rows.sizes >= missing] - missing] = ord("=")
    return array_of_bytes(*_in_lines(encoded, ends), value, pa.string())


_LINE = 76  # characters in a line of encoded mail


def _lines_of(data: np.ndarray) -> np.ndarray:
    """One row in Base64, with its line ends."""
    encoded = np.frombuffer(binascii.b2a_base64(data.tobytes(), newline=False), np.uint8)
    whole = max(len(encoded) - 1, 0) // _LINE
    lines = np.empty((whole, _LINE + 2), np.uint8)
    lines[:, :_LINE] = encoded[: whole * _LINE].reshape(-1, _LINE)
    lines[:, _LINE:] = ord("\r"), ord("\n")
    return np.concatenate([lines.ravel(), encoded[whole * _LINE :]])


def _in_lines(encoded: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """With a line end between 76 characters and the next of a row."""
    sizes = np.diff(offsets)
    if sizes.max(initial=0) <= _LINE:
        return encoded, offsets
    ends = offsets_of(sizes + 2 * (np.maximum(sizes - 1, 0) // _LINE))
    place = np.arange(len(encoded)) - np.repeat(offsets[:-1], sizes)
    places = np.repeat(ends[:-1], sizes) + place + 2 * (place // _LINE)
    lines = np.full(int(ends[-1]), ord("\n"), np.uint8)
    lines[places] = encoded
    lines[places[1:][(place[1:] % _LINE == 0) & (place[1:] > 0)] - 2] = ord("\r")
    return lines, ends


def unbase64(text: Column | str) -> Column:
    """The bytes of a text in Base64."""
    return recorded("unbase64", text)


@operation("unbase64", takes="string", gives="binary", fails=always)
def _unbase64(_: TypedExpression, text: Datum) -> Datum:
    return each_value(_from_mime, pa.binary(), text)


def _from_mime(text: str) -> bytes:
    """As Java reads Base64 in mail: characters of no meaning are skipped, the last padding may be missing."""
    start, padding, rest = text.partition("=")
    digits = re.sub("[^A-Za-z0-9+/]", "", start)
    left = len(digits) % 4
    if left == 1:
        raise ValueError(f"{text!r} is not Base64: its last digit stands alone")
    if padding and (left == 0 or (left == 2 and not rest.startswith("=")) or re.search("[A-Za-z0-9+/]", rest)):
        raise ValueError(f"{text!r} is not Base64: its = are not where they belong")
    return b64decode(digits + "=" * (-len(digits) % 4))


_NUMBER_MAX = 2**64 - 1


def conv(text: Column | str, source: int, target: int) -> Column:
    """The digits of a number in another base."""
    return recorded("conv", text, constant(source), constant(target))


@operation("conv", takes="string, int, int", gives="string", fails=always, nullable=always_nullable)
def _conv(_: TypedExpression, text: Datum, source: Datum, target: Datum) -> Datum:
    return each_value(_converted, pa.string(), text, source, target)


def _converted(text: str, source: int, target: int) -> str | None:
    """The digits that start a text, read in one base and written in another, as unsigned 64 bits; signed if the base is negative."""
    digits = text.strip(" ")
    if not 2 <= source <= 36 or not 2 <= abs(target) <= 36 or not digits:
        return None
    negative = digits.startswith("-")
    number = 0
    for character in digits[negative:]:
        value = int(character, 36) if character.isascii() and character.isalnum() else 36
        if value >= source:
            break
        number = number * source + value
        if number > _NUMBER_MAX:
            raise ValueError(f"{text!r} has more than 64 bits in base {source}")
    if negative and target > 0:
        number = _NUMBER_MAX if number >= 2**63 else (-number) % 2**64
    if target < 0 and not negative and number >= 2**63:
        negative, number = True, 2**64 - number
    written = np.base_repr(number, abs(target))
    return f"-{written}" if negative and target < 0 else written


_CHARACTER_SETS = {
    "US-ASCII": "ascii", "ISO-8859-1": "latin-1", "UTF-8": "utf-8", "UTF-16BE": "utf-16-be", "UTF-16LE": "utf-16-le", "UTF-16": "utf-16",
    "UTF-32": "utf-32-be",
}  # fmt: skip


def _has_values(value: Datum) -> bool:
    return bool(value.is_valid if isinstance(value, pa.Scalar) else value.null_count < len(value))


def _codec(name: str) -> str:
    codec = _CHARACTER_SETS.get(name.upper())
    if codec is None:
        raise pa.ArrowInvalid(f"there is no character set {name!r}; expected one of {', '.join(_CHARACTER_SETS)}")
    return codec


def encode(text: Column | str, charset: str) -> Column:
    """The bytes of a text in a character set."""
    return recorded("encode", text, constant(charset))


@operation("encode", takes="string, string", gives="binary", fails=always, nullable=always_nullable, strict=False, grows=4)
def _encode(_: TypedExpression, text: Datum, name: Datum) -> Datum:
    """The bytes of a text in a character set; one that it has no place for is an error. Spark looks at both arguments always."""
    return each_constant(_encoded, pa.binary(), (text, name), (1,))


def _encoded(text: Datum, name: pa.Scalar) -> Datum:
    if not _has_values(text):
        return text.cast(pa.binary())
    codec = _codec(name.as_py())
    if codec == "utf-8":
        return text.cast(pa.binary())
    if codec == "utf-16":
        return each_value(lambda value: b"\xfe\xff" + value.encode("utf-16-be") if value else b"", pa.binary(), text)
    return each_value(lambda value: value.encode(codec), pa.binary(), text)


def _decode_rule(call: Invocation) -> TypedExpression:
    """With two arguments from a character set; with more, the result beside the first equal value."""
    if len(call.arguments) == 2:
        return TypedExpression("decode", "string", fitted(call, "binary, string"))
    if len(call.arguments) < 2:
        raise RuleError(f"decode() takes 2 or more arguments; found {len(call.arguments)}")
    value, *rest = call.values
    branches = []
    for searched, result in zip(rest[::2], rest[1::2], strict=False):
        branches += [call.of("eq_null_safe", value, searched), result]
    default = rest[-1] if len(rest) % 2 else literal(None, "void")
    return call.of("when", *branches, default)


def decode(column: Column | str, charset: str) -> Column:
    """The text of bytes in a character set."""
    return recorded("decode", column, constant(charset))


@operation("decode", rule=_decode_rule, fails=always, nullable=always_nullable, grows=3)
def _decode(_: TypedExpression, value: Datum, name: Datum) -> Datum:
    """The text of bytes in a character set; bytes that mean nothing there are an error."""
    return each_constant(_decoded, pa.string(), (value, name), (1,))


def _decoded(value: Datum, name: pa.Scalar) -> Datum:
    if not _has_values(value):
        return value.cast(pa.string())
    codec = _codec(name.as_py())
    if codec == "utf-8":
        return value.cast(pa.string())
    if codec == "utf-16":
        return each_value(_from_utf16, pa.string(), value)
    return each_value(lambda data: data.decode(codec), pa.string(), value)


def _from_utf16(data: bytes) -> str:
    """The mark at the start tells the order of bytes; without one the first is the higher."""
    return data.decode("utf-16" if data[:2] in (b"\xfe\xff", b"\xff\xfe") else "utf-16-be")


_FORMATS = ("hex", "utf-8", "utf8", "base64")


def _to_binary_rule(call: Invocation) -> TypedExpression:
    text, *given = fitted(call, "string, [string]")
    form = given[0] if given else literal("hex", "string")
    if form.name != "literal" or (form.value is not None and form.value.lower() not in _FORMATS):
        raise RuleError(f"{call.name}() takes one of {', '.join(_FORMATS)} as constant format; found {form.value!r}")
    wanted = literal(form.value and form.value.lower().replace("utf8", "utf-8"), "string")
    return TypedExpression(call.name, "binary", (text, wanted))


def _to_binary_nullable(expression: TypedExpression, nullable: Sequence[bool]) -> bool:
    return expression.arguments[1].value != "base64" or any(nullable)


def to_binary(text: Column | str, format: Column | str | None = None) -> Column:
    """The bytes of a text in hex (if no format is given), utf-8 or base64; a format is `lit(...)`."""
    return recorded("to_binary", text, *given(format))


@operation("to_binary", rule=_to_binary_rule, fails=always, nullable=_to_binary_nullable)
def _to_binary(expression: TypedExpression, text: Datum, form: pa.Scalar) -> Datum:
    """The bytes that a text writes in a format; an error where it does not."""
    found = _try_to_binary(expression, text, form)
    wrong = pc.and_(pc.is_valid(text), pc.is_null(found))
    if pc.any(wrong).as_py() if isinstance(wrong, pa.Array) else wrong.as_py():
        raise pa.ArrowInvalid(f"a text does not have the format {form}")
    return found


def try_to_binary(text: Column | str, format: Column | str | None = None) -> Column:
    """As `to_binary`; null where the text does not have the format."""
    return recorded("try_to_binary", text, *given(format))


@operation("try_to_binary", rule=_to_binary_rule, nullable=always_nullable)
def _try_to_binary(expression: TypedExpression, text: Datum, form: pa.Scalar) -> Datum:
    """The bytes that a text writes in a format; null where it does not."""
    name = form.as_py()
    if name == "hex":
        return _unhex(expression, text)
    return text.cast(pa.binary()) if name == "utf-8" else each_value(_from_strict_base64, pa.binary(), text)


_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")


def _from_strict_base64(text: str) -> bytes | None:
    bare = re.sub(r"[^\S\x85\xa0\u2007\u202f]", "", text)  # Java's blanks
    return b64decode(bare.rstrip("=") + "=" * (-len(bare.rstrip("=")) % 4)) if _BASE64.fullmatch(bare) else None


def _valid_utf8(value: Datum) -> Datum:
    """Texts are; bytes are asked."""
    if pa.types.is_string(value.type):
        return pc.if_else(pc.is_valid(value), True, pa.scalar(None, pa.bool_()))
    return each_value(_is_text, pa.bool_(), value)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_valid_utf8(column: Column | str) -> Column:
    """Whether the bytes are valid UTF-8."""
    return recorded("is_valid_utf8", column)


@operation("is_valid_utf8", takes="string|binary", gives="boolean", nullable=always_nullable)
def _is_valid_utf8(_: TypedExpression, value: Datum) -> Datum:
    return _valid_utf8(value)


def make_valid_utf8(column: Column | str) -> Column:
    """The text of the bytes, with U+FFFD in place of invalid ones."""
    return recorded("make_valid_utf8", column)


@operation("make_valid_utf8", takes="string|binary", gives="string", nullable=always_nullable, grows=3)
def _make_valid_utf8(_: TypedExpression, value: Datum) -> Datum:
    """Bytes that are no text become U+FFFD."""
    if pa.types.is_string(value.type):
        return value
    return each_value(lambda data: data.decode(errors="replace"), pa.string(), value)


def validate_utf8(column: Column | str) -> Column:
    """The text of the bytes; an error if they are not valid UTF-8."""
    return recorded("validate_utf8", column)


@operation("validate_utf8", takes="string|binary", gives="string", fails=always, nullable=always_nullable)
def _validate_utf8(_: TypedExpression, value: Datum) -> Datum:
    return value.cast(pa.string())


def try_validate_utf8(column: Column | str) -> Column:
    """The text of the bytes; null if they are not valid UTF-8."""
    return recorded("try_validate_utf8", column)


@operation("try_validate_utf8", takes="string|binary", gives="string", nullable=always_nullable)
def _try_validate_utf8(_: TypedExpression, value: Datum) -> Datum:
    if pa.types.is_string(value.type):
        return value
    return each_value(lambda data: data.decode() if _is_text(data) else None, pa.string(), value)
