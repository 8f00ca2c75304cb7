"""How large a box is: as wide as its longest line, as high as its lines are many."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamkit.plan.graph.graph import STORE, TITLE, Box, BoxText
from streamkit.plan.graph.ports import BORDER, PORT_GAP
from streamkit.plan.graph.text_width import text_width, wrapped

TEXT_WIDTH_MAX = 260
WIDTH_MIN = 84
PADDING_X, PADDING_Y = 12, 8
LINE_HEIGHT, BASELINE = 16, 12
STORE_INDENT = 16  # room for the sign of a store
NARROWING = 8  # less is not tried


@dataclass(frozen=True)
class BoxLine:
    """
    A line of one of the texts of a box; `begins` says whether it is the first one of its text.

    `x` and `y` are where it begins, on its base line, in pixels from the left and upper border of the box.
    """

    part: str
    text: str
    begins: bool
    x: int
    y: int


@dataclass(frozen=True)
class BoxSize:
    """The lines of a box, and its width and height in pixels; the width is even."""

    lines: tuple[BoxLine, ...]
    width: int
    height: int


def box_size(box: Box, flows_in: int = 0) -> BoxSize:
    """The size of a box with so many flows that reach it, each by a port of its own."""
    found = [(text, line, number == 0) for text in box.texts for number, line in enumerate(_wrapped(text))]
    lines = tuple(
        BoxLine(text.part, line, begins, PADDING_X + _indent(text), PADDING_Y + number * LINE_HEIGHT + BASELINE)
        for number, (text, line, begins) in enumerate(found)
    )
    right = max((math.ceil(line.x + line_width(line)) for line in lines), default=0) + PADDING_X
    width = max(WIDTH_MIN, right, (flows_in - 1) * PORT_GAP + 2 * BORDER)
    return BoxSize(lines, width + width % 2, 2 * PADDING_Y + LINE_HEIGHT * max(len(lines), 1))


def line_width(line: BoxLine) -> float:
    """How wide a line is at most."""
    return text_width(line.text, is_bold=line.part == TITLE)


def _indent(text: BoxText) -> int:
    return STORE_INDENT if text.part == STORE else 0


def _wrapped(text: BoxText) -> list[str]:
    """The lines of a text, as few as there can be, and then as narrow."""
    is_bold, narrow, wide = text.part == TITLE, WIDTH_MIN // 2, TEXT_WIDTH_MAX - _indent(text)
    lines = wrapped(text.text, wide, is_bold=is_bold)
    while wide - narrow > NARROWING:
        middle = (narrow + wide) // 2
        narrower = wrapped(text.text, middle, is_bold=is_bold)
        if len(narrower) > len(lines):
            narrow = middle
        else:
            wide, lines = middle, narrower
    return lines
