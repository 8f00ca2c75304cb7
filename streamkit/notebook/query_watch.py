"""A query of SQL that goes on, shown in a notebook with its newest rows."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, final

import pyarrow as pa

from streamkit.chunks import one_batch
from streamkit.html_table import html_table
from streamkit.log.log import Log
from streamkit.notebook.table_texts import columns_of, texts_of
from streamkit.notebook.watch import Watch
from streamkit.sql.push.subscription import PushQuery

ROWS_SHOWN = 50
BATCHES_AT_ONCE = 100  # of one look; the others wait for the next


@final
class QueryWatch(Watch):
    """The newest rows of a query that goes on, newest first; it ends with the query, or when it is closed, which ends the query."""

    VIEW = "rows"

    def __init__(self, log: Log, rows: PushQuery, text: str) -> None:
        super().__init__(log)
        self._query = rows
        self._kept = rows.schema.empty_table()
        self._seen = 0
        self._values |= {
            "title": " ".join(text.split()), "columns": columns_of(self._kept), "rows": [], "fresh": [], "facts": [], "chart": None
        }  # fmt: skip

    def _end_of(self) -> str | None:
        return "The query has ended." if self._query.is_closed else None

    def _look(self, log: Log) -> Mapping[str, Any]:
        came: list[pa.RecordBatch] = []
        while len(came) < BATCHES_AT_ONCE and (batch := self._query.poll(0.0)) is not None:
            came.append(batch)
        found = pa.Table.from_batches(came, self._query.schema)
        self._seen += found.num_rows
        kept = pa.concat_tables([self._kept, found])
        self._kept = pa.Table.from_batches([one_batch(kept.slice(max(0, kept.num_rows - ROWS_SHOWN)))])
        newest = self._kept.take(pa.array(range(self._kept.num_rows - 1, -1, -1), pa.int64()))
        return {
            "rows": texts_of(newest),
            "fresh": list(range(min(found.num_rows, ROWS_SHOWN))),
            "facts": [["rows so far", f"{self._seen:,}"]],
        }

    def _leave(self) -> None:
        """End the query."""
        self._query.close()

    def _text(self) -> str:
        note = f"; {self._values['note']}" if self._values["note"] else ""
        return f"{self._values['title']}: {self._seen:,} rows so far{note}"

    def _html(self) -> str:
        note = f"<div><i>{escape(self._values['note'])}</i></div>" if self._values["note"] else ""
        return html_table(self._values["title"], self._values["rows"], [one["title"] for one in self._values["columns"]]) + note
