"""A topology as a flowchart in the language of Mermaid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from streamkit.plan.connection import Connection
from streamkit.plan.node import BOX, CYLINDER, ROUNDED, Node
from streamkit.plan.tree import walk

_SHAPES = {BOX: ("[", "]"), ROUNDED: ("([", "])"), CYLINDER: ("[(", ")]")}
_ENTITIES = {'"': "#quot;", "<": "#lt;", ">": "#gt;"}


def mermaid(roots: Iterable[Node], connections: Iterable[Connection] = ()) -> str:
    """The flowchart: one box a step, one arrow from each step to those that take its rows; dotted ones are connectors."""
    ids = {node: f"n{number}" for number, node in enumerate(walk(roots))}
    boxes = [f"    {ids[node]}{_box(node)}" for node in ids]
    arrows = [f"    {ids[child]} --> {ids[node]}" for node in ids for child in node.children]
    return "\n".join(["flowchart TD", *boxes, *arrows, *_connected(ids, connections)])


def _connected(ids: Mapping[Node, str], connections: Iterable[Connection]) -> Iterator[str]:
    for number, one in enumerate(connections):
        yield f'    c{number}[/"{_escaped(one.place)}"/]'
        for node, step in ids.items():
            if getattr(node, "topic", None) == one.topic and node.traits.is_sink != one.is_source:
                yield f"    c{number} -.-> {step}" if one.is_source else f"    {step} -.-> c{number}"


def _box(node: Node) -> str:
    left, right = _SHAPES[node.shape]
    return f'{left}"{_escaped(node.text())}"{right}'


def _escaped(text: str) -> str:
    return "".join(_ENTITIES.get(character, character) for character in text)
