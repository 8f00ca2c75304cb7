"""The catalog's transactions: repeated when the database was away, recorded in the journal, and settled if their outcome is unknown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from streamkit.clock import Clock
from streamkit.errors import StreamKitError
from streamkit.failpoints import reach
from streamkit.log.catalog import history
from streamkit.log.catalog.history import CatalogCommit
from streamkit.log.catalog.journal import Journal
from streamkit.log.catalog.recording import RecordedTransaction
from streamkit.log.database.database import ConnectionLostError, Database, OutcomeUnknownError, Transaction
from streamkit.names import fresh_token

Result = TypeVar("Result")
RETRIES = 4


class Transactions:
    """Those of one database, with the journal if there is one."""

    def __init__(self, database: Database, clock: Clock, journal: Journal | None) -> None:
        self._database = database
        self._clock = clock
        self.journal = journal

    def now_ms(self) -> int:
        """The time of the clock."""
        return self._clock.now_ms()

    def close(self) -> None:
        """Close the database, and the journal if there is one."""
        self._database.close()
        if self.journal is not None:
            self.journal.close()

    def read(self, work: Callable[[Transaction], Result]) -> Result:
        """Do work that changes nothing, on one snapshot."""
        return self._run(self._database.read, work)

    def write(self, work: Callable[[Transaction], Result]) -> Result:
        """Do work in one transaction, and note in the journal what it changed."""
        result, commit = self._run(self._database.write, lambda transaction: self._recorded(transaction, work))
        if commit is not None and self.journal is not None:
            reach("journal.before_mark")
            self.journal.mark(commit)
        return result

    def _recorded(self, transaction: Transaction, work: Callable[[Transaction], Result]) -> tuple[Result, CatalogCommit | None]:
        """Do the work, and number it and write its entry into the journal unless it changed nothing."""
        recorded = RecordedTransaction(transaction)
        result = work(recorded)
        if not recorded.statements:
            return result, None
        commit = history.advance(transaction, fresh_token())
        if self.journal is not None:
            self.journal.append(commit, recorded.statements, self._clock.now_ms())
            reach("journal.entered")
        return result, commit

    def _run(
        self, begin: Callable[[], AbstractContextManager[Transaction]], work: Callable[[Transaction], Result], left: int = RETRIES
    ) -> Result:
        try:
            with begin() as transaction:
                return work(transaction)
        except ConnectionLostError:  # a server that was started again, maybe several times: nothing was committed
            if not left:
                raise
            return self._run(begin, work, left - 1)

    def commit(self, work: Callable[[Transaction], Result], is_done: Callable[[Transaction], bool]) -> Result:
        """
        Do work that can be repeated, as `write`; when the database fails inside the commit, find out by `is_done` whether it took effect.

        Work that did not take effect is done again. OutcomeUnknownError if that cannot be found out.
        """
        try:
            return self.write(work)
        except OutcomeUnknownError as unknown:
            reach("commit.outcome_unknown")
            was_done = self._settled(unknown, is_done)
            if not was_done and not isinstance(unknown.reason, ConnectionLostError):
                raise unknown.reason from unknown
            try:
                return self.write(work)  # which finds it done, or does it on a new connection
            except StreamKitError as failure:
                if not was_done:
                    raise
                raise unknown from failure  # it took effect: no other error may say that it did not

    def _settled(self, unknown: OutcomeUnknownError, is_done: Callable[[Transaction], bool]) -> bool:
        try:
            self._database.settle()
            return self.read(is_done)
        except (StreamKitError, OSError) as failure:
            raise unknown from failure
