"""A graph with a place for everything, as values: what pictures show, and what pages draw more on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from streamkit.plan.graph.box_size import BoxLine
from streamkit.plan.graph.graph import Box, Flow
from streamkit.plan.plain import to_plain

Point: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class PlacedBox:
    """A box with its texts in lines, and the rectangle that it fills, in pixels from the left and upper edge of the drawing."""

    box: Box
    lines: tuple[BoxLine, ...]
    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """Its right border."""
        return self.left + self.width

    @property
    def bottom(self) -> int:
        """Its lower border."""
        return self.top + self.height

    def moved(self, left: int, top: int) -> PlacedBox:
        """The box, so much farther right and down."""
        return replace(self, left=self.left + left, top=self.top + top)

    def to_json(self) -> dict[str, Any]:
        """The box as plain values; its lines stand for its texts."""
        box = self.box
        return {
            "id": box.id,
            "kind": box.kind,
            "gives": box.gives,
            "topic": box.topic,
            "stores": list(box.stores),
            "note": box.note,
            "steps": list(box.steps),
            "lines": to_plain(self.lines),
            "left": self.left,
            "top": self.top,
            "width": self.width,
            "height": self.height,
        }


@dataclass(frozen=True)
class PlacedFlow:
    """
    A flow, and the points between which it runs, upright and level in turns.

    The first point is on the lower border of the box where it starts, the last on the upper border of that where it ends.
    """

    flow: Flow
    points: tuple[Point, ...]

    def moved(self, left: int, top: int) -> PlacedFlow:
        """The flow, so much farther right and down."""
        return PlacedFlow(self.flow, tuple((x + left, y + top) for x, y in self.points))

    def to_json(self) -> dict[str, Any]:
        """The flow as plain values."""
        flow = self.flow
        return {"start": flow.start, "end": flow.end, "number": flow.number, "points": [list(point) for point in self.points]}


@dataclass(frozen=True)
class Drawing:
    """Boxes and flows with their places, and how wide and high all of it is, in pixels."""

    name: str
    width: int
    height: int
    boxes: tuple[PlacedBox, ...] = ()
    flows: tuple[PlacedFlow, ...] = ()

    def moved(self, left: int, top: int) -> Drawing:
        """The drawing with all that is in it so much farther right and down."""
        boxes = tuple(one.moved(left, top) for one in self.boxes)
        return replace(self, boxes=boxes, flows=tuple(one.moved(left, top) for one in self.flows))

    def to_json(self) -> dict[str, Any]:
        """The drawing as plain lists, dicts and scalars, ready for `json.dumps`."""
        return {
            "name": self.name,
            "width": self.width,
            "height": self.height,
            "boxes": [one.to_json() for one in self.boxes],
            "flows": [one.to_json() for one in self.flows],
        }
