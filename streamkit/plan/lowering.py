"""Pass `infer_types`: every node becomes typed operators; exchanges come later."""

from __future__ import annotations

from collections.abc import Iterable

from streamkit.plan.analysis import Analyzer
from streamkit.plan.building import Building, OfTable, StateColumns, first_declarations
from streamkit.plan.dead_letter_ports import with_dead_letters
from streamkit.plan.demands import demands_of_nodes
from streamkit.plan.expression_places import noted_places
from streamkit.plan.graph.topology_graph import step_label
from streamkit.plan.naming import StepNames
from streamkit.plan.node import Node
from streamkit.plan.on_error import FAIL, OnError
from streamkit.plan.program import Input
from streamkit.plan.steps import Plan
from streamkit.plan.tree import walk


def infer_types(
    application: str,
    roots: Iterable[Node],
    names: StepNames,
    inputs: dict[Node, Input],
    analyzer: Analyzer,
    state_columns: StateColumns,
    of_table: OfTable,
    on_error: OnError = FAIL,
) -> Plan:
    """
    The plan of a topology: typed operators without stages or exchanges.

    A `Materialize` keeps each table that a join looks up. A table is emitted where it is kept, and the stateless steps above it
    follow. Behind all of them stands the way of dead letters. TopologyError names the user's line if a node cannot be compiled.
    """
    roots = tuple(roots)
    demands = demands_of_nodes(tuple(walk(roots)))
    building = Building(names, inputs, analyzer, state_columns, of_table, demands, on_error)
    building.declarations.update(first_declarations(roots))
    with noted_places() as places:
        for root in roots:
            building.lower(root)
        for do in building.when_all_stand:
            do()
    kept = tuple(dict.fromkeys(inputs.values()))
    return with_dead_letters(
        Plan(
            application,
            tuple(building.steps.values()),
            kept,
            tuple(building.stores.values()),
            tuple(building.outputs.values()),
            on_error=building.policies,
            structures=names.structures,
            namings=building.namings,
            places=places,
            labels={name: step_label(node) for node, name in names.steps.items()},
        )
    )
