"""Time as a value that is handed in: operators never read it, planners do."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Whatever can tell the time in milliseconds since 1970, UTC."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def monotonic_us() -> int:
    """Microseconds by the host's clock that never goes back, counted from an arbitrary moment: for lengths of time alone."""
    return time.monotonic_ns() // 1_000


class MonotonicClock:
    """The host's clock that never goes back, counted from an arbitrary moment: for lengths of time alone."""

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


@dataclass
class HandClock:
    """A clock that stands still until it is moved."""

    time_ms: int = 0

    def now_ms(self) -> int:
        return self.time_ms

    def advance(self, milliseconds: int) -> None:
        """Move the clock on; a negative step is refused."""
        if milliseconds < 0:
            raise ValueError(f"a clock cannot go back, found a step of {milliseconds} ms")
        self.time_ms += milliseconds
