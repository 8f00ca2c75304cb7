"""A session that is made in the background, so that a prompt is there at once."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamkit.log.log import Log
    from streamkit.sql.session import SqlSession


class LoadedSession:
    """
    The session of a log. A thread opens it, because loading its modules takes a second or two.

    The log is made if it is missing, as by `streamkit topics create`. With an `engine` the session also runs the log's persistent queries.
    """

    def __init__(self, location: str | None, settings: dict[str, str], engine: str | None = None) -> None:
        self._location, self._settings, self._engine = location, settings, engine
        self._log: Log | None = None
        self._session: SqlSession | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._load, name="sql session", daemon=True)
        self._thread.start()

    def _load(self) -> None:
        try:
            from streamkit.cli.terminal.location import wanted_location
            from streamkit.log.opening import open_log
            from streamkit.sql.running.engines import checked_engine
            from streamkit.sql.session import SqlSession

            self._log = open_log(wanted_location(self._location))
            self._session = SqlSession(self._log, None if self._engine is None else checked_engine(self._engine), self._settings)
        except BaseException as error:  # noqa: BLE001  raised where the session is asked for
            self._failure = error

    @property
    def is_there(self) -> bool:
        """Whether nobody has to wait for it any more."""
        return not self._thread.is_alive()

    def get(self) -> SqlSession:
        """The session; waits until it is open, and raises the error if it could not be opened."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        assert self._session is not None, "it is there, or has failed"
        return self._session

    def close(self) -> None:
        """Give the log back."""
        self._thread.join()
        if self._session is not None:
            self._session.close()
        if self._log is not None:
            self._log.close()
