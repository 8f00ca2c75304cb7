"""Texts: positions count characters from 1."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, given, given_text, recorded

__all__ = [
    "ascii",
    "bit_length",
    "btrim",
    "char",
    "char_length",
    "character_length",
    "chr",
    "concat",
    "concat_ws",
    "initcap",
    "lcase",
    "length",
    "levenshtein",
    "lower",
    "lpad",
    "ltrim",
    "mask",
    "octet_length",
    "quote",
    "repeat",
    "reverse",
    "rpad",
    "rtrim",
    "soundex",
    "translate",
    "trim",
    "ucase",
    "upper",
]


def upper(column: Column | str) -> Column:
    """The text in upper case."""
    return recorded("upper", column)


def lower(column: Column | str) -> Column:
    """The text in lower case."""
    return recorded("lower", column)


def length(column: Column | str) -> Column:
    """How many characters a text has, or bytes a binary."""
    return recorded("length", column)


def trim(text: Column | str, characters: Column | str | None = None) -> Column:
    """The text without spaces (or `characters`) at both ends."""
    return recorded("trim", text, *given(characters))


def ltrim(text: Column | str, characters: Column | str | None = None) -> Column:
    """The text without spaces (or `characters`) at its start."""
    return recorded("ltrim", text, *given(characters))


def rtrim(text: Column | str, characters: Column | str | None = None) -> Column:
    """The text without spaces (or `characters`) at its end."""
    return recorded("rtrim", text, *given(characters))


def concat(*columns: Column | str) -> Column:
    """The texts one after the other; null if one is null."""
    return recorded("concat", *columns)


def concat_ws(separator: str, *columns: Column | str) -> Column:
    """The texts that are not null, with `separator` between them."""
    return recorded("concat_ws", constant(separator), *columns)


def lpad(text: Column | str, length: Column | int, padding: Column | str) -> Column:
    """The text cut to `length` characters, or filled up at its start."""
    return recorded("lpad", text, length, given_text(padding))


def rpad(text: Column | str, length: Column | int, padding: Column | str) -> Column:
    """The text cut to `length` characters, or filled up at its end."""
    return recorded("rpad", text, length, given_text(padding))


def repeat(text: Column | str, times: Column | str | int) -> Column:
    """The text so many times."""
    return recorded("repeat", text, times)


def reverse(column: Column | str) -> Column:
    """The text backwards."""
    return recorded("reverse", column)


def initcap(text: Column | str) -> Column:
    """Lower case, but upper case at the start of each word."""
    return recorded("initcap", text)


def translate(text: Column | str, old: str, new: str) -> Column:
    """Each character of `old` becomes the one at its place in `new`, or nothing if there is none."""
    return recorded("translate", text, constant(old), constant(new))


def mask(
    text: Column | str,
    upper: Column | str | None = None,
    lower: Column | str | None = None,
    digit: Column | str | None = None,
    other: Column | str | None = None,
) -> Column:
    """X for upper-case letters, x for lower-case ones, n for digits, or what is given as `lit(...)`."""
    return recorded("mask", text, *_masks(upper, lower, digit, other))


def ascii(text: Column | str) -> Column:
    """The number of the first character."""
    return recorded("ascii", text)


def char(number: Column | str) -> Column:
    """The character with a number."""
    return recorded("char", number)


def bit_length(column: Column | str) -> Column:
    """How many bits a text or binary has."""
    return recorded("bit_length", column)


def octet_length(column: Column | str) -> Column:
    """How many bytes a text or binary has."""
    return recorded("octet_length", column)


def levenshtein(left: Column | str, right: Column | str, threshold: int | None = None) -> Column:
    """How many characters differ; -1 if they are more than the threshold."""
    return recorded("levenshtein", left, right, *given(threshold))


def soundex(text: Column | str) -> Column:
    """How the text sounds in English."""
    return recorded("soundex", text)


def quote(text: Column | str) -> Column:
    """The text between single quotes."""
    return recorded("quote", text)


def _masks(*characters: Column | str | None) -> tuple[object, ...]:
    """What is given, and what stands for it where only later ones are."""
    standard = (constant("X"), constant("x"), constant("n"), constant(None))
    count = max((place + 1 for place, character in enumerate(characters) if character is not None), default=0)
    return tuple(usual if given is None else given for given, usual in zip(characters[:count], standard))


ucase = upper
lcase = lower
btrim = trim
char_length = length
character_length = length
chr = char
