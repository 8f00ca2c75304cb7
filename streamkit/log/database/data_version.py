"""Commits of a SQLite catalog where the system does not tell of them: a look at SQLite's own number of commits every few milliseconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import final

from streamkit.errors import StreamKitError
from streamkit.log.database.commit_watch import LOOK_SECONDS
from streamkit.log.database.database import Database

PAUSE_SECONDS = 0.01  # between two looks, which together take less than a hundredth of a core


@final
class DataVersionListener:
    """Looks whether another connection than its own has committed; `open_database` opens that at the first look."""

    def __init__(self, open_database: Callable[[], Database]) -> None:
        self._open_database = open_database
        self._database: Database | None = None
        self._version = 0
        self._is_interrupted = threading.Event()

    def listen(self, timeout_s: float) -> bool:
        """Whether something was committed since the call before; looks for that at most so long."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                heard = self._has_moved()
            except StreamKitError:  # the catalog is not there, or cannot be read: who waits gets to know that by looking
                self._drop_database()
                self._is_interrupted.wait(min(timeout_s, LOOK_SECONDS))
                heard = True
            left_s = end - time.monotonic()
            if heard or left_s <= 0 or self._is_interrupted.wait(min(left_s, PAUSE_SECONDS)):
                self._is_interrupted.clear()
                return heard

    def interrupt(self) -> None:
        """End the call that is under way, or else the next one, at once."""
        self._is_interrupted.set()

    def close(self) -> None:
        """Close the connection."""
        self._drop_database()

    def leave_to_parent(self) -> None:
        """Nothing: a connection of the parent must not be closed here."""

    def _has_moved(self) -> bool:
        if self._database is None:
            self._database, self._version = self._open_database(), -1
        before = self._version
        with self._database.read() as transaction:
            ((self._version,),) = transaction.execute("PRAGMA data_version")
        return self._version != before

    def _drop_database(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()
