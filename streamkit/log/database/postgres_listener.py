"""
Commits of a catalog on PostgreSQL as the server tells of them: NOTIFY is part of the transaction, so it is sent if that commits.

While the server cannot be reached, who waits is sent to look every 50 ms, as if there were commits, and gets to know so what is wrong.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import final

import psycopg

from streamkit.log.database.commit_watch import LOOK_SECONDS
from streamkit.log.database.database import Row
from streamkit.log.database.waker import Waker

RETRY_SECONDS = 1.0  # between two tries to connect


@final
class PostgresListener:
    """Hears of commits by a session of its own, which listens on a channel; connects again when that is lost."""

    def __init__(self, connect: Callable[[], psycopg.Connection[Row]], channel: str) -> None:
        self._connect_to_server = connect
        self._channel = channel
        self._connection: psycopg.Connection[Row] | None = None
        self._may_connect_s = 0.0  # on the monotonic clock
        self._waker = Waker()

    def listen(self, timeout_s: float) -> bool:
        """Whether something may have been committed since the call before; waits for that at most so long."""
        if self._connection is None:
            if timeout_s > 0:
                self._connect(timeout_s)
            return True
        try:
            return self._hear(self._connection, timeout_s)
        except psycopg.Error:
            self._drop_connection()
            return True

    def interrupt(self) -> None:
        """End the call that is under way, or else the next one, at once."""
        self._waker.wake()

    def close(self) -> None:
        """End the session."""
        self._drop_connection()
        self._waker.close()

    def leave_to_parent(self) -> None:
        """Leave the session open: to end it here would end it for the parent."""
        self._waker.close()

    def _hear(self, connection: psycopg.Connection[Row], timeout_s: float) -> bool:
        libpq = connection.pgconn
        if libpq.socket in self._readable(timeout_s, libpq.socket):
            libpq.consume_input()
        heard = False
        while libpq.notifies() is not None:
            heard = True
        return heard

    def _connect(self, timeout_s: float) -> None:
        """Connect, unless that failed a moment ago; then wait a little."""
        if time.monotonic() < self._may_connect_s:
            self._readable(min(timeout_s, LOOK_SECONDS))
            return
        try:
            self._connection = self._connect_to_server()
            self._connection.execute(f"LISTEN {self._channel}".encode())
        except psycopg.Error:
            self._drop_connection()
            self._may_connect_s = time.monotonic() + RETRY_SECONDS

    def _readable(self, timeout_s: float, *descriptors: int) -> list[int]:
        """Those descriptors that can be read, once one of them can, or the waker is woken, or the time is over."""
        ready = select.poll()
        for descriptor in (self._waker.fileno(), *descriptors):
            ready.register(descriptor, select.POLLIN)
        found = [descriptor for descriptor, _ in ready.poll(timeout_s * 1000)]
        if self._waker.fileno() in found:
            self._waker.clear()
        return found

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
