"""A topology as a flowchart in the language of Mermaid."""

from __future__ import annotations

from collections.abc import Iterable

from streamkit.plan import nodes
from streamkit.plan.describe import node_text
from streamkit.plan.tree import children, walk

_SHAPES = {
    nodes.StreamSource: ("([", "])"),
    nodes.TableSource: ("[(", ")]"),
    nodes.GlobalTableSource: ("[(", ")]"),
    nodes.Aggregate: ("[(", ")]"),
    nodes.To: ("([", "])"),
}
_ENTITIES = {'"': "#quot;", "<": "#lt;", ">": "#gt;"}


def mermaid(roots: Iterable[nodes.Node]) -> str:
    """The flowchart: one box a step, one arrow from each step to those that take its rows."""
    ids = {node: f"n{number}" for number, node in enumerate(walk(roots))}
    boxes = [f"    {ids[node]}{_box(node)}" for node in ids]
    arrows = [f"    {ids[child]} --> {ids[node]}" for node in ids for child in children(node)]
    return "\n".join(["flowchart TD", *boxes, *arrows])


def _box(node: nodes.Node) -> str:
    left, right = _SHAPES.get(type(node), ("[", "]"))
    return f'{left}"{_escaped(node_text(node))}"{right}'


def _escaped(text: str) -> str:
    return "".join(_ENTITIES.get(character, character) for character in text)
