"""A transaction that remembers what it changed, for the journal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from streamkit.log.database.database import Row, Transaction

CHANGES = ("INSERT", "UPDATE", "DELETE")
READS = ("SELECT", "PRAGMA")


@dataclass(frozen=True)
class RecordedStatement:
    """A statement that changed something: its text, the parameters of each time it ran, the rows it returned, if any."""

    sql: str
    parameters: Sequence[Sequence[Any]]
    rows: Sequence[Sequence[Any]] | None = None


class RecordedTransaction:
    """A transaction like the one given; `statements` are those that changed something, in order."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.statements: list[RecordedStatement] = []

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return its rows."""
        rows = self._transaction.execute(statement, parameters)
        if is_change(statement):
            self.statements.append(RecordedStatement(statement, (parameters,), rows or None))
        return rows

    def execute_many(self, statement: str, parameters: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of parameters."""
        rows = list(parameters)
        self._transaction.execute_many(statement, rows)
        if rows and is_change(statement):
            self.statements.append(RecordedStatement(statement, rows))

    def has_table(self, name: str) -> bool:
        """Whether there is a table of that name."""
        return self._transaction.has_table(name)

    def newest_id(self, table: str) -> int:
        """The greatest id that the table ever gave to a row."""
        return self._transaction.newest_id(table)


@lru_cache(maxsize=1024)
def is_change(statement: str) -> bool:
    """Whether a statement changes rows; ValueError if it neither does nor reads, which no journal could repeat."""
    word = statement.split(None, 1)[0].upper()
    if word in CHANGES and ";" not in statement:
        return True
    if word in READS:
        return False
    raise ValueError(f"expected one statement that begins with {', '.join((*CHANGES, *READS))}; found {statement!r}")
