"""Tables on a terminal: numbers stay whole, however narrow it is, and one header stands above rows that keep coming."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamkit.cli.terminal.rendering import cell, is_midnight, is_number, show_line, visible

WORD_LENGTH_MAX = 20  # longer words of texts may be broken
_GAP, _EDGES = 3, 2  # columns of the terminal between two of a table, and beside all of them


@dataclass(frozen=True)
class _PrintedColumn:
    """A column as it is printed: its title, its cells, whether they are numbers, and whether they are days."""

    title: str
    cells: tuple[str, ...]
    is_number: bool
    is_day: bool

    @property
    def width(self) -> int:
        """The width in which nothing is broken."""
        return max(map(cell_len, (self.title, *self.cells)))

    @property
    def width_min(self) -> int:
        """The width in which all numbers and the words of texts are whole."""
        words = max((cell_len(word) for word in self.title.split()), default=0)
        if self.is_number:
            return max(words, *map(cell_len, self.cells), 0)
        longest = max((cell_len(word) for text in self.cells for word in text.split()), default=0)
        return max(words, min(longest, WORD_LENGTH_MAX))


def show_table(
    titles: Sequence[str], rows: Iterable[Sequence[Any]], caption: str | None = None, *, thousands: str = ",", null: str = ""
) -> None:
    """
    Print rows below their titles; numbers are right-aligned, null is empty unless it has a text.

    `thousands` separates the digits of integers. A column of days, all times in which are midnight in UTC, shows no time.
    Numbers are never broken: columns that a terminal has no room for go on in tables below, each with the first column again.
    Outside a terminal the table is as wide as it needs to be. `caption` stands below it.
    """
    console = Console()
    columns = _columns(titles, list(rows), thousands, null)
    for part in _parts(columns, console.width) if console.is_terminal else [columns]:
        _print(part, console)
    if caption:
        show_line(caption)


class FollowedTable:
    """A table that grows: its titles are printed once, and again only when a column comes to it."""

    def __init__(self, thousands: str = ",", null: str = "") -> None:
        self._thousands = thousands
        self._null = null
        self._columns: dict[str, _PrintedColumn] = {}
        self._widths: dict[str, int] = {}

    def add(self, titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print rows below those that were printed before; the columns are as wide as they were, and wider where that is too narrow."""
        columns = _columns(titles, list(rows), self._thousands, self._null, self._columns)
        is_new = [column.title for column in columns] != list(self._columns)
        self._columns = {column.title: column for column in columns}
        self._widths = {column.title: max(column.width, self._widths.get(column.title, 0)) for column in columns}
        _print(columns, Console(), list(self._widths.values()), has_header=is_new, has_edges=False)


def _columns(
    titles: Sequence[str],
    rows: Sequence[Sequence[Any]],
    thousands: str,
    null: str,
    before: Mapping[str, _PrintedColumn] | None = None,
) -> list[_PrintedColumn]:
    """The cells of each column; what a column was `before`, it stays."""
    found = []
    for position, name in enumerate(titles):
        title, values = visible(name), [row[position] for row in rows]
        known = (before or {}).get(title)
        is_day = known.is_day if known else all(is_midnight(value) for value in values)
        cells = tuple(cell(value, thousands, is_day=is_day, null=null) for value in values)
        found.append(_PrintedColumn(title, cells, (known is not None and known.is_number) or any(map(is_number, values)), is_day))
    return found


def _parts(columns: list[_PrintedColumn], width: int) -> Iterator[list[_PrintedColumn]]:
    """The columns, as many side by side as have room with unbroken numbers; the first one begins each part."""
    part = columns[:1]
    for column in columns[1:]:
        if len(part) > 1 and _width(one.width_min for one in (*part, column)) > width:
            yield part
            part = columns[:1]
        part.append(column)
    yield part


def _width(widths: Iterable[int]) -> int:
    """The width of a table with columns of these widths."""
    known = list(widths)
    return sum(known) + _GAP * (len(known) - 1) + _EDGES


def _fitted(columns: Sequence[_PrintedColumn], least: Sequence[int], width: int) -> list[int] | None:
    """Widths that fill a terminal at most: what is left over goes where little is missing first; None if not even the least ones fit."""
    left = width - _width(least)
    if left < 0:
        return None
    found = list(least)
    for place in sorted(range(len(columns)), key=lambda place: columns[place].width - found[place]):
        more = max(0, min(left, columns[place].width - found[place]))
        found[place], left = found[place] + more, left - more
    return found


def _print(
    columns: list[_PrintedColumn], console: Console, least: Sequence[int] = (), *, has_header: bool = True, has_edges: bool = True
) -> None:
    """Print columns that are at least so wide, as far as the terminal is wide enough."""
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_header=has_header, show_edge=has_edges)
    whole = [max(column.width, width) for column, width in zip(columns, least or [0] * len(columns), strict=True)]
    if not console.is_terminal:
        console.width = max(console.width, _width(whole))
    widths = _fitted(columns, least or [column.width_min for column in columns], console.width)
    widths = widths or _fitted(columns, [column.width_min for column in columns], console.width)
    for place, column in enumerate(columns):
        justify = "right" if column.is_number else "left"
        width = None if widths is None else widths[place]
        table.add_column(Text(column.title), justify=justify, overflow="fold", width=width)  # type: ignore[arg-type]
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*map(Text, row))
    console.print(table)
