"""A worker: the tasks of connectors in threads, started again after errors that may pass, shared with other workers."""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from streamkit.connectors.connector import Connector
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.back_off import BackOff
from streamkit.connectors.runtime.internal_topic import declare_internal_topic
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.source_task import SourceTask
from streamkit.connectors.runtime.status import TaskStatus
from streamkit.connectors.runtime.task import Orders, Task
from streamkit.connectors.sink import Sink
from streamkit.connectors.source import Source
from streamkit.errors import ConfigError, FencedError, TopicNotFoundError
from streamkit.log.consume.consumer import Consumer, TopicPartition
from streamkit.log.log import Log

_LOGGER = logging.getLogger(__name__)
LOOK_SECONDS = 0.5  # between two looks at members, requests and tasks
REPORT_SECONDS = 5.0
ONCE_TRIES = 3  # of a task that runs once, without anything committed between


@dataclass
class TaskRun:
    """One task on this worker: its thread, its state, and how it is told to stop."""

    connector: Connector
    task: int
    orders: Orders = field(default_factory=Orders)
    back_off: BackOff = field(default_factory=BackOff)
    state: str = status.UNASSIGNED
    trace: str = ""
    error: Exception | None = None
    running: Task | None = None
    thread: threading.Thread | None = None

    def status(self, worker: str) -> TaskStatus:
        """The state as it is published."""
        kind = type(self.connector)
        progress = json.dumps(self.running.progress.to_json() if self.running else {})
        state = status.PAUSED if self.state == status.RUNNING and self.orders.pause.is_set() else self.state
        return TaskStatus(
            self.connector.name, self.task, state, worker, f"{kind.__module__}.{kind.__qualname__}", self.trace, progress
        )


