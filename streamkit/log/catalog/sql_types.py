"""Types that CREATE TYPE gave a name, in the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streamkit.log.database.database import Transaction


@dataclass(frozen=True)
class StoredType:
    """A type with a name of its own: `type` is in the words of Spark."""

    name: str
    type: str


def every(transaction: Transaction) -> tuple[StoredType, ...]:
    """All named types, by name."""
    return tuple(StoredType(name, type) for name, type in transaction.execute("SELECT name, type FROM sql_type ORDER BY name"))


def put(transaction: Transaction, now_ms: int, types: Iterable[StoredType]) -> None:
    """Keep types; one of the same name is replaced."""
    rows = [(one.name, one.type, now_ms) for one in types]
    drop(transaction, [row[0] for row in rows])
    transaction.execute_many("INSERT INTO sql_type (name, type, changed_ms) VALUES (?, ?, ?)", rows)


def drop(transaction: Transaction, names: Iterable[str]) -> None:
    """Forget types by name; columns that were declared with them keep the types behind the names."""
    transaction.execute_many("DELETE FROM sql_type WHERE name = ?", [(name,) for name in names])
