"""A worker: the tasks of connectors in threads, started again after errors that may pass, shared with other workers."""

from __future__ import annotations

import os
import socket
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import final

from streamkit.connectors.connector import Connector
from streamkit.connectors.redaction import logger_of, redact_error
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.back_off import BackOff
from streamkit.connectors.runtime.configurations import OutdatedError, check_configuration, publish_configuration
from streamkit.connectors.runtime.internal_topic import declare_internal_topic
from streamkit.connectors.runtime.sink_task import SinkTask
from streamkit.connectors.runtime.source_task import SourceTask, producer_name
from streamkit.connectors.runtime.status import Request, TaskStatus
from streamkit.connectors.runtime.task import ConnectorTask
from streamkit.connectors.runtime.task_run import TaskRun
from streamkit.connectors.sink import Sink
from streamkit.connectors.source import Source
from streamkit.errors import ConfigError, FencedError, StreamKitError, TopicNotFoundError
from streamkit.log.consume.consumer import Consumer, TopicPartition
from streamkit.log.log import Log

_LOGGER = logger_of(__name__)
LOOK_SECONDS = 0.5  # between two looks at members, requests and tasks
REPORT_SECONDS = 5.0
ONCE_SECONDS = 0.05
STOP_SECONDS = 30.0  # after which a task that hangs is left behind
ONCE_TRIES = 3  # of a task that runs once, without anything committed between


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
        self._requests: dict[str, Request] = {}
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
        self._requests = status.read_requests(self._log)
        for connector in self._connectors.values():
            self._check_wanted(connector)
            self._bring(connector)
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

    def redacted(self, text: str) -> str:
        """A text without the secrets of the connectors."""
        for connector in self._connectors.values():
            text = connector.redacted(text)
        return text

    def _check_wanted(self, connector: Connector) -> None:
        asked = self._asked(connector.name)
        if self._is_once and (asked.is_paused or asked.is_stopped):
            raise ConfigError(
                f"the connector {connector.name} is {'stopped' if asked.is_stopped else 'paused'}, so it cannot be run once; "
                f"first: streamkit connect resume {connector.name}"
            )

    def _bring(self, connector: Connector) -> None:
        """Make this worker's configuration the one that counts. Tasks that were cut otherwise are fenced: they share their splits with ours."""
        changed = publish_configuration(self._log, connector, self.name)
        if changed:
            _LOGGER.warning("connector %s: these settings are others than before: %s", connector.name, ", ".join(changed))
        if "tasks.max" in changed:
            for task in range(max(self._tasks_ever(connector), connector.settings["tasks.max"])):
                self._log.catalog.producers.open(producer_name(connector.name, task))

    def _tasks_ever(self, connector: Connector) -> int:
        found = [one.task + 1 for one in status.read_states(self._log) if one.connector == connector.name]
        topic = _tasks_topic(connector.name)
        return max([*found, self._log.topic(topic).partitions if topic in self._log.topics(internal=True) else 0])

    def _asked(self, name: str) -> Request:
        return self._requests.get(name, Request(name))

    # The worker's own thread

    def _run(self) -> None:
        try:
            if self._is_once:
                self._run_once()
            else:
                self._run_shared()
        except BaseException as error:  # noqa: BLE001  whoever waits gets it
            self._failure = error

    def _run_once(self) -> None:
        """Run the sources to their end, then the sinks, so that what came in goes out."""
        try:
            for kind in (Source, Sink):
                self._run_to_end([one for one in self._connectors.values() if isinstance(one, kind)])
        finally:
            self._end(list(self._runs), STOP_SECONDS)
            self._report(is_due=True)
        failed = [run for run in self._runs.values() if run.error is not None]
        if failed:
            self._failure = failed[0].error

    def _run_to_end(self, connectors: Sequence[Connector]) -> None:
        for connector in connectors:
            for task in range(connector.settings["tasks.max"]):
                self._begin(connector.name, task)
        look = time.monotonic() + LOOK_SECONDS
        while any(run.is_alive for run in self._runs.values()) and not self._stop.wait(ONCE_SECONDS):
            if time.monotonic() >= look:
                self._follow_requests()
                self._report(is_due=False)
                look = time.monotonic() + LOOK_SECONDS

    def _run_shared(self) -> None:
        consumers = {name: self._member(connector) for name, connector in self._connectors.items()}
        try:
            self._look(consumers)
        finally:
            self._end(list(self._runs), STOP_SECONDS)
            with suppress(StreamKitError, OSError):  # the log may be gone; then nobody can be told
                self._report(is_due=True)  # before others may take over: what they publish is newer
            for consumer in consumers.values():
                with suppress(StreamKitError, OSError):
                    consumer.close()

    def _look(self, consumers: dict[str, Consumer]) -> None:
        """Follow assignments and requests, and publish states, until the worker is stopped."""
        report, back_off = time.monotonic() + REPORT_SECONDS, BackOff()
        while not self._stop.is_set():
            try:
                is_due = time.monotonic() >= report
                for name in [name for name in consumers if is_due or self._is_in_doubt(name)]:
                    self._leave_if_outdated(name, consumers)
                for consumer in consumers.values():
                    consumer.poll(0.0)
                self._follow_requests()
                self._report(is_due=is_due)
            except (StreamKitError, OSError) as error:
                if not getattr(error, "is_retryable", isinstance(error, ConnectionError | TimeoutError)):
                    raise
                _LOGGER.warning("the log cannot be reached: %s; trying again", error)
                self._stop.wait(min(back_off.next_s(), REPORT_SECONDS))
                continue
            report = time.monotonic() + REPORT_SECONDS if is_due else report
            back_off.reset()
            self._stop.wait(LOOK_SECONDS)

    def _is_in_doubt(self, name: str) -> bool:
        """Whether a task has ended in a way that a newer configuration explains."""
        return any(isinstance(run.error, OutdatedError) for (connector, _), run in self._runs.items() if connector == name)

    def _leave_if_outdated(self, name: str, consumers: dict[str, Consumer]) -> None:
        """Leave a connector to the workers that have its newer configuration. If nothing is left, the worker ends with an error that says so."""
        try:
            check_configuration(self._log, self._connectors[name])
        except OutdatedError as error:
            keys = [key for key in self._runs if key[0] == name]
            self._end(keys, self._session_timeout_ms / 2_000)
            for key in keys:
                self._runs.pop(key, None)
            consumers.pop(name).close()
            if not consumers:
                raise
            _LOGGER.warning("connector %s is left to other workers: %s", name, error)

    def _member(self, connector: Connector) -> Consumer:
        """A member of the group that shares the tasks of a connector."""
        topic = _tasks_topic(connector.name)
        declare_internal_topic(self._log, topic, "task int", partitions=connector.settings["tasks.max"])
        return self._log.consumer(
            topic,
            topic,  # a name that no connector gives a group: that of a sink is connect-NAME, whatever its name ends with
            session_timeout_ms=self._session_timeout_ms,
            on_assigned=self._take,
            on_revoked=self._give,
            on_lost=self._give,
        )

    def _take(self, places: list[TopicPartition]) -> None:
        for place in places:
            self._begin(*_task_of(place))

    def _give(self, places: list[TopicPartition]) -> None:
        if self._stop.is_set():
            return  # all tasks have been told already, and their states are kept
        keys = [_task_of(place) for place in places]
        self._end(keys, self._session_timeout_ms / 2_000)
        for key in keys:
            self._runs.pop(key, None)

    def _begin(self, name: str, task: int) -> None:
        connector = self._connectors[name]
        if task >= connector.settings["tasks.max"]:
            return  # of an earlier configuration with more tasks
        run, asked = TaskRun(connector, task), self._asked(name)
        self._runs[name, task] = run
        if asked.is_stopped:
            run.is_parked, run.state = True, status.STOPPED
            return
        if asked.is_paused:
            run.orders.pause.set()
        run.thread = threading.Thread(target=self._work, args=(run,), name=f"connect-{name}-{task}", daemon=True)
        run.thread.start()

    def _end(self, keys: Sequence[tuple[str, int]], wait_s: float) -> None:
        """
        Tell tasks to stop, and wait for them.

        One that hangs in a foreign call is left behind after `wait_s` seconds: whoever runs it next fences it.
        """
        runs = [self._runs[key] for key in keys if key in self._runs]
        for run in runs:
            run.orders.stop.set()
        self._log.catalog.end_waits()
        until = time.monotonic() + wait_s
        for run in runs:
            if not run.end(until):
                _LOGGER.warning(
                    "connector %s, task %d does not stop, and is left behind: what it has not committed by now, another does",
                    run.connector.name, run.task,
                )  # fmt: skip

    def _follow_requests(self) -> None:
        before, self._requests = self._requests, status.read_requests(self._log)
        for name in self._connectors:
            asked, known = self._asked(name), before.get(name, Request(name))
            mine = [run for (connector, _), run in self._runs.items() if connector == name]
            for run in mine:
                (run.orders.pause.set if asked.is_paused else run.orders.pause.clear)()
            if asked.is_stopped:
                self._park([run for run in mine if not run.is_parked])
            elif asked.restarts != known.restarts:
                self._begin_again(mine)
            else:
                self._begin_again([run for run in mine if run.is_parked])

    def _park(self, runs: Sequence[TaskRun]) -> None:
        self._end([(run.connector.name, run.task) for run in runs], STOP_SECONDS)
        for run in runs:
            run.is_parked = True

    def _begin_again(self, runs: Sequence[TaskRun]) -> None:
        self._end([(run.connector.name, run.task) for run in runs], STOP_SECONDS)
        for run in runs:
            self._begin(run.connector.name, run.task)

    def _report(self, *, is_due: bool) -> None:
        """Publish the states that have changed; all of them now and then."""
        if is_due:
            for run in self._runs.values():
                run.measure()
        found = {key: run.status(self.name) for key, run in self._runs.items()}
        news = [
            one for key, one in found.items() if is_due or key not in self._published or self._published[key].state != one.state
        ]
        status.write_status(self._log, news)
        self._published = found

    # The thread of a task

    def _work(self, run: TaskRun) -> None:
        try:
            while not run.orders.stop.is_set():
                try:
                    run.state = status.RUNNING
                    run.running = self._task(run)
                    run.running.run(run.orders)
                except Exception as error:  # noqa: BLE001  of any connector
                    if not self._may_go_on(run, error):
                        return
                else:
                    if self._is_once and not run.orders.stop.is_set():
                        run.state = status.DONE
                        return
        finally:
            if run.orders.stop.is_set() and run.state != status.FAILED:
                run.state = status.STOPPED
            elif run.state == status.RUNNING:  # what ended it is no Exception
                run.state = status.FAILED

    def _task(self, run: TaskRun) -> ConnectorTask:
        again = run.connector.again()
        tasks = run.connector.settings["tasks.max"]
        check = partial(check_configuration, self._log, run.connector)
        if isinstance(again, Source):
            return SourceTask(again, run.task, tasks, self._log, is_once=self._is_once, check=check)
        assert isinstance(again, Sink)
        return SinkTask(again, run.task, tasks, self._log, is_once=self._is_once, check=check)

    def _passes(self, run: TaskRun, error: Exception) -> bool:
        """Whether an error may go away by itself, and there is time to wait for that."""
        if self._is_once:
            is_fenced = isinstance(error, FencedError)
            return run.connector.is_retryable(error) and not is_fenced and run.back_off.failures < ONCE_TRIES
        return run.connector.is_retryable(error) or isinstance(error, TopicNotFoundError | FencedError)

    def _outdated(self, connector: Connector) -> OutdatedError | None:
        """Whether a newer configuration is why a task was fenced."""
        try:
            check_configuration(self._log, connector)
        except OutdatedError as error:
            return error
        except (StreamKitError, OSError):
            return None
        return None

    def _may_go_on(self, run: TaskRun, error: Exception) -> bool:
        """Note an error of a task; whether it is tried again, after a wait."""
        if run.orders.stop.is_set() and isinstance(error, FencedError):
            return False  # another worker has taken over, as it should
        if run.running is not None and run.running.progress.commits:
            run.back_off.reset()
        if isinstance(error, FencedError):
            error = self._outdated(run.connector) or error
        run.trace = _line(run, error) + run.connector.redacted(_place_of(error))
        if self._passes(run, error):
            run.state = status.RESTARTING
            wait_s = run.back_off.next_s()
            if isinstance(error, FencedError):  # whoever fenced it has it now; it is ours if the group still says so
                wait_s = max(wait_s, 1.5 * self._session_timeout_ms / 1_000)
            _LOGGER.warning(
                "connector %s, task %d: %s; trying again in %.1f s", run.connector.name, run.task, _line(run, error), wait_s
            )
            run.orders.stop.wait(wait_s)
            return True
        redact_error(error, run.connector.redacted)  # it is raised to whoever waits for the worker
        run.state = status.FAILED
        run.error = error
        _LOGGER.error(
            "connector %s, task %d failed: %s%s",
            run.connector.name,
            run.task,
            _line(run, error),
            run.connector.redacted(_trace_of(run.connector, error)),
        )
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


def _tasks_topic(name: str) -> str:
    return f"__connect_tasks.{name}"


def _task_of(place: TopicPartition) -> tuple[str, int]:
    return place.topic.removeprefix("__connect_tasks."), place.partition


def _place_of(error: BaseException) -> str:
    """Where an error was raised that is not StreamKit's own: such a one says little of itself."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, StreamKitError) or not frames:
        return ""
    return f"\n  raised at {frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}"


def _trace_of(connector: Connector, error: Exception) -> str:
    """The traceback of an error that is not StreamKit's own, nor that of a server which is gone, as far as a connector of its own can tell."""
    is_own = type(connector).__module__.startswith("streamkit.")
    is_gone = isinstance(error, ConnectionError | TimeoutError) or (is_own and connector.is_retryable(error))
    return "" if is_gone or isinstance(error, StreamKitError) else "\n" + "".join(traceback.format_exception(error)).rstrip()


def _line(run: TaskRun, error: Exception) -> str:
    return run.connector.redacted(f"{type(error).__name__}: {error}")
