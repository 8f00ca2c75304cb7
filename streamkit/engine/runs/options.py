"""The options of a run, the same on Spark and in one process."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from streamkit.errors import ConfigError, StreamKitError
from streamkit.log.catalog.sql_queries import QueriesSeen
from streamkit.plan.duration import duration_ms

AVAILABLE_NOW = "available_now"
Trigger = str | timedelta | None


@dataclass(frozen=True)
class Options:
    """
    How to run a program.

    `tasks` is the number of kernel tasks a stage; at the first start the cores, later what it was, if None. `trigger` is None for as
    fast as possible, an interval between the starts of epochs, or "available_now". `drain` closes all windows in the end.
    `seen` are the queries and the generation that a runner has read; the start is refused if they have changed since.
    ConfigError for any other trigger.
    """

    tasks: int | None = None
    trigger: Trigger = None
    max_records_per_epoch: int | None = None
    drain: bool = False
    seen: QueriesSeen | None = None

    def __post_init__(self) -> None:
        for name, found in (("tasks", self.tasks), ("max_records_per_epoch", self.max_records_per_epoch)):
            if found is not None and (not isinstance(found, int) or isinstance(found, bool)):
                raise ConfigError(f"{name}={found!r}; expected a whole number")
        if isinstance(self.trigger, str) and self.trigger != AVAILABLE_NOW:
            _check_interval(self.trigger)

    @property
    def is_bounded(self) -> bool:
        """Whether the run takes what is there when it starts, and then ends."""
        return self.drain or self.trigger == AVAILABLE_NOW

    @property
    def interval_ms(self) -> int:
        """How far apart epochs start at least; 0 for as fast as possible."""
        return 0 if self.trigger is None or self.trigger == AVAILABLE_NOW else duration_ms(self.trigger, "trigger")


def _check_interval(trigger: str) -> None:
    try:
        duration_ms(trigger, "trigger")
    except StreamKitError as error:
        raise ConfigError(
            f"trigger={trigger!r}; expected None, an interval such as '10 seconds', or {AVAILABLE_NOW!r}"
        ) from error
