"""A bound on how many bytes a second maintenance writes, so that it leaves the disk to others, and a way to stop it."""

from __future__ import annotations

import threading
import time


class StoppedError(Exception):
    """Maintenance was told to stop; it goes on another time."""


class Throttle:
    """Sleeps so that what is spent stays below `bytes_per_second`; without a bound it never does."""

    def __init__(self, bytes_per_second: int | None = None) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_at = time.monotonic()
        self._is_stopped = threading.Event()

    def stop(self) -> None:
        """Let whoever spends next, or waits now, stop."""
        self._is_stopped.set()

    def spend(self, size: int) -> None:
        """Count bytes that were written, and wait until they are within the bound; StoppedError once it is stopped."""
        now = time.monotonic()
        if self._bytes_per_second is not None:
            self._free_at = max(self._free_at, now) + size / self._bytes_per_second
        self._is_stopped.wait(max(0.0, self._free_at - now))
        self.check()

    def check(self) -> None:
        """StoppedError once it is stopped."""
        if self._is_stopped.is_set():
            raise StoppedError("maintenance was stopped; the next pass goes on from there")
