"""
A process of its own that maintains a log for a running application.

Python runs one thread at a time in a process: beside a flush in a thread of theirs, epochs of 18 ms took 80. In another process
the flush takes nothing from them but a processor, of which it takes what others leave.

They talk in lines of JSON. Standard input brings how to begin (`path` for imports, `location`, `settings`), then names of `WORKS`, one at
a time. Standard output has `{"ready": true}` once everything is imported, what is logged as `{"log": [logger, level, text]}`, and
an answer to each order: `{"done": report}`, `{"failed": traceback}` or `{"stopped": true}`. When its input ends, the process stops at the next
step of what it does, as a pass may stop anywhere; so it ends with the application, however that ended.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TextIO, final

from streamkit.config import Settings
from streamkit.errors import SetupError
from streamkit.log.maintenance.maintenance import MaintenanceReport, maintain, relieve
from streamkit.log.maintenance.throttle import StoppedError, Throttle
from streamkit.log.opening import open_log

WORKS: Mapping[str, Callable[..., MaintenanceReport]] = {work.__name__: work for work in (maintain, relieve)}
NICENESS = 5  # epochs go first; on busy processors it still has a quarter of what one of them has
END_SECONDS = 5.0  # for a step that is under way when it is to end
LOOK_SECONDS = 1.0  # between two looks whether the application is there: who was forked from it keeps the input open
# No module of the working folder can take the place of one of Python's: the path for imports is the application's own.
PROGRAM = (
    "import json, sys; begin = json.loads(sys.stdin.readline()); sys.path[:] = begin['path']; "
    "from streamkit.log.maintenance_process import serve; serve(begin)"
)


class FailedPassError(Exception):
    """Maintenance failed; the text is the traceback from the process that did it."""


@final
class MaintenanceProcess:
    """
    Does maintenance of the log at `location` when it is told to. It starts with the first order, and again with the next one if it died.

    One thread gives orders; another may close it meanwhile.
    """

    def __init__(self, location: str, settings: Settings) -> None:
        self._begin = {"location": location, "settings": asdict(settings)}
        self._lock = threading.Lock()  # of what begins and ends it
        self._process: subprocess.Popen[str] | None = None
        self._is_closed = False

    def do(self, work: str) -> str:
        """
        Do one of `WORKS`; returns the report as text.

        FailedPassError if it failed or the process died, StoppedError if it was closed, SetupError if no such process can run here.
        """
        process = self._started()
        _tell(process, work)
        return self._answer(process)

    def close(self) -> None:
        """End the process, at the next step of what it does; after five seconds wherever it is."""
        with self._lock:
            self._is_closed = True
            process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):  # what was not sent is no matter
            process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _started(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._is_closed:
                raise StoppedError("maintenance was stopped")
            if self._process is not None:
                return self._process
            # Ctrl-C in a terminal is for the application, which ends this process in its own way.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                self._process = process = subprocess.Popen(
                    [sys.executable, "-I", "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            except OSError as error:
                raise SetupError(f"no process for maintenance can be started by {sys.executable!r}: {error}") from error
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _tell(process, {"path": sys.path, **self._begin})
        try:
            self._answer(process)
        except FailedPassError as error:
            raise SetupError(f"no process for maintenance can run here: {error}") from error
        return process

    def _answer(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        for line in process.stdout:
            ((kind, content),) = json.loads(line).items()
            if kind == "log":
                name, level, text = content
                logging.getLogger(name).log(level, "%s", text)
            elif kind == "failed":
                raise FailedPassError(content)
            elif kind == "stopped":
                break
            else:
                return str(content)
        process.stdout.close()
        ended = process.wait()
        with self._lock:
            self._process = None
            if self._is_closed:
                raise StoppedError("maintenance was stopped")
        raise FailedPassError(f"the process that maintains the log ended with {ended}; the next pass starts another")


def _tell(process: subprocess.Popen[str], content: Any) -> None:
    """Send a line; if the process has ended, the answer that does not come says so."""
    assert process.stdin is not None
    with suppress(OSError, ValueError):
        process.stdin.write(json.dumps(content) + "\n")
        process.stdin.flush()


def serve(begin: Mapping[str, Any]) -> None:
    """What the process does, until its input ends or the application is gone."""
    os.nice(NICENESS)
    answers = _Answers(os.fdopen(os.dup(sys.stdout.fileno()), "w"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    logging.basicConfig(level=logging.INFO, handlers=[answers])
    throttle = Throttle(begin["settings"]["maintenance_bytes_per_second"])
    orders: queue.Queue[str | None] = queue.Queue()
    application = os.getppid()
    threading.Thread(target=_listen, args=(orders, throttle), daemon=True).start()
    with suppress(BrokenPipeError, StoppedError):
        answers.say(ready=True)
        while True:
            try:
                work = orders.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if os.getppid() != application:
                    return
                continue
            if work is None:
                return
            try:
                with open_log(begin["location"]) as log:
                    log.settings = Settings(**begin["settings"])
                    report = WORKS[work](log, throttle=throttle)
            except StoppedError:
                answers.say(stopped=True)
            except Exception:  # noqa: BLE001 (the application logs any error)
                answers.say(failed=traceback.format_exc())
            else:
                answers.say(done=str(report))


def _listen(orders: queue.Queue[str | None], throttle: Throttle) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    throttle.stop()
    orders.put(None)


class _Answers(logging.Handler):
    """Writes answers, and what is logged."""

    def __init__(self, output: TextIO) -> None:
        super().__init__()
        self._output = output
        self._writing = threading.Lock()

    def say(self, **answer: Any) -> None:
        with self._writing:
            self._output.write(json.dumps(answer) + "\n")
            self._output.flush()

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(BrokenPipeError):  # the application is gone
            self.say(log=[record.name, record.levelno, self.format(record)])
