"""
The narrow face of a transactional database that the catalog needs: a file of SQLite, or a server of PostgreSQL.

A read transaction sees one snapshot. A write transaction holds the only right to write from its first statement on, so
that what it reads cannot change before it commits. Statements are in the SQL that both share (`dialect.py` has the rest);
one that fails may take its whole transaction back, so errors are not caught inside of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from streamkit.errors import OutcomeUnknownError, StreamKitError
from streamkit.log.database.commit_watch import CommitWatch

__all__ = ["ConnectionLostError", "Database", "OutcomeUnknownError", "Row", "Transaction"]

Row = tuple[Any, ...]


class ConnectionLostError(StreamKitError):
    """The server was lost inside a transaction; unless it was in its commit, nothing became visible and it can be run again."""


class Transaction(Protocol):
    """Statements that take effect together."""

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return its rows."""

    def execute_many(self, statement: str, parameters: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of parameters."""

    def has_table(self, name: str) -> bool:
        """Whether there is a table of that name."""

    def newest_id(self, table: str) -> int:
        """The greatest id that the table ever gave to a row, gone or not; 0 if there was none."""


class Database(Protocol):
    """
    A place for transactions; `write` and `read` commit when their block ends and roll back when it raises.

    OutcomeUnknownError if the commit itself raises.
    """

    @property
    def is_read_only(self) -> bool:
        """Whether nothing may be changed."""

    def write(self) -> AbstractContextManager[Transaction]: ...

    def read(self) -> AbstractContextManager[Transaction]: ...

    def watch(self) -> CommitWatch:
        """A watch for commits, of any connection, process and host, from now on; see `commit_watch.py`."""

    def end_waits(self) -> None:
        """End all waits for commits that go on in this database object, and those that begin later by older watches."""

    def settle(self) -> None:
        """
        Make the outcome of a commit that raised final, whichever it was. The next transaction does so by itself.

        Raises while the outcome cannot be made final.
        """

    def close(self) -> None: ...
