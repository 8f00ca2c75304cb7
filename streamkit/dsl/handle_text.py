"""Handles as people see them: a line in a terminal, a small table in a notebook."""

from __future__ import annotations

from collections.abc import Iterator

from streamkit.html_table import html_table
from streamkit.plan.node import Node

LINE_LENGTH_MAX = 120


def handle_line(kind: str, node: Node, also: str = "") -> str:
    """A handle in one line: its steps from the source on, or where they are too many the first and the last."""
    texts = [*(step.text() for step in steps_of(node)), *([also] if also else [])]
    whole = " | ".join(texts)
    if len(whole) > LINE_LENGTH_MAX and len(texts) > 2:
        whole = f"{texts[0]} | … | {texts[-1]}"
    return f"{kind}({whole if len(whole) <= LINE_LENGTH_MAX else whole[: LINE_LENGTH_MAX - 1] + '…'})"


def handle_table(kind: str, node: Node) -> str:
    """A handle as a table of HTML: a row a step, with the line of the user's file."""
    rows = [(step.text(), step.name, step.at) for step in steps_of(node)]
    return html_table(kind, rows, ("step", "name", "declared at"))


def steps_of(node: Node) -> list[Node]:
    """The steps that lead to a node, from its source on; of a join, those of its left side."""
    return [*_upwards(node)][::-1]


def _upwards(node: Node | None) -> Iterator[Node]:
    while node is not None:
        yield node
        node = next(iter(node.children), None)
