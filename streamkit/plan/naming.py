"""Pass `name_steps`: a name for every step and store, from its structure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streamkit.errors import TopologyError
from streamkit.plan.node import Node, structure_digest, structure_hash
from streamkit.plan.program import Structures
from streamkit.plan.traits import TABLE
from streamkit.plan.tree import walk

_FOREIGN = re.compile(r"[^a-zA-Z0-9._-]+")


@dataclass(frozen=True)
class StepNames:
    """The names of steps, and of the stores behind tables."""

    steps: dict[Node, str]
    stores: dict[Node, str]

    @property
    def structures(self) -> Structures:
        """The structures behind generated names, by which a later start knows the steps again."""
        steps = {name: structure_digest(node) for node, name in self.steps.items() if not node.name}
        stores = {name: structure_digest(node) for node, name in self.stores.items() if not node.given_store}
        return Structures(steps, stores)


@dataclass(frozen=True)
class NamesBefore:
    """
    Names that the program before had, of steps or of stores, and the structures behind those that were generated.

    A program that an earlier version compiled does not say the structures; names that end with a hash do.
    """

    names: frozenset[str] = frozenset()
    structures: Mapping[str, str] = field(default_factory=dict)

    def has(self, name: str, node: Node) -> bool:
        """Whether the program before called this very step, or its store, so."""
        return self.structures.get(name) == structure_digest(node)

    def has_hashed(self, name: str, node: Node) -> bool:
        """Whether the program before had this very step, or its store, by its name and its hash."""
        longer = [one for one in self.names if one.startswith(f"{name}-")]
        own = hashed(name, node) if longer else ""
        return any(one == own or one.startswith(f"{own}-") for one in longer)


@dataclass(frozen=True)
class KnownNames:
    """The names that the program before had."""

    steps: NamesBefore = NamesBefore()
    stores: NamesBefore = NamesBefore()

    @classmethod
    def of(cls, program: str) -> KnownNames:
        """Those of a program as the catalog keeps it, JSON text of any format; none if it is empty."""
        if not program:
            return cls()
        value = json.loads(program)
        structures = value.get("structures", {})
        steps = frozenset(step_of(one["id"]) for one in value.get("operators", ()))
        stores = frozenset(one["name"] for one in value.get("stores", ()))
        return cls(NamesBefore(steps, structures.get("steps", {})), NamesBefore(stores, structures.get("stores", {})))


def name_steps(roots: Iterable[Node], known: KnownNames = KnownNames()) -> StepNames:
    """
    Name every node, and the store of every table, after its structure.

    `name=` and `store=` come first. Generated names say what the step does to which topic, so they stay as they are when unrelated
    parts change; where two would be equal, each gets the hash of its structure. What the program before had keeps the name that it is
    `known` by, whatever else would be called so now.
    """
    every = list(walk(roots))
    tables = [node for node in every if node.relation == TABLE]
    stores = {node: node.given_store or node.generated_store for node in tables}
    steps = {node: node.name or node.generated_name for node in every}
    return StepNames(
        _distinct(steps, {node for node in every if node.name}, known.steps, "step"),
        _distinct(stores, {node for node in tables if node.given_store}, known.stores, "store"),
    )


def step_of(operator: str) -> str:
    """The name of the step that an operator is part of: its id up to the colon, which no name has."""
    return operator.partition(":")[0]


def name_part(text: str) -> str:
    """A text as a part of a name: characters that a topic's name cannot have become a dash."""
    return _FOREIGN.sub("-", text)


def hashed(name: str, node: Node) -> str:
    """A generated name with the hash of the structure behind it."""
    return f"{name}-{structure_hash(node)}"


def _distinct(names: dict[Node, str], given: set[Node], known: NamesBefore, what: str) -> dict[Node, str]:
    """The names, each of one node; equal given names are an error."""
    chosen = Counter(names[node] for node in given)
    for node in given:
        if chosen[names[node]] > 1:
            raise TopologyError(f"two {what}s are called {names[node]!r}; expected distinct names", node.at)
    alike: dict[str, list[Node]] = {}
    for node, name in names.items():
        if node not in given:
            alike.setdefault(name, []).append(node)
    told_apart = {node: own for name, nodes in alike.items() for node, own in _told_apart(name, nodes, name in chosen, known)}
    return _numbered({node: told_apart.get(node, name) for node, name in names.items()})


def _told_apart(name: str, nodes: list[Node], is_taken: bool, known: NamesBefore) -> Iterable[tuple[Node, str]]:
    """The names of nodes whose generated names are equal: as the program before had them, else with the hash of their structures."""
    owner = next((node for node in nodes if known.has(name, node)), None)
    new = [node for node in nodes if node is not owner and not known.has_hashed(name, node)]
    if owner is None and len(new) == 1 and (len(nodes) == 1 or name in known.names):
        (owner,) = new
    return [(node, name if node is owner and not is_taken else hashed(name, node)) for node in nodes]


def _numbered(names: dict[Node, str]) -> dict[Node, str]:
    """Names of one structure, which only objects in functions tell apart, get numbers from the second on, in the order of the steps."""
    turns = Counter[str]()
    found = {}
    for node, name in names.items():
        turns[name] += 1
        found[node] = name if turns[name] == 1 else f"{name}-{turns[name]}"
    return found
