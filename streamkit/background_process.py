"""
Work of an application in a process of its own, where its threads would hold up epochs: Python runs one thread at a time in a process.

They talk in lines of JSON. Standard input brings how to begin (`path` for imports, and what the work needs), then orders. Standard output
has what is logged as `{"log": [logger, level, text]}`, and answers, each of one name: the first is `{"ready": true}`, once everything is
imported, or one that says why the work cannot be done there. When its input ends, or the application is gone, the process ends; so it
ends with the application, however that ended.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TextIO, final

from streamkit.errors import SetupError

LOOK_SECONDS = 1.0  # between two looks whether the application is there: who was forked from it keeps the input open
# No module of the working folder can take the place of one of Python's: the path for imports is the application's own.
PROGRAM = (
    "import json, sys; begin = json.loads(sys.stdin.readline()); sys.path[:] = begin['path']; "
    "from {module} import serve; serve(begin)"
)


@final
class BackgroundProcess:
    """
    Runs `serve` of a module, with how to begin, in a process of its own, from `start` to `close`.

    One thread starts it, gives orders and takes answers; another may close it meanwhile. TypeError if how to begin is no JSON.
    """

    def __init__(self, module: str, begin: Mapping[str, Any]) -> None:
        self._program = PROGRAM.format(module=module)
        self._begin = json.loads(json.dumps(begin))
        self._lock = threading.Lock()  # of what begins and ends it
        self._process: subprocess.Popen[str] | None = None
        self._code: int | None = None  # with which it ended
        self._is_ready = False
        self.is_closed = False

    def start(self) -> bool:
        """
        Start it, unless it runs; False if it was closed. SetupError if no such process can run here.

        One that a signal ends before it is ready has merely died: the answer that does not come says so.
        """
        with self._lock:
            if self.is_closed:
                return False
            if self._process is not None:
                return True
            self._is_ready = False
            # Ctrl-C in a terminal, and SIGTERM to a group, are for the application, which ends this process in its own way.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-c", self._program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            except OSError as error:
                raise SetupError(f"no process can be started by {sys.executable!r}: {error}") from error
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.tell({"path": [place for place in sys.path if isinstance(place, str)], **self._begin})  # Python passes over others
        kind, content = self.answer() or ("ended", f"a process of {sys.executable!r} {self.end} before it was ready")
        self._is_ready = kind == "ready"
        is_killed = kind == "ended" and (self._code or 0) < 0
        if kind != "ready" and not is_killed and not self.is_closed:
            while self.answer() is not None:  # until it has ended, with what it has said
                pass
            raise SetupError(str(content))
        return not self.is_closed

    @property
    def end(self) -> str:
        """How it ended, as the end of a sentence."""
        return f"ended with {self._code}"

    def tell(self, order: Any) -> None:
        """Send an order; if the process has ended, the answer that does not come says so."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError, ValueError):
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()

    def answer(self) -> tuple[str, Any] | None:
        """The next answer, its name and content, with what was logged before it; None if the process has ended."""
        process = self._process
        if process is None:
            return None
        assert process.stdout is not None
        for line in process.stdout:
            ((kind, content),) = json.loads(line).items()
            if kind != "log":
                return kind, content
            name, level, text = content
            logging.getLogger(name).log(level, "%s", text)
        process.stdout.close()
        self._code = process.wait()
        with self._lock:
            self._process = None
        return None

    def close(self, seconds: float) -> None:
        """
        Tell the process to end its work, and wait so many seconds for that; then kill it.

        One that is not ready yet has done nothing, and is killed at once.
        """
        with self._lock:
            self.is_closed = True
            process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):  # what was not sent is no matter
            process.stdin.close()
        try:
            process.wait(seconds if self._is_ready else 0.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class ServedApplication:
    """The application, as its background process sees it; `on_end` is called, in another thread, as soon as it wants no more."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._answers = _Answers(os.fdopen(os.dup(sys.stdout.fileno()), "w"))
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
        logging.basicConfig(level=logging.INFO, handlers=[self._answers])
        self._on_end = on_end
        self._process = os.getppid()
        self._orders: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, **answer: Any) -> None:
        """Send an answer, which has one name; BrokenPipeError if the application is gone."""
        self._answers.say(**answer)

    def orders(self, pause_s: float = LOOK_SECONDS) -> Iterator[Any]:
        """The orders as they come, and None after each pause without one, until the application ends."""
        due = LOOK_SECONDS
        while True:
            try:
                order = self._orders.get(timeout=pause_s)
            except queue.Empty:
                due -= pause_s
                if due <= 0:
                    due = LOOK_SECONDS
                    if os.getppid() != self._process:
                        self._on_end()
                        return
                yield None
                continue
            if order is _END:
                return
            yield order

    def _listen(self) -> None:
        for line in sys.stdin:
            self._orders.put(json.loads(line))
        self._on_end()
        self._orders.put(_END)


_END = object()  # of the orders


class _Answers(logging.Handler):
    """Writes answers, and what is logged."""

    def __init__(self, output: TextIO) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(message)s"))  # the application adds what its own handlers say of logger and level
        self._output = output
        self._writing = threading.Lock()

    def say(self, **answer: Any) -> None:
        with self._writing:
            self._output.write(json.dumps(answer) + "\n")
            self._output.flush()

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(BrokenPipeError):  # the application is gone
            self.say(log=[record.name, record.levelno, self.format(record)])
