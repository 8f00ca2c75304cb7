"""States of persistent queries."""

from __future__ import annotations

from dataclasses import dataclass

RUNNING, WAITING, PAUSED, FAILED, TERMINATED = "RUNNING", "WAITING", "PAUSED", "ERROR", "TERMINATED"


@dataclass(frozen=True)
class QueryState:
    """
    The state that a query has come to, which runs as an application; `text` says why, where there is more to say.

    `version` grows with each change of the query: by PAUSE, RESUME and OR REPLACE.
    """

    query: str
    application: str
    version: int
    state: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.query}, version {self.version}: {self.state}{f', {self.text}' if self.text else ''}"
