"""
The narrow face of a transactional database that the catalog needs; SQLite now, PostgreSQL later.

A read transaction sees one snapshot. A write transaction holds the only right to write from its first statement on, so
that what it reads cannot change before it commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from streamkit.errors import StreamKitError

Row = tuple[Any, ...]


class OutcomeUnknownError(StreamKitError):
    """A commit raised `reason`; whether it took effect can be read after `Database.settle` alone."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(f"the catalog failed inside a commit, whose outcome is not known yet: {reason}")
        self.reason = reason


class Transaction(Protocol):
    """Statements that take effect together."""

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return its rows."""

    def execute_many(self, statement: str, parameters: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of parameters."""


class Database(Protocol):
    """
    A place for transactions; `write` and `read` commit when their block ends and roll back when it raises.

    OutcomeUnknownError if the commit itself raises.
    """

    def write(self) -> AbstractContextManager[Transaction]: ...

    def read(self) -> AbstractContextManager[Transaction]: ...

    def settle(self) -> None:
        """
        Make the outcome of a commit that raised final, whichever it was. The next transaction does so by itself.

        Raises while the outcome cannot be made final.
        """

    def close(self) -> None: ...
