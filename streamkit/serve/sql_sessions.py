"""Sessions of SQL behind the server's paths, and the queries that go on for those who read them, by their ids."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import final

from streamkit.errors import ConfigError, StreamKitError
from streamkit.log.log import Log
from streamkit.names import fresh_token
from streamkit.sql.execution.session_settings import SessionSettings
from streamkit.sql.push.subscription import PushQuery
from streamkit.sql.script.settings import DIALECT, OFFSET_RESET, means_nothing, plain_name
from streamkit.sql.session import SqlSession

COMMANDS_KEPT = 10_000


@dataclass(eq=False)
class OpenQuery:
    """A query that goes on for one who reads it; its session is for it alone. Whether somebody has ended it by its id is kept, too."""

    id: str
    rows: PushQuery
    session: SqlSession
    is_ended: bool = False


@final
class SqlSessions:
    """A session for each request, but for queries that are run once: what those have read of topics is kept for the next one."""

    def __init__(self, log: Log, dialect: str) -> None:
        self._log, self.dialect = log, dialect
        self._kept: dict[str, SqlSession] = {}  # by dialect
        self._open: dict[str, OpenQuery] = {}
        self._commands: dict[str, None] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """
        The settings of a request under StreamKit's names; those that tune ksqlDB or its streams mean nothing here, and are left out.

        ConfigError for any other that there is not comes of the session.
        """
        return {DIALECT: self.dialect, **{plain_name(name): value for name, value in given.items() if not means_nothing(name)}}

    @contextmanager
    def session(self, settings: Mapping[str, str], variables: Mapping[str, str]) -> Iterator[SqlSession]:
        """A session with these settings, which is closed behind the block."""
        session = self._made(settings, variables)
        try:
            yield session
        finally:
            session.close()

    @contextmanager
    def session_that_asks(self, settings: Mapping[str, str], variables: Mapping[str, str]) -> Iterator[SqlSession]:
        """A session for queries that are run once, in which nothing is set: where only a dialect is asked for, it is that of others too."""
        others = {name: value for name, value in settings.items() if name not in (DIALECT, OFFSET_RESET)}
        if others or variables:
            with self.session(settings, variables) as session:
                yield session
            return
        dialect = settings[DIALECT]
        with self._lock:
            if dialect not in self._kept:
                self._kept[dialect] = self._made({DIALECT: dialect}, {})
            session = self._kept[dialect]
        yield session

    def note_commands(self, ids: Iterable[str]) -> None:
        """Keep that statements were executed, by the ids that were given for them; of very many the newest."""
        with self._lock:
            self._commands.update(dict.fromkeys(ids))
            for old in list(self._commands)[:-COMMANDS_KEPT]:
                del self._commands[old]

    def has_command(self, id: str) -> bool:
        """Whether this server has executed a statement of an id, as far as it knows."""
        with self._lock:
            return id in self._commands

    def open(
        self, settings: Mapping[str, str], variables: Mapping[str, str], opening: Callable[[SqlSession], PushQuery]
    ) -> OpenQuery:
        """A query that goes on, as `opening` makes it of a session; SqlError at the place of what is wrong."""
        session = self._made(settings, variables)
        try:
            found = OpenQuery(f"query_{fresh_token()[:12]}", opening(session), session)
        except BaseException:
            session.close()
            raise
        with self._lock:
            self._open[found.id] = found
        return found

    def end(self, id: str) -> bool:
        """End the query of an id for who reads it; returns whether there was one."""
        with self._lock:
            found = self._open.get(id)
        if found is not None:
            found.is_ended = True
            found.rows.close()
        return found is not None

    def leave(self, query: OpenQuery) -> None:
        """Nobody reads a query any more."""
        with self._lock:
            self._open.pop(query.id, None)
        query.session.close()

    def close(self) -> None:
        """End all."""
        with self._lock:
            self._is_closed = True
            sessions = [*self._kept.values(), *(one.session for one in self._open.values())]
            self._kept, self._open = {}, {}
        for session in sessions:
            with suppress(StreamKitError, OSError):  # the log may be gone
                session.close()

    def _made(self, settings: Mapping[str, str], variables: Mapping[str, str]) -> SqlSession:
        if self._is_closed:
            raise ConfigError("the server ends; ask another one")
        session = SqlSession(self._log, settings=settings, runs_scripts=False)
        session.settings = SessionSettings.of(settings, {name.lower(): value for name, value in variables.items()})
        return session
