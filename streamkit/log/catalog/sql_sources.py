"""Streams and tables of SQL in the catalog: what CREATE declared of a topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from streamkit.log.database.database import Transaction

_COLUMNS = "name, kind, topic, columns, key, formats, timestamp, windows, is_read_only, query, dialect, text"


@dataclass(frozen=True)
class StoredSource:
    """
    A stream or table that CREATE declared: `kind` is stream or table, `topic` a topic's name.

    `columns` are name, type and role of each; `formats` and `windows` are the properties of WITH about keys and values, and about windows.
    Over a topic that does not say it, as one of bytes, `formats` also have the registry of the values, empty for values without one.
    `query` is the id of the query that made it by CREATE … AS SELECT, None for one that declares a topic. `text` is the statement, in its
    `dialect`.
    """

    name: str
    kind: str
    topic: str
    columns: tuple[Mapping[str, Any], ...]
    key: tuple[str, ...]
    text: str
    dialect: str = "spark"
    formats: Mapping[str, Any] = field(default_factory=dict)
    timestamp: str | None = None
    windows: Mapping[str, Any] | None = None
    is_read_only: bool = False
    query: str | None = None

    def declares_as(self, other: StoredSource) -> bool:
        """Whether another declaration says the same of the records, whatever its text is and whichever query fills it."""
        return replace(self, text="", query=None) == replace(other, text="", query=None)


def every(transaction: Transaction) -> tuple[StoredSource, ...]:
    """All streams and tables, by name."""
    return tuple(
        StoredSource(
            name, kind, topic, tuple(json.loads(columns)), tuple(json.loads(key)), text, dialect, json.loads(formats), timestamp,
            None if windows is None else json.loads(windows), bool(is_read_only), query,
        )
        for name, kind, topic, columns, key, formats, timestamp, windows, is_read_only, query, dialect, text in transaction.execute(
            f"SELECT {_COLUMNS} FROM sql_source ORDER BY name"
        )
    )  # fmt: skip


def put(transaction: Transaction, now_ms: int, sources: Iterable[StoredSource]) -> None:
    """Keep streams and tables; one of the same name is replaced."""
    rows = [
        (
            one.name, one.kind, one.topic, json.dumps([dict(column) for column in one.columns]), json.dumps(list(one.key)),
            json.dumps(dict(one.formats)), one.timestamp, None if one.windows is None else json.dumps(dict(one.windows)),
            int(one.is_read_only), one.query, one.dialect, one.text, now_ms,
        )
        for one in sources
    ]  # fmt: skip
    drop(transaction, [row[0] for row in rows])
    places = ", ".join("?" * 13)
    transaction.execute_many(f"INSERT INTO sql_source ({_COLUMNS}, changed_ms) VALUES ({places})", rows)


def drop(transaction: Transaction, names: Iterable[str]) -> None:
    """Forget streams and tables by name; their topics stay."""
    transaction.execute_many("DELETE FROM sql_source WHERE name = ?", [(name,) for name in names])
