"""Regular expressions, as Java reads them. Where PySpark takes a plain pattern, a text is the pattern; elsewhere write `lit(...)`."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, given, given_text, recorded

__all__ = [
    "ilike",
    "like",
    "regexp",
    "regexp_count",
    "regexp_extract",
    "regexp_extract_all",
    "regexp_instr",
    "regexp_like",
    "regexp_replace",
    "regexp_substr",
    "rlike",
    "split",
]


def like(text: Column | str, pattern: Column | str, escape: Column | None = None) -> Column:
    """True where the text matches an SQL pattern of % and _; a constant pattern is `lit(...)`."""
    return recorded("like", text, pattern, *given(escape))


def ilike(text: Column | str, pattern: Column | str, escape: Column | None = None) -> Column:
    """As `like`, without regard to case."""
    return recorded("ilike", text, pattern, *given(escape))


def rlike(text: Column | str, pattern: Column | str) -> Column:
    """True where the regular expression matches some part of the text; a constant pattern is `lit(...)`."""
    return recorded("rlike", text, pattern)


def regexp_extract(text: Column | str, pattern: str, group: int) -> Column:
    """A group of the first match (0: all of it); the empty text if there is none."""
    return recorded("regexp_extract", text, constant(pattern), constant(group))


def regexp_extract_all(text: Column | str, pattern: Column | str, group: Column | int | None = None) -> Column:
    """A group of every match, the first group if none is given; a constant pattern is `lit(...)`."""
    return recorded("regexp_extract_all", text, pattern, *given(group))


def regexp_replace(text: Column | str, pattern: Column | str, replacement: Column | str) -> Column:
    """The text with each match replaced; $1 stands for the first group."""
    return recorded("regexp_replace", text, given_text(pattern), given_text(replacement))


def regexp_count(text: Column | str, pattern: Column | str) -> Column:
    """How many matches there are; a constant pattern is `lit(...)`."""
    return recorded("regexp_count", text, pattern)


def regexp_instr(text: Column | str, pattern: Column | str, group: Column | int | None = None) -> Column:
    """Where the first match starts, from 1; 0 if there is none. The group does not matter."""
    return recorded("regexp_instr", text, pattern, *given(group))


def regexp_substr(text: Column | str, pattern: Column | str) -> Column:
    """The first match; null if there is none."""
    return recorded("regexp_substr", text, pattern)


def split(text: Column | str, pattern: Column | str, limit: Column | str | int = -1) -> Column:
    """What stands between the matches; with a limit above 0 at most so many parts."""
    return recorded("split", text, given_text(pattern), limit)


regexp = rlike
regexp_like = rlike
