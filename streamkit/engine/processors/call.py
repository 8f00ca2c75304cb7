"""What is going on in a processor at a moment: whose turn it is, and what time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from streamkit.engine.stage.scheduled_call import ScheduledCall
from streamkit.errors import EvaluationError, UnfitFunctionError
from streamkit.plan.function_digest import type_name
from streamkit.plan.processing import RefusedCallError, RetimedError, used_too_late


@dataclass
class ProcessorCall:
    """
    A call of a processor's function, as its context, stores and record see it; one object lives as long as the processor `name`.

    `what` names the function that runs, and is empty between calls; `turn` counts calls. `stream_time` and `time`, that of changes
    without a time of their own, are in ms. `origin` is the number of the record whose turn it is.
    """

    name: str
    group: int
    wall_clock: int
    what: str = ""
    time: int = 0
    stream_time: int | None = None
    origin: int | None = None
    turn: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def check(self, used: str) -> None:
        """RefusedCallError if no function of the processor runs."""
        if not self.what:
            raise used_too_late(f"{used} of the processor {self.name}")

    def count(self, metric: str) -> None:
        """Count one for a metric."""
        self.counts[metric] = self.counts.get(metric, 0) + 1


def failure(
    name: str, call: ProcessorCall, error: Exception, row: Any, scheduled: ScheduledCall | None = None
) -> EvaluationError:
    """The error of a processor, with what it was doing, and the call by schedule if that is what it was."""
    if isinstance(error, RetimedError):
        return UnfitFunctionError(f"the processor {name}, in {call.what}: {error}", row)
    if isinstance(error, RefusedCallError):
        return EvaluationError(f"the processor {name}, in {call.what or 'no call'}: {error}", row, scheduled)
    return EvaluationError(
        f"the processor {name}, in {call.what or 'no call'}, raised {type_name(error)}: {error}", row, scheduled
    )
