"""Whether the server lives, and whether the log can be asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, final

from streamkit.log.database.sqlite import IN_MEMORY, SqliteDatabase
from streamkit.log.log import Log
from streamkit.log.storage.inline_storage import is_in_memory
from streamkit.serve.refusals import RefusedError
from streamkit.serve.resource import Asked, Resource

BRINGS_BACK = "bring it back, or start the server again with the log that is wanted"


@dataclass(frozen=True)
class Health:
    """How a part is."""

    status: str


@final
class LogPresence:
    """Sees whether the folder of a log, and the file of its catalog, are those of before: an open catalog answers also when it was deleted underneath."""

    def __init__(self, log: Log) -> None:
        self._root = None if is_in_memory(log.storage) else log.root
        database = log.catalog.database
        self._catalog = database.path if isinstance(database, SqliteDatabase) and database.path != IN_MEMORY else None
        self._identity = self._found()

    def check(self) -> None:
        """503 if the log is gone."""
        if self.is_there:
            return
        raise RefusedError(
            503,
            "LogGone",
            self.what_is_gone,
            BRINGS_BACK,
            {"Retry-After": "5"},
        )

    @property
    def what_is_gone(self) -> str:
        """What is said of a log that is gone."""
        catalog = "" if self._catalog is None else f", or its catalog {self._catalog},"
        return f"the log at {self._root}{catalog} was deleted, or another one took its place, since the server was started"

    @property
    def is_there(self) -> bool:
        """Whether folder and catalog are still those of before."""
        return self._root is None or self._found() == self._identity

    def _found(self) -> list[tuple[int, int]] | None:
        try:
            found = [os.stat(path) for path in (self._root or ".", self._catalog) if path is not None]
        except OSError:
            return None
        return [(one.st_dev, one.st_ino) for one in found]


def live(asked: Asked) -> dict[str, Any]:
    return {"status": "live"}


def ready(asked: Asked) -> dict[str, Any]:
    """The catalog answers."""
    asked.log.catalog.topics.every()
    return {"status": "ready"}


RESOURCES = (
    Resource("/health/live", "The server lives.", live, Health, is_open=True),
    Resource("/health/ready", "Whether the log can be read; 503 says why not.", ready, Health, is_open=True),
)
