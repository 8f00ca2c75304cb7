"""Walking trees of nodes."""

from __future__ import annotations

from streamkit.plan.expression import Reference
from streamkit.plan.operators.filter import FilterNode
from streamkit.plan.operators.join import Join
from streamkit.plan.operators.project import Drop
from streamkit.plan.operators.source import StreamSource, TableSource
from streamkit.plan.operators.write import To
from streamkit.plan.tree import walk

STREAM = StreamSource("events")
TABLE = TableSource("users")
JOIN = Join(FilterNode(STREAM, Reference("x")), TABLE, on=(("user", "user"),))


def test_walk_visits_inputs_first_and_equal_nodes_once():
    """Every node comes once, behind its inputs, also where it is reached on two ways."""
    roots = [To(JOIN, "a"), To(Drop(JOIN, ("x",)), "b"), To(StreamSource("events"), "c")]

    visited = list(walk(roots))

    assert len(visited) == len(set(visited)) == 8
    assert all(visited.index(child) < visited.index(node) for node in visited for child in node.children)
