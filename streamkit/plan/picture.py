"""A topology as a picture for notebooks: boxes in rows from the sources down, drawn in SVG."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamkit.errors import TopologyError
from streamkit.plan.connection import Connection
from streamkit.plan.demands import demands_of_nodes
from streamkit.plan.naming import name_steps
from streamkit.plan.node import Node
from streamkit.plan.tree import walk

BOX_WIDTH = 260
BOX_PADDING = 8
LINE_HEIGHT = 15
LINE_LENGTH = 38
GAP = 28
MARGIN = 12
_COLOURS = {"stream": "#dbe9f6", "table": "#dff0d8", "global_table": "#fdebd0"}
_SINK_COLOUR = "#e8e3f3"


@dataclass(frozen=True)
class Box:
    """Where a step is drawn, and what stands in it: its column, its row, and lines of text."""

    column: int
    row: int
    lines: tuple[str, ...]
    top: int = 0

    @property
    def height(self) -> int:
        return 2 * BOX_PADDING + LINE_HEIGHT * len(self.lines)

    @property
    def bottom(self) -> int:
        return self.top + self.height

    @property
    def left(self) -> int:
        return MARGIN + self.column * (BOX_WIDTH + GAP)

    @property
    def middle(self) -> int:
        return self.left + BOX_WIDTH // 2


def picture(name: str, roots: Iterable[Node], connections: Iterable[Connection] = ()) -> str:
    """The topology as HTML with one SVG picture in it; every box shows what its step does, its store and its key. Connectors are lines below."""
    boxes = _placed(list(walk(roots)))
    width = max((box.left for box in boxes.values()), default=0) + BOX_WIDTH + MARGIN
    height = max((box.bottom for box in boxes.values()), default=0) + MARGIN
    arrows = "".join(_arrow(boxes[child], box) for node, box in boxes.items() for child in node.children)
    drawn = "".join(_drawn(node, box) for node, box in boxes.items())
    below = "".join(f"<br/>{html.escape(one.text())}" for one in connections)
    style = 'font-family="sans-serif" font-size="12"'
    return (
        f"<div><b>{html.escape(name)}</b><br/>"
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {style}>{arrows}{drawn}</svg>{below}</div>'
    )


def _placed(every: list[Node]) -> dict[Node, Box]:
    """Each step one row below the lowest of its inputs, in the column of its first input if that is free; a row is as high as its highest box."""
    boxes: dict[Node, Box] = {}
    taken: set[tuple[int, int]] = set()
    stores = _stores(every)
    for node in every:
        inputs = [boxes[child] for child in node.children]
        row = max((box.row + 1 for box in inputs), default=0)
        column = inputs[0].column if inputs else 0
        while (column, row) in taken:
            column += 1
        taken.add((column, row))
        boxes[node] = Box(column, row, tuple(_lines(node, stores)))
    tops = _tops(boxes.values())
    return {node: Box(box.column, box.row, box.lines, tops[box.row]) for node, box in boxes.items()}


def _tops(boxes: Iterable[Box]) -> dict[int, int]:
    """Where each row begins."""
    heights: dict[int, int] = {}
    for box in boxes:
        heights[box.row] = max(heights.get(box.row, 0), box.height)
    tops, top = {}, MARGIN
    for row in sorted(heights):
        tops[row] = top
        top += heights[row] + GAP
    return tops


def _stores(every: list[Node]) -> Mapping[Node, str]:
    """The stores that steps keep up, by their names; none where names are not distinct, of which compiling tells."""
    demands = demands_of_nodes(every)
    try:
        names = name_steps(every).stores
    except TopologyError:
        return {}
    return {node: name for node, name in names.items() if node.traits.keeps_store or demands[node].is_looked_up}


def _lines(node: Node, stores: Mapping[Node, str]) -> list[str]:
    """What a step does, wrapped, its aggregates one by one; then its name, its key and its store."""
    texts = list(node.label())
    texts += [f"[{node.name}]"] if node.name else []
    texts += [f"store {stores[node]}"] if node in stores else []
    return [line for text in texts for line in textwrap.wrap(text, LINE_LENGTH, break_on_hyphens=False)]


def _drawn(node: Node, box: Box) -> str:
    colour = _SINK_COLOUR if node.traits.is_sink else _COLOURS[node.relation]
    first = box.top + BOX_PADDING + 11
    lines = "".join(
        f'<text x="{box.middle}" y="{first + LINE_HEIGHT * place}">{html.escape(line)}</text>'
        for place, line in enumerate(box.lines)
    )
    frame = f'<rect x="{box.left}" y="{box.top}" width="{BOX_WIDTH}" height="{box.height}" rx="6" fill="{colour}" stroke="#667"/>'
    return f'<g text-anchor="middle" fill="#112"><title>{html.escape(node.text())}</title>{frame}{lines}</g>'


def _arrow(start: Box, end: Box) -> str:
    x, y = end.middle, end.top
    line = f'<path d="M{start.middle} {start.bottom} L{x} {y}" stroke="#667" fill="none"/>'
    return f'{line}<path d="M{x - 4} {y - 7} L{x} {y} L{x + 4} {y - 7}" stroke="#667" fill="none"/>'
