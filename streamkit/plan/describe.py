"""A topology as a tree of text, from its sources to its sinks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamkit.plan.connection import Connection, describe_connections
from streamkit.plan.node import Node
from streamkit.plan.tree import walk


def describe(name: str, roots: Iterable[Node], time_zone: str = "UTC", connections: Iterable[Connection] = ()) -> str:
    """
    The topology as a tree of text: below each source the steps that take its rows, down to the sinks and stores.

    A time zone is named if it is not UTC. A join is drawn below its first input; below its other inputs stands a reference to it.
    Connectors stand at the end.
    """
    every = list(walk(roots))
    consumers = {node: [other for other in every if node in other.children] for node in every}
    lines = [f"topology {name}" + ("" if time_zone == "UTC" else f", time zone {time_zone}")]
    for node in every:
        if not node.children:
            lines += _branch(node, None, consumers, "", "")
    if not every:
        lines.append("(nothing yet: no stream or table goes to a topic or a named store)")
    return "\n".join([*lines, *describe_connections(connections)])


def _branch(node: Node, parent: Node | None, consumers: dict[Node, list[Node]], indent: str, mark: str) -> Iterator[str]:
    named = f"  [{node.name}]" if node.name else ""
    if parent is not None and parent != node.children[0]:
        yield f"{indent}{mark}↦ {node.text()}{named}"
        return
    yield f"{indent}{mark}{node.text()}{named}"
    below = indent + {"": "", "├─ ": "│  ", "└─ ": "   "}[mark]
    followers = consumers[node]
    for place, follower in enumerate(followers):
        yield from _branch(follower, node, consumers, below, "└─ " if place == len(followers) - 1 else "├─ ")
