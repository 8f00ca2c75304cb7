"""Walking trees of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamkit.plan.node import Node


def walk(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node below the roots once, inputs before those that take them; equal nodes count as one."""
    seen: set[Node] = set()
    for root in roots:
        yield from _walk(root, seen)


def _walk(node: Node, seen: set[Node]) -> Iterator[Node]:
    if node in seen:
        return
    for child in node.children:
        yield from _walk(child, seen)
    seen.add(node)
    yield node
