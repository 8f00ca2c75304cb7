"""
Heartbeats of a log that several hosts share: in its PostgreSQL schema, but beside the catalog.

The table is not logged and its commits wait for no disk, so beating neither takes the writers' lock nor delays a commit. It
is empty after a crash of the server, which says no more than that nobody was heard of since. The clock is the server's, and
while it was away nobody could beat: whoever beats again and again is at most as old as its start. An epoch's age, which says
when it was planned, is what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import psycopg
from psycopg import errors

from streamkit.errors import CatalogUnavailableError, StreamKitError
from streamkit.log.database.address import Address
from streamkit.log.database.database import Row
from streamkit.log.database.postgres import WAIT_MS, connect_patiently, words_of
from streamkit.names import EPOCH_HEARTBEATS

_TABLE = b'CREATE UNLOGGED TABLE IF NOT EXISTS heartbeat (name TEXT COLLATE "C" PRIMARY KEY, beaten TIMESTAMPTZ NOT NULL)'
_BEAT = b"INSERT INTO heartbeat (name, beaten) VALUES ($1, clock_timestamp()) ON CONFLICT (name) DO UPDATE SET beaten = excluded.beaten"
_END = _BEAT.replace(b"clock_timestamp()", b"clock_timestamp() - interval '10 years'")
_FORGET = b"DELETE FROM heartbeat WHERE name = ANY($1)"
_AGES = f"""
    SELECT name, greatest(0, extract(epoch FROM clock_timestamp() -
        CASE WHEN starts_with(name, '{EPOCH_HEARTBEATS}') THEN beaten ELSE greatest(beaten, pg_postmaster_start_time()) END
    ) * 1000)::bigint
    FROM heartbeat WHERE starts_with(name, $1)
""".encode()
Result = TypeVar("Result")


class PostgresHeartbeats:
    """
    Heartbeats of every host's processes.

    Each call is a session of its own, so nothing is held across a fork. A server that is out of reach is waited for.
    """

    def __init__(self, address: Address, wait_ms: int = WAIT_MS) -> None:
        self.address = address
        self._wait_ms = wait_ms

    def without_waiting(self) -> PostgresHeartbeats:
        """These, for whoever rather leaves one out than waits for a server that is out of reach."""
        return PostgresHeartbeats(self.address, 0)

    def beat(self, *names: str) -> None:
        """Note that these are alive now."""
        self._run(lambda session: session.cursor().executemany(_BEAT, [(name,) for name in names]))

    def forget(self, *names: str) -> None:
        """Drop these; unknown ones are not an error."""
        self._run(lambda session: session.execute(_FORGET, [list(names)]))

    def end(self, *names: str) -> None:
        """Note that these have ended; after a restart of the server they are as old as that."""
        self._run(lambda session: session.cursor().executemany(_END, [(name,) for name in names]))

    def ages_ms(self, prefix: str) -> dict[str, int]:
        """How long ago each name that begins so was last alive, or the server started, in ms; StreamKitError if the server cannot be reached."""
        return self._run(lambda session: dict(session.execute(_AGES, [prefix]).fetchall()))

    def _run(self, work: Callable[[psycopg.Connection[Row]], Result]) -> Result:
        try:
            with connect_patiently(self.address, self._wait_ms / 1000) as session:
                session.execute(b"SET synchronous_commit TO off")
                try:
                    return work(session)
                except errors.UndefinedTable:
                    with suppress(
                        errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject
                    ):  # made by another one just now
                        session.execute(_TABLE)
                    return work(session)
        except psycopg.Error as error:
            failure = CatalogUnavailableError if isinstance(error, psycopg.OperationalError) else StreamKitError
            raise failure(f"the heartbeats at {self.address.text} cannot be used: {words_of(error)}") from None
