"""The verbs of streams: the nodes they make, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError
from streamkit.plan.expression import Call, Literal, Reference, SqlText
from streamkit.plan.operators.filter import FilterNode
from streamkit.plan.operators.join import Join
from streamkit.plan.operators.project import Drop, Rename, Select, WithColumns
from streamkit.plan.operators.source import StreamSource
from streamkit.plan.operators.write import To

app = sk.Topology("app")
flights: Any = app.stream("flights")  # tests also pass what its types forbid
planes = app.table("planes")
SOURCE = StreamSource("flights")
LATE = Call("gt", (Reference("dep_delay"), Literal(15)))


@pytest.mark.parametrize(
    ("stream", "node"),
    [
        (flights, SOURCE),
        (flights.filter(F.col("dep_delay") > 15), FilterNode(SOURCE, LATE)),
        (flights.filter("dep_delay > 15"), FilterNode(SOURCE, SqlText("dep_delay > 15"))),
        (
            flights.filter_not(F.col("dep_delay") > 15),
            FilterNode(SOURCE, Call("not", (Call("coalesce", (LATE, Literal(False))),))),
        ),
        (
            flights.select("origin", F.col("dest").alias("to"), late=F.col("dep_delay") > 15),
            Select(SOURCE, (("origin", Reference("origin")), ("to", Reference("dest")), ("late", LATE))),
        ),
        (flights.select(["origin", "dest"]), flights.select("origin", "dest").node),  # PySpark takes a list too
        (flights.select("*"), Select(SOURCE, (("*", Reference("*")),))),
        (
            flights.with_columns(F.lit(1).alias("one"), name=F.col("carrier")),
            WithColumns(SOURCE, (("one", Literal(1)), ("name", Reference("carrier")))),
        ),
        (flights.rename({"dest": "to"}, name="x"), Rename(SOURCE, (("dest", "to"), ("name", "x")))),
        (flights.drop("year", "month"), Drop(SOURCE, ("year", "month"))),
        (flights.join(planes, on="tailnum"), Join(SOURCE, planes.node, "inner", (("tailnum", "tailnum"),))),
        (flights.join(planes, ["a", "b"], "left"), Join(SOURCE, planes.node, "left", (("a", "a"), ("b", "b")))),
        (
            flights.join(planes, on={"tail": "tailnum"}, suffix="_p"),
            Join(SOURCE, planes.node, "inner", (("tail", "tailnum"),), "_p"),
        ),
        (flights.join(planes), Join(SOURCE, planes.node)),
        (flights.filter("x", name="sieve"), FilterNode(SOURCE, SqlText("x"), name="sieve")),
        (flights.drop("x").named("thin"), Drop(SOURCE, ("x",), name="thin")),
    ],
)
def test_verbs_make_nodes(stream, node):
    """Each verb gives a new stream whose node says exactly what was asked."""
    assert stream.node == node
    assert stream.topology is app


def test_verbs_change_nothing():
    """A stream is a value: two branches of it do not see each other."""
    before = flights.node

    assert flights.filter("x").node != flights.filter("y").node
    assert flights.node is before


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: flights.with_columns(late="dep_delay > 15"), "late='dep_delay > 15' is not a column; expected F.col"),
        (
            lambda: flights.with_columns(late=F.lit(1), name="parse"),
            "name='parse' is not a column; a step that makes columns has no name of its own, and each name= is a column; expected",
        ),
        (lambda: flights.with_columns(F.lit(1)), "the column .* has no name; expected name=… or .alias"),
        (lambda: flights.rename(a=1), "cannot rename 'a' to 1"),
        (lambda: flights.drop(F.col("x")), "drop\\(\\) was given Column<x>; expected names of columns"),
        (lambda: flights.join(flights, on="x"), "two streams are joined without within="),
        (lambda: flights.join("planes", on="x"), "cannot join with 'planes'; expected a table"),
        (lambda: flights.join(sk.Topology("b").table("planes"), on="x"), "a table of another topology"),
        (lambda: flights.join(planes, on=F.col("x")), "is not a column name; expected a name, a list"),
        (lambda: flights.join(planes, on=[1]), "is not a column name; expected a name, a list"),
        (lambda: flights.join(planes, on="x", how="right"), "how='right'"),
        (lambda: flights.filter(object()), "a value of type object cannot stand in an expression"),
    ],
)
def test_verbs_refuse_what_means_nothing(build, message):
    """What cannot mean anything is refused where it is written, with the user's own line."""
    with pytest.raises(TopologyError, match=message):
        build()


def test_to_ends_a_stream():
    """`to` adds a sink to the topology, and gives nothing to go on with."""
    own = sk.Topology("own")
    own.stream("a").to("b", partitions=3)

    assert own.sinks == (To(StreamSource("a"), "b", 3),)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: flights["origin"], r"found \['origin'\]; expected F.col\('origin'\)"),
        (lambda: flights.select(5), "found 5; expected names of columns, or columns"),
        (lambda: flights.group_by(5), "found 5; expected names of columns, or columns"),
        (lambda: flights.filter(nested(5_000)), "nested too deeply; expected at most some 200 levels, in SQL text some 40"),
        (lambda: flights.select(nested(5_000)), "nested too deeply; expected at most some 200 levels, in SQL text some 40"),
    ],
)
def test_habits_from_pyspark_are_told_what_to_write(use, message):
    """The error is StreamKit's, and points at the user's own line."""
    with pytest.raises(TopologyError, match=message) as caught:
        hash(getattr(use(), "node", None))
    assert caught.value.at is not None and caught.value.at.file == __file__


def nested(levels):
    """A sum of so many terms."""
    column = F.col("dep_delay")
    for _ in range(levels):
        column = column + 1
    return column


def test_a_stream_is_no_sequence():
    """Looping over a stream is an error at once, not a loop without end."""
    with pytest.raises(TypeError):
        iter(flights)


def test_named_columns_may_come_in_a_dict() -> None:
    """Verbs take columns from dicts, by the types too: `make lint` checks this body; names of options are columns where they are such."""
    stream: sk.Stream = app.stream("flights")
    table: sk.Table = app.table("planes")
    columns: dict[str, sk.Column] = {"k": F.col("origin")}
    names: dict[str, str] = {"k": "origin"}
    both: dict[str, sk.Column | str] = {**columns, **names}

    for keyed in (stream.select_key(**columns), stream.select_key(**names), stream.select_key(**both)):
        assert keyed.node == stream.select_key(F.col("origin").alias("k")).node
    totals: dict[str, sk.Column] = {"n": F.count("*")}
    assert stream.group_by(**columns).agg(**totals).node == stream.group_by(**both).agg(n=F.count("*")).node
    assert table.group_by(**columns).agg(**totals).node == table.group_by(**names).agg(n=F.count("*")).node
    assert stream.select(**columns).node == stream.select(**names).node
    assert table.select(**columns).with_columns(**columns).rename(**names).node is not None
    options = [F.col("a").alias(name) for name in ("on_error", "schema", "tombstones")]
    assert stream.select_key(**{name: F.col("a") for name in ("on_error", "schema", "tombstones")}).node == (
        stream.select_key(*options).node
    )


def test_a_function_of_the_key_stands_alone():
    """Columns beside a Python function of the key are refused, at the user's line, and not left out in silence."""
    with pytest.raises(TopologyError, match=r"(?s)beside it 'origin', late; .*test_stream.py:\d+"):
        flights.select_key(dict, "origin", schema="k string", late=F.col("dep_delay"))
