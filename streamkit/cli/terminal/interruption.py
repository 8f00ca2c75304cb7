"""Interrupts that wait for a good moment: what has begun is finished, and then the command ends as if nothing were left to do."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruption() -> Iterator[threading.Event]:
    """An event that is set by the first interrupt or SIGTERM within the block; a second one takes effect at once."""
    event = threading.Event()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def note(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in SIGNALS:
        signal.signal(number, note)
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
