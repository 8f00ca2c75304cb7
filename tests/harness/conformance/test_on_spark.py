"""Random topologies over random records, on Spark: topics and stores are what they are in one process, whatever operators there are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from streamkit.testing import TopologyTestDriver
from tests.harness.conformance.arrival import Arrival
from tests.harness.conformance.builder import Builder, Json
from tests.harness.conformance.generator import random_case, random_case_of_newest
from tests.harness.conformance.running import take
from tests.harness.conformance.test_random_topologies import look_up_the_newest, shorten_the_gap
from tests.harness.conformance.ways import asking_for_old_values, is_bounded
from tests.harness.crash.processes import IS_TORTURE

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:the subtractor .* does not undo")]
PARTS = 10 if IS_TORTURE else 1
COUNT = 20 if IS_TORTURE else 2
QUICK_SEED = 77


@pytest.mark.parametrize("part", range(PARTS))
def test_spark_gives_what_one_process_gives(part: int, spark: Any, record_property: Any) -> None:
    """Every operator is compiled, sent to Spark's workers and run in stages there; what comes of it is the same."""
    seed = random.SystemRandom().randrange(1_000, 1_000_000) if IS_TORTURE else QUICK_SEED
    cases = list(cases_of(seed))
    record_property("tried", {"random topologies on Spark": len(cases)})
    for case in cases:
        with played(case) as driver:
            driver.run_on_spark(spark)


BUGS = {  # planted in this process, where Spark's workers do not see it; and the number of a case in which it shows
    "a record meets the newest row of a table, not that of its place": (look_up_the_newest, 8),
    "records that are a gap apart are in two sessions": (shorten_the_gap, 126),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_difference_from_spark_is_told(bug: str, spark: Any) -> None:
    """Where an operator does something else on Spark than here, the comparison says so."""
    plant, number = BUGS[bug]
    with pytest.MonkeyPatch.context() as patch:
        plant(patch.setattr)
        with played(random_case(QUICK_SEED, number, own=True)) as driver, pytest.raises(AssertionError):
            driver.run_on_spark(spark)


@contextmanager
def played(case: Json) -> Iterator[TopologyTestDriver]:
    """A driver that has taken all records of a case in one epoch."""
    builder = Builder(asking_for_old_values(case))
    builder.build()
    arrival = Arrival(case, builder.topics, 2)
    with TopologyTestDriver(builder.app, topics=builder.topics, tasks=2, partitions=2, batching="all") as driver:
        for step in arrival.canonical():
            take(driver, step, set(arrival.kinds))
        driver.drain()
        yield driver


def cases_of(seed: int) -> Iterator[Json]:
    """Cases that Spark can run: its clock cannot be moved, and it has more than one key group."""
    found = (
        case for number in range(COUNT) for case in (random_case(seed, number, own=True), random_case_of_newest(seed, number))
    )
    return (case for case in found if not is_bounded(case) and not any("advance_wall_clock_ms" in step for step in case["steps"]))
