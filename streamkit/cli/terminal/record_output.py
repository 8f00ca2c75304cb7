"""How `consume` prints records: as a table, JSON or CSV; what was printed can be told to whoever handed the records over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from streamkit.cli.terminal.rendering import counted
from streamkit.cli.terminal.table import FollowedTable, show_table
from streamkit.connectors.files.record_lines import (
    csv_lines_at_once,
    json_lines_at_once,
    plain,
    write_csv,
    write_csv_line,
    write_json,
)
from streamkit.names import DELETED, HEADERS
from streamkit.query.portion import Portion, with_header_pairs
from streamkit.query.wanted import RECORD_COLUMNS

Printed = Callable[[Portion], object]


class PrintFormat(str, Enum):
    """How records are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True)
class RecordOutput:
    """
    How records are printed: which columns, as what, and up to which number they were asked for.

    `printed`, if there is one, is called with each portion when what was printed of it has left the program, and not if that failed.
    """

    columns: tuple[str, ...]
    form: PrintFormat
    limit: int | None
    printed: Printed | None = None

    def write(self, portions: Iterator[Portion], total: int | None = None) -> None:
        """Print all portions as one; a table says how many of `total` records it has, and comes before an error of the portions."""
        if self.form is not PrintFormat.TABLE:
            self._write_lines(portions)
            return
        found: list[Portion] = []
        failure: Exception | None = None
        try:
            found.extend(portions)  # keeps those that came before an error
        except Exception as error:  # noqa: BLE001  raised again once the table is there
            failure = error
        self._caption([record for portion in found for record in self._shown(portion)], total)
        self._tell(found)
        if failure is not None:
            raise failure

    def write_each(self, portions: Iterator[Portion]) -> None:
        """Print portions as they come: rows below one header."""
        if self.form is not PrintFormat.TABLE:
            self._write_lines(portions)
            return
        table = FollowedTable(thousands="")
        has_deletions = False
        for portion in portions:
            if portion.count:
                records = self._shown(portion)
                has_deletions = has_deletions or _has_deletions(records)
                table.add(*self._cells(records, has_deletions=has_deletions))
            self._tell([portion])

    def _write_lines(self, portions: Iterator[Portion]) -> None:
        columns = (*self.columns, *RECORD_COLUMNS)
        if self.form is PrintFormat.CSV:
            write_csv_line(sys.stdout, columns)
        for portion in portions:
            lines = self._lines_at_once(portion)
            if lines is not None:
                sys.stdout.write(lines.decode())
            elif self.form is PrintFormat.JSON:
                write_json(sys.stdout, self._shown(portion))
            else:
                write_csv(sys.stdout, columns, self._shown(portion))
            self._tell([portion])

    def _lines_at_once(self, portion: Portion) -> bytes | None:
        """The lines of a portion, by the column; None if its records have to be written one by one, as those with headers."""
        if portion.rows is None or HEADERS in self.columns:
            return None
        rows = pa.Table.from_batches([portion.rows])
        if self.form is PrintFormat.JSON:
            return json_lines_at_once(rows)
        return csv_lines_at_once(rows.select([*self.columns, *RECORD_COLUMNS]))

    def _tell(self, portions: Sequence[Portion]) -> None:
        sys.stdout.flush()
        if self.printed is not None:
            for portion in portions:
                self.printed(portion)

    def _shown(self, portion: Portion) -> list[dict[str, Any]]:
        return with_header_pairs(portion.records)

    def _caption(self, records: list[dict[str, Any]], total: int | None) -> None:
        is_cut = len(records) == self.limit if total is None else len(records) < total
        more = "; --max N shows more, --json or --format csv all" if is_cut else ""
        shown = counted(len(records), "record") if total is None else f"{len(records):,} of {counted(total, 'record')}"
        titles, rows = self._cells(records, has_deletions=_has_deletions(records))
        show_table(titles, rows, f"{shown}{more}", thousands="")

    def _cells(self, records: list[dict[str, Any]], *, has_deletions: bool) -> tuple[tuple[str, ...], list[list[Any]]]:
        """The topic's own columns; where a record is a deletion, also which ones are."""
        titles = (*self.columns, DELETED) if has_deletions else self.columns
        return titles, [[_cell(record, name) for name in titles] for record in records]


def _has_deletions(records: list[dict[str, Any]]) -> bool:
    return any(record[DELETED] for record in records)


def _cell(record: dict[str, Any], name: str) -> Any:
    value = record[name]
    if name == HEADERS and value is not None:
        return ", ".join(f"{key}={_text(data)}" for key, data in value)
    return (value or None) if name == DELETED else value


def _text(data: bytes | None) -> str:
    """The bytes of a header as text where they are some, else in base 64."""
    if data is None:
        return ""
    text = data.decode(errors="replace")
    return text if text.isprintable() and "\ufffd" not in text else str(plain(data))
