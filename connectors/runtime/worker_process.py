"""
A worker in a process of its own, so that connectors and the epochs of an application do not wait for each other.

It takes no orders. Its answers are `{"unfit": reason}` in place of being ready, where a connector cannot be made there; then
`{"started": true}`, `{"failed": error}` for a task that failed, and `{"ended": error}` once the worker has ended, with null if all is well.
"""

from __future__ import annotations

import base64
import pickle
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, final

from streamkit.background_process import BackgroundProcess, ServedApplication
from streamkit.config import Settings
from streamkit.connectors.classes import connector_of
from streamkit.connectors.connector import Connector
from streamkit.connectors.redaction import logger_of
from streamkit.connectors.runtime.back_off import BackOff
from streamkit.connectors.runtime.worker import STOP_SECONDS, Worker
from streamkit.errors import StreamKitError
from streamkit.log.log import Log
from streamkit.log.opening import open_log

_LOGGER = logger_of(__name__)
CHECK_SECONDS = 0.2  # between two looks at the tasks
MORE_SECONDS = 5.0  # for the end of the process, after that of its tasks


@final
class WorkerProcess:
    """
    Runs connectors, by name and configuration, in a process of its own until it is stopped; one that dies is started again.

    The log must be one that `opens_elsewhere`.
    """

    def __init__(self, configurations: Mapping[str, Mapping[str, Any]], log: Log) -> None:
        begin = {"location": log.location, "settings": asdict(log.settings), "connectors": configurations}
        self._process = BackgroundProcess(__name__, begin)
        self._names = ", ".join(configurations)
        self._listener = threading.Thread(target=self._listen, name="connect-process", daemon=True)
        self._stopped = threading.Event()
        self._error: Exception | None = None

    def start(self) -> WorkerProcess:
        """Begin; returns this. SetupError if no process can run these connectors; else what the start of a worker raises."""
        self._begin()
        if self._error is not None:
            raise self._error
        self._listener.start()
        return self

    def check(self) -> None:
        """Raise the error of a task that has failed, if one has."""
        if self._error is not None:
            raise self._error

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the worker has ended, at most `timeout` seconds; whether it has. Raises the error it ended with."""
        self._listener.join(timeout)
        if self._listener.is_alive():
            return False
        self.check()
        return True

    def stop(self) -> None:
        """End all tasks after what they are doing, and wait for that."""
        self._stopped.set()
        self._process.close(STOP_SECONDS + MORE_SECONDS)
        if self._listener.is_alive():
            self._listener.join()

    def _begin(self) -> None:
        """Start the process, and hear whether its worker has begun."""
        if self._process.start():
            self._take(self._process.answer())

    def _listen(self) -> None:
        """Take what the process says, and start another one when it dies."""
        back_off = BackOff()
        while not self._stopped.is_set():
            if self._take(self._process.answer()):
                continue
            if self._stopped.is_set() or self._error is not None:
                return
            wait_s = back_off.next_s()
            _LOGGER.warning(
                "the process that runs %s %s; another one is started in %.1f s", self._names, self._process.end, wait_s
            )
            self._stopped.wait(wait_s)
            try:
                self._begin()
            except StreamKitError as error:
                self._error = error

    def _take(self, answer: tuple[str, Any] | None) -> bool:
        """Note an error that the process tells; whether it goes on."""
        if answer is None:
            return False
        kind, content = answer
        if content is not True and content is not None:
            self._error = _decoded(content)
        return kind != "ended"


def worker_processes(configurations: Mapping[str, Mapping[str, Any]], log: Log, count: int) -> Sequence[WorkerProcess]:
    """Processes that have begun and share the tasks of these connectors; SetupError if they cannot."""
    found: list[WorkerProcess] = []
    try:
        for _ in range(count):
            found.append(WorkerProcess(configurations, log).start())
    except BaseException:
        for one in found:
            one.stop()
        raise
    return found


def serve(begin: Mapping[str, Any]) -> None:
    """What the process does, until its input ends or the application is gone."""
    has_ended = threading.Event()
    application = ServedApplication(on_end=has_ended.set)
    with suppress(BrokenPipeError):
        try:
            connectors = [connector_of(name, config) for name, config in begin["connectors"].items()]
        except Exception as error:  # noqa: BLE001 (they were made in the application, which can run them)
            application.say(unfit=f"{type(error).__name__}: {error}")
            return
        application.say(ready=True)
        with open_log(begin["location"]) as log:
            log.settings = Settings(**begin["settings"])
            application.say(ended=_run(connectors, log, application))


def _run(connectors: Sequence[Connector], log: Log, application: ServedApplication) -> str | None:
    """Run the connectors until the application wants no more; the error that ended the worker, if one has."""
    worker = Worker(connectors, log)
    try:
        worker.start()
        application.say(started=True)
        told: Exception | None = None
        for _ in application.orders(CHECK_SECONDS):
            if worker.wait(0):
                return None
            try:
                worker.check()
            except Exception as error:  # noqa: BLE001 (of any connector; the application raises it)
                if error is not told:
                    application.say(failed=_encoded(error))
                told = error
        worker.stop()
    except BrokenPipeError:
        worker.stop()
        raise
    except Exception as error:  # noqa: BLE001 (the application raises it)
        return _encoded(error)
    return None


def _encoded(error: Exception) -> str:
    """An error as text; one that cannot travel is told in words."""
    try:
        content = pickle.dumps(error)
        pickle.loads(content)  # noqa: S301 (it was made a line above)
    except Exception:  # noqa: BLE001 (whatever a foreign class does)
        content = pickle.dumps(StreamKitError(f"{type(error).__name__}: {error}"))
    return base64.b64encode(content).decode("ascii")


def _decoded(text: str) -> Exception:
    """The error; the pipe it came by is this application's own."""
    found = pickle.loads(base64.b64decode(text))  # noqa: S301
    assert isinstance(found, Exception)
    return found
