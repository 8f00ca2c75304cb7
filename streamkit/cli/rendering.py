"""Tables of the command line, and records as text."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamkit.errors import StreamKitError
from streamkit.log.database.system_error import expected
from streamkit.names import DELETED

ROUNDED_END = 1e16  # beyond it, a double has no fractions, and Python writes an exponent
# What would act on a terminal instead of standing on it: control characters, line separators, changes of the writing direction, half characters.
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")
_QUOTED = re.compile('[,"\r\n]')  # what a value of CSV can only have within quotes
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def counted(number: int, noun: str) -> str:
    """A number of things: 1 record, 2,000 records."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def visible(text: str, kept: str = "") -> str:
    """The text with what would act on a terminal spelled as Python does, by number, but for the characters `kept`."""
    return _ACTING.sub(lambda found: found[0] if found[0] in kept else _spelling(found), text)


def _spelling(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def show_line(text: str) -> None:
    """Print a text on one line."""
    print(visible(text))


def show_table(titles: Sequence[str], rows: Iterable[Sequence[Any]], caption: str | None = None, *, thousands: str = ",") -> None:
    """
    Print rows below their titles; numbers stand to the right, null is empty.

    `thousands` separates the digits of whole numbers. A column of days, all times in which are midnight in UTC, shows no time.
    Outside a terminal the table is as wide as it needs to be. `caption` stands below it.
    """
    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for position, title in enumerate(titles):
        is_number = any(_is_number(row[position]) for row in rows)
        table.add_column(Text(visible(title)), justify="right" if is_number else "left", overflow="fold")
    is_day = [all(_is_midnight(row[position]) for row in rows) for position in range(len(titles))]
    for row in rows:
        table.add_row(*(Text(_cell(value, thousands, is_day=day)) for value, day in zip(row, is_day, strict=True)))
    _console(table).print(table)
    if caption:
        show_line(caption)


def show_facts(facts: Iterable[tuple[str, Any]]) -> None:
    """Print pairs of a name and a value, one a line."""
    facts = list(facts)
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name:<{width}}  {_cell(value)}")


def show_note(text: str) -> None:
    """Print on standard error what is to be known beside the output."""
    _show_apart(f"note: {text}")


def show_error(error: Exception) -> None:
    """Print what went wrong on standard error, without a traceback."""
    _show_apart(f"error: {error_text(error)}")


def _show_apart(message: str) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(visible(message, kept="\n\t"), markup=False, emoji=False)


def error_text(error: Exception) -> str:
    """What an error says; one of the operating system that nobody has put in words says what to do, too."""
    if isinstance(error, StreamKitError) or not isinstance(error, OSError) or error.errno is None:
        return str(error)
    where = f" ({error.filename})" if error.filename else ""
    return f"the operating system refused a call: {error.strerror}{where}; {expected(error)}"


def show_json(value: Any) -> None:
    """Print a value as JSON on one line, for programs to read."""
    print(json_text(value))


def write_json(records: Iterable[dict[str, Any]]) -> None:
    """Print one JSON object a record, one record a line; only a deletion says that it is one."""
    for record in records:
        if not record.get(DELETED):
            record.pop(DELETED, None)
        sys.stdout.write(json_text(record, _spelled) + "\n")


def json_text(value: Any, spelled: Callable[[float], str | None] = lambda number: None) -> str:
    """A value as JSON on one line; NaN and infinities, for which JSON has no number, as they are `spelled`: null."""
    try:
        text = json.dumps(value, default=plain, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value, spelled), default=plain, ensure_ascii=False, allow_nan=False)
    return _encodable(text)


def _encodable(text: str) -> str:
    """The text with halves of characters, which only JSON can have, as JSON spells them."""
    return text if text.isascii() else _HALF.sub(_spelling, text)


def _spelled(number: float) -> str:
    """NaN and infinities in records, as Spark's JSON has them: "NaN", "Infinity", "-Infinity"."""
    return json.dumps(number)


def _finite(value: Any, spelled: Callable[[float], str | None]) -> Any:
    if isinstance(value, dict):
        return {name: _finite(one, spelled) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one, spelled) for one in value]
    return spelled(value) if isinstance(value, float) and not math.isfinite(value) else value


def write_csv(columns: Sequence[str], records: Iterable[dict[str, Any]]) -> None:
    """Print records as comma-separated values, a line each."""
    for record in records:
        write_csv_line([record[name] for name in columns])


def write_csv_line(values: Sequence[Any]) -> None:
    """Print a line of comma-separated values; null is nothing, an empty text is quoted."""
    sys.stdout.write(",".join("" if value is None else _quoted(str(_text(value))) for value in values) + "\n")


def _quoted(text: str) -> str:
    return text if text and not _QUOTED.search(text) else '"' + text.replace('"', '""') + '"'


def _text(value: Any) -> Any:
    """A value for a cell: nested ones, which only formats have, as JSON."""
    if isinstance(value, str):
        return _encodable(value)
    return json_text(value) if isinstance(value, dict | list | tuple) else plain(value)


def plain(value: Any) -> Any:
    """A value as text that says all of it: times in UTC, bytes in base 64; numbers and texts as they are."""
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, int | float | str) or value is None else str(value)


def rounded(number: float) -> str:
    """A number for a table: to six decimals, but to seven digits where that would be none or mere zeros."""
    if 1 <= abs(number) < ROUNDED_END:
        return f"{number:.6f}".rstrip("0").rstrip(".")
    return str(decimal.Decimal(f"{number:.7g}"))  # spells NaN and the infinities as JSON does here


def _is_midnight(value: Any) -> bool:
    return value is None or (isinstance(value, dt.datetime) and value.time() == dt.time(0))


def _cell(value: Any, thousands: str = ",", *, is_day: bool = True) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}".replace(",", thousands)
    if is_day and _is_midnight(value):
        return f"{value:%Y-%m-%d}"
    return visible(str(_text(value)))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool)


def _console(table: Table) -> Console:
    """A console of the terminal's width, or as wide as the table where there is no terminal."""
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, Console(width=10_000).measure(table).maximum)
    return console
