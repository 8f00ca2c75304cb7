"""What the pass `infer_types` knows while it turns nodes into steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from streamkit.plan import nodes
from streamkit.plan.analysis import Analyzer
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.naming import Names
from streamkit.plan.program import Input, Output, Store
from streamkit.plan.steps import Step
from streamkit.plan.tree import walk
from streamkit.schema import Column

StateColumns = Callable[[TypedAggregate], tuple[Column, ...]]


@dataclass
class Building:
    """The steps, stores and outputs so far; each node is turned into a step once."""

    names: Names
    inputs: dict[nodes.Source, Input]
    analyzer: Analyzer
    state_columns: StateColumns
    modes: dict[nodes.Node, tuple[str, ...]]
    steps: dict[str, Step] = field(default_factory=dict)
    stores: dict[str, Store] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    lowered: dict[nodes.Node, Step] = field(default_factory=dict)

    def add(self, step: Step) -> Step:
        """Append a step, unless it stands there already."""
        known = self.steps.setdefault(step.id, step)
        assert known == step, f"two different steps are called {step.id!r}"
        return known

    def add_store(self, name: str, store: Store) -> None:
        self.stores.setdefault(name, store)

    def name(self, node: nodes.Node) -> str:
        return self.names.steps[node]

    def input_number(self, source: nodes.Source) -> int:
        return list(dict.fromkeys(self.inputs.values())).index(self.inputs[source])


def asked_modes(roots: Iterable[nodes.Node]) -> dict[nodes.Node, tuple[str, ...]]:
    """The emissions asked of each table, below the stateless steps between."""
    asked: dict[nodes.Node, set[str]] = {}
    for node in walk(roots):
        if isinstance(node, nodes.Emit):
            asked.setdefault(nodes.table_origin(node.child), set()).add(node.mode)
    return {node: tuple(mode for mode in nodes.EMIT_MODES if mode in modes) for node, modes in asked.items()}
