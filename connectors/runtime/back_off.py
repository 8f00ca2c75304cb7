"""How long to wait before the next try: twice as long each time, up to a limit, from the first again after a success."""

from __future__ import annotations

from dataclasses import dataclass, field

FIRST_S, LIMIT_S = 0.2, 60.0


@dataclass
class BackOff:
    """The waits of one task."""

    first_s: float = FIRST_S
    limit_s: float = LIMIT_S
    failures: int = field(default=0, init=False)

    def next_s(self) -> float:
        """The wait after one more failure, in seconds."""
        self.failures += 1
        return min(self.limit_s, self.first_s * 2.0 ** min(self.failures - 1, 30))

    def reset(self) -> None:
        """Something worked: the next failure is the first."""
        self.failures = 0
