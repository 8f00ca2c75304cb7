"""
The catalog's database on a PostgreSQL server, through psycopg, for a log that several hosts share.

Writers take an advisory lock of their log before anything else and hold it to the end of their transaction, so each
statement of theirs sees all that was committed before, and nothing changes under them. Readers wait for nobody.

A commit whose answer was lost may still be on its way. Its session holds the writer's lock until it has ended, one way or
the other: `settle` ends it, takes the lock, and from then on what can be read is final.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import psycopg
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping, TransactionStatus
from psycopg.raw_cursor import RawCursor
from psycopg.sql import Identifier
from psycopg.types.numeric import Int8Dumper

from streamkit.errors import CatalogUnavailableError, ConfigError, CorruptionError, StorageFullError, StreamKitError
from streamkit.log.database.address import Address
from streamkit.log.database.commit_watch import CommitListener, CommitWatch, HeardCommits
from streamkit.log.database.database import ConnectionLostError, OutcomeUnknownError, Row
from streamkit.log.database.dialect import for_postgres
from streamkit.log.database.postgres_listener import PostgresListener

LOCK_TIMEOUT_MS = 30_000  # for the writer before
STATEMENT_TIMEOUT_MS = 60_000
IDLE_TIMEOUT_MS = 30_000  # within a transaction: a process that was stopped or cut off must not keep all others from writing
OPEN_TIMEOUT_S = 5.0  # for a server that does not answer the first time: its address may be wrong
WAIT_MS = 60_000  # for a server that answered before: a managed one that fails over is away for 20 to 60 seconds
NOTICE_S = 2.0  # from then on a wait is said
PING_TIMEOUT_S = 2
LISTENER_TIMEOUT_S = 2  # libpq takes no less; so late may a wait for commits end that finds no server
RECONNECT_PAUSE_S = 0.1
FINAL_REFUSALS = 3  # one after the other, of a server that says each time that it takes connections
CONNECTION: dict[str, Any] = {  # unless the URL says otherwise: a server or a host that has gone is noticed in half a minute
    "application_name": "streamkit", "connect_timeout": 10, "client_encoding": "utf8", "tcp_user_timeout": 30_000,
    "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4,
}  # fmt: skip
WAIT_SETTING = "the setting catalog_wait_ms"
_logger = logging.getLogger(__name__)
_SNAPSHOT = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_SESSION_START = b"SELECT backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"  # pids come again
_END_SESSION = b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start::text = $2"
_HINTS = {
    "25006": "it accepts no writes; name the primary server",
    "42501": "grant the user the right to create and use the schema",
    "53300": "raise max_connections, or end processes that have the log open",
    "55P03": "another process is writing; run again",
    "57014": "it took too long; run again",
}


class PostgresTransaction:
    """Statements on one connection between BEGIN and COMMIT. One that fails takes the whole transaction back."""

    def __init__(self, connection: psycopg.Connection[Row], schema: str) -> None:
        self.connection = connection
        self.has_changed = False
        self._schema = schema

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Run a statement and return its rows."""
        found = for_postgres(statement)
        cursor = self.connection.execute(found.text, found.parameters(parameters) or None)
        self.has_changed |= cursor.rowcount > 0 and not str(cursor.statusmessage).startswith("SELECT")
        return cursor.fetchall() if cursor.description else []

    def execute_many(self, statement: str, parameters: Iterable[Sequence[Any]]) -> None:
        """Run a statement once per row of parameters, all of them in one go."""
        found, cursor = for_postgres(statement), self.connection.cursor()
        cursor.executemany(found.text, [found.parameters(tuple(row)) for row in parameters])
        self.has_changed |= cursor.rowcount > 0

    def has_table(self, name: str) -> bool:
        """Whether there is a table of that name in the log's schema."""
        # Not to_regclass: what it remembers of the time before the writer's lock may be out of date.
        return bool(self.execute("SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = ?", (self._schema, name)))

    def newest_id(self, table: str) -> int:
        """The greatest id that the table ever gave to a row, or to one that was never committed."""
        statement = "SELECT coalesce(max(last_value), 0) FROM pg_sequences WHERE schemaname = ? AND sequencename = ?"
        ((newest,),) = self.execute(statement, (self._schema, f"{table}_id_seq"))
        return int(newest)


