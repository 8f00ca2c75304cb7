"""Aggregation per session: the aggregates of records of a group that follow each other without a long gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.duration import duration_text
from streamkit.plan.operators.record_window_aggregate import RecordWindowAggregate
from streamkit.plan.windows import Windowing, closing_for


@dataclass(frozen=True)
class SessionAggregate(RecordWindowAggregate):
    """Put rows into the sessions of their keys, merge sessions that a row connects, and keep their aggregates in `store`."""

    kind: ClassVar[str] = "session_aggregate"

    @property
    def declared_times(self) -> Mapping[str, str]:
        return {"the gap of its sessions": duration_text(self.windowing.size_ms - 1)}

    @property
    def rows_per_record(self) -> int:
        """A row that connects two sessions gives two deletions and a result; with old values each is two rows."""
        return 6 if WITH_OLD_VALUES in self.modes else 3 if "every" in self.modes else 1

    @property
    def closing(self) -> Windowing | None:
        return session_closing(self.window, self.modes)


def session_closing(window: Windowing, modes: Sequence[str]) -> Windowing | None:
    """
    The sessions that stream time closes, if that must be known.

    It must for final results. Without grace it must also be known which records move stream time: such a record still extends a
    session that is just the gap away, and another record of the same time does not.
    """
    return window if window.grace_ms == 0 else closing_for(window, modes)
