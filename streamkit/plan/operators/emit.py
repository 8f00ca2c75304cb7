"""The changes of a table as a stream: one of the outputs that the table's operator hands out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from streamkit.errors import TopologyError
from streamkit.plan.building import EMIT_MODES, Building
from streamkit.plan.node import STREAM, Node
from streamkit.plan.operator import PORT, Names, Operator, port_of
from streamkit.plan.stateless import steps_above_origin
from streamkit.plan.steps import UNSTAGED, Step
from streamkit.plan.windows import Window
from streamkit.schema import Schema


@dataclass(frozen=True, eq=False, repr=False)
class EmitNode(Node):
    """The changes of a table as a stream: `latest`, `every` or `final`."""

    kind: ClassVar[str] = "emit"
    child: Node
    mode: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in EMIT_MODES:
            raise TopologyError(f"there is no emission {self.mode!r}; expected one of {', '.join(EMIT_MODES)}", self.at)
        if self.mode == "final" and self.child.origin.final_delay_ms(None) is None:
            raise TopologyError(
                "emit('final') needs windows: a table without them has no last result; expected windowed_by(…) before agg(), "
                "or emit('latest') or emit('every')",
                self.at,
            )

    @property
    def relation(self) -> str:
        return STREAM

    @property
    def subject(self) -> str:
        return self.name or self.child.subject

    @property
    def generated_name(self) -> str:
        return f"emit-{self.mode}-{self.child.subject}"

    @property
    def emitted_mode(self) -> str:
        return self.mode

    def text(self) -> str:
        return f"emit {self.mode}"

    def delay_ms(self, window: Window) -> int:
        """Final results stand behind stream time by what their windows waited; other results do not."""
        if self.mode != "final":
            return self.child.delay_ms(window)
        delay = self.child.origin.final_delay_ms(window)
        assert delay is not None, "checked on construction"
        return delay

    @cached_property
    def depends_on_cut(self) -> bool:
        return (self.mode == "latest" and self.child.origin.is_settled_per_epoch) or self.child.depends_on_cut

    def lower(self, building: Building) -> Step:
        """The port of the table's operator, then the stateless steps above the table."""
        origin, steps = self.child.origin, steps_above_origin(self.child)
        kept = building.lower(origin)
        emitted = f"{building.name(origin)}:emit-{self.mode}" if steps else building.name(self)
        step = replace(port_step(kept, self.mode, emitted, building), at=self.at)
        for above in steps:
            step = building.add(above.step(step, f"{building.name(above)}:{self.mode}", building.analyzer))
        return step


@dataclass(frozen=True)
class Emit(Operator):
    """One output of an operator that has several, such as the newest result per key and epoch, every one, or the final ones."""

    kind: ClassVar[str] = "emit"

    def reads(self, place: int, needed: Names, rows: Schema) -> Names:
        return frozenset(rows.names)

    def text(self) -> str:
        return f"emit: {port_of(self.inputs[0])}"


def port_step(table: Step, port: str, step_id: str, building: Building) -> Step:
    """The step that takes one port of a table's operator; final results delete nothing."""
    operator = Emit(step_id, UNSTAGED, (f"{table.id}{PORT}{port}",))
    return building.add(replace(table, operator=operator, table=port != "final"))
