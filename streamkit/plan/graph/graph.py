"""
An application as boxes, and flows between them: what pictures and pages show, before anything has a place.

A graph is made of a topology (`topology_graph`) or of a program alone (`program_graph`); `layout` makes a drawing of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

SOURCE, STEP, SINK, CONNECTOR = "source", "step", "sink", "connector"
KINDS_OF_BOXES = (SOURCE, STEP, SINK, CONNECTOR)
TITLE, TEXT, NAME, STORE = "title", "text", "name", "store"


@dataclass(frozen=True)
class BoxText:
    """A text in a box; `part` says what it is: the title, what a step does, the name that a user gave it, or a store that it keeps up."""

    part: str
    text: str


@dataclass(frozen=True)
class Box:
    """
    A source, a step, a sink or a connector.

    `id` is the name of the step; a connector has that of `connector_id`. `steps` are the names, as `step_of` gives them, of the operators
    that the box stands for: the step's own, and those of steps that keep its rows for others. `gives` says what leaves a source or a step:
    stream, table or global_table. `topic` is what a source reads, a sink writes, a connector fills or empties; `stores` are what a step
    keeps up; `note` says all that the box does.
    """

    id: str
    kind: str
    texts: tuple[BoxText, ...]
    gives: str = ""
    topic: str | None = None
    stores: tuple[str, ...] = ()
    note: str = ""
    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS_OF_BOXES:
            raise ValueError(f"the box {self.id!r} is a {self.kind!r}; expected one of {', '.join(KINDS_OF_BOXES)}")


@dataclass(frozen=True)
class Flow:
    """Rows that go from one box to another, by their ids; `number` tells apart the flows between the same two, as of a self-join."""

    start: str
    end: str
    number: int = 0


@dataclass(frozen=True)
class Graph:
    """Boxes and the flows between them, which lead in no circle; ValueError if they do, or if a flow ends nowhere."""

    name: str
    boxes: tuple[Box, ...] = ()
    flows: tuple[Flow, ...] = ()

    def __post_init__(self) -> None:
        known = Counter(box.id for box in self.boxes)
        twice = [name for name, count in known.items() if count > 1]
        twice += [str(flow) for flow, count in Counter(self.flows).items() if count > 1]
        if twice:
            raise ValueError(f"the graph {self.name!r} has {twice[0]} twice; expected distinct boxes and flows")
        for flow in self.flows:
            if flow.start not in known or flow.end not in known:
                raise ValueError(f"{flow} ends at no box of the graph {self.name!r}; there are {', '.join(known) or 'none'}")
        if len(self._order) < len(self.boxes):
            left = ", ".join(sorted(known.keys() - set(self._order)))
            raise ValueError(f"flows of the graph {self.name!r} lead in a circle, which is among {left}; expected none")

    def in_order(self) -> tuple[Box, ...]:
        """The boxes, each behind all whose rows it takes."""
        boxes = {box.id: box for box in self.boxes}
        return tuple(boxes[name] for name in self._order)

    @cached_property
    def _order(self) -> list[str]:
        missing = Counter(flow.end for flow in self.flows)
        takers: dict[str, list[str]] = {}
        for flow in self.flows:
            takers.setdefault(flow.start, []).append(flow.end)
        order = [box.id for box in self.boxes if not missing[box.id]]
        for name in order:  # grows on the way
            for taker in takers.get(name, ()):
                missing[taker] -= 1
                if not missing[taker]:
                    order.append(taker)
        return order


def numbered_flows(ends: Iterable[tuple[str, str]]) -> tuple[Flow, ...]:
    """Flows between these boxes, in this order; those between the same two are numbered."""
    seen = Counter[tuple[str, str]]()
    flows = []
    for start, end in ends:
        flows.append(Flow(start, end, seen[start, end]))
        seen[start, end] += 1
    return tuple(flows)


def connector_id(name: str) -> str:
    """The id of a connector's box; no step has it, since names of steps have no colon."""
    return f"connector:{name}"
