"""
Heartbeats: when each member of a group was last alive.

They live outside the catalog, so that they never delay a commit, and nothing is lost with them: they only decide when
somebody is taken for dead. The catalog's transactions decide what a member may do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Protocol, TypeVar

import apsw

from streamkit.clock import Clock, MonotonicClock
from streamkit.errors import StorageFullError, StreamKitError
from streamkit.log.database.database import Row
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.names import HEARTBEATS_FILE

BUSY_TIMEOUT_MS = 2_000
ENDED_MS = 10 * 365 * 86_400_000  # the age of what has ended
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS heartbeat (name TEXT PRIMARY KEY, boot TEXT NOT NULL, beaten_ms INTEGER NOT NULL) WITHOUT ROWID"
)
_BEAT = """
    INSERT INTO heartbeat (name, boot, beaten_ms) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET boot = excluded.boot, beaten_ms = excluded.beaten_ms
"""
Result = TypeVar("Result")


class Heartbeats(Protocol):
    """A place for heartbeats, by name; ages are in milliseconds of one clock that never goes back."""

    def beat(self, *names: str) -> None:
        """Note that these are alive now."""

    def forget(self, *names: str) -> None:
        """Drop these; unknown ones are not an error."""

    def end(self, *names: str) -> None:
        """Note that these have ended; their heartbeats are years old, so that they differ from lost ones."""

    def ages_ms(self, prefix: str) -> dict[str, int]:
        """How long ago each name that begins so was last alive; a name that was never heard of is missing."""

    def without_waiting(self) -> Heartbeats:
        """The same heartbeats, for whoever rather leaves one out than waits for a server that is out of reach."""


class MemoryHeartbeats:
    """Heartbeats of a log that lives in this process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or MonotonicClock()
        self._beaten: dict[str, int] = {}
        self._lock = threading.Lock()

    def without_waiting(self) -> MemoryHeartbeats:
        """These: there is no server that could be out of reach."""
        return self

    def beat(self, *names: str) -> None:
        """Note that these are alive now."""
        with self._lock:
            self._beaten |= dict.fromkeys(names, self._clock.now_ms())

    def forget(self, *names: str) -> None:
        """Drop these; unknown ones are not an error."""
        with self._lock:
            for name in names:
                self._beaten.pop(name, None)

    def end(self, *names: str) -> None:
        """Note that these have ended."""
        with self._lock:
            self._beaten |= dict.fromkeys(names, self._clock.now_ms() - ENDED_MS)

    def ages_ms(self, prefix: str) -> dict[str, int]:
        """How long ago each name that begins so was last alive."""
        with self._lock:
            now = self._clock.now_ms()
            return {name: now - beaten for name, beaten in self._beaten.items() if name.startswith(prefix)}


class FileHeartbeats:
    """
    Heartbeats in a file that all processes of the host share.

    It is never synced, and opened for each use, so nothing is held across a fork. A damaged or missing file is made again;
    what was written before the host last started counts as never written, since the clock started with it.
    """

    def __init__(self, path: str, clock: Clock | None = None) -> None:
        self._path = path
        self._clock = clock or MonotonicClock()
        self._boot = _boot_id()

    def without_waiting(self) -> FileHeartbeats:
        """These: there is no server that could be out of reach."""
        return self

    def beat(self, *names: str) -> None:
        """Note that these are alive now."""
        self._note(names, self._clock.now_ms())

    def forget(self, *names: str) -> None:
        """Drop these; unknown ones are not an error."""
        rows = [(name,) for name in names]
        self._run_on_table(lambda connection: list(connection.executemany("DELETE FROM heartbeat WHERE name = ?", rows)))

    def end(self, *names: str) -> None:
        """Note that these have ended."""
        self._note(names, self._clock.now_ms() - ENDED_MS)

    def ages_ms(self, prefix: str) -> dict[str, int]:
        """How long ago each name that begins so was last alive; StreamKitError if the file cannot be used."""
        statement = "SELECT name, beaten_ms FROM heartbeat WHERE boot = ? AND substr(name, 1, length(?)) = ?"
        found = self._run_on_table(lambda connection: list(connection.execute(statement, (self._boot, prefix, prefix))))
        now = self._clock.now_ms()
        return {name: now - beaten for name, beaten in found if beaten <= now}

    def _note(self, names: Sequence[str], beaten_ms: int) -> None:
        rows = [(name, self._boot, beaten_ms) for name in names]
        self._run(lambda connection: _write(connection, rows))

    def _run_on_table(self, work: Callable[[apsw.Connection], list[Row]]) -> list[Row]:
        """What is found in the table; nothing, and nothing is written, where there is none yet: on a full disk it could not be made."""
        if not os.path.exists(self._path):
            return []
        return self._run(lambda connection: work(connection) if connection.table_exists(None, "heartbeat") else [])

    def _run(self, work: Callable[[apsw.Connection], Result]) -> Result:
        try:
            return self._once_or_anew(work)
        except apsw.FullError as error:
            raise StorageFullError(f"no room in {self._path}: {error}; free disk space and run again") from error
        except (apsw.Error, OSError) as error:
            raise StreamKitError(
                f"the heartbeats in {self._path} cannot be used: {error}; the file may be deleted at any time"
            ) from error

    def _once_or_anew(self, work: Callable[[apsw.Connection], Result]) -> Result:
        try:
            return self._once(work)
        except (apsw.NotADBError, apsw.CorruptError):
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            return self._once(work)

    def _once(self, work: Callable[[apsw.Connection], Result]) -> Result:
        with closing(apsw.Connection(self._path)) as connection:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            connection.pragma("journal_mode", "memory")
            connection.pragma("synchronous", "off")
            return work(connection)


def _write(connection: apsw.Connection, rows: Sequence[tuple[str, str, int]]) -> None:
    connection.execute(_TABLE)
    connection.executemany(_BEAT, rows)


def heartbeats_at(root: str) -> Heartbeats:
    """The heartbeats of the log at a directory, or of one in memory."""
    return MemoryHeartbeats() if root == IN_MEMORY else FileHeartbeats(os.path.join(root, HEARTBEATS_FILE))


def _boot_id() -> str:
    with suppress(OSError), open(_BOOT_ID, encoding="ascii") as file:
        return file.read().strip()
    return ""
