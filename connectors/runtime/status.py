"""The state of each task, as every worker and the command line see it: a compacted topic, and what is asked of it in another."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from streamkit.connectors.runtime.configurations import read_tasks_max
from streamkit.connectors.runtime.internal_topic import declare_internal_topic, newest_rows
from streamkit.log.log import Log

STATUS, REQUESTS = "__connect_status", "__connect_requests"
RUNNING, PAUSED, FAILED, RESTARTING, STOPPED, UNASSIGNED, DONE = (
    "RUNNING", "PAUSED", "FAILED", "RESTARTING", "STOPPED", "UNASSIGNED", "DONE",
)  # fmt: skip


_STATUS_SCHEMA = (
    "connector string NOT NULL, task int NOT NULL, state string, worker string, class_name string, trace string, "
    "progress string, at_ms bigint"
)
_REQUESTS_SCHEMA = "connector string NOT NULL, is_paused boolean, is_stopped boolean, restarts bigint"
ALIVE_MS = 15_000  # a worker says every few seconds how its tasks are


@dataclass(frozen=True)
class TaskStatus:
    """A task as its worker saw it last; `trace` is why it failed, or is started again, and empty of one that runs."""

    connector: str
    task: int
    state: str
    worker: str
    class_name: str
    trace: str = ""
    progress: str = "{}"
    at_ms: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "connector": self.connector, "task": self.task, "state": self.state, "worker": self.worker, "class": self.class_name,
            "trace": self.trace, **json.loads(self.progress), "at_ms": self.at_ms,
        }  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What was asked of a connector last: to be paused or stopped or neither, and how often its tasks were told to restart."""

    connector: str
    is_paused: bool = False
    is_stopped: bool = False
    restarts: int = 0


def declare_status(log: Log) -> None:
    """Create the topics of states and requests unless they are there."""
    declare_internal_topic(log, STATUS, _STATUS_SCHEMA, ["connector", "task"])
    declare_internal_topic(log, REQUESTS, _REQUESTS_SCHEMA, ["connector"])


def write_status(log: Log, found: Iterable[TaskStatus]) -> None:
    """Publish states."""
    rows = [vars(replace(one, at_ms=log.clock.now_ms())) for one in found]
    if rows:
        with log.producer() as producer:
            producer.send_batch(STATUS, rows)


def read_status(log: Log) -> list[TaskStatus]:
    """
    The newest state of every task, by connector and task; one whose worker is silent is UNASSIGNED.

    Tasks beyond `tasks.max` of the newest configuration are left out: they ended when it was lowered.
    """
    tasks = read_tasks_max(log)
    now_ms = log.clock.now_ms()
    found = [one for one in read_states(log) if one.task < tasks.get(one.connector, one.task + 1)]
    return [_of_living(one, now_ms) for one in found]


def read_states(log: Log) -> list[TaskStatus]:
    """What was published last of every task that there ever was, by connector and task."""
    rows = sorted(newest_rows(log, STATUS, "connector", "task"), key=lambda row: (row["connector"], row["task"]))
    return [TaskStatus(**{name: row[name] for name in TaskStatus.__dataclass_fields__}) for row in rows]


def _of_living(found: TaskStatus, now_ms: int) -> TaskStatus:
    """A task that runs, says its worker; if that worker has not been heard of for long, nobody knows."""
    is_silent = found.state in (RUNNING, PAUSED, RESTARTING) and now_ms - found.at_ms >= ALIVE_MS
    return replace(found, state=UNASSIGNED) if is_silent else found


def read_requests(log: Log) -> dict[str, Request]:
    """What was asked of each connector."""
    names = Request.__dataclass_fields__
    return {row["connector"]: Request(**{name: row[name] for name in names}) for row in newest_rows(log, REQUESTS, "connector")}


def ask(log: Log, connector: str, *, is_paused: bool = False, is_stopped: bool = False) -> Request:
    """Ask the workers of a connector to run, pause or stop it; they look every moment. Who is paused keeps open what it has, who is stopped nothing."""
    return _change(log, replace(_asked(log, connector), is_paused=is_paused, is_stopped=is_stopped))


def ask_restart(log: Log, connector: str) -> Request:
    """Ask the workers of a connector to start its tasks again."""
    known = _asked(log, connector)
    return _change(log, replace(known, restarts=known.restarts + 1))


def _asked(log: Log, connector: str) -> Request:
    declare_status(log)
    return read_requests(log).get(connector, Request(connector))


def _change(log: Log, asked: Request) -> Request:
    with log.producer() as producer:
        producer.send(REQUESTS, vars(asked))
    return asked
