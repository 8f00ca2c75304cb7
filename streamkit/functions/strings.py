"""Texts: positions count characters from 1."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, given, recorded

__all__ = [
    "btrim",
    "char_length",
    "character_length",
    "concat",
    "concat_ws",
    "contains",
    "endswith",
    "lcase",
    "length",
    "like",
    "lower",
    "ltrim",
    "regexp",
    "regexp_like",
    "rlike",
    "rtrim",
    "startswith",
    "substr",
    "substring",
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


def substring(text: Column | str, start: Column | str | int, length: Column | str | int) -> Column:
    """`length` characters from `start`, counted from 1, or from the end if negative."""
    return recorded("substring", text, start, length)


def substr(text: Column | str, start: Column | str | int, length: Column | str | int | None = None) -> Column:
    """As `substring`; without `length`, up to the end."""
    return recorded("substr", text, start, *given(length))


def concat(*columns: Column | str) -> Column:
    """The texts one after the other; null if one is null."""
    return recorded("concat", *columns)


def concat_ws(separator: str, *columns: Column | str) -> Column:
    """The texts that are not null, with `separator` between them."""
    return recorded("concat_ws", constant(separator), *columns)


def startswith(text: Column | str, prefix: Column | str) -> Column:
    """True where the text starts with the other."""
    return recorded("startswith", text, prefix)


def endswith(text: Column | str, suffix: Column | str) -> Column:
    """True where the text ends with the other."""
    return recorded("endswith", text, suffix)


def contains(text: Column | str, part: Column | str) -> Column:
    """True where the text contains the other."""
    return recorded("contains", text, part)


def like(text: Column | str, pattern: Column | str, escape: Column | None = None) -> Column:
    """True where the text matches an SQL pattern of % and _; a constant pattern is `lit(...)`."""
    return recorded("like", text, pattern, *given(escape))


def rlike(text: Column | str, pattern: Column | str) -> Column:
    """True where the regular expression matches some part of the text; a constant pattern is `lit(...)`."""
    return recorded("rlike", text, pattern)


ucase = upper
lcase = lower
btrim = trim
char_length = length
character_length = length
regexp = rlike
regexp_like = rlike
