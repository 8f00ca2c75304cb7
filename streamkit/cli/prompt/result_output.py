"""How results of statements are printed: tables, messages, rows of queries that go on, or a JSON object a row."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamkit.cli.terminal.interruption import interruption
from streamkit.cli.terminal.rendering import counted, show_note, visible
from streamkit.cli.terminal.table import FollowedTable, show_table
from streamkit.connectors.files.far_times import printed_rows
from streamkit.connectors.files.record_lines import json_lines_at_once, write_json
from streamkit.names import DELETED
from streamkit.sql.execution.result import StatementResult
from streamkit.sql.push.subscription import PushQuery

ROWS_SHOWN = 1_000  # of a table on the screen
NULL = "null"  # on the screen, which tells it from an empty text
FACTS = ["fact", "value"]  # the columns of DESCRIBE … EXTENDED
LOOK_S = 0.1  # how late an interrupt may be noticed


@dataclass(frozen=True)
class ResultOutput:
    """Prints results of statements: with `is_json` only rows are on standard output, and messages on standard error."""

    is_json: bool = False

    def show(self, result: StatementResult) -> None:
        """Print a result; the rows of a query that goes on are printed until the query ends, or an interrupt ends it."""
        if result.subscription is not None:
            with result.subscription as rows, interruption() as interrupted:
                self._follow(rows, interrupted)
        elif result.table is not None:
            self._show_table(result.table)
        elif self.is_json:
            show_note(result.message)
        else:
            print(visible(result.message, kept="\n"))  # a message has lines of its own
        if result.note:
            show_note(result.note)
        sys.stdout.flush()

    def _show_table(self, table: pa.Table) -> None:
        if self.is_json:
            _write_json(table)
            return
        if table.column_names == ["plan"]:  # lines, which a frame would only make longer
            print("\n".join(visible(str(line)) for line in table.column(0).to_pylist()))
            return
        shown = table.slice(0, ROWS_SHOWN)
        count = counted(table.num_rows, "row")
        is_cut = shown.num_rows < table.num_rows
        caption = f"{shown.num_rows:,} of {count}; LIMIT chooses some, --json prints all" if is_cut else count
        rows = _rows_of(shown)
        several = [(name, text) for name, text in rows if "\n" in text] if table.column_names == FACTS else []
        if several:  # such as an error with its line and carets, which stands below the table as it is
            rows = [[name, f"{text.partition(chr(10))[0]} …" if "\n" in text else text] for name, text in rows]
        show_table(table.column_names, rows, caption, thousands="", null=NULL)
        for name, text in several:
            print(f"\n{visible(name)}:\n{visible(text, kept=chr(10))}")

    def _follow(self, subscription: PushQuery, interrupted: threading.Event) -> None:
        """Print rows as they come."""
        table = FollowedTable(thousands="", null=NULL)
        has_deletions = False
        if not self.is_json:
            show_note("rows are shown as they come; Ctrl-C ends the query")
        while not interrupted.is_set() and not subscription.is_closed:
            batch = subscription.poll(LOOK_S)
            if batch is None or not batch.num_rows:
                continue
            rows = pa.Table.from_batches([batch])
            if self.is_json:
                _write_json(rows)
            else:
                is_deleted = DELETED in rows.column_names and any(rows.column(DELETED).to_pylist())
                has_deletions = has_deletions or is_deleted
                rows = rows if has_deletions or DELETED not in rows.column_names else rows.drop_columns([DELETED])
                table.add(rows.column_names, _rows_of(rows))
            sys.stdout.flush()
        if interrupted.is_set() and not self.is_json:
            print()  # behind the ^C that a terminal shows


def _rows_of(table: pa.Table) -> list[list[Any]]:
    """The rows as Python values, and texts of times that Python does not have; several columns may have one name, and only a deletion says that it is one."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = [row[name] for row in printed_rows(pa.table({name: column}))]
        columns.append([value or "" for value in values] if name == DELETED else values)
    return [list(row) for row in zip(*columns, strict=True)]


def _write_json(table: pa.Table) -> None:
    lines = json_lines_at_once(table)
    if lines is None:
        write_json(sys.stdout, printed_rows(table))
    else:
        sys.stdout.write(lines.decode())
