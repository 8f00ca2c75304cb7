"""
Runs that are drained in between, as a daily job is: they give what one run gives that is not.

A case is told three times, each time so much later that no window, session or join reaches from one day to the next, nor an update
that is held back. The interpreter takes all days in one run and knows of no drain. The engine drains after each day but the last.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.harness.conformance.arrival import Arrival
from tests.harness.conformance.builder import Builder, Json
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.run import results
from tests.harness.conformance.kept import inputs_of
from tests.harness.conformance.running import new_records, take
from tests.harness.conformance.ways import TASKS, Way, asking_for_old_values, by_key, disturb, driver_of, first_difference

DAYS = 3


def difference_of_days(case: Json, way: Way) -> str | None:
    """The first key of which a run that is drained after each day gives something else than the interpreter does in one run."""
    case, day_ms = in_days(asking_for_old_values(case))
    chance, builder = random.Random(way.seed), Builder(case)
    outputs = builder.build()
    arrival = Arrival(case, builder.topics, way.partitions)
    steps = arrival.canonical()
    expected = [record for step in results({**case, "steps": steps}, Rules.streamkit()) for record in step]
    first_ms = steps[0]["ts"] if steps else 0
    with driver_of(builder, way) as driver:
        day = 0
        for step in steps:
            if (step["ts"] - first_ms) // day_ms > day:
                day = (step["ts"] - first_ms) // day_ms
                if not driver.is_running:
                    driver.restore(tasks=chance.choice(TASKS))
                driver.drain()
            disturb(driver, way, chance)
            take(driver, step, set(arrival.kinds))
        driver.log
        if not driver.is_running:
            driver.restore(tasks=chance.choice(TASKS))
        found = new_records(driver, outputs, case)
    return first_difference(by_key(case, expected), by_key(case, found))


def in_days(case: Json) -> tuple[Json, int]:
    """The case, told once a day, and how long a day is: its own span, and a length that nothing reaches across."""
    steps = [step for step in case["steps"] if "ts" in step]
    times = [step["ts"] for step in steps] or [0]
    day_ms = max(times) - min(times) + 1 + sum(lengths_in(case["topology"]))
    told = [{**step, "ts": step["ts"] + day * day_ms} for day in range(DAYS) for step in steps]
    return {**case, "steps": told}, day_ms


def meet_others(topology: Json) -> bool:
    """
    Whether results that time brings meet records of other topics than those that move their operator's time.

    In one run they wait for the next day's records of their own topics, and those of others may come before.
    """
    topics: dict[str, frozenset[str]] = {}
    moving: dict[str, frozenset[str]] = {}  # by node, the topics that move the time of what takes it
    brought: dict[str, set[frozenset[str]]] = {}  # by node, those of the operators whose results come there
    for node in topology["nodes"]:
        above = [name.split(".")[0] for name in inputs_of(node)]
        for name in above:
            others = frozenset().union(*(topics[other] for other in above if other != name))
            if any(not others <= one for one in brought[name]):
                return True
        own = frozenset([node["topic"]]) if "topic" in node else frozenset()
        topics[node["id"]] = own.union(*(topics[name] for name in above))
        moved_by = above[:1] if node.get("kind") in ("stream_table", "stream_global_table") else above
        moving[node["id"]] = own.union(*(moving[name] for name in moved_by))
        brought[node["id"]] = {one for name in above for one in brought[name]} | ({moving[node["id"]]} if _waits(node) else set())
    return False


def _waits(node: Json) -> bool:
    """Whether time brings results of an operator, and not a record."""
    if node["op"] == "join":
        is_outer = node["kind"] == "stream_stream" and node["type"] != "inner"
        return is_outer or (node["kind"] == "stream_table" and "grace_ms" in node)
    return node["op"] == "suppress" or node.get("emit") == "on_close"


def lengths_in(value: Any, name: str = "") -> Iterator[int]:
    """All lengths of time in a topology, but retentions: nothing waits for these."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from lengths_in(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from lengths_in(inner, name)
    elif name.endswith("ms") and "retention" not in name and isinstance(value, int):
        yield abs(value)  # a window may begin behind a record, and its end is as far away as both bounds say
