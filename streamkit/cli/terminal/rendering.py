"""Values, facts, notes and errors of the command line."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Console

from streamkit.connectors.files.record_lines import cell_text, json_text
from streamkit.formats.json_numbers import WrittenNumber
from streamkit.log.database.system_error import error_text

ROUNDED_END = 1e16  # beyond it, a double has no fractions, and Python writes an exponent
# What would act on a terminal instead of standing on it: control characters, line separators, changes of the writing direction, half characters.
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def counted(number: int, noun: str) -> str:
    """A number of things: 1 record, 2,000 records."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def visible(text: str, kept: str = "") -> str:
    """The text with characters that would act on a terminal escaped as in Python, except those `kept`."""
    return _ACTING.sub(lambda found: found[0] if found[0] in kept else found[0].encode("unicode_escape").decode(), text)


def show_line(text: str) -> None:
    """Print a text on one line."""
    print(visible(text))


def show_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """Print pairs of a name and a value, one a line."""
    facts = list(facts)
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name:<{width}}  {cell(value)}")


def show_note(text: str) -> None:
    """Print on standard error what is to be known beside the output."""
    _show_apart(f"note: {text}")


def show_error(error: Exception) -> None:
    """Print what went wrong on standard error, without a traceback."""
    _show_apart(f"error: {error_text(error)}")


def show_failure(error: Exception) -> None:
    """Print what went wrong with a statement, with the class of the error, on standard error."""
    _show_apart(f"{type(error).__name__}: {error_text(error)}")


def _show_apart(message: str) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(visible(message, kept="\n\t"), markup=False, emoji=False)


def show_json(value: Any) -> None:
    """Print a value as JSON on one line, for programs to read."""
    print(json_text(value))


def rounded(number: float) -> str:
    """A number for a table: to six decimals, but to seven digits where that would be none or mere zeros."""
    if 1 <= abs(number) < ROUNDED_END:
        return f"{number:.6f}".rstrip("0").rstrip(".")
    return str(decimal.Decimal(f"{number:.7g}"))  # spells NaN and the infinities as JSON does here


def is_midnight(value: Any) -> bool:
    """Whether a value may stand in a column of days: null, or a time that is midnight."""
    return value is None or (isinstance(value, dt.datetime) and value.time() == dt.time(0))


def cell(value: Any, thousands: str = ",", *, is_day: bool = True, null: str = "") -> str:
    """A value for a table; a time of a column of days as its date."""
    if value is None:
        return null
    if isinstance(value, float) and not isinstance(value, WrittenNumber):
        return rounded(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}".replace(",", thousands)
    if is_day and is_midnight(value):
        return f"{value:%Y-%m-%d}"
    return visible(str(cell_text(value)))


def is_number(value: Any) -> bool:
    """Whether a value stands to the right."""
    return isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)
