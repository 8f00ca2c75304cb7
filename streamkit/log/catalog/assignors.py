"""
Assignors: which member of a group is to have which partition.

Pure functions from subscriptions to an assignment. Members come in the order in which they joined; partitions are
(topic id, partition).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby, pairwise

from streamkit.log.topic.topic import TopicIdPartition

Subscriptions = Mapping[str, frozenset[int]]  # member id → ids of the topics it subscribes to
Holdings = dict[str, list[TopicIdPartition]]
Assignor = Callable[[Subscriptions, Iterable[TopicIdPartition], Mapping[TopicIdPartition, str]], dict[TopicIdPartition, str]]


def assign_range(
    subscriptions: Subscriptions, places: Iterable[TopicIdPartition], previous: Mapping[TopicIdPartition, str]
) -> dict[TopicIdPartition, str]:
    """
    Give each member a contiguous range of the partitions of each topic, so that equal numbers of topics stay together.

    Of n partitions and m members the first n mod m members have one partition more, as with Kafka's RangeAssignor.
    """
    assigned: dict[TopicIdPartition, str] = {}
    for topic_id, group in groupby(sorted(places), key=lambda place: place[0]):
        partitions, members = list(group), _subscribers(subscriptions, topic_id)
        share, more = divmod(len(partitions), len(members)) if members else (0, 0)
        for number, member in enumerate(members):
            first = number * share + min(number, more)
            assigned |= dict.fromkeys(partitions[first : first + share + (number < more)], member)
    return assigned


def assign_sticky(
    subscriptions: Subscriptions, places: Iterable[TopicIdPartition], previous: Mapping[TopicIdPartition, str]
) -> dict[TopicIdPartition, str]:
    """
    Spread partitions as evenly as the subscriptions allow, and move no more of them than that takes.

    `previous` says who had what; a member that has gone, or no longer subscribes, keeps nothing.
    """
    held: Holdings = {member: [] for member in subscriptions}
    free = []
    for place in sorted(places):
        holder = previous.get(place)
        if holder is not None and place[0] in subscriptions.get(holder, ()):
            held[holder].append(place)
        else:
            free.append(place)
    for place in free:
        if members := _subscribers(subscriptions, place[0]):
            held[min(members, key=lambda member: len(held[member]))].append(place)
    while _level(held, subscriptions):
        pass
    return {place: member for member, found in held.items() for place in found}


ASSIGNORS: dict[str, Assignor] = {"cooperative-sticky": assign_sticky, "range": assign_range}


def _subscribers(subscriptions: Subscriptions, topic_id: int) -> list[str]:
    return [member for member, topic_ids in subscriptions.items() if topic_id in topic_ids]


def _level(held: Holdings, subscriptions: Subscriptions) -> bool:
    """Move one partition towards balance; False if nothing can get more even."""
    for giver in sorted(held, key=lambda member: -len(held[member])):
        if path := _path_down(giver, held, subscriptions):
            _shift(path, held, subscriptions)
            return True
    return False


def _path_down(giver: str, held: Holdings, subscriptions: Subscriptions) -> list[str]:
    """The shortest way, by members who can take from the one before, to one who has at least two partitions less."""
    before: dict[str, str | None] = {giver: None}
    waiting = deque([giver])
    while waiting:
        member = waiting.popleft()
        if len(held[member]) <= len(held[giver]) - 2:
            return _way_to(member, before)
        topic_ids = {topic_id for topic_id, _ in held[member]}
        for taker, wanted in subscriptions.items():
            if taker not in before and wanted & topic_ids:
                before[taker] = member
                waiting.append(taker)
    return []


def _way_to(member: str | None, before: Mapping[str, str | None]) -> list[str]:
    way: list[str] = []
    while member is not None:
        way.insert(0, member)
        member = before[member]
    return way


def _shift(path: list[str], held: Holdings, subscriptions: Subscriptions) -> None:
    # From the far end, so that nobody passes on what it has only just got.
    for giver, taker in reversed(list(pairwise(path))):
        place = max(place for place in held[giver] if place[0] in subscriptions[taker])
        held[giver].remove(place)
        held[taker].append(place)
