"""How far rows may stand behind stream time by construction: because updates were held back, or because results came when windows closed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamkit.plan.windows import WindowKind

Finals = tuple["WindowKind", ...]  # windows whose final results were awaited, those of one behind those of the other


@dataclass(frozen=True)
class Delay:
    """
    The longest of some waits, each of windows' final results and of a time beside.

    How long final results are behind depends on who asks: for windows that cover their own (`WindowKind.covers`) it is less. So a delay is
    known before the windows are for which it counts. `waits` has the longest time beside the final results of the same windows.
    """

    waits: Mapping[Finals, int] = field(default_factory=lambda: {(): 0})

    def ms(self, window: WindowKind) -> int:
        """How much longer than its grace `window` must wait for the rows."""
        return max(ms + sum(one.final_delay_ms(window.covers(one)) for one in finals) for finals, ms in self.waits.items())

    def longer(self, ms: int, *finals: WindowKind) -> Delay:
        """The delay of rows that waited for so long, too, or for the final results of windows."""
        return Delay({(*before, *finals): time + ms for before, time in self.waits.items()})

    def at_least(self, ms: int) -> Delay:
        """The delay of rows of which some waited for so long, and others as before."""
        return longest([self, NO_DELAY.longer(ms)])


def longest(delays: Iterable[Delay]) -> Delay:
    """The delay of rows of several steps together; none if there are no steps."""
    waits: dict[Finals, int] = {(): 0}
    for one in delays:
        for finals, ms in one.waits.items():
            waits[finals] = max(waits.get(finals, 0), ms)
    return Delay(waits)


NO_DELAY = Delay()
