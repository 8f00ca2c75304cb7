"""A task of a connector, as the worker sees it; and what tasks of both kinds share."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from streamkit.connectors.connector import Connector
from streamkit.connectors.redaction import logger_of
from streamkit.connectors.runtime.failed_records import FailedConnector
from streamkit.connectors.runtime.pipeline import RecordFailure
from streamkit.connectors.sink import Sink
from streamkit.connectors.source import Source
from streamkit.errors import ConfigError, SchemaError

_LOGGER = logger_of(__name__)

POLL_SECONDS = 0.5
IDLE_SECONDS = 0.25  # the most between two looks at topics that had nothing new, if no commit is heard of


@dataclass
class TaskProgress:
    """What a task has done since it began; the worker reads it from another thread."""

    rows: int = 0
    failed_rows: int = 0
    commits: int = 0
    lag: int | None = None
    committed_at_ms: int | None = None

    def to_json(self) -> dict[str, int | None]:
        return {
            "rows": self.rows,
            "failed_rows": self.failed_rows,
            "commits": self.commits,
            "lag": self.lag,
            "committed_at_ms": self.committed_at_ms,
        }

    def commit(self, now_ms: int) -> None:
        """Note a commit."""
        self.commits += 1
        self.committed_at_ms = now_ms


@dataclass
class Orders:
    """What the worker tells a task; it looks before each poll."""

    stop: threading.Event = field(default_factory=threading.Event)
    pause: threading.Event = field(default_factory=threading.Event)

    def wait_if_paused(self) -> bool:
        """Whether the task is paused; waits a moment if it is."""
        if self.pause.is_set():
            self.stop.wait(POLL_SECONDS / 5)  # a stop ends the pause, not what it holds back
            return True
        return False


class ConnectorTask(Protocol):
    """One opening of a connector's task: from its committed positions to a stop, the end, or an error."""

    progress: TaskProgress

    def run(self, orders: Orders) -> None: ...


def close(connector: Source | Sink) -> None:
    """Let a connector go. An error of that is logged: what a task has committed stands, and why it ended is said by another error."""
    try:
        connector.close()
    except Exception as error:  # noqa: BLE001  of any connector
        _LOGGER.warning(
            "connector %s: closing it failed: %s", connector.name, connector.redacted(f"{type(error).__name__}: {error}")
        )


def origin_of(connector: Connector, task: int) -> FailedConnector:
    """How dead letters name the task."""
    kind = type(connector)
    return FailedConnector(
        connector.name,
        task,
        f"{kind.__module__}.{kind.__qualname__}",
        connector.settings["errors.deadletterqueue.context.headers.enable"],
        connector.redacted,
    )


def check_columns(connector: Connector, place: str, failures: Sequence[RecordFailure]) -> None:
    """ConfigError where a transform's settings do not fit the columns of the records: no record is to blame, whatever is tolerated."""
    for one in failures:
        if getattr(one.error, "is_of_columns", False):
            said = f"connector {connector.name}, {place}, {one.stage}: {one.error}; no record with these columns can be processed, so correct the setting"
            raise ConfigError(connector.redacted(said)) from one.error


def refuse(connector: Connector, topic: str, places: Sequence[str], failures: Sequence[RecordFailure]) -> None:
    """Raise the first failure with its place, unless the connector tolerates failures."""
    if failures and connector.settings["errors.tolerance"] == "none":
        first = failures[0]
        raise SchemaError(
            connector.redacted(
                f"connector {connector.name}, {places[0] or f'topic {topic}'}, {first.stage}: {first.error}; "
                "to go on without such records, set errors.tolerance=all, and errors.deadletterqueue.topic.name to keep them"
            ),
            (first.row,),
        ) from first.error