def _end_snapshot(transaction: PostgresTransaction) -> None:
    """End a transaction that only read: if the server is lost now, nothing is in doubt, and it can be run again."""
    transaction.connection.execute(b"COMMIT", prepare=False)


def connect(address: Address, **changes: Any) -> psycopg.Connection[Row]:
    """A new session, set up for the log's schema; psycopg's errors as they are."""
    connection: psycopg.Connection[Row] = psycopg.connect(conninfo(address, **changes), autocommit=True, cursor_factory=RawCursor)
    try:
        _adapt(connection)
        connection.execute(_settings(address.schema))
    except BaseException:
        connection.close()
        raise
    return connection


def conninfo(address: Address, **changes: Any) -> str:
    """The connection string for libpq, password included."""
    return make_conninfo("", **(CONNECTION | conninfo_to_dict(address.server) | changes))


def connect_patiently(address: Address, patience_s: float, start_s: float = 0.0) -> psycopg.Connection[Row]:
    """
    A new session. A server that does not answer gets `patience_s`, one that is starting `start_s` if that is more; a refusal is final.

    The refusal of a server that is there may have come just before it was ready, and it may have failed again and be
    back before it is asked: only one that is repeated at once, without a server that is away in between, is taken for one.
    A wait of some seconds is logged, so that people see why nothing happens. psycopg's errors as they are.
    """
    begun, refusals, is_said = time.monotonic(), 0, False
    while True:
        try:
            connection = connect(address)
        except psycopg.OperationalError as error:
            state = state_of(address)
            refusals = refusals + 1 if state == Ping.OK else 0
            limit_s = max(patience_s, start_s) if state == Ping.REJECT else patience_s
            waited_s = time.monotonic() - begun
            if refusals == FINAL_REFUSALS or waited_s >= limit_s:
                raise
            if waited_s >= NOTICE_S and not is_said:
                is_said = True
                _logger.warning(
                    "the catalog %s is out of reach: %s; waiting for it, at most %g s in all",
                    address.text,
                    words_of(error),
                    limit_s,
                )
        else:
            if is_said:
                _logger.warning("the catalog %s is back after %.0f s", address.text, time.monotonic() - begun)
            return connection
        if not refusals:
            time.sleep(RECONNECT_PAUSE_S)


def state_of(address: Address) -> Ping:
    """Whether the server takes connections, is starting, or does not answer."""
    return Ping(PGconn.ping(conninfo(address, connect_timeout=PING_TIMEOUT_S).encode()))


