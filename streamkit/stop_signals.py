"""Signals that ask a program to stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class StopSignals:
    """
    Collects stop signals, so that none of them raises a traceback wherever it happens to arrive.

    With `is_impatient` a second one ends the process at once.
    """

    arrived: list[int] = field(default_factory=list)
    is_impatient: bool = False

    def listen(self) -> None:
        """Take the signals over, from whoever has them."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.arrived.append(number)
        if self.is_impatient and len(self.arrived) > 1:
            os._exit(128 + number)


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Collect stop signals within the block; then they do what they did before."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    stopped = StopSignals()
    stopped.listen()
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
