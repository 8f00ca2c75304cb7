"""Texts of bytes and numbers."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, given, recorded

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


def hex(column: Column | str) -> Column:
    """The hexadecimal digits of bytes, a text or a whole number."""
    return recorded("hex", column)


def unhex(text: Column | str) -> Column:
    """The bytes of hexadecimal digits; null where one is none."""
    return recorded("unhex", text)


def bin(column: Column | str) -> Column:
    """The bits of a whole number."""
    return recorded("bin", column)


def base64(column: Column | str) -> Column:
    """Bytes in Base64, in lines of 76 characters."""
    return recorded("base64", column)


def unbase64(text: Column | str) -> Column:
    """The bytes of a text in Base64."""
    return recorded("unbase64", text)


def conv(text: Column | str, source: int, target: int) -> Column:
    """The digits of a number in another base."""
    return recorded("conv", text, constant(source), constant(target))


def encode(text: Column | str, charset: str) -> Column:
    """The bytes of a text in a character set."""
    return recorded("encode", text, constant(charset))


def decode(column: Column | str, charset: str) -> Column:
    """The text of bytes in a character set."""
    return recorded("decode", column, constant(charset))


def to_binary(text: Column | str, format: Column | str | None = None) -> Column:
    """The bytes of a text in hex (if no format is given), utf-8 or base64; a format is `lit(...)`."""
    return recorded("to_binary", text, *given(format))


def try_to_binary(text: Column | str, format: Column | str | None = None) -> Column:
    """As `to_binary`; null where the text does not have the format."""
    return recorded("try_to_binary", text, *given(format))


def is_valid_utf8(column: Column | str) -> Column:
    """Whether bytes are a text."""
    return recorded("is_valid_utf8", column)


def make_valid_utf8(column: Column | str) -> Column:
    """The text of bytes, U+FFFD for those that are none."""
    return recorded("make_valid_utf8", column)


def validate_utf8(column: Column | str) -> Column:
    """The text of bytes; an error if they are none."""
    return recorded("validate_utf8", column)


def try_validate_utf8(column: Column | str) -> Column:
    """The text of bytes; null if they are none."""
    return recorded("try_validate_utf8", column)
