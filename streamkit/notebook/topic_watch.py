"""`log.watch(topic)`: the newest rows of a topic as they come, those for which a condition holds, or a chart of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, final

import pyarrow as pa

from streamkit.chunks import one_batch
from streamkit.errors import ConfigError
from streamkit.html_table import html_table
from streamkit.log.consume.reader import placed_schema
from streamkit.log.log import Log
from streamkit.names import DELETED
from streamkit.notebook.chart import ChartOrder, chart_svg
from streamkit.notebook.table_texts import columns_of, texts_of
from streamkit.notebook.watch import Watch
from streamkit.query.position import LATEST
from streamkit.query.predicate import parse_predicate
from streamkit.query.record_page import PageLimits
from streamkit.query.tail import Tail
from streamkit.query.wanted import Wanted, condition_schema

ROWS_MAX = 500
READ_ROWS = 10_000  # of one look, the newest
READ_BYTES, READ_SECONDS = 16 << 20, 1.0
CHART_ROWS = 5_000  # of which a chart is drawn


@final
class TopicWatch(Watch):
    """The newest rows of a topic, shown in a notebook, newest first; it continues until it is closed, or the topic is deleted."""

    VIEW = "rows"

    def __init__(self, log: Log, topic: str, where: str | None, chart: Sequence[str] | None, rows: int) -> None:
        super().__init__(log)
        found = log.topic(topic)
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= ROWS_MAX:
            raise ConfigError(f"topic {topic}: found rows={rows!r}; expected 1 to {ROWS_MAX}")
        columns = found.schema.names
        condition = None if where is None else parse_predicate(where, condition_schema(found))
        self._schema = placed_schema(found, columns)
        self._chart = None if chart is None else ChartOrder.of(chart, self._schema, topic)
        self._topic, self._rows = found, rows
        self._wanted = Wanted(found, columns, None, LATEST, condition)
        self._tail = Tail(found, columns, PageLimits(READ_ROWS, READ_BYTES, READ_SECONDS))
        self._kept = self._schema.empty_table()
        self._begun_s: float | None = None
        self._seen = self._left_out = 0
        self._values |= {
            "title": f"topic {topic}{'' if where is None else f', where {where}'}",
            "columns": columns_of(self._kept), "rows": [], "fresh": [], "facts": [], "chart": None,
        }  # fmt: skip

    def _look(self, log: Log) -> Mapping[str, Any]:
        page = self._tail.look(log)
        if page is None:
            return {"fresh": [], "facts": self._facts()}
        came = pa.Table.from_batches([self._wanted.matching(one_batch(page.rows))], self._schema)
        came = came.sort_by([("_timestamp", "ascending")]) if came.num_rows else came  # of one look, by time
        if self._begun_s is None:
            self._begun_s, fresh = time.monotonic(), 0
        else:
            fresh = min(came.num_rows, self._rows)
            skipped = sum(one.end - one.start for one in page.skipped)
            # Those that no look had room for have come, too; which of them a condition chooses, nobody has looked at.
            self._seen += came.num_rows + (skipped if self._wanted.condition is None else 0)
            self._left_out += skipped
        kept = pa.concat_tables([self._kept, came])
        most = self._rows if self._chart is None else CHART_ROWS
        self._kept = pa.Table.from_batches([one_batch(kept.slice(max(0, kept.num_rows - most)))])
        return {
            "rows": texts_of(self._shown(), self._topic.format),
            "columns": columns_of(self._shown()),
            "fresh": list(range(fresh)),
            "facts": self._facts(),
            "chart": None if self._chart is None else self._chart.drawing(self._kept).to_json(),
        }

    def _shown(self) -> pa.Table:
        """The newest rows, newest first; that none is a deletion is not said."""
        count = min(self._rows, self._kept.num_rows)
        newest = self._kept.take(pa.array(range(self._kept.num_rows - 1, self._kept.num_rows - 1 - count, -1), pa.int64()))
        return newest if any(newest[DELETED].to_pylist()) else newest.drop_columns([DELETED])

    def _facts(self) -> list[list[str]]:
        seconds = 0.0 if self._begun_s is None else time.monotonic() - self._begun_s
        of_what = "rows" if self._wanted.condition is None else "rows that match"
        facts = [[f"{of_what} since it is watched", f"{self._seen:,}"]]
        facts += [["rows a second", f"{self._seen / seconds:,.1f}"]] if seconds >= 1 else []
        return [*facts, *([["came too fast to be shown", f"{self._left_out:,}"]] if self._left_out else [])]

    def _leave(self) -> None:
        """Looks at a topic leave nothing open."""

    def _text(self) -> str:
        facts = "".join(f", {name} {text}" for name, text in self._values["facts"])
        note = f"; {self._values['note']}" if self._values["note"] else ""
        return f"{self._values['title']}: {len(self._values['rows'])} rows{facts}{note}"

    def _html(self) -> str:
        note = f"<div><i>{escape(self._values['note'])}</i></div>" if self._values["note"] else ""
        chart = "" if self._chart is None else chart_svg(self._chart.drawing(self._kept))
        titles = [column["title"] for column in self._values["columns"]]
        return chart + html_table(self._values["title"], self._values["rows"], titles) + note
