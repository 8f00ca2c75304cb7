"""Promises of the assignors: everything is assigned once, evenly, and sticks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamkit.log.catalog.assignors import ASSIGNORS, assign_range, assign_sticky
from tests.kit.sampling import examples

MEMBERS = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8)
TOPICS = st.dictionaries(st.integers(1, 4), st.integers(1, 9), max_size=4)


@st.composite
def groups(draw):
    """Subscriptions, partitions, and who had what before, be it sound or not."""
    sizes = draw(TOPICS)
    subscriptions = {
        member: draw(st.frozensets(st.sampled_from(sorted(sizes)))) if sizes else frozenset() for member in draw(MEMBERS)
    }
    places = [(topic, partition) for topic, size in sizes.items() for partition in range(size)]
    holders = st.sampled_from([*subscriptions, "gone"])
    previous = draw(st.dictionaries(st.sampled_from(places), holders)) if places else {}
    return subscriptions, places, previous


@pytest.mark.parametrize("assignor", ASSIGNORS)
@examples(100)
@given(group=groups())
def test_every_partition_has_a_subscriber(assignor, group):
    """A partition goes to a member that subscribes to its topic, unless there is none; and to nobody else."""
    subscriptions, places, previous = group
    assigned = ASSIGNORS[assignor](subscriptions, places, previous)

    wanted = frozenset().union(*subscriptions.values())
    assert assigned.keys() == {place for place in places if place[0] in wanted}
    assert all(topic in subscriptions[member] for (topic, _), member in assigned.items())


@examples(100)
@given(size=st.integers(0, 30), count=st.integers(1, 9))
def test_range_is_contiguous(size, count):
    """Members have contiguous ranges in their order, and the first ones have the partitions that are left over."""
    members = [f"m{number}" for number in range(count)]
    assigned = assign_range(dict.fromkeys(members, frozenset({7})), [(7, partition) for partition in range(size)], {})

    owners = [assigned[7, partition] for partition in range(size)]
    assert owners == sorted(owners)
    shares = Counter(owners)
    assert [shares[member] for member in members] == [size // count + (number < size % count) for number in range(count)]


@examples(100)
@given(group=groups())
def test_sticky_is_even(group):
    """No partition can go to a member that would still have fewer than the one it comes from, also not by way of others."""
    subscriptions, places, previous = group
    assigned = assign_sticky(subscriptions, places, previous)
    counts = dict.fromkeys(subscriptions, 0) | Counter(assigned.values())

    for giver in subscriptions:
        assert counts[giver] - min(counts[member] for member in reachable(giver, assigned, subscriptions)) <= 1


def reachable(giver, assigned, subscriptions):
    """Members that can take a partition from the giver, or from one who can, and so on."""
    found, waiting = {giver}, [giver]
    while waiting:
        member = waiting.pop()
        topics = {topic for (topic, _), owner in assigned.items() if owner == member}
        takers = {taker for taker, wanted in subscriptions.items() if wanted & topics} - found
        found |= takers
        waiting += takers
    return found


@examples(100)
@given(group=groups())
def test_sticky_stays(group):
    """What is even already stays as it is, to the last partition."""
    subscriptions, places, previous = group
    assigned = assign_sticky(subscriptions, places, previous)

    assert assign_sticky(subscriptions, places, assigned) == assigned


@examples(50)
@given(size=st.integers(1, 40), count=st.integers(1, 8))
def test_sticky_moves_no_more_than_needed(size, count):
    """A newcomer among equals gets its share and nothing else moves; when one goes, only what it had moves."""
    places = [(1, partition) for partition in range(size)]
    members = [f"m{number}" for number in range(count)]
    before = assign_sticky(dict.fromkeys(members, frozenset({1})), places, {})
    joined = assign_sticky(dict.fromkeys([*members, "new"], frozenset({1})), places, before)
    left = assign_sticky(dict.fromkeys(members[1:], frozenset({1})), places, before) if count > 1 else {}

    assert {place for place in places if joined[place] != before[place]} == {place for place in places if joined[place] == "new"}
    assert list(joined.values()).count("new") == size // (count + 1)
    moved = {place for place in left if left[place] != before[place]}
    assert moved == ({place for place in places if before[place] == "m0"} if left else set())


def test_a_chain_of_moves_is_found():
    """A member that can give to a second alone, which can give to a third, does so when the third has too little."""
    subscriptions = {"a": frozenset({1}), "b": frozenset({1, 2}), "c": frozenset({2})}
    previous = {(1, 0): "a", (1, 1): "a", (2, 0): "b"}

    assert Counter(assign_sticky(subscriptions, previous, previous).values()) == {"a": 1, "b": 1, "c": 1}
