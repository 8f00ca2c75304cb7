"""Steps as values, and what they refuse."""

from __future__ import annotations

import dataclasses

import pytest

from streamkit.errors import ConfigError, Location, TopologyError
from streamkit.plan import nodes
from streamkit.plan.expression import Call, Literal, Reference
from streamkit.schema import Schema

STREAM = nodes.StreamSource("events")
TABLE = nodes.TableSource("users")
WINDOW = nodes.TimeWindow(60_000, 60_000, 0, 60_000)
COUNT = ("n", Call("count", (Literal(1),)))


def test_nodes_compare_by_structure():
    """Nodes built twice are equal and hash alike; the line they were written in does not matter."""
    one = nodes.Filter(STREAM, Reference("late"), at=Location("a.py", 1))
    other = nodes.Filter(nodes.StreamSource("events"), Reference("late"), at=Location("b.py", 2))

    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == repr(other)


@pytest.mark.parametrize("value", [1, 1.0, True, "1"])
@pytest.mark.parametrize("other", [1, 1.0, True, "1"])
def test_nodes_tell_literals_of_different_types_apart(value, other):
    """A constant 1, 1.0 and True are equal in Python and different in SQL: nodes with them differ."""
    steps = [nodes.WithColumns(STREAM, (("x", Literal(each)),)) for each in (value, other)]

    assert (steps[0] == steps[1]) == (type(value) is type(other))


def test_streams_and_tables_of_a_topic_differ():
    """The kind of source is part of the structure."""
    sources: set[nodes.Source] = {nodes.StreamSource("users"), nodes.TableSource("users"), nodes.GlobalTableSource("users")}

    assert len(sources) == 3


def test_nodes_cannot_be_changed():
    """A node is frozen."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        STREAM.topic = "other"  # type: ignore[misc]


def test_relation_follows_the_child():
    """Stateless steps leave a stream a stream and a table a table."""
    assert nodes.Filter(STREAM, Reference("x")).relation == "stream"
    assert nodes.Filter(nodes.Drop(TABLE, ("a",)), Reference("x")).relation == "table"
    assert nodes.Rename(nodes.GlobalTableSource("g"), (("a", "b"),)).relation == "global_table"
    assert nodes.Aggregate(STREAM, None, (COUNT,)).relation == "table"
    assert nodes.Emit(TABLE, "every").relation == "stream"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nodes.Join(STREAM, TABLE, "outer"), "how='outer'; expected one of inner, left"),
        (lambda: nodes.Join(STREAM, STREAM), "a join of a stream with a stream is not supported yet"),
        (lambda: nodes.Join(TABLE, TABLE), "a join of a table with a table is not supported yet"),
        (lambda: nodes.Join(STREAM, TABLE, on=()), "on= is empty"),
        (lambda: nodes.Join(STREAM, TABLE, on=(("a", "k"), ("a", "l"))), "join column 'a' occurs twice"),
        (lambda: nodes.Aggregate(TABLE, None, (COUNT,)), "group_by of a table is not supported yet"),
        (lambda: nodes.Aggregate(STREAM, (), (COUNT,)), "group_by\\(\\) was given no columns"),
        (lambda: nodes.Aggregate(STREAM, None, ()), "agg\\(\\) was given no aggregates"),
        (lambda: nodes.Aggregate(STREAM, None, (COUNT, COUNT)), "result column 'n' occurs twice"),
        (lambda: nodes.Aggregate(STREAM, (("n", Reference("n")),), (COUNT,)), "result column 'n' occurs twice"),
        (lambda: nodes.Aggregate(STREAM, None, (("window_end", COUNT[1]),), WINDOW), "result column 'window_end' occurs twice"),
        (lambda: nodes.Emit(TABLE, "sometimes"), "no emission 'sometimes'; expected one of latest, every, final"),
        (lambda: nodes.Emit(TABLE, "final"), "needs windows"),
        (lambda: nodes.Emit(nodes.Aggregate(STREAM, None, (COUNT,)), "final"), "needs windows"),
        (lambda: nodes.To(STREAM, "x", 0), "cannot have 0 partitions"),
        (lambda: nodes.Select(STREAM, (("a", Reference("a")), ("A", Reference("b")))), "column 'A' occurs twice"),
        (lambda: nodes.WithColumns(STREAM, ()), "no columns"),
        (lambda: nodes.Rename(STREAM, ()), "no names"),
        (lambda: nodes.StreamSource("events", None, ("a",)), "without schema="),
        (
            lambda: nodes.StreamSource("events", Schema.parse("a int"), ("b",)),
            "key column 'b' of 'events' is not in its schema: a int",
        ),
    ],
)
def test_nodes_refuse_what_means_nothing(build, message):
    """What cannot mean anything, whatever the schema, is refused when it is written."""
    with pytest.raises(TopologyError, match=message):
        build()


@pytest.mark.parametrize(
    "build", [lambda: nodes.StreamSource("a/b"), lambda: nodes.To(STREAM, ""), lambda: nodes.TableSource("t", store="..")]
)
def test_names_on_the_log_are_checked(build):
    """Names of topics and stores are those that Kafka would take."""
    with pytest.raises(ConfigError, match="cannot be used"):
        build()


def test_errors_name_the_line():
    """A refusal says which line of the user's code it is about."""
    with pytest.raises(TopologyError, match=r"at app.py:7") as raised:
        nodes.Emit(TABLE, "final", at=Location("app.py", 7))

    assert raised.value.at == Location("app.py", 7)


def test_final_looks_through_stateless_steps():
    """The windows of an aggregation count behind filters and projections too."""
    windowed = nodes.Aggregate(STREAM, None, (COUNT,), WINDOW)

    assert nodes.Emit(nodes.Filter(windowed, Reference("x")), "final").mode == "final"


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ((0, 0, 0, 0), "size is 0"),
        ((60_000, 0, 0, 60_000), "cannot advance by 0 ms"),
        ((60_000, 60_001, 0, 60_000), "cannot advance by 60001 ms"),
        ((60_000, 60_000, -1, 60_000), "negative"),
        ((60_000, 60_000, 1_000, 60_000), "retention 1 minute is shorter than size and grace together \\(61 seconds\\)"),
    ],
)
def test_windows_refuse_what_does_not_fit(window, message):
    """Size, advance, grace and retention must fit each other."""
    with pytest.raises(TopologyError, match=message):
        nodes.TimeWindow(*window)
