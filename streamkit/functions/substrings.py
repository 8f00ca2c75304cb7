"""Parts of texts: positions count characters from 1."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, given, given_text, recorded

__all__ = [
    "contains",
    "elt",
    "endswith",
    "find_in_set",
    "instr",
    "left",
    "locate",
    "overlay",
    "position",
    "replace",
    "right",
    "split_part",
    "startswith",
    "substr",
    "substring",
    "substring_index",
]


def substring(text: Column | str, start: Column | str | int, length: Column | str | int) -> Column:
    """`length` characters from `start`, counted from 1, or from the end if negative."""
    return recorded("substring", text, start, length)


def substr(text: Column | str, start: Column | str | int, length: Column | str | int | None = None) -> Column:
    """As `substring`; without `length`, up to the end."""
    return recorded("substr", text, start, *given(length))


def left(text: Column | str, length: Column | str | int) -> Column:
    """The first characters."""
    return recorded("left", text, length)


def right(text: Column | str, length: Column | str | int) -> Column:
    """The last characters."""
    return recorded("right", text, length)


def startswith(text: Column | str, prefix: Column | str) -> Column:
    """True where the text starts with the other."""
    return recorded("startswith", text, prefix)


def endswith(text: Column | str, suffix: Column | str) -> Column:
    """True where the text ends with the other."""
    return recorded("endswith", text, suffix)


def contains(text: Column | str, part: Column | str) -> Column:
    """True where the text contains the other."""
    return recorded("contains", text, part)


def instr(text: Column | str, part: Column | str) -> Column:
    """Where `part` first is in the text, from 1; 0 if it is not. A text is the part itself."""
    return recorded("instr", text, given_text(part))


def locate(part: str, text: Column | str, start: int = 1) -> Column:
    """Where `part` first is in the text from `start` on, from 1; 0 if it is not."""
    return recorded("locate", constant(part), text, constant(start))


def position(part: Column | str, text: Column | str, start: Column | str | int | None = None) -> Column:
    """As `locate`, of columns."""
    return recorded("position", part, text, *given(start))


def overlay(text: Column | str, replacement: Column | str, start: Column | str | int, length: Column | str | int = -1) -> Column:
    """The text with another from `start` on, in place of as many characters as it has, or of `length`."""
    return recorded("overlay", text, replacement, start, length)


def replace(text: Column | str, old: Column | str, new: Column | str | None = None) -> Column:
    """The text with each `old` replaced by `new`, or without it."""
    return recorded("replace", text, old, *given(new))


def substring_index(text: Column | str, separator: str, count: int) -> Column:
    """What stands before the count-th separator, or from the end behind it if the count is negative."""
    return recorded("substring_index", text, constant(separator), constant(count))


def split_part(text: Column | str, separator: Column | str, number: Column | str | int) -> Column:
    """The part with this number between separators, from 1, or from the end if negative."""
    return recorded("split_part", text, separator, number)


def find_in_set(text: Column | str, members: Column | str) -> Column:
    """The place of the text among those between commas, from 1; 0 if it is none of them."""
    return recorded("find_in_set", text, members)


def elt(*columns: Column | str) -> Column:
    """The text with the number that the first column has, from 1."""
    return recorded("elt", *columns)
