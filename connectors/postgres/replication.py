"""A replication slot: made with a snapshot, checked, read, and told how far the log has come."""

from __future__ import annotations

import select
import time
import uuid
from dataclasses import dataclass
from typing import Any

from streamkit.connectors.postgres.connection import PASSING, connect, sqlstate_of
from streamkit.connectors.postgres.pgoutput import (
    PROTOCOL_VERSION,
    Keepalive,
    ReplicationMessage,
    lsn_of,
    lsn_text,
    message_of,
    status,
)
from streamkit.connectors.postgres.table_name import quoted_name
from streamkit.errors import ConfigError, StorageFullError, StreamKitError

PLUGIN = "pgoutput"
DISK_FULL = "53100"  # SQLSTATE
NO_SUCH_OBJECT = "42704"  # such as a publication
RELEASE_SECONDS = 10.0  # until a slot whose reader was ended is free
STATUS_SECONDS = 5.0  # between two words to the server, which gives up after wal_sender_timeout (a minute)
SILENCE_SECONDS = 300.0  # after which a server that does not answer is taken as gone
PAGE_BYTES = 8192
PAGE_HEADER_BYTES = 40


@dataclass(frozen=True)
class Slot:
    """A slot as the server knows it; `confirmed` is the place before which the server sends nothing any more."""

    plugin: str
    database: str
    reader: int | None  # the process that reads it
    confirmed: int
    is_lost: bool


@dataclass(frozen=True)
class ExportedSnapshot:
    """What transactions that committed before `lsn` left, under a name that another connection can take up."""

    name: str
    lsn: int
    slot: str


