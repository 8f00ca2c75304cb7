"""
The catalog's database in SQLite, through apsw.

Write-ahead log with a sync per commit. A connection belongs to the process that opened it: SQLite's locks do not survive
a fork, so a child that inherits one must not use it, close it, or open the same file again.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias
from urllib.parse import quote

import apsw

from streamkit.errors import CatalogLostError, CorruptionError, OutcomeUnknownError, SetupError, StorageFullError, StreamKitError
from streamkit.log.database.commit_watch import CommitListener, CommitWatch, HeardCommits
from streamkit.log.database.data_version import DataVersionListener
from streamkit.log.database.database import Row
from streamkit.log.database.inotify import InotifyListener, touch
from streamkit.log.database.system_error import naming, system_error

Stamp: TypeAlias = tuple[int, int, int, bool]
BUSY_TIMEOUT_MS = 30_000
BUSY_PAUSES_SECONDS = ((30, 0.000_3), (100, 0.001))  # up to so many tries, between two of them
BUSY_PAUSE_SECONDS_MAX = 0.004
IN_MEMORY = ":memory:"
_WAL_SAFE = (3, 51, 3)  # below, and in the withdrawn 3.52.0, a race of two connections can corrupt the write-ahead log
_WITHDRAWN = (3, 52, 0)

_REFUSED = (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError, apsw.IOError)

_open_databases: weakref.WeakSet[SqliteDatabase] = weakref.WeakSet()
_inherited: list[tuple[str, apsw.Connection | None]] = []  # closing one here would meddle with the parent's locks


def check_version(version: str) -> None:
    """SetupError if this SQLite cannot be trusted with a write-ahead log."""
    found = tuple(int(part) for part in version.split(".")[:3])
    if found < _WAL_SAFE or found == _WITHDRAWN:
        raise SetupError(
            f"SQLite {version} has a defect in its write-ahead log; expected 3.51.3 or newer, not 3.52.0: pip install -U apsw"
        )


def _leave_to_parent() -> None:
    for database in list(_open_databases):
        database._abandon()
    # At its end the interpreter would close them all. Not only would that meddle with locks: a thread that does not exist here may
    # have been inside SQLite, with a mutex that the child would wait for until it is killed.
    for kept in (apsw, *apsw.connections()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


os.register_at_fork(after_in_child=_leave_to_parent)


class SqliteTransaction:
    """Statements on one connection between BEGIN and COMMIT."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return its rows."""
        return list(self._connection.execute(statement, tuple(parameters)))

    def execute_many(self, statement: str, parameters: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of parameters."""
        self._connection.executemany(statement, [tuple(row) for row in parameters])

    def has_table(self, name: str) -> bool:
        """Whether there is a table of that name."""
        return bool(self.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,)))

    def newest_id(self, table: str) -> int:
        """The greatest id that the table ever gave to a row."""
        ((newest,),) = self.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?", (table,))
        return int(newest)


class SqliteDatabase:
    """
    A SQLite file as a Database; one transaction at a time in a process, any number of processes.

    `path` is absolute, or `:memory:`. `vfs` names a registered SQLite VFS, for tests that inject faults. With `read_only`
    the file must be there, and nothing in it is changed.
    """

    def __init__(self, path: str, vfs: str | None = None, *, read_only: bool = False) -> None:
        check_version(apsw.sqlite_lib_version())
        self.path = path
        self._vfs = vfs
        self.is_read_only = read_only
        self._is_lent = False  # whether a transaction is in the hands of whoever began it
        self._lock = threading.RLock()
        self._process = os.getpid()
        if any(path == self.path for path, connection in _inherited if connection is not None) and self.path != IN_MEMORY:
            raise StreamKitError(
                f"the catalog {self.path} was open when this process was forked, and SQLite's locks do not survive that; "
                "start the process by spawn, or close the log before the fork"
            )
        self._is_closed = False
        self._is_settled = True
        self._found_no_room = False  # an unsettled commit, that is
        self._heard = HeardCommits(None if path == IN_MEMORY else partial(_open_listener, path, vfs))
        self._connection: apsw.Connection | None = None
        self._frozen: Stamp | None = None  # how the file stood when it was opened as one that nobody writes to
        with self._translated():
            self._reconnect()
        self._file = _file_at(path)
        _open_databases.add(self)

    def write(self) -> AbstractContextManager[SqliteTransaction]:
        """A transaction that may write; waits for the writer before it."""
        return self._transaction("BEGIN IMMEDIATE", is_write=True)

    def read(self) -> AbstractContextManager[SqliteTransaction]:
        """A transaction that sees one snapshot; never waits for a writer, nor for room on the disk."""
        return self._transaction("BEGIN", is_write=False)

    def watch(self) -> CommitWatch:
        """A watch for commits, of any connection and process, from now on."""
        return self._heard.watch()

    def end_waits(self) -> None:
        """End all waits for commits that go on in this database object, and those that begin later by older watches."""
        self._heard.tell()

    def settle(self) -> None:
        """
        Open the file again and write to it, so that the outcome of a commit that raised is final.

        A commit whose sync failed counts as undone, yet its pages may lie in the write-ahead log, and recovery after a
        crash would find them. The next write takes their place; the checkpoint after it trusts no page of a failed sync.

        A commit that found no room is another matter: SQLite says so of writes alone, so the page that would complete it is not
        there, and none of it can be found. Its connection has taken it back and stays, since to open the file takes room too.
        """
        with self._lock, self._translated():
            self._check_owner()
            self._check_file()
            if self.path != IN_MEMORY:
                connection = self._connection if self._found_no_room else None
                self._overwrite(connection or self._reconnect())
            self._is_settled, self._found_no_room = True, False
            self._tell()  # the commit may have taken effect

    def _overwrite(self, connection: apsw.Connection) -> None:
        """Write over what a commit may have left behind."""
        try:
            connection.execute("BEGIN IMMEDIATE; UPDATE log SET settled = settled + 1; COMMIT")
            connection.pragma("wal_checkpoint(TRUNCATE)")
        except apsw.Error as error:
            self._found_no_room = self._found_no_room and isinstance(error, apsw.FullError)
            _roll_back(connection)
            raise

    def copy_to(self, path: str) -> None:
        """
        Write a copy of the last committed state to a new file, durably; writers are not held up.

        StreamKitError if there is such a file, or for a database in memory.
        """
        if self.path == IN_MEMORY:
            raise StreamKitError("a log in memory cannot be copied; use one in a directory")
        with self._translated(path):
            connection, _ = _open_read_only(self.path, self._vfs)
            try:
                connection.execute("VACUUM INTO ?", (path,))
            finally:
                connection.close()
        with naming("write", path):
            _sync(path)

    def faults(self) -> list[str]:
        """What SQLite's own integrity check finds wrong, in its words; empty if the file is sound."""
        with self.read() as transaction:
            found = [text for (text,) in transaction.execute("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """
        Close the file; a second call does nothing. What a broken disk keeps it from tidying up is left to the next opening.

        A process that was forked from the opener's has nothing to close; a thread that it does not have may hold the lock there for ever.
        """
        if self._process != os.getpid():
            return
        self._heard.close()
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                connection, self._connection = self._connection, None
                with suppress(apsw.Error):  # every commit is durable already
                    connection.close()

    @contextmanager
    def _transaction(self, begin: str, *, is_write: bool) -> Iterator[SqliteTransaction]:
        with self._lock:
            try:
                connection = self._begun(begin, is_write=is_write)
                changes = connection.total_changes()
                try:
                    self._is_lent = True
                    yield SqliteTransaction(connection)
                    self._is_lent = False
                    self._commit(connection)
                    if connection.total_changes() != changes:
                        self._tell()
                    self._check_frozen()
                except BaseException:
                    self._is_lent = False
                    self._check_frozen()
                    _roll_back(connection)
                    raise
            except apsw.Error as error:
                raise self._translate(error) from error

    def _begun(self, begin: str, *, is_write: bool) -> apsw.Connection:
        """A connection on which a transaction was begun."""
        self._check_owner()
        if is_write:
            self._check_file()
        if not self._is_settled and (is_write or not self._found_no_room):
            self.settle()
        connection = self._reconnect() if self._frozen or self._connection is None else self._connection
        if not self._is_lent:
            _roll_back(connection)  # what an interrupt between two lines left open
        connection.execute(begin)
        return connection

    def _check_file(self) -> None:
        """CatalogLostError if the file was deleted, or another one is there: a commit to a file without a name would be lost, and nobody would say so."""
        if _file_at(self.path) != self._file:
            raise CatalogLostError(
                f"the catalog {self.path} was deleted, or another one took its place, since this process has opened it, and a commit would be lost; "
                "close the log and open it again"
            )

    def _check_frozen(self) -> None:
        """StreamKitError if the file was opened as one that nobody writes to, and somebody has: what was read means nothing then."""
        if self._frozen is not None and self._frozen != _stamp(self.path):
            raise StreamKitError(f"the catalog {self.path} was written to while it was read; run again")

    def _commit(self, connection: apsw.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except apsw.Error as error:
            self._mark_unsettled(found_no_room=isinstance(error, apsw.FullError))
            raise OutcomeUnknownError(self._translate(error)) from error

    def _tell(self) -> None:
        """Wake who waits for commits, now that this one can be seen."""
        if self.path == IN_MEMORY:
            self._heard.tell()
        else:
            touch(self.path)

    def _mark_unsettled(self, *, found_no_room: bool = False) -> None:
        self._is_settled, self._found_no_room = False, found_no_room

    @contextmanager
    def _translated(self, written: str | None = None) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self._translate(error, written) from error

    def _translate(self, error: apsw.Error, written: str | None = None) -> Exception:
        """An error of SQLite as one of ours; `written` is the file that is being written, if not the catalog."""
        if isinstance(error, apsw.FullError):
            file = written or self.path
            return StorageFullError(f"no room in {file}: {error}; free disk space and run again")
        if isinstance(error, _REFUSED):
            return _refusal(written or self.path, error, is_written=not self.is_read_only)
        if isinstance(error, apsw.CorruptError | apsw.NotADBError):
            return CorruptionError(
                f"the catalog {self.path} is damaged: {error}; see `streamkit fsck`, and `streamkit rebuild` to rebuild it"
            )
        if isinstance(error, apsw.BusyError):
            return StreamKitError(f"the catalog {self.path} was locked for {BUSY_TIMEOUT_MS} ms by another process; run again")
        return StreamKitError(f"the catalog {self.path} failed: {type(error).__name__}: {error}")

    def _connect(self) -> apsw.Connection:
        if self.is_read_only:
            connection, is_frozen = _open_read_only(self.path, self._vfs)
            self._frozen = _stamp(self.path) if is_frozen else None
            return connection
        if self.path != IN_MEMORY:
            # Only ever a new file: closing a second descriptor of an open database would drop SQLite's locks on it.
            with naming("create", self.path), suppress(FileExistsError):
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        connection = apsw.Connection(self.path, vfs=self._vfs)
        try:
            self._configure(connection)
        except BaseException:
            with suppress(apsw.Error):
                connection.close()
            raise
        return connection

    def _configure(self, connection: apsw.Connection) -> None:
        if connection.readonly("main"):  # what it would leave beside the file, its owner could not write to either
            raise apsw.ReadOnlyError("the file is read-only, and a log must be writable: copy it, and open the copy")
        connection.set_busy_handler(_WaitForWriter().wait)
        _plan_once(connection)
        mode = _write_ahead(connection)
        if mode != "wal" and self.path != IN_MEMORY:
            raise SetupError(
                f"{self.path} cannot have a write-ahead log, SQLite chose {mode!r}; expected a file system of this machine"
            )
        for name, value in (("synchronous", "FULL"), ("foreign_keys", "ON"), ("trusted_schema", "OFF")):
            connection.pragma(name, value)

    def _reconnect(self) -> apsw.Connection:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._connection = self._connect()
        return self._connection

    def _check_owner(self) -> None:
        if self._process != os.getpid():
            raise StreamKitError(
                f"the catalog {self.path} was opened by process {self._process}; open the log again in a spawned process"
            )
        if self._is_closed:
            raise StreamKitError(f"the catalog {self.path} is closed; open the log again")

    def _abandon(self) -> None:
        _inherited.append((self.path, self._connection))
        # The lock may have been held by a thread that does not exist here.
        self._lock = threading.RLock()


class _WaitForWriter:
    """
    Waits for the lock of another writer in short pauses.

    SQLite's own pauses grow from 1 ms to 100: where others commit all the time a small commit would wait longer than they take, and who
    waits longest would ask least often.
    """

    def __init__(self) -> None:
        self._begun = 0.0

    def wait(self, tries: int) -> bool:
        """Pause, and say whether to try again; `tries` counts those before, for the same lock."""
        now = time.monotonic()
        if not tries:
            self._begun = now
        if now - self._begun > BUSY_TIMEOUT_MS / 1000:
            return False
        time.sleep(next((pause_s for most, pause_s in BUSY_PAUSES_SECONDS if tries < most), BUSY_PAUSE_SECONDS_MAX))
        return True


def _open_listener(path: str, vfs: str | None) -> CommitListener:
    """A place to hear of commits to a file, as the system allows."""
    try:
        return InotifyListener(path)
    except OSError:
        return DataVersionListener(partial(SqliteDatabase, path, vfs, read_only=True))


def _roll_back(connection: apsw.Connection) -> None:
    if connection.in_transaction:
        with suppress(apsw.Error):  # SQLite has rolled back already after some errors, and then refuses to do so again
            connection.execute("ROLLBACK")


def _plan_once(connection: apsw.Connection) -> None:
    # Else SQLite plans a statement again for each new parameter, in case statistics told it more; there are none. It takes ten
    # times as long as to look up an extent.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _open_read_only(path: str, vfs: str | None = None) -> tuple[apsw.Connection, bool]:
    """The file for reading, and whether as one that nobody writes to meanwhile."""
    if not os.path.lexists(path):
        raise CorruptionError(f"the catalog {path} is missing")
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    _plan_once(connection)
    connection.pragma("trusted_schema", "OFF")
    try:
        connection.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        # In a folder where nobody may write there is no room for the memory that connections share, nor need of it.
        connection.close()
        if os.path.exists(f"{path}-wal"):
            raise
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(f"file:{quote(path)}?immutable=1", flags=flags, vfs=vfs), True
    except BaseException:
        connection.close()
        raise
    return connection, False


def _file_at(path: str) -> tuple[int, int] | None:
    """Which file has a name; None if there is none, as of a database in memory."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _stamp(path: str) -> Stamp:
    """What changes when a file is written to, or its write-ahead log is begun."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, os.path.exists(f"{path}-wal")


def _refusal(file: str, error: apsw.Error, *, is_written: bool) -> StreamKitError:
    """Why SQLite could not use a file; it does not say so itself."""
    number = _hindrance(file, is_written=is_written) or (errno.EIO if isinstance(error, apsw.IOError) else 0)
    reason = os.strerror(number) if number else "the system refused it, maybe for too many open files"
    return system_error("use", file, OSError(number, f"{reason} (SQLite: {error})"))


def _hindrance(file: str, *, is_written: bool) -> int:
    """What can be seen to keep this user from using a file and those that SQLite has beside it, as a number of `errno`; else 0."""
    folder = os.path.dirname(file)
    files = [path for path in (file, f"{file}-wal", f"{file}-shm") if os.path.lexists(path)]
    right = os.W_OK if is_written or len(files) > 1 else 0
    if not os.path.isdir(folder):
        return errno.ENOENT
    try:
        system = os.statvfs(folder)
        if is_written and system.f_flag & os.ST_RDONLY:
            return errno.EROFS
        if not system.f_bavail:
            return errno.ENOSPC  # also to be read: the processes that use a catalog share some memory, which is a file
    except OSError as error:
        return error.errno or errno.EIO
    is_allowed = os.access(folder, os.X_OK | right) and all(os.access(path, os.R_OK | right) for path in files)
    return 0 if is_allowed else errno.EACCES


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_ahead(connection: apsw.Connection) -> str:
    """Ask for a write-ahead log; the mode that is in force. SQLite does not wait for others that ask for it at the same time."""
    end = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            return str(connection.pragma("journal_mode", "wal"))
        except apsw.BusyError:
            if time.monotonic() >= end:
                raise
        time.sleep(0.01)
