"""The beginning of the program `streamkit`, which takes a moment to load and may be interrupted in it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Load the command line and run it; an interrupt while it loads ends the program with 130 and without a traceback."""
    with _ended_by_an_interrupt():
        from streamkit.cli.main import main as run
    run()


@contextmanager
def _ended_by_an_interrupt() -> Iterator[None]:
    """Within the block an interrupt ends the process, unless it was started to ignore them, as in the background of a script."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)  # an exception in the midst of an import may become an ImportError, or be lost


if __name__ == "__main__":
    main()
