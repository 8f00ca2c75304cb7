"""Walking and changing trees of nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamkit.plan.node import Node


def walk(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node below the roots once, inputs before those that take them; equal nodes count as one."""
    seen: set[Node] = set()
    for root in roots:
        yield from _walk(root, seen)


def replace(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with `change` applied to every node, inputs first."""
    changed = {
        one.name: _replaced(getattr(node, one.name), change) for one in dataclasses.fields(node) if _holds_nodes(node, one.name)
    }
    return change(dataclasses.replace(node, **changed) if changed else node)


def _holds_nodes(node: Node, name: str) -> bool:
    value = getattr(node, name)
    return isinstance(value, Node) or (isinstance(value, tuple) and any(isinstance(item, Node) for item in value))


def _replaced(value: Any, change: Callable[[Node], Node]) -> Any:
    return replace(value, change) if isinstance(value, Node) else tuple(replace(item, change) for item in value)


def _walk(node: Node, seen: set[Node]) -> Iterator[Node]:
    if node in seen:
        return
    for child in node.children:
        yield from _walk(child, seen)
    seen.add(node)
    yield node
