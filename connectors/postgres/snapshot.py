"""
What tables had before their changes are read: each table in chunks by its key, and which later changes a chunk has already.

A snapshot is that of a replication slot: it has what was committed before the slot's LSN, and nothing else. A task that dies
within a snapshot loses it. The next one takes another, later one for the keys that are left, and notes it as a Coverage: a
change of those keys that was committed before that LSN is in the rows already, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from streamkit.connectors.postgres.pgoutput import lsn_of, lsn_text
from streamkit.connectors.postgres.source_table import SourceTable
from streamkit.connectors.postgres.table_name import quoted_name

KeyValues = tuple[Any, ...]


@dataclass(frozen=True)
class Coverage:
    """Rows of a table whose key is above `after` (None: all) have what was committed before `lsn`."""

    table: str
    after: tuple[str, ...] | None
    lsn: int

    def to_json(self) -> dict[str, Any]:
        return {"table": self.table, "after": self.after and list(self.after), "lsn": lsn_text(self.lsn)}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Coverage:
        return cls(found["table"], None if found["after"] is None else tuple(found["after"]), lsn_of(found["lsn"]))


def begin_reading(connection: Any, snapshot: str) -> None:
    """Have the connection see what the snapshot has, until its transaction ends."""
    connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")


def read_chunk(connection: Any, table: SourceTable, after: Sequence[str] | None, rows: int) -> list[tuple[str | None, ...]]:
    """The rows behind a key, in its order, as texts; all rows of a table without a key."""
    columns = ", ".join(map(quoted_name, table.names))
    statement = f"SELECT {columns or 'NULL'} FROM {table.sql_name}"
    if table.key:
        names = ", ".join(map(quoted_name, table.key))
        behind = f" WHERE ({names}) > ({_literals(table, after)})" if after is not None else ""
        statement += f"{behind} ORDER BY {names} LIMIT {rows}"
    return read_texts(connection, statement)


def read_texts(connection: Any, statement: str) -> list[tuple[str | None, ...]]:
    """What a query finds, each value as PostgreSQL prints it."""
    with connection.cursor() as cursor, cursor.copy(f"COPY ({statement}) TO STDOUT") as copy:
        return list(copy.rows())


def is_above(connection: Any, table: SourceTable, after: Sequence[str], keys: Sequence[KeyValues]) -> list[bool]:
    """Which keys lie behind another one, in the order of the table's index, which only PostgreSQL knows."""
    typed = [f"{quoted_name(name)}::{table.type_name(name)}" for name in table.key]
    names = ", ".join(map(quoted_name, table.key))
    values = ", ".join(f"({', '.join(literal(value) for value in key)}, {number})" for number, key in enumerate(keys))
    rows = connection.execute(
        f"SELECT ({', '.join(typed)}) > ({_literals(table, after)}) FROM (VALUES {values}) AS found ({names}, number) ORDER BY number"
    )
    return [bool(row[0]) for row in rows]


def covered(
    connection: Any, table: SourceTable, coverages: Iterable[Coverage], commit_lsn: int, keys: Sequence[KeyValues]
) -> list[bool]:
    """For the keys of changes of one transaction: whether the snapshot's rows have the changes already. Keys are in the index's order."""
    found = [False] * len(keys)
    for coverage in coverages:  # the later one says what holds for the keys that both have
        if coverage.table != table.written:
            continue
        above = [True] * len(keys) if coverage.after is None else is_above(connection, table, coverage.after, keys)
        found = [commit_lsn < coverage.lsn if is_in else was for is_in, was in zip(above, found, strict=True)]
    return found


def literal(value: Any) -> str:
    """A text as SQL has it."""
    text = value if isinstance(value, str) else bytes(value).decode()
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _literals(table: SourceTable, key: Sequence[str]) -> str:
    return ", ".join(f"{literal(value)}::{table.type_name(name)}" for name, value in zip(table.key, key, strict=True))
