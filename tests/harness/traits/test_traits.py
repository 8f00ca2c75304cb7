"""What a step is, found from the bottom up, and what is demanded of it, found from the top down."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamkit as sk
from streamkit import functions as F
from streamkit.plan.delay import NO_DELAY, longest
from streamkit.plan.demands import Demands, demands_of_nodes, emission
from streamkit.plan.expression import Reference
from streamkit.plan.node import Node
from streamkit.plan.operators.emit import EmitNode
from streamkit.plan.operators.filter import FilterNode
from streamkit.plan.operators.join import Join
from streamkit.plan.operators.source import SourceNode, StreamSource, TableSource
from streamkit.plan.operators.stream_stream_join import StreamStreamJoin
from streamkit.plan.stateless import StatelessStep
from streamkit.plan.tree import walk
from streamkit.plan.window_kinds.hopping import TimeWindow
from tests.harness.conformance.builder import Builder
from tests.harness.conformance.diamonds import Diamonds
from tests.harness.traits import recorded_traits


def test_all_is_as_it_was_when_each_was_a_question_of_its_own():
    """Several hundred topologies, real and random: what each node is, and what is demanded of it, as recorded before they were values."""
    known = recorded_traits.read()

    found = {name: recorded_traits.answers(app.roots) for name, app in recorded_traits.topologies()}

    assert found.keys() == known.keys()
    assert {name: nodes for name, nodes in found.items() if nodes != known[name]} == {}


@given(seed=st.integers(0, 10**6), rekeys=st.booleans(), waits=st.booleans(), topics=st.integers(1, 2))
@settings(max_examples=60, deadline=None)
def test_traits_are_what_a_walk_for_each_of_them_finds(seed, rekeys, waits, topics):
    """Makers, filters and sources of random trees are found by walking down from each node; demands of null keys by walking up."""
    builder = Builder(Diamonds(seed, rekeys=rekeys, waits=waits, topics=topics).case())
    builder.build()
    nodes = list(walk(builder.app.roots))

    demands = demands_of_nodes(nodes)

    assert [node.traits.maker for node in nodes] == [steps_down_to_maker(node)[-1] for node in nodes]
    assert [node.traits.is_filtered for node in nodes] == [
        any(isinstance(step, FilterNode) for step in steps_down_to_maker(node)[:-1]) for node in nodes
    ]
    assert [node.traits.feeding for node in nodes] == [{*sources_down(node)} for node in nodes]
    assert [node.traits.gives_newest for node in nodes] == [any(picks_newest(one) for one in walk([node])) for node in nodes]
    below = {one for node in nodes if gives_null_keys(node) for one in walk([node]) if one != node}
    assert {node for node in nodes if demands[node].null_keys} == below


def steps_down_to_maker(node: Node) -> list[Node]:
    return [node, *steps_down_to_maker(node.child)] if isinstance(node, StatelessStep) else [node]


def sources_down(node: Node) -> Iterable[Node]:
    """The sources below, but for those of tables that are looked up."""
    if isinstance(node, SourceNode):
        return [node]
    return [source for child in node.children[: 1 if isinstance(node, Join) else None] for source in sources_down(child)]


def picks_newest(node: Node) -> bool:
    return isinstance(node, EmitNode) and node.mode == "latest"


def gives_null_keys(node: Node) -> bool:
    return (isinstance(node, Join) and node.how == "left") or (isinstance(node, StreamStreamJoin) and node.how != "inner")


def test_no_tree_is_too_deep():
    """Ten thousand steps one behind the other have traits, without a call for each of them."""
    node: Node = TableSource("t")
    for _ in range(10_000):
        node = FilterNode(node, Reference("x"))

    assert node.traits.maker == TableSource("t")
    assert (node.relation, node.traits.is_filtered, node.traits.keeps_store) == ("table", True, False)


def test_a_copy_finds_its_traits_again():
    """Traits name the nodes that they are about, and a copied or unpickled node names its own."""
    node = FilterNode(TableSource("t"), Reference("x"))
    assert node.traits.feeding == {TableSource("t")}

    for one in (copy.deepcopy(node), pickle.loads(pickle.dumps(node))):
        assert "traits" not in vars(one) and one.traits == node.traits


def test_a_stateless_step_passes_on_what_is_demanded_of_its_table():
    """An emission reaches the maker, which gives it; which tables are joined concerns the table itself alone."""
    app = sk.Topology("t")
    users, other = (app.table(name, schema=f"k string, {name} int", key="k") for name in ("users", "others"))
    kept = users.filter("users > 1")
    nodes = list(walk([kept.join(other, how="left").node]))

    demands = demands_of_nodes(nodes)

    source, step = demands[users.node], demands[kept.node]
    assert source == Demands(frozenset({"every"}), old_values=True)
    assert step == Demands(frozenset({"every"}), old_values=True, is_looked_up=True, partners=frozenset({kept.node, other.node}))


def test_demands_add_up():
    """Two steps above one step demand what either demands; who takes old values needs to know them."""
    both = emission("latest") | emission("old_and_new", null_keys=True)

    assert both == Demands(frozenset({"latest", "old_and_new"}), old_values=True, null_keys=True)
    assert both.modes_in_order == ("latest", "old_and_new")


@pytest.mark.parametrize("asking", [TimeWindow(20, 20, 0, 20), TimeWindow(4, 4, 0, 4)])
def test_delays(asking):
    """Waits one behind the other add up, of rows together the longest counts, and final results depend on the window that asks."""
    own = TimeWindow(10, 10, 5, 15)
    final_ms = own.final_delay_ms(asking.covers(own))

    assert NO_DELAY.ms(asking) == longest([]).ms(asking) == 0
    assert NO_DELAY.longer(7, own).longer(3).ms(asking) == 10 + final_ms
    assert longest([NO_DELAY.longer(100), NO_DELAY.longer(0, own)]).ms(asking) == 100
    assert NO_DELAY.longer(0, own).at_least(1).ms(asking) == final_ms


def test_a_new_kind_of_step_says_only_what_it_changes():
    """A step that is not known to any other inherits what the step below is, and may replace a part of it."""
    stream = StreamSource("events", jump_ms=5)

    class Marked(StatelessStep):
        pass

    node = Marked(stream)
    assert node.traits == stream.traits
    counted = sk.Topology("t").stream("s", schema="k string", key="k").group_by("k").agg(n=F.count("*")).node
    assert (counted.traits.keeps_store, counted.traits.knows_old_values, counted.traits.final_delay) == (True, True, None)
