"""Walking and changing trees of nodes."""

from __future__ import annotations

import dataclasses

from streamkit.plan import nodes
from streamkit.plan.expression import Reference
from streamkit.plan.tree import children, replace, structure_hash, walk

STREAM = nodes.StreamSource("events")
TABLE = nodes.TableSource("users")
JOIN = nodes.Join(nodes.Filter(STREAM, Reference("x")), TABLE, on=(("user", "user"),))


def test_walk_visits_inputs_first_and_equal_nodes_once():
    """Every node comes once, behind its inputs, also where it is reached on two ways."""
    roots = [nodes.To(JOIN, "a"), nodes.To(nodes.Drop(JOIN, ("x",)), "b"), nodes.To(nodes.StreamSource("events"), "c")]

    visited = list(walk(roots))

    assert len(visited) == len(set(visited)) == 8
    assert all(visited.index(child) < visited.index(node) for node in visited for child in children(node))


def test_replace_changes_nodes_anywhere():
    """A change reaches every node of the tree, and leaves the rest equal."""
    renamed = replace(JOIN, lambda node: dataclasses.replace(node, topic="people") if node == TABLE else node)

    assert isinstance(renamed, nodes.Join)
    assert renamed.right == nodes.TableSource("people")
    assert renamed.left == JOIN.left
    assert replace(JOIN, lambda node: node) == JOIN


def test_structure_hash_depends_on_structure_alone():
    """The hash is the same in every process and for equal trees; it differs where a tree differs."""
    assert structure_hash(nodes.StreamSource("events")) == structure_hash(STREAM) == "10e5181d"
    assert structure_hash(JOIN) != structure_hash(JOIN.left)
