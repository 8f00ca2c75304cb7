"""Which records of two streams meet in a join."""

from __future__ import annotations

from dataclasses import dataclass

from streamkit.errors import TopologyError
from streamkit.plan.duration import duration_text


@dataclass(frozen=True)
class JoinWindow:
    """
    Which records of two streams meet: a left record at t meets those of the right stream in [t - before_ms, t + after_ms].

    Either may be negative. `grace_ms` is how long past its window a record without a partner waits for late ones.
    """

    before_ms: int
    after_ms: int
    grace_ms: int

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise TopologyError(
                f"the window of a join ends before it begins: before={duration_text(self.before_ms)}, "
                f"after={duration_text(self.after_ms)}; expected -before to be at most after"
            )
        if self.grace_ms < 0:
            raise TopologyError(f"the grace {self.grace_ms} ms is negative; expected 0 or more")

    @property
    def size_ms(self) -> int:
        """From its first to its last moment."""
        return self.before_ms + self.after_ms

    def __str__(self) -> str:
        sides = f"{duration_text(self.before_ms)} before to {duration_text(self.after_ms)} after"
        return f"within {sides}, grace {duration_text(self.grace_ms)}"