@final
class Worker:
    """
    Runs connectors until it is stopped; several workers of a log share the tasks of a connector.

    Each connector has a topic with a partition for each task. Workers read these topics as members of a group: who is given
    a partition runs the task. With `is_once` a worker runs all tasks by itself, to the end of what is there.
    """

    def __init__(
        self, connectors: Sequence[Connector], log: Log, *, is_once: bool = False, session_timeout_ms: int = 10_000
    ) -> None:
        names = [connector.name for connector in connectors]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"two connectors are called {twice}; expected names that differ")
        self.name = f"{socket.gethostname()}-{os.getpid()}-{id(self):x}"
        self._connectors = {connector.name: connector for connector in connectors}
        self._log = log
        self._is_once = is_once
        self._session_timeout_ms = session_timeout_ms
        self._runs: dict[tuple[str, int], TaskRun] = {}
        self._restarts: dict[str, int] = {}
        self._published: dict[tuple[str, int], TaskStatus] = {}
        self._stop = threading.Event()
        self._main: threading.Thread | None = None
        self._failure: BaseException | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Worker:
        """Begin, in a thread of its own; returns this worker."""
        status.declare_status(self._log)
        self._restarts = {name: asked.restarts for name, asked in status.read_requests(self._log).items()}
        self._main = threading.Thread(target=self._run, name="connect", daemon=True)
        self._main.start()
        return self

    def stop(self) -> None:
        """End all tasks after what they are doing, leave the groups, and wait for both."""
        self._stop.set()
        self.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """
        Wait until the worker has ended, at most `timeout` seconds; whether it has.

        Raises the error of a task that failed, if the worker runs once.
        """
        if self._main is not None:
            self._main.join(timeout)
            if self._main.is_alive():
                return False
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return True

    def check(self) -> None:
        """Raise the error of a task of this worker that has failed, if one has."""
        failed = next((run.error for run in list(self._runs.values()) if run.state == status.FAILED and run.error), None)
        if failed is not None:
            raise failed
        if self._failure is not None:
            raise self._failure

    def status(self) -> list[TaskStatus]:
        """The tasks of this worker, by connector and task."""
        return [run.status(self.name) for _, run in sorted(self._runs.items())]

    # The worker's own thread

    def _run(self) -> None:
        try:
            if self._is_once:
                self._run_once()
            else:
                self._run_shared()
        except BaseException as error:  # noqa: BLE001  whoever waits gets it
            self._failure = error
        finally:
            self._end(list(self._runs))
            self._report(is_due=True)

    def _run_once(self) -> None:
        """Run the sources to their end, then the sinks, so that what came in goes out."""
        for kind in (Source, Sink):
            self._run_to_end([one for one in self._connectors.values() if isinstance(one, kind)])
        failed = [run for run in self._runs.values() if run.error is not None]
        if failed:
            self._failure = failed[0].error

    def _run_to_end(self, connectors: Sequence[Connector]) -> None:
        for connector in connectors:
            for task in range(connector.settings["tasks.max"]):
                self._begin(connector.name, task)
        while any(_is_alive(run) for run in self._runs.values()) and not self._stop.wait(LOOK_SECONDS / 10):
            self._follow_requests()

    def _run_shared(self) -> None:
        consumers = [self._member(connector) for connector in self._connectors.values()]
        since_report = 0.0
        try:
            while not self._stop.is_set():
                for consumer in consumers:
                    consumer.poll(0.0)
                self._follow_requests()
                since_report += LOOK_SECONDS
                self._report(is_due=since_report >= REPORT_SECONDS)
                since_report %= REPORT_SECONDS
                self._stop.wait(LOOK_SECONDS)
        finally:
            self._end(list(self._runs))
            for consumer in consumers:
                consumer.close()

    def _member(self, connector: Connector) -> Consumer:
        """A member of the group that shares the tasks of a connector."""
        topic = f"__connect_tasks.{connector.name}"
        declare_internal_topic(self._log, topic, "task int", partitions=connector.settings["tasks.max"])
        return self._log.consumer(
            topic,
            f"connect-{connector.name}-tasks",
            session_timeout_ms=self._session_timeout_ms,
            on_assigned=self._take,
            on_revoked=self._give,
            on_lost=self._give,
        )

    def _take(self, places: list[TopicPartition]) -> None:
        for place in places:
            self._begin(*_task_of(place))

    def _give(self, places: list[TopicPartition]) -> None:
        self._end([_task_of(place) for place in places])

    def _begin(self, name: str, task: int) -> None:
        connector = self._connectors[name]
        if task >= connector.settings["tasks.max"]:
            return  # of an earlier configuration with more tasks
        run = TaskRun(connector, task)
        self._runs[name, task] = run
        run.thread = threading.Thread(target=self._work, args=(run,), name=f"connect-{name}-{task}", daemon=True)
        run.thread.start()

    def _end(self, keys: Sequence[tuple[str, int]]) -> None:
        runs = [self._runs[key] for key in keys if key in self._runs]
        for run in runs:
            run.orders.stop.set()
        for run in runs:
            if run.thread is not None:
                run.thread.join()
            if run.state not in (status.FAILED, status.DONE):
                run.state = status.STOPPED
        if not self._stop.is_set() and not self._is_once:
            for key in keys:
                self._runs.pop(key, None)

    def _follow_requests(self) -> None:
        for name, asked in status.read_requests(self._log).items():
            mine = [run for (connector, _), run in self._runs.items() if connector == name]
            for run in mine:
                (run.orders.pause.set if asked.is_paused else run.orders.pause.clear)()
            if mine and asked.restarts != self._restarts.get(name, 0):
                self._restarts[name] = asked.restarts
                tasks = [run.task for run in mine]
                self._end([(name, task) for task in tasks])
                for task in tasks:
                    self._begin(name, task)

    def _report(self, *, is_due: bool) -> None:
        """Publish the states that have changed; all of them now and then."""
        found = {key: run.status(self.name) for key, run in self._runs.items()}
        news = [
            one for key, one in found.items() if is_due or key not in self._published or self._published[key].state != one.state
        ]
        self._published = found
        status.write_status(self._log, news)

    # The thread of a task

    def _work(self, run: TaskRun) -> None:
        while not run.orders.stop.is_set():
            try:
                run.state = status.RUNNING
                run.running = self._task(run)
                run.running.run(run.orders)
                run.state = status.DONE if self._is_once and not run.orders.stop.is_set() else status.STOPPED
                return
            except Exception as error:  # noqa: BLE001  of any connector
                if not self._may_go_on(run, error):
                    return

    def _task(self, run: TaskRun) -> Task:
        again = run.connector.again()
        tasks = run.connector.settings["tasks.max"]
        if isinstance(again, Source):
            return SourceTask(again, run.task, tasks, self._log, is_once=self._is_once)
        assert isinstance(again, Sink)
        return SinkTask(again, run.task, tasks, self._log, is_once=self._is_once)

    def _passes(self, run: TaskRun, error: Exception) -> bool:
        """Whether an error may go away by itself, and there is time to wait for that."""
        if isinstance(error, FencedError):
            return False
        if self._is_once:
            return run.connector.is_retryable(error) and run.back_off.failures < ONCE_TRIES
        return run.connector.is_retryable(error) or isinstance(error, TopicNotFoundError)

    def _may_go_on(self, run: TaskRun, error: Exception) -> bool:
        """Note an error of a task; whether it is tried again, after a wait."""
        if run.running is not None and run.running.progress.commits:
            run.back_off.reset()
        run.trace = run.connector.redacted("".join(traceback.format_exception(error)))
        if self._passes(run, error):
            run.state = status.RESTARTING
            wait_s = run.back_off.next_s()
            _LOGGER.warning(
                "connector %s, task %d: %s; trying again in %.1f s", run.connector.name, run.task, _line(run, error), wait_s
            )
            run.orders.stop.wait(wait_s)
            return True
        run.state = status.FAILED
        run.error = error
        _LOGGER.error("connector %s, task %d failed: %s", run.connector.name, run.task, _line(run, error))
        return False


def run(connectors: Sequence[Connector], log: Log, *, once: bool = False) -> Worker:
    """
    Run connectors on a log, and return the worker.

    With `once`, what is there now is moved, and this returns when all of it is; the first error of a task is raised.
    Else the worker goes on in threads: `stop()` ends it, `wait()` waits for its end, `status()` says how it is.
    """
    worker = Worker(connectors, log, is_once=once).start()
    if once:
        worker.wait()
    return worker


def _is_alive(run: TaskRun) -> bool:
    return run.thread is not None and run.thread.is_alive()


def _task_of(place: TopicPartition) -> tuple[str, int]:
    return place.topic.removeprefix("__connect_tasks."), place.partition


def _line(run: TaskRun, error: Exception) -> str:
    return run.connector.redacted(f"{type(error).__name__}: {error}")
