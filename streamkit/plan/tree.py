"""Walking, changing and hashing trees of nodes."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from streamkit.plan.nodes import Node


def children(node: Node) -> tuple[Node, ...]:
    """The nodes whose rows a node takes, in the order of its fields."""
    values = (getattr(node, field.name) for field in dataclasses.fields(node))
    return tuple(value for value in values if isinstance(value, Node))


def walk(roots: Iterable[Node]) -> Iterator[Node]:
    """Every node below the roots once, inputs before those that take them; equal nodes count as one."""
    seen: set[Node] = set()
    for root in roots:
        yield from _walk(root, seen)


def replace(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with `change` applied to every node, inputs first."""
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Node):
            changed[field.name] = replace(value, change)
    return change(dataclasses.replace(node, **changed) if changed else node)


def structure_hash(node: Node) -> str:
    """Eight hexadecimal digits that depend on the structure below a node and on nothing else."""
    return hashlib.sha256(repr(node).encode()).hexdigest()[:8]


def _walk(node: Node, seen: set[Node]) -> Iterator[Node]:
    if node in seen:
        return
    for child in children(node):
        yield from _walk(child, seen)
    seen.add(node)
    yield node
