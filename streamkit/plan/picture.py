"""A topology as a picture: the SVG text of its drawing, for notebooks, files and pages."""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import pairwise

from streamkit.plan.graph.box_size import STORE_INDENT, BoxLine
from streamkit.plan.graph.drawing import Drawing, PlacedBox, PlacedFlow, Point
from streamkit.plan.graph.graph import CONNECTOR, NAME, SINK, STORE, TITLE
from streamkit.plan.graph.text_width import FONT_SIZE, legible

FONT = "Helvetica, Arial, &quot;Liberation Sans&quot;, sans-serif"
BACKGROUND, INK, MUTED, LINE = "#ffffff", "#1b2430", "#4a5563", "#5a697b"
COLOURS = {  # the fill and the border of what gives a stream, a table, a global table; of a sink, and of a connector
    "stream": ("#e3effb", "#5589bd"),
    "table": ("#e2f3e1", "#4f8f4d"),
    "global_table": ("#fdf0d8", "#a97c23"),
    SINK: ("#ece6f8", "#836fbb"),
    CONNECTOR: ("#f1f3f5", "#77838f"),
}
CORNER = 7
HEAD_WIDTH, HEAD_HEIGHT = 8, 8


def svg(drawing: Drawing) -> str:
    """The drawing as a standalone SVG text, on a background of its own; every box tells in a tooltip what it does."""
    size = f'width="{drawing.width}" height="{drawing.height}" viewBox="0 0 {drawing.width} {drawing.height}"'
    title = f"<title>{_escaped(drawing.name)}</title>"
    ground = f'<rect width="{drawing.width}" height="{drawing.height}" rx="{CORNER}" fill="{BACKGROUND}"/>'
    connectors = {box.box.id for box in drawing.boxes if box.box.kind == CONNECTOR}
    flows = "".join(_flow(flow, is_dashed=not connectors.isdisjoint((flow.flow.start, flow.flow.end))) for flow in drawing.flows)
    boxes = "".join(_box(box) for box in drawing.boxes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}" font-size="{FONT_SIZE}">'
        f"{title}{ground}{flows}{boxes}</svg>"
    )


def picture(drawing: Drawing) -> str:
    """The drawing as HTML for a notebook, below its name; what is wider than the notebook can be scrolled to."""
    return f'<div><b>{_escaped(drawing.name)}</b><div style="overflow-x:auto">{svg(drawing)}</div></div>'


def _box(placed: PlacedBox) -> str:
    box = placed.box
    fill, border = COLOURS[box.gives or box.kind]
    frame = (
        f'<rect x="{placed.left}" y="{placed.top}" width="{placed.width}" height="{placed.height}" rx="{CORNER}" '
        f'fill="{fill}" stroke="{border}"/>'
    )
    lines = "".join(_line(placed, line) for line in placed.lines)
    note = "\n".join(_escaped(line) for line in box.note.splitlines())
    return f'<g data-step="{_escaped(box.id)}"><title>{note}</title>{frame}{lines}</g>'


def _line(placed: PlacedBox, line: BoxLine) -> str:
    """A line of text; in front of the name of a store stands a sign."""
    x, y = placed.left + line.x, placed.top + line.y
    ink = MUTED if line.part in (NAME, STORE) else INK
    weight = ' font-weight="bold"' if line.part == TITLE else ""
    sign = _cylinder(x - STORE_INDENT, y - 10) if line.part == STORE and line.begins else ""
    return f'{sign}<text x="{x}" y="{y}" fill="{ink}"{weight}>{_escaped(line.text)}</text>'


def _cylinder(x: int, y: int) -> str:
    """The sign of a store."""
    return f'<path d="M{x} {y + 2}v8a5 2 0 0 0 10 0v-8a5 2 0 0 0 -10 0a5 2 0 0 0 10 0" fill="none" stroke="{MUTED}" stroke-width="1.2"/>'


def _flow(placed: PlacedFlow, *, is_dashed: bool) -> str:
    x, y = placed.points[-1]
    way = _rounded([*placed.points[:-1], (x, y - HEAD_HEIGHT + 1)])
    dashes = ' stroke-dasharray="5 4"' if is_dashed else ""
    half = HEAD_WIDTH // 2
    head = f'<path d="M{x - half} {y - HEAD_HEIGHT}L{x} {y}L{x + half} {y - HEAD_HEIGHT}z" fill="{LINE}"/>'
    return f'<path d="{way}" fill="none" stroke="{LINE}" stroke-width="1.4"{dashes}/>{head}'


def _rounded(points: Sequence[Point]) -> str:
    """The way through points that are upright and level in turns, its corners round."""
    way = "M{} {}".format(*points[0])
    for (before, corner), (_, after) in pairwise(pairwise(points)):
        radius = min(CORNER - 1, *(max(abs(x - corner[0]), abs(y - corner[1])) // 2 for x, y in (before, after)))
        (x, y), (following_x, following_y) = _towards(corner, before, radius), _towards(corner, after, radius)
        way += f"L{x} {y}Q{corner[0]} {corner[1]} {following_x} {following_y}"
    return way + "L{} {}".format(*points[-1])


def _towards(corner: Point, other: Point, distance: int) -> Point:
    """A point on the way from a corner to another, so far from the corner."""
    return tuple(one + max(-distance, min(distance, end - one)) for one, end in zip(corner, other))  # type: ignore[return-value]


def _escaped(text: str) -> str:
    return html.escape(legible(text))
