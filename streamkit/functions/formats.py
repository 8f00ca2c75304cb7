"""Numbers and texts by a format."""

from __future__ import annotations

from streamkit.dsl.column import Column
from streamkit.functions.recording import constant, recorded

__all__ = ["format_number", "format_string", "printf", "to_char", "to_number", "to_varchar", "try_to_number"]


def format_number(number: Column | str, places: int) -> Column:
    """The number as 1,234,567.89, rounded half to even to so many places behind the point."""
    return recorded("format_number", number, constant(places))


def format_string(format: str, *columns: Column | str) -> Column:
    """The values in a format of Java's Formatter, such as `%s has %,.2f`; null is written as null."""
    return recorded("format_string", constant(format), *columns)


def printf(format: Column | str, *columns: Column | str) -> Column:
    """As `format_string`, with the format as `lit("…")`."""
    return recorded("printf", format, *columns)


def to_number(text: Column | str, format: Column | str) -> Column:
    """The decimal that a text in a format such as `lit("$9,999.99")` spells; an error when it runs if a text is not in the format."""
    return recorded("to_number", text, format)


def try_to_number(text: Column | str, format: Column | str) -> Column:
    """As `to_number`; null if a text is not in the format."""
    return recorded("try_to_number", text, format)


def to_char(value: Column | str, format: Column | str) -> Column:
    """The number in a format such as `lit("$9,999.99")`, a date or time in a pattern such as `lit("yyyy-MM")`, binary as base64, hex or utf-8."""
    return recorded("to_char", value, format)


to_varchar = to_char
