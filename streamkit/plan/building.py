"""What the pass `infer_types` knows while it turns nodes into steps."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, replace

from streamkit.errors import TopologyError
from streamkit.plan.analysis import Analyzer
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.keys import check_key_types
from streamkit.plan.naming import StepNames
from streamkit.plan.node import STREAM, WITH_OLD_VALUES, Node
from streamkit.plan.on_error import FAIL, OnError
from streamkit.plan.program import Input, Naming, Output, ProgramStore
from streamkit.plan.steps import Step
from streamkit.plan.tree import walk
from streamkit.schema import SchemaColumn

StateColumns = Callable[[TypedAggregate], tuple[SchemaColumn, ...]]
OfTable = Callable[[TypedAggregate], tuple[TypedAggregate, bool]]  # as it is kept for a table's groups; whether their members are
EMIT_MODES = ("latest", "every", "final")
OLD_AND_NEW = WITH_OLD_VALUES
LATE = "late"  # the rows that no session took


@dataclass
class Building:
    """
    The steps, stores and outputs so far; each node is turned into a step once.

    `before_null_keys` are the nodes below one that gives results for records whose key is null. `partners` are the tables that each
    table is joined with, and the joins that look up its windows. `compared` are the origins of tables of which somebody needs to know
    what each change replaces. `ports` are the outputs asked of a node, beside its main one. `on_error` is what the topology says of
    records that fail, `policies` what becomes of those of a step. `replaced` are those of which a foreign-key join needs to know what
    changes replace, found as steps are made: only joins below it mind, so that no other table is kept for that.
    `declarations` says when each node was declared first.
    """

    names: StepNames
    inputs: dict[Node, Input]
    analyzer: Analyzer
    state_columns: StateColumns
    of_table: OfTable
    modes: dict[Node, set[str]]
    before_null_keys: frozenset[Node] = frozenset()
    partners: dict[Node, set[Node]] = field(default_factory=dict)
    compared: frozenset[Node] = frozenset()
    ports: dict[Node, set[str]] = field(default_factory=dict)
    on_error: OnError = FAIL
    steps: dict[str, Step] = field(default_factory=dict)
    stores: dict[str, ProgramStore] = field(default_factory=dict)
    namings: dict[str, Naming] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    lowered: dict[Node, Step] = field(default_factory=dict)
    changed: dict[Node, Step] = field(default_factory=dict)
    policies: dict[str, OnError] = field(default_factory=dict)
    under_way: list[Node] = field(default_factory=list)
    replaced: set[Node] = field(default_factory=set)
    declarations: dict[Node, int] = field(default_factory=dict)

    def analyzer_of(self, rows: Node | str) -> Analyzer:
        """The analyzer for expressions over rows of this kind, or of the node's; those of streams have record columns."""
        relation = rows if isinstance(rows, str) else rows.relation
        return self.analyzer.of_records() if relation == STREAM else self.analyzer

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

    def add(self, step: Step, of_table: Node | None = None) -> Step:
        """
        Append a step, unless it stands there already; TopologyError if its key cannot be one.

        `of_table` is its node if that is a step of a table whose changes may be left out where they fail, since each stands for itself.
        """
        check_key_types(step.key, step.schema, step.at)
        step = replace(step, declared=self._declared(step, of_table))
        is_new = step.id not in self.steps
        known = self.steps.setdefault(step.id, step)
        assert known == step, f"two different steps are called {step.id!r}"
        policy = self.policy if of_table is None else self.policy_of(of_table)
        if is_new and step.operator.leaves_out and policy != FAIL:
            self.policies[step.id] = policy
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
        return tuple(sorted({self.input_number(source) for source in node.feeding}))

    def modes_of(self, node: Node) -> tuple[str, ...]:
        """The emissions asked of a table."""
        asked = self.modes.get(node, set())
        return tuple(mode for mode in (*EMIT_MODES, OLD_AND_NEW, LATE) if mode in asked)

    def ports_of(self, node: Node) -> tuple[str, ...]:
        """The outputs asked of a node, beside its main one, in the order of their names."""
        return tuple(sorted(self.ports.get(node, ())))


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


def asked_ports(roots: Iterable[Node]) -> dict[Node, set[str]]:
    """The outputs asked of each node, beside its main one."""
    asked: dict[Node, set[str]] = {}
    for node in walk(roots):
        if node.port_taken is not None:
            asked.setdefault(node.children[0], set()).add(node.port_taken)
    return asked


def joined_partners(roots: Iterable[Node]) -> dict[Node, set[Node]]:
    """The tables that each table is joined with, and the joins of streams that look up its windows."""
    partners: dict[Node, set[Node]] = {}
    for node in walk(roots):
        for table in node.joined_tables:
            partners.setdefault(table, set()).update(node.joined_tables)
        for table in node.windows_looked_up:
            partners.setdefault(table, set()).add(node)
    return partners


def compared_tables(roots: Iterable[Node]) -> frozenset[Node]:
    """The origins of tables of which a step needs to know what each change replaces; of a join, then, those of both sides."""
    return origins_joined(table for node in walk(roots) for table in node.compared)


def origins_joined(tables: Iterable[Node]) -> frozenset[Node]:
    """The origins of tables, and of a join those of both sides."""
    found: set[Node] = set()
    pending = [table.origin for table in tables]
    while pending:
        origin = pending.pop()
        if origin not in found:
            found.add(origin)
            pending += [table.origin for table in origin.joined_tables]
    return frozenset(found)


def asked_modes(roots: Iterable[Node]) -> dict[Node, set[str]]:
    """
    The emissions asked of each table, below the stateless steps between.

    A join needs every change of a table that it looks up, because each record meets the table as of its own place.
    """
    asked: dict[Node, set[str]] = {}
    for node in walk(roots):
        for table, mode in node.asked:
            asked.setdefault(table.origin, set()).add(mode)
    return asked


def below_null_keys(roots: Iterable[Node]) -> frozenset[Node]:
    """The nodes below one that gives results for records whose key is null: a repartition among them keeps such records."""
    below: set[Node] = set()
    for node in reversed(list(walk(roots))):
        if node.takes_null_keys or node in below:
            below.update(node.children)
    return frozenset(below)
