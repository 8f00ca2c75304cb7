"""Names of steps and stores, from their structure."""

from __future__ import annotations

import json

import pytest

from streamkit.errors import TopologyError
from streamkit.names import check_name
from streamkit.plan.expression import Call, Literal, Reference
from streamkit.plan.naming import KnownNames, NamesBefore, name_steps
from streamkit.plan.operators.aggregate import AggregateNode
from streamkit.plan.operators.emit import EmitNode
from streamkit.plan.operators.filter import FilterNode
from streamkit.plan.operators.join import Join
from streamkit.plan.operators.source import StreamSource, TableSource
from streamkit.plan.operators.write import To
from streamkit.plan.window_kinds.hopping import TimeWindow

EVENTS = StreamSource("events")
COUNT = (("n", Call("count", (Literal(1),))),)
BY_USER = (("user", Reference("user")),)
DAY_MS = 86_400_000


def counted(child, **options):
    return AggregateNode(child, options.pop("key", BY_USER), COUNT, **options)


def names_of(*roots):
    names = name_steps(roots)
    return set(names.steps.values()), set(names.stores.values())


def test_names_say_what_a_step_does_to_what():
    """A generated name holds the verb and the topics; a store's the topics, the group and the window."""
    joined = Join(FilterNode(EVENTS, Reference("x")), TableSource("users"), on=(("user", "user"),))
    table = counted(joined, window=TimeWindow(DAY_MS, DAY_MS, 0, DAY_MS))

    assert names_of(To(EmitNode(table, "final"), "daily")) == (
        {
            "stream-events",
            "filter-events",
            "table-users",
            "join-events-users",
            "aggregate-events-users-by-user-per-1-day",
            "emit-final-events-users-by-user-per-1-day",
            "to-daily",
        },
        {"users", "events-users-by-user-per-1-day"},
    )


def test_names_are_stable_when_unrelated_parts_change():
    """Another branch, before or behind, with other topics, renames nothing."""
    mine = To(EmitNode(counted(EVENTS), "latest"), "counts")
    other = To(FilterNode(StreamSource("orders"), Reference("x")), "checked")

    steps, stores = names_of(mine)

    for roots in ((mine, other), (other, mine)):
        assert steps <= names_of(*roots)[0]
        assert stores <= names_of(*roots)[1]


def test_equal_names_get_their_hash_whatever_the_order():
    """Two steps or stores that would be called the same both get a hash of their structure, in any order of declaration."""
    one = counted(FilterNode(EVENTS, Reference("x")))
    other = counted(FilterNode(EVENTS, Reference("y")))

    forward, backward = names_of(one, other), names_of(other, one)

    assert forward == backward
    assert len(forward[1]) == 2
    assert all(name.startswith("events-by-user-") and len(name) == len("events-by-user-") + 8 for name in forward[1])


def test_what_is_known_keeps_its_name():
    """A structure that had a name has it again, plain or with its hash; one that is new gets what is left."""
    one, other, third = (counted(FilterNode(EVENTS, Reference(column))) for column in "xyz")
    first = name_steps([one])
    known = KnownNames(stores=NamesBefore(frozenset(first.stores.values()), first.structures.stores))
    both = name_steps([other, one], known)
    assert both.stores[one] == "events-by-user"
    known = KnownNames(stores=NamesBefore(frozenset(both.stores.values()), both.structures.stores))
    assert name_steps([other], known).stores[other] == both.stores[other] != "events-by-user"
    assert name_steps([third, other], known).stores == {third: "events-by-user", other: both.stores[other]}
    assert name_steps([third, one, other], known).stores.items() > both.stores.items()


def test_a_known_name_gives_way_to_a_given_one():
    """A name that the user gives now is the user's, whoever had it before."""
    one, mine = counted(FilterNode(EVENTS, Reference("x"))), counted(EVENTS, store="events-by-user")
    known = KnownNames.of(json.dumps({"stores": [{"name": "events-by-user"}]}))

    assert name_steps([one], known).stores[one] == "events-by-user"
    assert name_steps([one, mine], known).stores[one].startswith("events-by-user-")


def test_given_names_win():
    """`name=` and `store=` are taken as they are; a generated name that is equal gives way."""
    mine = counted(EVENTS, store="events-by-other")
    generated = counted(EVENTS, key=(("other", Reference("other")),))

    names = name_steps([mine, generated, FilterNode(EVENTS, Reference("x"), name="sieve")])

    assert names.stores[mine] == "events-by-other"
    assert names.stores[generated].startswith("events-by-other-")
    assert "sieve" in names.steps.values()


def test_two_steps_of_one_given_name_are_refused():
    """A name that was given twice to different steps is an error."""
    roots = [FilterNode(EVENTS, Reference(column), name="sieve") for column in ("x", "y")]

    with pytest.raises(TopologyError, match="two steps are called 'sieve'"):
        name_steps(roots)


def test_names_can_be_topics():
    """Whatever columns are called, and however long the topology is, stores get names that a topic can have."""
    key = tuple((f"column number {number} ☃", Reference("x")) for number in range(30))

    (name,) = name_steps([counted(EVENTS, key=key)]).stores.values()

    assert check_name(f"application-{name}-changelog", "topic")
