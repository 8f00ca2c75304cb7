"""How often final results are emitted, by wall-clock time."""

from __future__ import annotations

from tests.harness.conformance.interpreter.rules import Rules


class WallClock:
    """Wall-clock time, which only the steps of a case move."""

    def __init__(self) -> None:
        self.now = 0


class Emission:
    """At most one emission in an interval."""

    def __init__(self, rules: Rules, clock: WallClock, interval_ms: int) -> None:
        self.clock = clock
        self.interval_ms = 0 if rules.finals_at_once else interval_ms
        self.next = 0

    def is_time(self) -> bool:
        """Whether to emit now; if so, the next interval begins."""
        if self.clock.now < self.next:
            return False
        self.next = self.clock.now + self.interval_ms
        return True
