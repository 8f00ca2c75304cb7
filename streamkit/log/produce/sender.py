"""The background thread of a producer with `linger_ms`: it sends what has waited long enough."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any


class Sender:
    """
    Calls `send_due` of its owner whenever it is woken, and again after as many seconds as that returned; None is until woken.

    A daemon thread that holds no reference to its owner while it waits, and ends with it. It does not follow a fork.
    """

    def __init__(self, send_due: Callable[[], float | None]) -> None:
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=_run, args=(weakref.WeakMethod(send_due), self._woken, self._stopped), name="streamkit-producer", daemon=True
        )
        weakref.finalize(send_due.__self__, _stop, self._woken, self._stopped)  # type: ignore[attr-defined]
        self._thread.start()

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    def stop(self) -> None:
        """End the thread, and wait until it has ended."""
        _stop(self._woken, self._stopped)
        if self._thread is not threading.current_thread():
            self._thread.join()


def _stop(woken: threading.Event, stopped: threading.Event) -> None:
    stopped.set()
    woken.set()


def _run(owner: weakref.WeakMethod[Any], woken: threading.Event, stopped: threading.Event) -> None:
    while not stopped.is_set():
        woken.clear()
        send_due = owner()
        if send_due is None:
            return
        seconds = send_due()
        del send_due  # so that an owner that nobody uses any more can go
        woken.wait(seconds)
