"""
The stream times and clocks that a start leaves behind, because what they are of has gone or is new.

An operator whose stores were dropped begins without a past when it comes back, and so does a table that is read before all streams. The
time of a partition is kept while its topic has bounded jumps, and would stand still without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from streamkit.engine.epoch.stream_time import (
    ARRIVAL,
    BOOTSTRAP,
    CLOCK_START,
    CLOSED,
    GIVEN,
    GRACE,
    PARTITION,
    PURGE,
    STORE,
    StreamTimes,
    clock_start,
    of_closed,
    of_given,
    of_grace,
    of_purge,
    of_store,
)
from streamkit.plan.program import Input, Program


def stale_times(
    times: StreamTimes, before: Program, program: Program, young: Collection[str], topic_ids: Mapping[str, int]
) -> list[str]:
    """
    The names of the times that the program must not go on from; `before` is the one that left them.

    `young` are the stores of the program that are new, whatever had their names once; `topic_ids` those of its topics, by name.
    """
    kept = set(_of_operators(before, ())) & set(_of_operators(program, young))
    for source in program.inputs:
        earlier = [one for one in before.inputs if one.topic == source.topic]
        kept |= {f"{begin}{topic_ids[source.topic]}" for begin in _beginnings(source, earlier)}
    return sorted(
        name
        for name in times
        if name.startswith((STORE, CLOSED, GIVEN, GRACE, PURGE, CLOCK_START, PARTITION, BOOTSTRAP, ARRIVAL))
        and name not in kept
        and name.rpartition("/")[0] not in kept
    )


def _of_operators(program: Program, young: Collection[str]) -> Iterator[str]:
    for operator in program.operators:
        if (window := operator.windowing) is not None and window.store not in young:
            yield from (of(window.store) for of in (of_store, of_closed, of_given, of_grace, of_purge))
        if operator.ticks_ms:
            yield clock_start(operator.id)


def _beginnings(source: Input, earlier: Collection[Input]) -> Iterator[str]:
    """What the names of an input's times begin with that go on; those of a topic that was not read before do not."""
    if any(one.jump_ms is not None for one in earlier) and source.jump_ms is not None:
        yield PARTITION
    if any(one.bootstrap for one in earlier) and source.bootstrap:
        yield BOOTSTRAP
    if earlier:
        yield ARRIVAL
