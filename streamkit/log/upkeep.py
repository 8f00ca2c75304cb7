"""What a driver does for the log beside its epochs: it says that its application runs, and maintains the log now and then."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import final

from streamkit.errors import SetupError, StreamKitError
from streamkit.log.database.pulse import LAPSE_MS, Pulse
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.log import Log
from streamkit.log.maintenance.throttle import StoppedError, Throttle
from streamkit.log.maintenance_process import WORKS, MaintenanceProcess
from streamkit.log.opening import open_log
from streamkit.names import MAINTENANCE_HEARTBEATS, application_heartbeat, fresh_token, maintenance_heartbeat

BEAT_SECONDS = 0.5  # whoever stands by for the application takes it over some beats after the last one
LOOK_SECONDS = 2.0  # between two looks whether small commits fill the catalog
# So many bytes of small commits do not wait for the next pass. Flushed ones keep their room for 10 s more: at 3 MiB a second the
# catalog still has less than the 64 MiB beyond which each small commit writes a file of its own.
INLINE_BYTES = 16 << 20

_logger = logging.getLogger(__name__)


@final
class Upkeep:
    """
    Heartbeats and maintenance of a running application until it is closed: the former in a thread, the latter in a process of its own.

    A pass every `interval_ms`, the first after one interval; 0 means none. Where small commits come fast, their rows move into files
    between passes, too. Of several applications on a log, one maintains.
    An error in a pass is logged, and never harms the application.

    A log that no other process can open (in memory, with a password in its address or a clock of its own) is maintained in a thread,
    and so is any where no process can be started.
    """

    def __init__(self, log: Log, application_id: int, generation: int, interval_ms: int | None = None) -> None:
        self._log = log
        self._interval_ms = log.settings.maintenance_interval_ms if interval_ms is None else interval_ms
        self._lease = maintenance_heartbeat(fresh_token())
        self._name = application_heartbeat(application_id, generation)
        self._pulse = Pulse(
            log.heartbeats, self._name, *([self._lease] if self._interval_ms else []), interval_seconds=BEAT_SECONDS
        )
        self._throttle = Throttle(log.settings.maintenance_bytes_per_second)
        self._is_closed = threading.Event()
        self._process = MaintenanceProcess(log.location, log.settings) if log.opens_elsewhere else None
        self._thread = threading.Thread(target=self._run, name="streamkit-maintenance", daemon=True)
        self.passes = 0
        if self._interval_ms:
            self._thread.start()

    def __enter__(self) -> Upkeep:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End maintenance at its next step, then the heartbeats, after which the application holds no rows back."""
        self._is_closed.set()
        self._throttle.stop()
        if (process := self._process) is not None:
            process.close()
        if self._thread.is_alive():
            self._thread.join()
        self._pulse.close()
        try:
            self._log.heartbeats.without_waiting().end(self._name)
        except StreamKitError as error:
            _logger.warning("the application counts as running for a minute more: %s", error)

    def _run(self) -> None:
        interval_s = self._interval_ms / 1000
        due = time.monotonic() + interval_s
        while not self._is_closed.wait(max(0.0, min(LOOK_SECONDS, due - time.monotonic()))):
            if time.monotonic() >= due:
                self._take_turn(is_due=True)
                due = time.monotonic() + interval_s
            else:
                self._take_turn(is_due=False)

    def _take_turn(self, *, is_due: bool) -> None:
        """A pass that is due, or what cannot wait for it, if it is this application's turn; what cannot be told now is asked again."""
        try:
            if (is_due or self._log.catalog.inline_slabs.held_bytes() > INLINE_BYTES) and self._has_lease():
                self._do("maintain" if is_due else "relieve")
        except StreamKitError as error:
            _logger.warning("a pass of maintenance was left out: %s", error)

    def _has_lease(self) -> bool:
        """Whether this is the first of those that could maintain the log; if two think so, no harm is done."""
        ages = self._log.heartbeats.without_waiting().ages_ms(MAINTENANCE_HEARTBEATS)
        return min((name for name, age in ages.items() if age <= LAPSE_MS), default=self._lease) == self._lease

    def _do(self, work: str) -> None:
        try:
            report = self._done_by_process(work)
            if report is None:
                with _log_of_its_own(self._log) as log:
                    report = str(WORKS[work](log, throttle=self._throttle))
            self.passes += work == "maintain"
            _logger.info("maintenance: %s", report)
        except StoppedError:
            pass
        except Exception:
            _logger.exception("a pass of maintenance failed; the next one goes on")

    def _done_by_process(self, work: str) -> str | None:
        """What its own process did; None if there is none, or can be none."""
        if self._process is None:
            return None
        try:
            return self._process.do(work)
        except SetupError as error:
            _logger.warning("maintenance goes on in a thread of this process, beside epochs: %s", error)
            self._process = None
            return None


@contextmanager
def _log_of_its_own(log: Log) -> Iterator[Log]:
    """The log over a connection of its own, so that no commit waits for a pass, unless it cannot be opened by its location alone."""
    if log.root == IN_MEMORY or log.has_password:
        yield log
    else:
        with open_log(log.location, log.clock) as opened:
            opened.settings = log.settings
            yield opened
