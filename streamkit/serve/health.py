"""Whether the server lives, and whether the log can be asked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, final

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
    """Sees whether the folder of a log is the one that it was: an open catalog goes on to answer when it was deleted underneath."""

    def __init__(self, log: Log) -> None:
        self._root = None if is_in_memory(log.storage) else log.root
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
        return f"the log at {self._root} was deleted, or another one took its place, since the server was started"

    @property
    def is_there(self) -> bool:
        """Whether the folder is still the one that it was."""
        return self._root is None or self._found() == self._identity

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._root or ".")
        except OSError:
            return None
        return found.st_dev, found.st_ino


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
