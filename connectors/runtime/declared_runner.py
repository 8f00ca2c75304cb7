"""Runs the connectors that statements have declared, and follows each new, changed or dropped declaration."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import final

from streamkit.connectors.redaction import logger_of
from streamkit.connectors.runtime.back_off import BackOff
from streamkit.connectors.runtime.configurations import OutdatedError
from streamkit.connectors.runtime.declared_connectors import DeclaredConnector, forget_runs, read_declared
from streamkit.connectors.runtime.worker import Worker
from streamkit.connectors.runtime.worker_process import WorkerProcess
from streamkit.errors import SetupError, StreamKitError
from streamkit.log.catalog.follower import follow_catalog
from streamkit.log.log import Log

PAUSE_SECONDS = 0.05  # between two looks, however many commits there are

_LOGGER = logger_of(__name__)


class RunningConnector:
    """A declared connector and its worker: a process where the log can be opened there, so that it holds up no query; else threads."""

    def __init__(self, log: Log, declared: DeclaredConnector) -> None:
        self.declared = declared
        self._log = log
        self._worker: Worker | WorkerProcess | None = None
        self._back_off = BackOff()
        self._retry_s = 0.0
        self._told = ""

    def look(self) -> None:
        """Start its worker, unless it runs, or the wait after an error has not passed; an error is logged once."""
        if self._worker is not None or self._retry_s > time.monotonic():
            self._check()
            return
        try:
            self._worker = self._started()
        except Exception as error:  # noqa: BLE001  of any connector; it harms no other
            self._note(error)

    def stop(self) -> None:
        """End its tasks; each finishes its present work first."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        try:
            worker.stop()
        except Exception as error:  # noqa: BLE001  (the connector is over, so an earlier error does not matter)
            _LOGGER.warning("connector %s has not ended well: %s", self.declared.name, error)

    def _started(self) -> Worker | WorkerProcess:
        made = self.declared.made()  # this process reports a wrong setting
        if self._log.opens_elsewhere:
            try:
                return WorkerProcess({self.declared.name: dict(self.declared.settings)}, self._log).start()
            except SetupError as error:
                _LOGGER.info("connector %s runs in threads of this process: %s", self.declared.name, error)
        return Worker([made], self._log).start()

    def _check(self) -> None:
        """See whether the worker goes on; one that has ended is started again, after a wait."""
        if self._worker is None:
            return
        try:
            if not self._worker.wait(0):
                return
            error: Exception = StreamKitError("its worker has ended")
        except Exception as ended:  # noqa: BLE001  (as above)
            error = ended
        if isinstance(self._worker, WorkerProcess):
            self._worker.stop()
        self._worker = None
        self._note(error)

    def _note(self, error: Exception) -> None:
        wait_s = self._back_off.next_s()
        self._retry_s = time.monotonic() + wait_s
        text = f"{type(error).__name__}: {error}"
        if text != self._told and not isinstance(
            error, OutdatedError
        ):  # a statement has changed it, which is seen at the next look
            _LOGGER.error(
                "connector %s: %s; it is tried again in %.1f s, and then after longer waits", self.declared.name, text, wait_s
            )
        self._told = text


@final
class DeclaredRunner:
    """
    Runs the connectors that statements have declared on a log, each with a worker of its own, until it is closed.

    Several runners on a log share their tasks, as workers with one file do.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._running: dict[str, RunningConnector] = {}
        self._seen: int | None = None
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._live, name="streamkit-declared-connectors", daemon=True)
        self._thread.start()

    def __enter__(self) -> DeclaredRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop all connectors: each finishes what it is doing; a second call does nothing."""
        self._is_closed.set()
        self._log.catalog.end_waits()
        self._thread.join()
        for one in self._running.values():
            one.stop()

    def _live(self) -> None:
        def tell(error: Exception) -> None:
            _LOGGER.warning("the connectors of the log cannot be read now; the next attempt follows: %s", error)

        follow_catalog(self._log.catalog, self._is_closed, self._look, tell, PAUSE_SECONDS)

    def _look(self) -> None:
        """Follow the declarations if a statement has changed something, and look at each worker."""
        number = self._log.catalog.sql.last_number()
        if number != self._seen:
            declared = read_declared(self._log)
            for name, running in list(self._running.items()):
                if declared.get(name) != running.declared:
                    running.stop()
                    del self._running[name]
                    if name not in declared:
                        forget_runs(self._log, name)
            for name in declared.keys() - self._running.keys():
                self._running[name] = RunningConnector(self._log, declared[name])
            self._seen = number
        for running in self._running.values():
            if not self._is_closed.is_set():
                running.look()
