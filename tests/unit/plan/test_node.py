"""Steps as values, and what they refuse."""

from __future__ import annotations

import dataclasses

import pytest

from streamkit import functions as F
from streamkit.errors import ConfigError, Location, TopologyError
from streamkit.plan.expression import Call, Literal, Reference
from streamkit.plan.naming import name_steps
from streamkit.plan.node import WRITTEN_OUT_MAX, Node, structure_hash
from streamkit.plan.operators.aggregate import AggregateNode
from streamkit.plan.operators.emit import EmitNode
from streamkit.plan.operators.filter import FilterNode
from streamkit.plan.operators.join import Join
from streamkit.plan.operators.merge import MergeNode
from streamkit.plan.operators.project import Drop, Rename, Select, WithColumns
from streamkit.plan.operators.source import GlobalTableSource, SourceNode, StreamSource, TableSource
from streamkit.plan.operators.write import To
from streamkit.plan.window_kinds.hopping import TimeWindow
from streamkit.schema import Schema

STREAM = StreamSource("events")
TABLE = TableSource("users")
WINDOW = TimeWindow(60_000, 60_000, 0, 60_000)
COUNT = ("n", Call("count", (Literal(1),)))


def test_nodes_compare_by_structure():
    """Nodes built twice are equal and hash alike; the line they were written in does not matter."""
    one = FilterNode(STREAM, Reference("late"), at=Location("a.py", 1))
    other = FilterNode(StreamSource("events"), Reference("late"), at=Location("b.py", 2))

    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == repr(other)


@pytest.mark.parametrize("value", [1, 1.0, True, "1"])
@pytest.mark.parametrize("other", [1, 1.0, True, "1"])
def test_nodes_tell_literals_of_different_types_apart(value, other):
    """A constant 1, 1.0 and True are equal in Python and different in SQL: nodes with them differ."""
    steps = [WithColumns(STREAM, (("x", Literal(each)),)) for each in (value, other)]

    assert (steps[0] == steps[1]) == (type(value) is type(other))


def test_objects_in_functions_tell_nodes_apart_and_names_do_not():
    """A method of one object is equal to itself and not to that of another; names of stores, which outlive the objects, know neither."""

    class Odd:
        def number(self, value):
            return value

    def step(call):
        return WithColumns(STREAM, (("x", F.udf(call, "int")("v").expression),))

    one, other = Odd(), Odd()
    assert step(one.number) == step(one.number)
    assert step(one.number) != step(other.number)
    assert FilterNode(step(one.number), Reference("x")) != FilterNode(step(other.number), Reference("x"))
    assert structure_hash(step(one.number)) == structure_hash(step(other.number))
    steps = name_steps([step(one.number), step(other.number)]).steps
    assert len(set(steps.values())) == len(steps) == 3


def test_streams_and_tables_of_a_topic_differ():
    """The kind of source is part of the structure."""
    sources: set[SourceNode] = {StreamSource("users"), TableSource("users"), GlobalTableSource("users")}

    assert len(sources) == 3


def test_structure_hash_depends_on_structure_alone():
    """The hash, which names of stores hold, is the same in every process and for equal trees; it differs where a tree differs."""
    joined = Join(FilterNode(STREAM, Reference("x")), TABLE, on=(("user", "user"),))

    assert structure_hash(StreamSource("events")) == structure_hash(STREAM) == "10e5181d"
    assert structure_hash(joined) != structure_hash(joined.left)


class Counted(FilterNode):
    """A filter that counts how often it is written out."""

    written = 0

    def __repr__(self):
        type(self).written += 1
        return super().__repr__()


def test_trees_that_share_nodes_are_not_walked_again_for_each_use():
    """Forty joins of a stream with itself, each of the one before, hash, compare and get names, and only small trees are written out."""

    def nested(depth):
        Counted.written = 0
        node: Node = Counted(STREAM, Reference("x"))
        for _ in range(depth):
            node = MergeNode((node, node))
        return node

    one, other = nested(40), nested(40)

    assert one == other and hash(one) == hash(other)
    assert one != nested(39)
    assert one.tree_size == 3 * 2**40 - 1
    assert structure_hash(one) == structure_hash(other)
    assert len(name_steps([one, other]).steps) == 42
    assert Counted.written < WRITTEN_OUT_MAX