class PostgresDatabase:
    """
    A schema of a PostgreSQL database as a Database; one transaction at a time in a process, any number of processes and hosts.

    The schema is created if it is missing. ConfigError if the server cannot be reached or lets nobody in. A server that answered before
    is waited for, `wait_ms` at most, whenever it is out of reach, and then it is a CatalogUnavailableError; `is_known` says that
    another process has had an answer, so that the first connection is waited for as well.
    """

    is_read_only = False

    def __init__(self, address: Address, wait_ms: int = WAIT_MS, *, is_known: bool = False) -> None:
        self.address = address
        self._wait_s = wait_ms / 1000
        self._begin_write = f"BEGIN; SELECT pg_advisory_xact_lock({_lock_number(address.schema)})".encode()
        self._notify_and_commit = f"NOTIFY {commit_channel(address.schema)}; COMMIT".encode()
        self._heard = HeardCommits(partial(_open_listener, address))
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._is_closed = False
        self._unsettled: tuple[int, str] | None = None  # the session whose commit raised
        self._session = (0, "")
        self._connection: psycopg.Connection[Row] | None = None
        if is_known:
            self._reconnect()
        else:
            try:
                self._connect(min(OPEN_TIMEOUT_S, self._wait_s))
            except psycopg.Error as error:
                raise ConfigError(
                    f"{self._place} cannot be opened: {words_of(error)}; fix the URL, or start the server"
                ) from None
        with self._translated():
            self._create_schema()

    def __repr__(self) -> str:
        return f"PostgresDatabase({self.address.text!r})"

    @contextmanager
    def write(self) -> Iterator[PostgresTransaction]:
        """A transaction that may write; waits for the writer before it, on whichever host."""
        with self._transaction(self._begin_write, self._commit) as transaction:
            yield transaction

    @contextmanager
    def read(self) -> Iterator[PostgresTransaction]:
        """A transaction that sees one snapshot; never waits for a writer."""
        with self._transaction(_SNAPSHOT, _end_snapshot) as transaction:
            yield transaction

    def watch(self) -> CommitWatch:
        """A watch for commits, of any host, from now on."""
        return self._heard.watch()

    def end_waits(self) -> None:
        """End all waits for commits that go on in this database object, and those that begin later by older watches."""
        self._heard.tell()

    def settle(self) -> None:
        """
        Connect again and wait until the session whose commit raised has ended, so that its outcome is final.

        A server that starts again is waited for.
        """
        self._check_owner()
        with self._lock, self._translated():
            self._check_open()
            connection = self._reconnect()
            if self._unsettled is not None:
                connection.execute(_END_SESSION, self._unsettled)
            connection.execute(self._begin_write, prepare=False)
            connection.execute(b"ROLLBACK", prepare=False)
            self._unsettled = None

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        self._heard.close()
        if self._process != os.getpid():
            return
        with self._lock:
            self._is_closed = True
            self._disconnect()

    @contextmanager
    def _transaction(self, begin: bytes, end: Callable[[PostgresTransaction], None]) -> Iterator[PostgresTransaction]:
        self._check_owner()  # before the lock, which a thread may have held that a fork left behind
        with self._lock, self._translated():
            self._check_open()
            if self._unsettled is not None:
                self.settle()
            try:
                transaction = PostgresTransaction(self._begun(begin), self.address.schema)
                yield transaction
                end(transaction)
            except BaseException:
                self._roll_back()
                raise

    def _begun(self, begin: bytes) -> psycopg.Connection[Row]:
        connection = self._connection
        if connection is not None:
            try:
                connection.execute(begin, prepare=False)
            except psycopg.Error:
                if not connection.closed:
                    raise
            else:
                return connection
        # The server may have started again since the last transaction; this one has done nothing yet.
        connection = self._reconnect()
        connection.execute(begin, prepare=False)
        return connection

    def _commit(self, transaction: PostgresTransaction) -> None:
        """Commit, and tell those who wait for commits if there is something to see."""
        connection = transaction.connection
        is_whole = connection.info.transaction_status is TransactionStatus.INTRANS  # else it is the server that says why not
        try:
            cursor = connection.execute(
                self._notify_and_commit if is_whole and transaction.has_changed else b"COMMIT", prepare=False
            )
            while cursor.nextset():
                pass
            done = cursor.statusmessage
        except psycopg.Error as error:
            self._mark_unsettled()
            raise OutcomeUnknownError(self._translate(error)) from error
        except BaseException:
            self._mark_unsettled()
            raise
        if done != "COMMIT":
            raise StreamKitError(f"a statement failed, and so {self._place} rolled the whole transaction back; run again")

    def _mark_unsettled(self) -> None:
        self._unsettled = self._session

    def _roll_back(self) -> None:
        connection = self._connection
        if connection is None:
            return
        with suppress(psycopg.Error):
            connection.execute(b"ROLLBACK", prepare=False)
        if connection.closed or connection.info.transaction_status is not TransactionStatus.IDLE:
            self._disconnect()

    def _connect(self, patience_s: float) -> psycopg.Connection[Row]:
        self._disconnect()
        connection = connect_patiently(self.address, patience_s, self._wait_s)
        try:
            ((start,),) = connection.execute(_SESSION_START).fetchall()
        except BaseException:
            connection.close()
            raise
        self._connection, self._session = connection, (connection.info.backend_pid, start)
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _reconnect(self) -> psycopg.Connection[Row]:
        """Connect to a server that answered before, once it lets us."""
        try:
            return self._connect(self._wait_s)
        except psycopg.OperationalError as error:
            raise CatalogUnavailableError(
                f"{self._place} cannot be reached: {words_of(error)}; it was waited for ({WAIT_SETTING}): "
                "run again when the server is back"
            ) from None

    def _create_schema(self) -> None:
        find, create = "SELECT 1 FROM pg_namespace WHERE nspname = ?", f"CREATE SCHEMA {_quoted(self.address.schema)}"
        with self.read() as transaction:
            if transaction.execute(find, (self.address.schema,)):
                return
        with self.write() as transaction:
            if not transaction.execute(find, (self.address.schema,)):
                transaction.execute(create)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._translate(error) from error

    def _translate(self, error: psycopg.Error) -> Exception:
        state, words = error.sqlstate or "", words_of(error)
        if state == "53100":
            return StorageFullError(f"no room for {self._place}: {words}; nothing became visible, free disk space and run again")
        if state in ("XX001", "XX002"):
            return CorruptionError(f"{self._place} is damaged: {words}; restore it from a copy")
        if state in ("25006", "42501"):
            return ConfigError(f"{self._place} cannot be used: {words}; {_HINTS[state]}")
        if state in _HINTS:
            return StreamKitError(f"{self._place}: {words}; {_HINTS[state]}")
        if _is_lost(error):
            return ConnectionLostError(f"the connection to {self._place} was lost: {words}; run again")
        return StreamKitError(f"{self._place} failed: {type(error).__name__}: {words}")

    @property
    def _place(self) -> str:
        return f"the catalog {self.address.text}"

    def _check_owner(self) -> None:
        if self._process != os.getpid():
            raise StreamKitError(f"{self._place} was opened by process {self._process}; open the log again in this process")

    def _check_open(self) -> None:
        if self._is_closed:
            raise StreamKitError(f"{self._place} is closed; open the log again")
        connection = self._connection
        if connection is not None and connection.info.transaction_status in (
            TransactionStatus.INTRANS,
            TransactionStatus.INERROR,
        ):
            raise StreamKitError(f"{self._place}: a transaction cannot begin inside another one")


