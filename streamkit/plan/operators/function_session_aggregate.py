"""Aggregation of sessions by users' functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.duration import duration_text
from streamkit.plan.operators.function_aggregate import FunctionAggregate
from streamkit.plan.operators.session_aggregate import session_closing
from streamkit.plan.windows import Windowing


@dataclass(frozen=True)
class FunctionSessionAggregate(FunctionAggregate):
    """As `FunctionAggregate`, in the sessions of each group."""

    kind: ClassVar[str] = "function_session_aggregate"

    @property
    def declared_times(self) -> Mapping[str, str]:
        return {"the gap of its sessions": duration_text(self.windowing.size_ms - 1)} if self.windowing else {}

    @property
    def assigned(self) -> None:
        """None: which session takes a row depends on the rows before it."""
        return

    @property
    def rows_per_record(self) -> int:
        """A row that connects two sessions gives two deletions and a result; with old values each is two rows."""
        return 6 if WITH_OLD_VALUES in self.modes else 3 if "every" in self.modes else 1

    @property
    def closing(self) -> Windowing | None:
        assert self.window is not None
        return session_closing(self.window, self.modes)
