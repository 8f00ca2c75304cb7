"""The records that are too late for all their windows, as a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from streamkit.errors import TopologyError
from streamkit.names import WINDOW_END, WINDOW_START
from streamkit.plan.building import Building
from streamkit.plan.demands import LATE, Demands
from streamkit.plan.keys import make_schema
from streamkit.plan.node import Node
from streamkit.plan.operator import PORT, Key, Names, Operator, listed, source_of
from streamkit.plan.plain import to_plain
from streamkit.plan.steps import UNSTAGED, Step, with_operator
from streamkit.plan.windows import ASSIGNED, SLIDING, Windowing, closing_for
from streamkit.schema import Schema, SchemaColumn

BOUNDS = (WINDOW_START, WINDOW_END)


@dataclass(frozen=True, eq=False, repr=False)
class LateNode(Node):
    """The records that come too late for all windows of the table `child`, with the bounds of the last of these."""

    kind: ClassVar[str] = "late"
    child: Node

    @property
    def subject(self) -> str:
        return self.child.subject

    def text(self) -> str:
        return "records late for all windows"

    def demands_below(self, above: Demands) -> Iterable[tuple[Node, Demands]]:
        """Of windows that merge the aggregation alone knows which records are late, since that depends on the windows there are."""
        yield from super().demands_below(above)
        if self._is_told_by_aggregate:
            yield self.child, Demands(frozenset({LATE}))

    @property
    def _is_told_by_aggregate(self) -> bool:
        window = self.child.traits.window
        return window is not None and window.merges

    def lower(self, building: Building) -> Step:
        table = building.lower(self.child)
        window = table.operator.windowing
        assert window is not None, "late_to is an option of windows"
        rows = building.steps[source_of(table.inputs[0])]
        for name in BOUNDS:
            if name in rows.schema:
                raise TopologyError(
                    f"late_to adds the column {name!r}, and the stream has one; expected another name: rename it before", self.at
                )
        schema = make_schema([*rows.schema, *(SchemaColumn(name, "timestamp", False) for name in BOUNDS)], self.at)
        if self._is_told_by_aggregate:
            taken = LateOfSessions(building.name(self), UNSTAGED, (f"{table.id}{PORT}{LATE}",), rows.schema.names)
            return building.add(Step(taken, schema, rows.key, rows.partition_by, False, self.at))
        operator = Late(building.name(self), UNSTAGED, (rows.id,), table.partition_by, window)
        return building.add(Step(operator, schema, rows.key, rows.partition_by, False, self.at))


@dataclass(frozen=True)
class Late(Operator):
    """Keep the rows of a group `key` for which all windows have closed, and add the bounds of the window that closed last."""

    kind: ClassVar[str] = "late"
    key: Key
    window: Windowing

    def to_json(self) -> dict[str, Any]:
        """The operator as plain values; whether its windows slide stands beside them."""
        return {**to_plain(self), "is_sliding": self.window.assigner == SLIDING}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Late:
        """The inverse of `to_json`."""
        window = Windowing.from_json(value["window"]).of_assigner(SLIDING if value.get("is_sliding") else ASSIGNED)
        return cls(value["id"], value["stage"], tuple(value["inputs"]), tuple(value["key"]), window)

    @property
    def closing(self) -> Windowing | None:
        """Nothing is due; but which rows are late may depend on what other inputs have closed."""
        return closing_for(self.window, ())

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return needed.difference(BOUNDS) | frozenset(self.key)

    def narrowed(self, step: Step, needed: Names, rows: Schema | None) -> Step:
        assert rows is not None, f"{step.id} has no input"
        return with_operator(step, step.schema.select(name for name in step.schema.names if name in rows or name in BOUNDS))

    def text(self) -> str:
        return f"late: by {listed(self.key)} for all windows ({self.window})"


@dataclass(frozen=True)
class LateOfSessions(Operator):
    """Take the rows, with these columns, that no session of an aggregation took; their bounds are their own time."""

    kind: ClassVar[str] = "late_of_sessions"
    columns: Key

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(self.columns)

    def text(self) -> str:
        return f"late for all sessions: {listed(self.columns)}"