def words_of(error: psycopg.Error) -> str:
    """What the server or libpq said, in one line."""
    said = [error.diag.message_primary, error.diag.message_detail] if error.diag.message_primary else [str(error)]
    return " ".join(" ".join(part for part in said if part).split())


def _is_lost(error: psycopg.Error) -> bool:
    """Whether the session has ended: cut off (no state), ended by the server, or for having stood still too long."""
    state = error.sqlstate
    return isinstance(error, psycopg.OperationalError) if state is None else state.startswith(("08", "57P")) or state == "25P03"


def _lock_number(schema: str) -> int:
    """The advisory lock of a log's writers; PostgreSQL keeps those of different databases apart."""
    return int.from_bytes(hashlib.sha256(f"streamkit log {schema}".encode()).digest()[:8], "big", signed=True)


def commit_channel(schema: str) -> str:
    """The channel on which commits of a log are told; PostgreSQL keeps those of different databases apart."""
    return f"streamkit_{_lock_number(schema) & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def _open_listener(address: Address) -> CommitListener:
    """A place to hear of commits."""
    return PostgresListener(partial(connect, address, connect_timeout=LISTENER_TIMEOUT_S), commit_channel(address.schema))


def _quoted(schema: str) -> str:
    """The schema's name as SQL takes it, also where that is a word of SQL's own."""
    return Identifier(schema).as_string(None)


def _settings(schema: str) -> bytes:
    return f"""
        SET search_path TO {_quoted(schema)};
        SET lock_timeout TO {LOCK_TIMEOUT_MS};
        SET statement_timeout TO {STATEMENT_TIMEOUT_MS};
        SET idle_in_transaction_session_timeout TO {IDLE_TIMEOUT_MS};
        SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
    """.encode()


class _TruthDumper(Int8Dumper):
    """Truth values are 0 and 1 in the catalog, as in SQLite."""

    def dump(self, obj: Any) -> bytes:
        return b"1" if obj else b"0"


class _NumericLoader(Loader):
    """Sums of integers are integers, as in SQLite."""

    def load(self, data: Any) -> int | float:
        text = bytes(data).decode()
        return float(text) if "." in text else int(text)


def _adapt(connection: psycopg.Connection[Row]) -> None:
    connection.adapters.register_dumper(int, Int8Dumper)  # of whatever size, so that a statement is prepared once
    connection.adapters.register_dumper(bool, _TruthDumper)
    connection.adapters.register_loader("numeric", _NumericLoader)
