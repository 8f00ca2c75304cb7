"""Boxes and flows as values."""

from __future__ import annotations

import pytest

from streamkit.plan.graph.graph import STEP, Box, Flow, Graph, numbered_flows

A, B, C = (Box(name, STEP, ()) for name in "abc")


@pytest.mark.parametrize(
    ("boxes", "flows", "message"),
    [
        ((A, A), (), "has a twice"),
        ((A, B), (Flow("a", "b"), Flow("a", "b")), r"has Flow\(start='a', end='b', number=0\) twice"),
        ((A,), (Flow("a", "b"),), "ends at no box of the graph 'g'; there are a"),
        ((A, B, C), (Flow("a", "b"), Flow("b", "c"), Flow("c", "b")), "in a circle, which is among b, c"),
    ],
)
def test_a_graph_is_one(boxes, flows, message):
    """Ids are distinct, flows end at boxes, and rows do not run in a circle."""
    with pytest.raises(ValueError, match=message):
        Graph("g", boxes, flows)


def test_a_box_has_a_kind():
    """A kind that pages do not know is refused."""
    with pytest.raises(ValueError, match="expected one of source, step, sink, connector"):
        Box("a", "stream", ())


def test_boxes_in_order_stand_behind_those_whose_rows_they_take():
    """Whatever the order in which they were given."""
    assert Graph("g", (A, B, C), numbered_flows([("c", "b"), ("b", "a")])).in_order() == (C, B, A)


def test_flows_between_two_boxes_are_numbered():
    """Each is another."""
    assert [flow.number for flow in numbered_flows([("a", "b"), ("a", "c"), ("a", "b")])] == [0, 0, 1]
