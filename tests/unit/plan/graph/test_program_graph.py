"""Graphs of programs alone, beside those of the topologies that they were compiled from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.plan.graph.graph import STORE
from streamkit.plan.graph.layout import drawing_of
from streamkit.plan.graph.program_graph import graph_of_program
from streamkit.plan.graph.topology_graph import graph_of_topology
from streamkit.plan.naming import step_of
from streamkit.plan.program import Program

ORDERS: dict[str, Any] = {"schema": "id string, user string, amount double", "key": "id"}
USERS: dict[str, Any] = {"schema": "user string, city string", "key": "user"}


def sales():
    app = sk.Topology("sales")
    users = app.table("users", **USERS)
    cities = app.global_table("cities", schema="city string, region string", key="city").rename(region="area")
    orders = app.stream("orders", **ORDERS).filter("amount > 0", name="paid")
    full = orders.join(users, on="user").join(cities, on="city")
    full.group_by("area").windowed_by(sk.tumbling("1 hour", grace="0 s")).agg(total=F.sum("amount"), store="totals").emit(
        "final"
    ).to("totals")
    full.to("full")
    return app


def self_joined():
    app = sk.Topology("pairs")
    orders = app.stream("orders", **ORDERS)
    orders.join(orders, within=sk.within("5 minutes", grace="1 minute"), suffix="_other").to("pairs")
    return app


def graphs_of(app):
    """The graph of a topology, and that of what the catalog keeps of its program."""
    program = Program.from_json(sk.compile(app).to_json())
    return graph_of_topology(app.name, app.roots, app.connections), graph_of_program(program)


def said_by(box):
    """What a box says beside its stores, of which a program knows more."""
    return (box.kind, box.gives, box.topic, [text for text in box.texts if text.part != STORE])


@pytest.mark.parametrize("app", [sales(), self_joined()], ids=lambda app: app.name)
def test_a_program_has_the_picture_of_its_topology(app):
    """Boxes, what they say and the flows between them are those of the topology, also what stands inside a join with a global table."""
    declared, compiled = graphs_of(app)

    assert {box.id: said_by(box) for box in compiled.boxes} == {box.id: said_by(box) for box in declared.boxes}
    assert sorted(map(str, compiled.flows)) == sorted(map(str, declared.flows))


def test_a_program_knows_all_stores():
    """A box shows the stores of all operators that it stands for."""
    _, compiled = graphs_of(self_joined())
    (join,) = [box for box in compiled.boxes if box.stores]

    assert [store.rpartition("-")[2] for store in join.stores] == ["left", "right"]
    assert [text.text for text in join.texts if text.part == STORE] == list(join.stores)


def test_every_operator_has_a_box():
    """A page finds the box of an operator by its step; what keeps the rows of a table for others is part of the table's box."""
    app = sk.Topology("counts")
    counts = app.stream("orders", **ORDERS).group_by("user").agg(number=F.count("*"), store="counts")
    counts.join(app.table("users", **USERS), on="user").to("out")
    app.stream("more", **ORDERS).join(counts, on="user").to("joined")
    program = sk.compile(app)
    graph = graph_of_program(program)
    steps = [step for box in graph.boxes for step in box.steps]

    assert sorted(steps) == sorted({step_of(operator.id) for operator in program.operators})
    assert ("aggregate-counts", "aggregate-counts-results") in [box.steps for box in graph.boxes]


def test_two_steps_may_share_an_exchange():
    """The rows of a stream go to the join, although they take the way of the aggregate that was declared before it."""
    app = sk.Topology("shared")
    orders = app.stream("orders", **ORDERS)
    sums = orders.group_by("user").agg(total=F.sum("amount"), store="sums")
    orders.join(sums, on="user").to("out")
    declared, compiled = graphs_of(app)

    assert {(flow.start, flow.end) for flow in compiled.flows} == {(flow.start, flow.end) for flow in declared.flows}


def test_a_program_of_an_earlier_version_is_drawn():
    """Without labels boxes say what operators do; the flows are the same."""
    _, compiled = graphs_of(sales())
    earlier = graph_of_program(replace(sk.compile(sales()), labels={}))
    texts = {box.id: box.texts[0].text for box in earlier.boxes}

    assert set(earlier.flows) == set(compiled.flows)
    assert {step: texts[step] for step in ("stream-orders", "paid", "to-full", "global_table-cities")} == {
        "stream-orders": "stream orders",
        "paid": "filter: amount > 0.0",
        "to-full": "to full",
        "global_table-cities": "global table cities",
    }
    assert drawing_of(earlier).to_json()["boxes"]


def test_labels_are_no_part_of_what_a_program_does():
    """Two programs that differ in what pictures show are one: a start goes on with either."""
    program = sk.compile(sales())

    assert program.labels["paid"].lines == ("filter amount > 0",)
    assert replace(program, labels={}).fingerprint == program.fingerprint
