"""What the pass `infer_types` knows while it turns nodes into steps."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace

from streamkit.errors import TopologyError
from streamkit.plan.analysis import Analyzer
from streamkit.plan.demands import Demands
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.keys import check_key_types
from streamkit.plan.naming import StepNames
from streamkit.plan.node import Node
from streamkit.plan.on_error import FAIL, DeadLetterTopic, NotedTopic, OnError
from streamkit.plan.operator import gives_null_on_failure
from streamkit.plan.program import Input, Naming, Output, ProgramStore
from streamkit.plan.steps import Step
from streamkit.plan.traits import STREAM
from streamkit.schema import SchemaColumn

StateColumns = Callable[[TypedAggregate], tuple[SchemaColumn, ...]]
OfTable = Callable[[TypedAggregate], tuple[TypedAggregate, bool]]  # as it is kept for a table's groups; whether their members are


@dataclass
class Building:
    """
    The steps, stores and outputs so far; each node is turned into a step once.

    `demands` is what is demanded of each node. `on_error` is what the topology says of records that fail, `policies` what becomes of those
    of a step. `declarations` says when each node was declared first.
    `old_values_of` are the makers of tables whose old values a foreign-key join needs to know, found as steps are made: only joins below it
    mind, so that no other table is kept for that. `when_all_stand` is what they do about it once all steps are there.
    """

    names: StepNames
    inputs: dict[Node, Input]
    analyzer: Analyzer
    state_columns: StateColumns
    of_table: OfTable
    demands: Mapping[Node, Demands]
    on_error: OnError = FAIL
    steps: dict[str, Step] = field(default_factory=dict)
    stores: dict[str, ProgramStore] = field(default_factory=dict)
    namings: dict[str, Naming] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    lowered: dict[Node, Step] = field(default_factory=dict)
    changed: dict[Node, Step] = field(default_factory=dict)
    policies: dict[str, OnError] = field(default_factory=dict)
    under_way: list[Node] = field(default_factory=list)
    old_values_of: set[Node] = field(default_factory=set)
    when_all_stand: list[Callable[[], None]] = field(default_factory=list)
    declarations: dict[Node, int] = field(default_factory=dict)

    def analyzer_of(self, rows: Node | str) -> Analyzer:
        """The analyzer for expressions over rows of this kind, or of the node's; those of streams have record columns."""
        if isinstance(rows, str):
            return self.analyzer.of_records() if rows == STREAM else self.analyzer
        return self.analyzer.of_records(rows.traits.are_records) if rows.relation == STREAM else self.analyzer

    def lower(self, node: Node) -> Step:
        """The step that gives a node's rows, with all steps below it added, those of a chain one after the other."""
        for one in _chain_below(node, self.lowered):
            self._lower(one)
        return self._lower(node)

    def _lower(self, node: Node) -> Step:
        if node not in self.lowered:
            self.under_way.append(node)
            self.lowered[node] = node.lower(self)
            self.under_way.pop()
        return self.lowered[node]

    def changes(self, table: Node) -> Step:
        """The step that gives every change of a table, with all steps below it added."""
        for one in _chain_below(table, self.changed):
            self._changes(one)
        return self._changes(table)

    def _changes(self, table: Node) -> Step:
        if table not in self.changed:
            self.under_way.append(table)
            self.changed[table] = table.changes(self)
            self.under_way.pop()
        return self.changed[table]

    def add(
        self,
        step: Step,
        of_table: Node | None = None,
        declared_with: Node | None = None,
        grouped_at: tuple[int | None, ...] = (),
    ) -> Step:
        """
        Append a step, unless it stands there already; TopologyError if its key cannot be one.

        `of_table` is its node if that is a step of a table whose changes may be left out where they fail, since each stands for itself.
        `declared_with` is its node if that is a step of a table whose changes may not. `grouped_at` says when its inputs were grouped.
        """
        check_key_types(step.key, step.schema, step.at)
        step = replace(step, declared=self._declared(step, of_table or declared_with), grouped_at=grouped_at)
        is_new = step.id not in self.steps
        known = self.steps.setdefault(step.id, step)
        assert known == step, f"two different steps are called {step.id!r}"
        policy = self.policy if of_table is None else self.policy_of(of_table)
        if is_new and step.operator.leaves_out:
            if policy != FAIL:
                self.policies[step.id] = policy
            elif isinstance(self.on_error, DeadLetterTopic) and gives_null_on_failure(step.operator):
                self.policies[step.id] = NotedTopic(self.on_error.topic)
        return known

    def _declared(self, step: Step, of_table: Node | None) -> int:
        """When a step was declared: with its node, that of a table's step too, or as a stream became the table whose first step it is."""
        sources = [self.steps[name] for name in step.sources]
        if step.became_table is not None and all(source.became_table != step.became_table for source in sources):
            return step.became_table
        if of_table is not None and of_table in self.declarations:
            return self.declarations[of_table]
        if self.under_way:
            return self.declarations.get(self.under_way[-1], 0)
        return max((one.declared for one in sources), default=0)

    @property
    def policy(self) -> OnError:
        """What becomes of records that make the node fail whose steps are being added; a table's changes fail unless their step says more."""
        node = self.under_way[-1] if self.under_way else None
        if node is None or any(child.relation != STREAM for child in node.children or (node,)):
            return FAIL
        return self.policy_of(node)

    def policy_of(self, node: Node) -> OnError:
        """What becomes of rows that make a node fail, as it says, or the topology."""
        return node.on_error or self.on_error

    def naming(self, node: Node) -> Naming:
        """How the stores behind a node are named: those of a table after its store, others after their step."""
        return Naming(node.naming_words, self.names.stores.get(node, self.names.steps[node]))

    def check_fails(self, node: Node, why: str) -> None:
        """TopologyError if a step of a table is to leave out changes where that cannot be exact."""
        if node.on_error not in (None, FAIL):
            raise TopologyError(
                f"found on_error={node.on_error!s} of a step of a table {why}; expected no on_error= there, or the step behind to_stream(), "
                "and to_table() behind the step",
                node.at,
            )

    def add_store(self, store: ProgramStore, naming: Naming) -> None:
        """Append a store, unless it stands there already; TopologyError for another of that name."""
        self.namings[store.name] = naming
        known = self.stores.setdefault(store.name, store)
        if known != store:
            raise TopologyError(
                f"two different stores are called {store.name!r}; expected another name: give one of the tables store='…'\n"
                f"  the one:   ({known.key}) to ({known.value})\n"
                f"  the other: ({store.key}) to ({store.value})"
            )

    def name(self, node: Node) -> str:
        return self.names.steps[node]

    def store_name(self, node: Node) -> str:
        return self.names.stores[node]

    def input_number(self, source: Node) -> int:
        return list(dict.fromkeys(self.inputs.values())).index(self.inputs[source])

    def streams(self, node: Node) -> tuple[int, ...]:
        """The numbers of the inputs that move the stream time of an operator over the node's rows, in order."""
        return tuple(sorted({self.input_number(source) for source in node.traits.feeding}))


def first_declarations(roots: Iterable[Node]) -> dict[Node, int]:
    """When each node was declared, or the first of several that are equal, of which one is lowered."""
    first: dict[Node, int] = {}
    pending, met = list(roots), set[int]()
    while pending:
        node = pending.pop()
        if id(node) not in met:
            met.add(id(node))
            first[node] = min(first.get(node, node.declaration), node.declaration)
            pending += node.children
    return first


def _chain_below(node: Node, made: Container[Node]) -> list[Node]:
    """The nodes of which a node is made by way of stateless steps alone, the lowest first, so that no chain is too long for the stack."""
    chain: list[Node] = []
    while node.lowers_children and (waiting := [child for child in node.children if child not in made]):
        node = waiting[0]
        chain.append(node)
    return chain[::-1]
