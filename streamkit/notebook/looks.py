"""Looks at something, again and again, in a thread that disturbs nobody."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.log import Log
from streamkit.log.opening import open_log

PAUSE_SECONDS = 1.0
SHARE = 0.1  # of the time, which looks take at most: slow ones come less often
STOP_SECONDS = 5.0
END_SECONDS = 0.1  # how late it is noticed that there is nothing more to come


@final
class Looks:
    """
    Calls `look` at once, and then a second after each look, until it returns False or `stop` is called; in the end `leave`.

    A look that takes longer than a tenth of a second is followed by a pause nine times as long. The thread has a connection of its own to
    the log, so that no commit of a run in this process waits for a look; a log that cannot be opened twice is shared. It ends with the
    process, and a process that was forked has none. `is_over` says that the next look, which then comes at once, will be the last.
    """

    def __init__(
        self, log: Log, look: Callable[[Log], bool], leave: Callable[[], None], is_over: Callable[[], bool], name: str
    ) -> None:
        self._log, self._look, self._leave, self._is_over = log, look, leave, is_over
        self._process = os.getpid()
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"streamkit-watch-{name}", daemon=True)

    def start(self) -> None:
        """Begin; a thread that the interpreter leaves in the middle of a library could crash it, so the end of the process stops it."""
        atexit.register(self.stop)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether there will be further looks."""
        return os.getpid() == self._process and self._thread.is_alive() and not self._is_stopped.is_set()

    def stop(self) -> None:
        """End after the look under way; nothing in a process that was forked, which has no such thread."""
        if os.getpid() != self._process:
            return
        atexit.unregister(self.stop)
        self._is_stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        with _connection(self._log) as log:
            while not self._is_stopped.is_set():
                begun_s = time.monotonic()
                if not self._look(log):
                    break
                self._pause(time.monotonic() + max(PAUSE_SECONDS, (time.monotonic() - begun_s) * (1 / SHARE - 1)))
            self._leave()  # while its connection is open
        atexit.unregister(self.stop)

    def _pause(self, until_s: float) -> None:
        """Wait, but not beyond the end of what is looked at: the last look is to come at once."""
        while not self._is_stopped.wait(END_SECONDS) and time.monotonic() < until_s and not self._is_over():
            pass


@contextmanager
def _connection(log: Log) -> Iterator[Log]:
    """The log by a connection of its own, if another one can be opened."""
    if log.root == IN_MEMORY or log.has_password:
        yield log
    else:
        with open_log(log.location, log.clock, is_known=True) as opened:
            yield opened
