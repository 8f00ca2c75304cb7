"""A topology as a picture for notebooks: boxes in rows from the sources down, drawn in SVG."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass

from streamkit.plan.node import Node
from streamkit.plan.tree import walk

BOX_WIDTH = 260
BOX_HEIGHT = 44
GAP = 28
MARGIN = 12
TEXT_LENGTH_MAX = 78
LINE_LENGTH = 39
_COLOURS = {"stream": "#dbe9f6", "table": "#dff0d8", "global_table": "#fdebd0"}
_SINK_COLOUR = "#e8e3f3"


@dataclass(frozen=True)
class Box:
    """Where a step is drawn: its column and its row."""

    column: int
    row: int

    @property
    def left(self) -> int:
        return MARGIN + self.column * (BOX_WIDTH + GAP)

    @property
    def top(self) -> int:
        return MARGIN + self.row * (BOX_HEIGHT + GAP)

    @property
    def middle(self) -> int:
        return self.left + BOX_WIDTH // 2


def picture(name: str, roots: Iterable[Node]) -> str:
    """The topology as HTML with one SVG picture in it."""
    boxes = _placed(list(walk(roots)))
    width = max((box.left for box in boxes.values()), default=0) + BOX_WIDTH + MARGIN
    height = max((box.top for box in boxes.values()), default=0) + BOX_HEIGHT + MARGIN
    arrows = "".join(_arrow(boxes[child], box) for node, box in boxes.items() for child in node.children)
    drawn = "".join(_drawn(node, box) for node, box in boxes.items())
    style = 'font-family="sans-serif" font-size="12"'
    return (
        f"<div><b>{html.escape(name)}</b><br/>"
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {style}>{arrows}{drawn}</svg></div>'
    )


def _placed(every: list[Node]) -> dict[Node, Box]:
    """Each step one row below the lowest of its inputs, in the column of its first input if that is free."""
    boxes: dict[Node, Box] = {}
    taken: set[tuple[int, int]] = set()
    for node in every:
        inputs = [boxes[child] for child in node.children]
        row = max((box.row + 1 for box in inputs), default=0)
        column = inputs[0].column if inputs else 0
        while (column, row) in taken:
            column += 1
        taken.add((column, row))
        boxes[node] = Box(column, row)
    return boxes


def _drawn(node: Node, box: Box) -> str:
    colour = _SINK_COLOUR if node.is_sink else _COLOURS[node.relation]
    text = node.text()
    shown = text if len(text) <= TEXT_LENGTH_MAX else f"{text[: TEXT_LENGTH_MAX - 1]}…"
    lines = [shown[start : start + LINE_LENGTH] for start in range(0, len(shown), LINE_LENGTH)]
    first = box.top + BOX_HEIGHT // 2 + 4 - 7 * (len(lines) - 1)
    spans = "".join(
        f'<text x="{box.middle}" y="{first + 14 * place}">{html.escape(line)}</text>' for place, line in enumerate(lines)
    )
    frame = f'<rect x="{box.left}" y="{box.top}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="{colour}" stroke="#667"/>'
    return f'<g text-anchor="middle" fill="#112"><title>{html.escape(text)}</title>{frame}{spans}</g>'


def _arrow(start: Box, end: Box) -> str:
    x, y = end.middle, end.top
    line = f'<path d="M{start.middle} {start.top + BOX_HEIGHT} L{x} {y}" stroke="#667" fill="none"/>'
    return f'{line}<path d="M{x - 4} {y - 7} L{x} {y} L{x + 4} {y - 7}" stroke="#667" fill="none"/>'
