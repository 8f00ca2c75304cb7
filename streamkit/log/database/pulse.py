"""A pulse: heartbeats that go on in the background as long as something lives."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import final

from streamkit.errors import StreamKitError
from streamkit.log.database.heartbeats import Heartbeats

INTERVAL_SECONDS = 5.0
LAPSE_MS = 60_000  # who has not beaten for so long is taken to be gone

_logger = logging.getLogger(__name__)


@final
class Pulse:
    """Beats under some names from the moment it is made until it is closed, and then takes them back."""

    def __init__(self, heartbeats: Heartbeats, *names: str, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._heartbeats = heartbeats.without_waiting()  # who closes it, does not wait for a server that is away
        self._names = names
        self._interval = interval_seconds
        self._is_closed = threading.Event()
        heartbeats.beat(*names)
        self._thread = threading.Thread(target=self._run, name=f"streamkit-pulse-{names[0]}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Pulse:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop beating; a second call does nothing."""
        if not self._is_closed.is_set():
            self._is_closed.set()
            self._thread.join()
            try:
                self._heartbeats.forget(*self._names)
            except StreamKitError as error:
                _logger.warning("a heartbeat stays for a while: %s", error)

    def _run(self) -> None:
        while not self._is_closed.wait(self._interval):
            try:
                self._heartbeats.beat(*self._names)
            except StreamKitError as error:
                _logger.warning("a heartbeat was left out: %s", error)
