"""Pass `name_steps`: a name for every step and store, from its structure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from streamkit.errors import TopologyError
from streamkit.plan.node import TABLE, Node, structure_hash
from streamkit.plan.tree import walk

_FOREIGN = re.compile(r"[^a-zA-Z0-9._-]+")


@dataclass(frozen=True)
class Names:
    """The names of steps, and of the stores behind tables."""

    steps: dict[Node, str]
    stores: dict[Node, str]


def name_steps(roots: Iterable[Node]) -> Names:
    """
    Name every node, and the store of every table, after its structure.

    `name=` and `store=` come first. Generated names say what the step does to which topic, so they stay as they are when unrelated
    parts change; where two would be equal, each gets the hash of its structure.
    """
    every = list(walk(roots))
    tables = [node for node in every if node.relation == TABLE]
    stores = {node: node.given_store or node.generated_store for node in tables}
    steps = {node: node.name or node.generated_name for node in every}
    return Names(
        _distinct(steps, {node for node in every if node.name}, "step"),
        _distinct(stores, {node for node in tables if node.given_store}, "store"),
    )


def step_of(operator: str) -> str:
    """The name of the step that an operator is part of: its id up to the colon, which no name has."""
    return operator.partition(":")[0]


def name_part(text: str) -> str:
    """A text as a part of a name: characters that a topic's name cannot have become a dash."""
    return _FOREIGN.sub("-", text)


def _distinct(names: dict[Node, str], given: set[Node], what: str) -> dict[Node, str]:
    """Equal generated names get the hash of their structure; equal given names are an error."""
    uses = Counter(names.values())
    chosen = Counter(names[node] for node in given)
    for node in given:
        if chosen[names[node]] > 1:
            raise TopologyError(f"two {what}s are called {names[node]!r}; expected distinct names", node.at)
    hashed = {
        node: name if node in given or uses[name] == 1 else f"{name}-{structure_hash(node)}" for node, name in names.items()
    }
    return _numbered(hashed)


def _numbered(names: dict[Node, str]) -> dict[Node, str]:
    """Names of one structure, which only objects in functions tell apart, get numbers from the second on, in the order of the steps."""
    turns = Counter[str]()
    found = {}
    for node, name in names.items():
        turns[name] += 1
        found[node] = name if turns[name] == 1 else f"{name}-{turns[name]}"
    return found