def test_nodes_cannot_be_changed():
    """A node is frozen."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        STREAM.topic = "other"  # type: ignore[misc]


def test_relation_follows_the_child():
    """Stateless steps leave a stream a stream and a table a table."""
    assert FilterNode(STREAM, Reference("x")).relation == "stream"
    assert FilterNode(Drop(TABLE, ("a",)), Reference("x")).relation == "table"
    assert Rename(GlobalTableSource("g"), (("a", "b"),)).relation == "global_table"
    assert AggregateNode(STREAM, None, (COUNT,)).relation == "table"
    assert EmitNode(TABLE, "every").relation == "stream"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Join(STREAM, TABLE, "outer"), "how='outer'; expected one of inner, left"),
        (lambda: Join(STREAM, STREAM), "a join of a stream with a stream is not supported yet"),
        (lambda: Join(TABLE, TABLE), "a join of a table with a table is not supported yet"),
        (lambda: Join(STREAM, TABLE, on=()), "on= is empty"),
        (lambda: Join(STREAM, TABLE, on=(("a", "k"), ("a", "l"))), "join column 'a' occurs twice"),
        (lambda: AggregateNode(TABLE, None, (COUNT,)), "group_by of a table is not supported; expected a stream"),
        (lambda: AggregateNode(STREAM, (), (COUNT,)), "group_by\\(\\) was given no columns"),
        (lambda: AggregateNode(STREAM, None, ()), "agg\\(\\) was given no aggregates"),
        (lambda: AggregateNode(STREAM, None, (COUNT, COUNT)), "result column 'n' occurs twice"),
        (lambda: AggregateNode(STREAM, (("n", Reference("n")),), (COUNT,)), "result column 'n' occurs twice"),
        (lambda: AggregateNode(STREAM, None, (("window_end", COUNT[1]),), WINDOW), "result column 'window_end' occurs twice"),
        (lambda: EmitNode(TABLE, "sometimes"), "no emission 'sometimes'; expected one of latest, every, final"),
        (lambda: EmitNode(TABLE, "final"), "needs windows"),
        (lambda: EmitNode(AggregateNode(STREAM, None, (COUNT,)), "final"), "needs windows"),
        (lambda: To(STREAM, "x", 0), "cannot have 0 partitions"),
        (lambda: Select(STREAM, (("a", Reference("a")), ("A", Reference("b")))), "column 'A' occurs twice"),
        (lambda: WithColumns(STREAM, ()), "no columns"),
        (lambda: Rename(STREAM, ()), "no names"),
        (lambda: StreamSource("events", None, ("a",)), "without schema="),
        (
            lambda: StreamSource("events", Schema.parse("a int"), ("b",)),
            "key column 'b' of 'events' is not in its schema: a int",
        ),
    ],
)
def test_nodes_refuse_what_means_nothing(build, message):
    """What cannot mean anything, whatever the schema, is refused when it is written."""
    with pytest.raises(TopologyError, match=message):
        build()


@pytest.mark.parametrize("build", [lambda: StreamSource("a/b"), lambda: To(STREAM, ""), lambda: TableSource("t", store="..")])
def test_names_on_the_log_are_checked(build):
    """Names of topics and stores are those that Kafka would take."""
    with pytest.raises(ConfigError, match="cannot be used"):
        build()


def test_errors_name_the_line():
    """A refusal says which line of the user's code it is about."""
    with pytest.raises(TopologyError, match=r"at app.py:7") as raised:
        EmitNode(TABLE, "final", at=Location("app.py", 7))

    assert raised.value.at == Location("app.py", 7)


def test_final_looks_through_stateless_steps():
    """The windows of an aggregation count behind filters and projections too."""
    windowed = AggregateNode(STREAM, None, (COUNT,), WINDOW)

    assert EmitNode(FilterNode(windowed, Reference("x")), "final").mode == "final"


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
        TimeWindow(*window)
