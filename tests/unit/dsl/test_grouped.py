"""Groups and their aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.errors import TopologyError, UnknownVerbError
from streamkit.plan.expression import Call, Literal, Reference
from streamkit.plan.operators.aggregate import AggregateNode
from streamkit.plan.operators.source import StreamSource

app = sk.Topology("app")
flights: Any = app.stream("flights")  # tests also pass what its types forbid
SOURCE = StreamSource("flights")
HOUR = sk.tumbling("1 hour", grace="0 s")


def test_group_by_takes_names_columns_and_expressions():
    """Groups are named by columns, aliases and keywords."""
    table = flights.group_by("origin", F.col("dest").alias("to"), late=F.col("dep_delay") > 15).agg(
        F.max("dep_delay").alias("worst"), n=F.count("*")
    )

    assert table.node == AggregateNode(
        SOURCE,
        (
            ("origin", Reference("origin")),
            ("to", Reference("dest")),
            ("late", Call("gt", (Reference("dep_delay"), Literal(15)))),
        ),
        (("worst", Call("max", (Reference("dep_delay"),))), ("n", Call("count", (Literal(1),)))),
    )


def test_group_by_key_leaves_the_key_open():
    """Without columns the stream's own key is meant, whatever it will be."""
    assert flights.group_by_key().count().node == AggregateNode(SOURCE, None, (("count", Call("count", (Literal(1),))),))


def test_windows_and_store_are_part_of_the_table():
    """The windows and the store's name belong to the aggregation."""
    table = sk.Topology("b").stream("flights").group_by("origin").windowed_by(HOUR).count(store="counts")

    assert isinstance(table.node, AggregateNode)
    assert table.node.window == HOUR
    assert table.node.store == "counts"
    assert list(table.topology.stores) == ["counts"]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: flights.group_by("a").agg(), "no aggregates"),
        (lambda: flights.group_by("a").agg(F.count("*")), "the aggregate .* has no name; expected name=… or .alias"),
        (lambda: flights.group_by("a").agg(n="count(*)"), "is not a column"),
        (lambda: flights.group_by("a").agg(F.count("*").alias("n"), n=F.sum("x")), "'n' occurs twice"),
        (lambda: flights.group_by("a").agg(a=F.sum("x")), "'a' occurs twice"),
        (lambda: flights.group_by(*[]), "no columns"),
        (lambda: flights.group_by("a", "a"), "'a' occurs twice"),
        (lambda: flights.group_by("a").windowed_by("1 hour"), "windowed_by\\(\\) was given '1 hour'; expected .*hopping"),
        (lambda: flights.group_by("a").windowed_by(HOUR).windowed_by(HOUR), "windows already"),
        (lambda: flights.group_by("a").windowed_by(HOUR).agg(window_start=F.count("*")), "'window_start' occurs twice"),
    ],
)
def test_what_means_nothing_is_refused(build, message):
    """Groups and aggregates that cannot mean anything are refused where they are written."""
    with pytest.raises(TopologyError, match=message):
        build().count()


def test_a_group_column_is_named_after_a_column() -> None:
    """`group_by(hour="window_start")` groups by the column as `group_by("window_start")` does, under another name."""
    app = sk.Topology("named")
    hours = app.stream("in", schema="k string, v int", key="k").group_by_key().windowed_by(sk.tumbling("1 hour", grace="0 s"))
    hours.agg(page=F.first("k")).emit("every").group_by(hour="window_start").agg(last=F.last("page", True)).to("out")
    assert app.describe().count("first(k),") + app.describe().count("first(k)\n") == 1
    assert "group by hour = window_start" in app.describe()
    assert "last(page, TRUE)" in app.describe()


def test_windows_over_newest_rows_are_refused() -> None:
    """Which newest rows an epoch has depends on the cut, of any table; final results of windows, each of which comes once, are taken."""
    window = sk.tumbling("1 hour", grace="0 s")
    changing: list[Callable[[sk.Table], sk.Table]] = [
        lambda table: table,
        lambda table: table.suppress(until=sk.time_limit("1 s")),
        lambda table: table.join(table.rename(v="w")),
    ]
    for make in changing:
        app = sk.Topology("newest")
        table = make(app.table("users", schema="k string, v int", key="k"))
        table.emit("latest").group_by_key().windowed_by(window).count().to("out")
        with pytest.raises(TopologyError, match=r"emit\('latest'\) of a table would depend on how the input is cut"):
            app.explain()
    final = sk.Topology("final")
    counts = final.stream("in", schema="k string", key="k").group_by_key().windowed_by(window).count()
    closed = counts.suppress(until=sk.window_closes()).emit("latest")
    closed.group_by("k").windowed_by(sk.tumbling("1 day", grace="0 s")).agg(n=F.sum("count")).to("days")
    assert "aggregate" in final.explain()


def test_a_column_may_be_called_store():
    """Aggregates from a dictionary are columns, whatever their names: one that is called `store` names no store."""
    aggregates = {"store": F.count("*"), "n": F.sum("v")}
    of_table = app.table("planes", schema="k string, v int", key="k").group_by("v")
    for group in (flights.group_by("origin"), of_table):
        node: Any = group.agg(**aggregates).node
        assert {name for name, _ in node.aggregates} == {"store", "n"} and node.store is None


def test_attributes_of_groups_hide_no_verbs():
    """A verb that groups have not says what to call, also where the handle keeps something of that name."""
    groups = flights.group_by("origin")
    for handle in (groups, groups.windowed_by(sk.tumbling("1 hour", grace="1 minute"))):
        with pytest.raises(UnknownVerbError, match=r"expected windowed_by\(window, late_to=\"topic\"\)"):
            handle.late_to("late")
        with pytest.raises(UnknownVerbError, match=r"expected windowed_by\(window\)"):
            handle.window(sk.tumbling("1 hour", grace="1 minute"))
    with pytest.raises(UnknownVerbError, match=r"expected windowed_by\(window\)"):
        groups.cogroup(lambda state, row: state).window("1 hour")
