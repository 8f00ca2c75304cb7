"""Loading of the program's parts, which takes a moment and may be interrupted in it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_INTERRUPTED = 128 + signal.SIGINT


@contextmanager
def ended_by_an_interrupt() -> Iterator[None]:
    """Within the block an interrupt ends the process with 130, unless it was started to ignore them, as in the background of a script."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)  # an exception in the midst of an import may become an ImportError, or be lost
