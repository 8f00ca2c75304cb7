"""Operations that are tried again while their error may pass, as Connect's `errors.retry.*` say."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

Result = TypeVar("Result")
FIRST_DELAY_MS = 300  # as in Connect


@dataclass(frozen=True)
class Retry:
    """
    Tries an operation again for `timeout_ms` (-1: for ever) after its first failure, while its error `may_pass`.

    The wait is 300 ms, then twice as long each time. Where it would be longer than `delay_max_ms` it is drawn between
    nothing and that, so that many tasks do not come back at once. `stop` ends the waiting; then the error is raised.
    """

    timeout_ms: int
    delay_max_ms: int
    may_pass: Callable[[Exception], bool]
    stop: threading.Event = field(default_factory=threading.Event)
    clock_ms: Callable[[], float] = lambda: time.monotonic() * 1_000
    wait_s: Callable[[float], object] | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any], may_pass: Callable[[Exception], bool], stop: threading.Event) -> Retry:
        """As a connector's settings say."""
        return cls(settings["errors.retry.timeout"], settings["errors.retry.delay.max.ms"], may_pass, stop)

    def run(self, operation: Callable[[], Result]) -> Result:
        """The operation's result; its last error if it does not pass in time."""
        started, attempt = self.clock_ms(), 0
        while True:
            try:
                return operation()
            except Exception as error:
                attempt += 1
                left = float("inf") if self.timeout_ms < 0 else started + self.timeout_ms - self.clock_ms()
                if left <= 0 or not self.may_pass(error):
                    raise
                delay_ms = FIRST_DELAY_MS * 2.0 ** min(attempt - 1, 60)
                if delay_ms > self.delay_max_ms:
                    delay_ms = random.uniform(0, self.delay_max_ms)  # noqa: S311  a wait
                (self.wait_s or self.stop.wait)(min(left, delay_ms) / 1_000)
                if self.stop.is_set():
                    raise