class ReplicationConnection:
    """A connection for replication, and the slot that it reads; `again` says how to go on where changes are gone."""

    def __init__(self, url: str, slot: str, again: str) -> None:
        self._slot = slot
        self._again = again
        self._connection = connect(url, replication="database")
        self._server = self._connection.pgconn
        self._socket = self._connection.fileno()
        self._said = time.monotonic()
        self._asked: float | None = None  # since when an answer is waited for
        self._confirmed = 0

    def system(self) -> str:
        """The identifier of the cluster: a restored backup keeps it, another server has another."""
        return str(self._connection.execute("IDENTIFY_SYSTEM").fetchone()[0])

    def create(self, *, is_temporary: bool = False) -> ExportedSnapshot:
        """Make the slot, or one for a snapshot alone, to be dropped; the snapshot is there until this connection's next statement."""
        name = f"{self._slot[:40]}_{uuid.uuid4().hex[:12]}" if is_temporary else self._slot
        kind = "TEMPORARY LOGICAL" if is_temporary else "LOGICAL"
        found = self._connection.execute(f"CREATE_REPLICATION_SLOT {quoted_name(name)} {kind} {PLUGIN}").fetchone()
        return ExportedSnapshot(found[2], lsn_of(found[1]), name)

    def drop(self, slot: str) -> None:
        """Drop a slot, which would make the server keep its log."""
        self._connection.execute(f"DROP_REPLICATION_SLOT {quoted_name(slot)}")

    def start(self, lsn: int, publication: str) -> None:
        """Have the server send what was committed from `lsn` on."""
        self._confirmed = lsn
        names = quoted_name(publication).replace("'", "''")
        self._connection.execute(
            f"START_REPLICATION SLOT {quoted_name(self._slot)} LOGICAL {lsn_text(lsn)} "
            f"(proto_version '{PROTOCOL_VERSION}', publication_names '{names}')"
        )

    def message(self, timeout: float) -> ReplicationMessage | Keepalive | None:
        """The next message; None if none came within `timeout` seconds."""
        deadline = None
        while True:
            length, frame = self._server.get_copy_data(1)
            if length > 0:
                self._asked = None
                return message_of(bytes(frame))
            if length < 0:
                raise self._ended()
            deadline = deadline or time.monotonic() + timeout
            wait = max(0.0, deadline - time.monotonic())
            if select.select([self._socket], [], [], min(wait, STATUS_SECONDS))[0]:
                self._server.consume_input()
                continue
            self._speak_up()
            if wait <= STATUS_SECONDS:
                return None

    def confirm(self, lsn: int) -> None:
        """Tell the server that it need not keep what lies before `lsn`."""
        self._confirmed = max(self._confirmed, lsn)
        self.say()

    def say(self, *, wants_reply: bool = False) -> None:
        """Tell the server that somebody listens."""
        self._server.put_copy_data(status(self._confirmed, time.time_ns() // 1000, wants_reply=wants_reply))
        self._server.flush()
        self._said = time.monotonic()

    def close(self) -> None:
        self._connection.close()

    def _speak_up(self) -> None:
        """Say now and then that somebody listens, and ask for an answer: a network that is cut says nothing."""
        now = time.monotonic()
        if self._asked is not None and now - self._asked > SILENCE_SECONDS:
            raise ConnectionError(f"PostgreSQL has not answered on slot {self._slot} for {SILENCE_SECONDS:.0f} s")
        if now - self._said > STATUS_SECONDS:
            self._asked = self._asked or now
            self.say(wants_reply=True)

    def _ended(self) -> Exception:
        """Why the server ended the stream."""
        result = self._server.get_result()
        said = result.error_message.decode(errors="replace").strip() if result is not None else ""
        state = sqlstate_of(result) if said else ""
        ended = f"PostgreSQL ended the stream of slot {self._slot}: {' '.join(said.split()) or 'it shuts down'}"
        if "has already been removed" in said:
            return ConfigError(f"{lost(self._slot)}. {self._again}")
        if state == NO_SUCH_OBJECT:
            return ConfigError(f"{ended}. It was missing when changes were made, so PostgreSQL cannot send them. {self._again}")
        if state == DISK_FULL:
            return StorageFullError(f"{ended}. Make room there, and the task goes on where it was")
        return ConnectionError(ended) if not state or state[:2] in PASSING else StreamKitError(ended)


def find_slot(connection: Any, name: str) -> Slot | None:
    """The slot of that name."""
    found = connection.execute(
        "SELECT plugin, database, active_pid, confirmed_flush_lsn::text, wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = %s",
        (name,),
    ).fetchone()
    if found is None:
        return None
    plugin, database, reader, confirmed, is_lost = found
    return Slot(plugin or "", database or "", reader, lsn_of(confirmed) if confirmed else 0, bool(is_lost))


def release(connection: Any, name: str) -> None:
    """
    End whoever reads a slot, and wait until it is free.

    Only a task that has taken the connector's place in the log does this, so whoever reads is the one before it.
    """
    deadline = time.monotonic() + RELEASE_SECONDS
    while (found := find_slot(connection, name)) is not None and found.reader is not None:
        connection.execute("SELECT pg_terminate_backend(%s)", (found.reader,))
        if time.monotonic() > deadline:
            raise ConnectionError(f"the slot {name} is read by the process {found.reader} of PostgreSQL, which does not end")
        time.sleep(0.01)


def drop_slot(connection: Any, name: str) -> None:
    """Drop a slot that nobody reads."""
    connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))


def written_until(connection: Any) -> int:
    """
    Where the server's log ends now, as the end of what a reader can reach.

    At the beginning of a page PostgreSQL counts the page's header, which no reader stands behind.
    """
    (text,) = connection.execute(
        "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END)::text"
    ).fetchone()
    end = lsn_of(text)
    within = end % PAGE_BYTES
    return end - within if within <= PAGE_HEADER_BYTES else end


def lost(name: str) -> str:
    """What to say of a slot whose log the server has removed."""
    return (
        f"PostgreSQL has removed log that the replication slot {name} needed (wal_status is lost; see max_slot_wal_keep_size), so "
        "changes are gone"
    )
