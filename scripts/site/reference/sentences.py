"""Docstrings as cells of a table."""

from __future__ import annotations

import inspect
import re

_END = re.compile(r"(?<=[^.][.:!?])\s")
_TARGETS = re.compile(r":\w+:`([^`]+)`")


def first_sentence(thing: object) -> str:
    """The first sentence of the docstring of a thing, on one line; empty if it has none."""
    text = inspect.getdoc(thing) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return _END.split(_TARGETS.sub(r"`\1`", paragraph))[0].rstrip(":")


def cell(text: str) -> str:
    """A text that may stand in a table: a bar and a line's end would end the cell."""
    return " ".join(text.replace("|", "\\|").split())


def row(*cells: str) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(cell, cells))} |"


def table(*names: str) -> list[str]:
    """The head of a table with columns of these names."""
    return [row(*names), row(*["---"] * len(names))]
