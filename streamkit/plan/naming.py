"""Pass `name_steps`: a name for every step and store, from its structure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch

from streamkit.errors import TopologyError
from streamkit.plan import nodes
from streamkit.plan.duration import duration_text
from streamkit.plan.tree import structure_hash, walk

NAME_PART_MAX = 100  # leaves room for the application's name and "-changelog" in Kafka's 249
_FOREIGN = re.compile(r"[^a-zA-Z0-9._-]+")


@dataclass(frozen=True)
class Names:
    """The names of steps, and of the stores behind tables."""

    steps: dict[nodes.Node, str]
    stores: dict[nodes.Node, str]


def name_steps(roots: Iterable[nodes.Node]) -> Names:
    """
    Name every node, and the store of every table, after its structure.

    `name=` and `store=` come first. Generated names say what the step does to which topic, so they stay as they are when unrelated
    parts change; where two would be equal, each gets the hash of its structure, never a number.
    """
    every = list(walk(roots))
    tables = [node for node in every if node.relation == nodes.TABLE]
    stores = _distinct({node: store_name(node) for node in tables}, {node for node in tables if _given_store(node)}, "store")
    steps = _distinct({node: step_name(node) for node in every}, {node for node in every if node.name}, "step")
    return Names(steps, stores)


def step_name(node: nodes.Node) -> str:
    """The name of a step: its own, or what it does to what."""
    if node.name:
        return node.name
    subject = subject_name(node.child if isinstance(node, (nodes.StatelessStep, nodes.Emit)) else node)
    if isinstance(node, nodes.Emit):
        return f"emit-{node.mode}-{subject}"
    return f"{node.kind}-{node.topic}" if isinstance(node, nodes.To) else _short(f"{node.kind}-{subject}")


def store_name(node: nodes.Node) -> str:
    """The name of the store behind a table: its own, or the table's subject and the steps up to it."""
    given = _given_store(node)
    return given or (step_name(node) if isinstance(node, nodes.StatelessStep) else subject_name(node))


@singledispatch
def subject_name(node: nodes.Node) -> str:
    """What a node is about: a topic, topics joined, or a grouping of them."""
    raise TypeError(f"no name for {type(node).__name__}")


@subject_name.register
def _(node: nodes.Source) -> str:
    return node.name or node.topic


@subject_name.register
def _(node: nodes.StatelessStep) -> str:
    return node.name or subject_name(node.child)


@subject_name.register
def _(node: nodes.Join) -> str:
    return node.name or _short(f"{subject_name(node.left)}-{subject_name(node.right)}")


@subject_name.register
def _(node: nodes.Aggregate) -> str:
    if node.store or node.name:
        return node.store or str(node.name)
    key = [_FOREIGN.sub("-", name) for name, _ in node.key or ()] or ["key"]
    window = ["per", duration_text(node.window.size_ms).replace(" ", "-")] if node.window else []
    return _short("-".join([subject_name(node.child), "by", *key, *window]))


@subject_name.register
def _(node: nodes.Emit) -> str:
    return node.name or subject_name(node.child)


@subject_name.register
def _(node: nodes.To) -> str:
    return node.name or node.topic


def _given_store(node: nodes.Node) -> str | None:
    return getattr(node, "store", None) or node.name


def _short(name: str) -> str:
    return name if len(name) <= NAME_PART_MAX else name[:NAME_PART_MAX].rstrip("-")


def _distinct(names: dict[nodes.Node, str], given: set[nodes.Node], what: str) -> dict[nodes.Node, str]:
    """Equal generated names get the hash of their structure; equal given names are an error."""
    uses = Counter(names.values())
    chosen = Counter(names[node] for node in given)
    for node in given:
        if chosen[names[node]] > 1:
            raise TopologyError(f"two {what}s are called {names[node]!r}; expected distinct names", node.at)
    return {node: name if node in given or uses[name] == 1 else f"{name}-{structure_hash(node)}" for node, name in names.items()}
