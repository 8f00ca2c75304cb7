"""Waiting for states, whose limit is far beyond what they take on any machine."""

from __future__ import annotations

import time
from collections.abc import Callable

WAIT_SECONDS = 120


def wait_until(holds: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Wait until something holds; AssertionError if it does not within so many seconds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"it did not hold within {seconds} s"
        time.sleep(0.02)


def holds_in_some_round(trial: Callable[[], bool], rounds: int = 10) -> bool:
    """Whether a trial succeeds in one of some rounds: a server that is late spoils one or two, and a mistake spoils all."""
    return any(trial() for _ in range(rounds))
