"""Where StreamKit's results differ from Kafka Streams' on purpose: one switch each."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Rules:
    """Which of StreamKit's deviations hold. All off is Kafka Streams 4.3.0, all on is StreamKit."""

    time_of_inputs: bool = False
    """Stream time of an operator is the largest order key of the streams that feed it, not that of the records which reached it."""
    finals_when_time_passes: bool = False
    """Final and outer results, and a join's buffer, come just before the record that moves stream time, also if it goes elsewhere."""
    finals_are_kept: bool = False
    """A final result is not lost because the retention of a store ended before it was emitted."""
    finals_at_once: bool = False
    """Final results do not wait for wall-clock time."""
    limits_when_time_passes: bool = False
    """A suppress lets its rows go just before the record that moves stream time past their limit."""
    suppress_waits_for_closed_windows: bool = False
    """A suppress lets a window go when it takes no record any more, also one that contains its end."""
    unmatched_wait_for_grace: bool = False
    """A record that comes when its join window has ended, but not the grace period, waits for a match like others."""
    old_is_last_emitted: bool = False
    """The old value that a suppress sends is the one it sent last, not the one that it buffered last."""

    @classmethod
    def kafka(cls) -> Rules:
        """What Kafka Streams 4.3.0 does."""
        return cls()

    @classmethod
    def streamkit(cls) -> Rules:
        """What StreamKit promises."""
        return cls(**dict.fromkeys(cls.names(), True))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The switches."""
        return tuple(one.name for one in fields(cls))

    def without(self, name: str) -> Rules:
        """The same rules, but for one switch that is off."""
        return replace(self, **{name: False})
