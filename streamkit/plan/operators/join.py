"""A stream with the row of a table that has its key: what joins with kept and with global tables share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import Building
from streamkit.plan.demands import Demands, emission
from streamkit.plan.duration import duration_text
from streamkit.plan.node import LATER, Node, check_distinct, shortened, words
from streamkit.plan.operators.global_join import global_join
from streamkit.plan.operators.table_join import table_join
from streamkit.plan.operators.versioned_join import versioned_join
from streamkit.plan.steps import Step
from streamkit.plan.traits import GLOBAL_TABLE, STREAM, TABLE, Traits
from streamkit.plan.window_kinds.hopping import INSTANT
from streamkit.plan.windows import Settling, Windowing

JOIN_KINDS = ("inner", "left")


@dataclass(frozen=True, eq=False, repr=False)
class Join(Node):
    """
    A stream with the row of a table that has its key.

    `on` are pairs of (stream column, table column); None joins the stream's key with the table's. `suffix` is
    appended to those of the table's columns whose names the stream has too. `grace_ms` is how long a record waits for late
    changes of a versioned table.
    """

    kind: ClassVar[str] = "join"
    left: Node
    right: Node
    how: str = "inner"
    on: tuple[tuple[str, str], ...] | None = None
    suffix: str | None = None
    grace_ms: int | None = field(default=None, metadata=LATER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.how not in JOIN_KINDS:
            raise TopologyError(
                f"a stream cannot be joined with a table how={self.how!r}; expected one of {', '.join(JOIN_KINDS)}", self.at
            )
        if self.left.relation != STREAM or self.right.relation == STREAM:
            raise TopologyError(
                f"a join of a {words(self.left.relation)} with a {words(self.right.relation)} is not supported yet; "
                "expected a stream joined with a table or a global table",
                self.at,
            )
        check_distinct((left for left, _ in self.on or ()), "join column", self.at)
        check_distinct((right for _, right in self.on or ()), "join column", self.at)
        if self.on == ():
            raise TopologyError(
                "on= is empty; expected a column's name, a list of names, or {stream column: table column}", self.at
            )

        self._check_grace()

    def _check_grace(self) -> None:
        """TopologyError if records are to wait for a table that does not know what it was at their time."""
        if self.grace_ms is None:
            return
        history_ms = self.right.traits.history_ms
        if history_ms is None:
            raise TopologyError(
                f"grace={duration_text(self.grace_ms)!r} makes records wait for late changes of a table, and {self.right.short_text()} "
                "keeps no history to look them up in; expected a versioned table: app.table(topic, versioned='1 day')",
                self.at,
            )
        if self.grace_ms > history_ms:
            raise TopologyError(
                f"the grace of {duration_text(self.grace_ms)} is longer than the history of {self.right.short_text()}, "
                f"{duration_text(history_ms)}; expected at most that, else rows would be gone before they are looked up",
                self.at,
            )

    def traits_over(self, below: Sequence[Traits]) -> Traits:
        """The stream alone moves stream time; records that waited stand behind it by the grace."""
        rows = super().traits_over(below)
        return replace(rows, feeding=self.left.traits.feeding, delay=rows.delay.at_least(self.grace_ms or 0))

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        """Every change of a table, because each record meets it as of its own place. A global table is read whole."""
        yield from super().demands_below(replace(above, null_keys=above.null_keys or self.how == "left"))
        if self.right.relation == TABLE:
            partners = frozenset({self} if self.looks_up_windows else ())
            yield self.right, emission("every", partners=partners, is_looked_up=True)

    @property
    def looks_up_windows(self) -> bool:
        """Whether the keys of the table have windows; `settlings` say until when they are looked up."""
        return self.right.relation == TABLE and self.right.traits.window is not None

    @cached_property
    def subject(self) -> str:
        return self.name or shortened(f"{self.left.subject}-{self.right.subject}")

    def settlings(self, building: Building) -> tuple[Settling, ...]:
        """
        When no record looks a window of the table up any more: by the time of the stream, as soon as the table would forget the window.

        That moment itself counts still, at which final results of the same windows come. Empty if the table keeps its windows for good.
        """
        waits = [one.wait_ms for one in self.right.settlings(building)] if self.looks_up_windows else []
        streams = building.streams(self.left)
        may_lag = len(streams) > 1 and self.left.traits.delay.ms(INSTANT) > 0
        windowing = Windowing(0, 1, 0, streams, f"{building.name(self)}:windows", may_lag=may_lag)
        return (Settling(windowing, max(waits) + 1),) if waits else ()

    def text(self) -> str:
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in self.on) if self.on else "key"
        grace = "" if self.grace_ms is None else f", grace {duration_text(self.grace_ms)}"
        return f"{self.how} join {self.right.short_text()} on {on}{grace}"

    def lower(self, building: Building) -> Step:
        left = building.lower(self.left)
        if self.right.relation == GLOBAL_TABLE:
            return global_join(self, left, building)
        return (table_join if self.right.traits.history_ms is None else versioned_join)(self, left, building)
