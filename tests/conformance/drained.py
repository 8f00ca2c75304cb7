"""
Runs that are drained in between, as a daily job is: they give what one run gives that is not.

A case is told three times, each time so much later that no window, session or join reaches from one day to the next, nor an update
that is held back. The interpreter takes all days in one run and knows of no drain. The engine drains after each day but the last.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.conformance.arrival import Arrival
from tests.conformance.builder import Builder, Json
from tests.conformance.interpreter.rules import Rules
from tests.conformance.interpreter.run import results
from tests.conformance.running import new_records, take
from tests.conformance.ways import TASKS, Way, asking_for_old_values, by_key, disturb, driver_of, first_difference

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


def lengths_in(value: Any, name: str = "") -> Iterator[int]:
    """All lengths of time in a topology, but retentions: nothing waits for these."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from lengths_in(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from lengths_in(inner, name)
    elif name.endswith("ms") and "retention" not in name and isinstance(value, int):
        yield value
