"""`store.watch(order_by=)`: the first rows of a store, after each epoch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, final

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.errors import ConfigError
from streamkit.html_table import html_table
from streamkit.log.log import Log
from streamkit.notebook.table_texts import columns_of, texts_of
from streamkit.notebook.watch import Watch
from streamkit.state.view import StoreView, open_view

ROWS_MAX = 1_000
READ_ROWS_MAX = 100_000  # of a store, to find the first of them by an order that is not its own
_ORDER = re.compile(r"^\s*(`[^`]+`|\S+?)(?:\s+(asc|desc))?\s*$", re.IGNORECASE)


@final
class StoreWatch(Watch):
    """The first rows of a store, shown in a notebook; it continues until it is closed, even if the application restarts."""

    VIEW = "rows"

    def __init__(self, view: StoreView, log: Log, order_by: str | Sequence[str] | None, limit: int) -> None:
        super().__init__(log)
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= ROWS_MAX:
            raise ConfigError(f"store {view.store.name}: found limit={limit!r}; expected 1 to {ROWS_MAX:,} rows")
        self._view, self._limit = view, limit
        self._order = _order_of(view.schema, order_by, view.store.name)
        self._own: StoreView | None = None  # over the connection of the looks
        self._seen: tuple[int, int] | None = None
        self._is_cut = False
        ordered = f", by {order_by if isinstance(order_by, str) else ', '.join(order_by or ())}" if order_by else ""
        self._values |= {
            "title": f"store {view.store.name} of {view.application}{ordered}",
            "columns": columns_of(view.schema.empty_table()), "rows": [], "fresh": [], "facts": [], "chart": None,
        }  # fmt: skip

    def _look(self, log: Log) -> Mapping[str, Any]:
        state = log.catalog.applications.get(self._view.application)
        if self._seen == (state.generation, state.epoch):
            return {"fresh": []}
        view = self._view_over(log)
        table = view.to_arrow(READ_ROWS_MAX + 1) if self._order else view.range(limit=self._limit)
        self._is_cut = bool(self._order) and table.num_rows > READ_ROWS_MAX
        rows = texts_of(self._first(table.slice(0, READ_ROWS_MAX)))
        before = {tuple(row) for row in self._values["rows"]} if self._seen is not None else {tuple(row) for row in rows}
        self._seen = (state.generation, state.epoch)
        facts = [["epoch", f"{state.epoch:,}"]]
        facts += [["rows", f"the first {READ_ROWS_MAX:,} of the store were put in order"]] if self._is_cut else []
        return {"rows": rows, "fresh": [number for number, row in enumerate(rows) if tuple(row) not in before], "facts": facts}

    def _first(self, table: pa.Table) -> pa.Table:
        if not self._order:
            return table
        return table.take(pc.sort_indices(table, [(pc.field(name), way) for name, way in self._order])[: self._limit])

    def _view_over(self, log: Log) -> StoreView:
        """The store over a connection: that of the view which is watched, or of the looks."""
        if log is self._log:
            return self._view
        if self._own is None:
            self._own = open_view(log, self._view.application, self._view.store.name)
        return self._own

    def _leave(self) -> None:
        if self._own is not None:
            self._own.reader.close()
            self._own = None

    def _text(self) -> str:
        facts = "".join(f", {name} {text}" for name, text in self._values["facts"])
        note = f"; {self._values['note']}" if self._values["note"] else ""
        return f"{self._view.application!r}, {self._view.store.name!r}: {len(self._values['rows'])} rows{facts}{note}"

    def _html(self) -> str:
        note = f"<div><i>{escape(self._values['note'])}</i></div>" if self._values["note"] else ""
        facts = "".join(f"; {name} {text}" for name, text in self._values["facts"])
        titles = [column["title"] for column in self._values["columns"]]
        return html_table(self._values["title"] + facts, self._values["rows"], titles) + note


def _order_of(schema: pa.Schema, order_by: str | Sequence[str] | None, store: str) -> list[tuple[str, str]]:
    """Columns and directions, as Arrow has them, of `clicks desc, city` or a list of such parts; ConfigError for what cannot be one."""
    parts = order_by.split(",") if isinstance(order_by, str) else list(order_by or ())
    found = []
    for part in parts:
        match = _ORDER.match(part) if isinstance(part, str) else None
        if match is None:
            raise ConfigError(f"store {store}: found order_by={order_by!r}; expected columns, as in order_by='clicks desc, city'")
        name = match[1].strip("`")
        if name not in schema.names:
            raise ConfigError(f"store {store} has no column {name!r} to order by; it has {', '.join(schema.names)}")
        if pa.types.is_nested(schema.field(name).type):
            raise ConfigError(
                f"store {store}: the column {name!r} is {schema.field(name).type}, which has no order; choose another"
            )
        found.append((name, "descending" if (match[2] or "").lower() == "desc" else "ascending"))
    return found
