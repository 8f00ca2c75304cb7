"""Walking trees of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamkit.plan.node import Node


def walk(roots: Iterable[Node]) -> Iterator[Node]:
    """
    Every node below the roots once, inputs before those that take them; equal nodes count as one.

    What a node knows of the tree below it is found on the way, so that no tree is too deep for Python's stack.
    """
    seen: set[Node] = set()
    visited: set[int] = set()
    for root in roots:
        waiting = [root]
        while waiting:
            node = waiting[-1]
            for child in node.children:
                if id(child) not in visited:
                    waiting.append(child)
                    break
            else:
                waiting.pop()
                visited.add(id(node))
                node.know_tree()
                if node not in seen:
                    seen.add(node)
                    yield node
