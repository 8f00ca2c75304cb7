"""Walking and changing trees of nodes."""

from __future__ import annotations

import dataclasses

from streamkit.plan.expression import Reference
from streamkit.plan.operators.filter import FilterNode
from streamkit.plan.operators.join import Join
from streamkit.plan.operators.project import Drop
from streamkit.plan.operators.source import StreamSource, TableSource
from streamkit.plan.operators.write import To
from streamkit.plan.tree import children, replace, structure_hash, walk

STREAM = StreamSource("events")
TABLE = TableSource("users")
JOIN = Join(FilterNode(STREAM, Reference("x")), TABLE, on=(("user", "user"),))


def test_walk_visits_inputs_first_and_equal_nodes_once():
    """Every node comes once, behind its inputs, also where it is reached on two ways."""
    roots = [To(JOIN, "a"), To(Drop(JOIN, ("x",)), "b"), To(StreamSource("events"), "c")]

    visited = list(walk(roots))

    assert len(visited) == len(set(visited)) == 8
    assert all(visited.index(child) < visited.index(node) for node in visited for child in children(node))


def test_replace_changes_nodes_anywhere():
    """A change reaches every node of the tree, and leaves the rest equal."""
    renamed = replace(JOIN, lambda node: dataclasses.replace(node, topic="people") if node == TABLE else node)

    assert isinstance(renamed, Join)
    assert renamed.right == TableSource("people")
    assert renamed.left == JOIN.left
    assert replace(JOIN, lambda node: node) == JOIN


def test_structure_hash_depends_on_structure_alone():
    """The hash is the same in every process and for equal trees; it differs where a tree differs."""
    assert structure_hash(StreamSource("events")) == structure_hash(STREAM) == "10e5181d"
    assert structure_hash(JOIN) != structure_hash(JOIN.left)
