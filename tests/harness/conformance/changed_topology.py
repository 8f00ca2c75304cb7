"""
A case whose application stops, and starts again with another topology: one more operator, with a store of its own.

What was there goes on from its state, as if nothing had happened. What is new begins with the records that come then.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.log.log import Log
from streamkit.log.opening import open_log
from streamkit.log.produce.producer import Producer
from streamkit.state.stores import MemoryStores
from tests.harness.conformance.arrival import Arrival
from tests.harness.conformance.builder import Builder, Json
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.run import Run, results
from tests.harness.conformance.running import new_records, take
from tests.harness.conformance.ways import TASKS, asking_for_old_values, by_key, first_difference

ADDED = "added"


class Application:
    """A log in memory on which one topology runs after another; rows are sent and read as by the test driver."""

    def __init__(self, log: Log, producer: Producer, chance: random.Random) -> None:
        self.log = log
        self.producer = producer
        self.chance = chance

    def run(self, builder: Builder, arrival: Arrival, steps: Sequence[Json]) -> None:
        """Process these records with the topology, in epochs of any size and any number of tasks."""
        program = compile_with_settings(builder.app, self.log, None)
        for step in steps:
            take(self, step, set(arrival.kinds))  # type: ignore[arg-type]
        self.producer.flush()
        tasks, records_max = self.chance.choice(TASKS), self.chance.choice([1, 3, 1000])
        planner = start(self.log.catalog, self.log.storage, program, tasks=tasks, records_max=records_max)
        run_available(planner, splits=tasks, stores=MemoryStores())

    def pipe(self, topic: str, row: Json, timestamp: int) -> None:
        """Send a row."""
        self.producer.send(topic, row, timestamp_ms=timestamp)

    def delete(self, topic: str, key: Json, timestamp: int) -> None:
        """Send a tombstone."""
        self.producer.delete(topic, key, timestamp_ms=timestamp)

    def read(self, topic: str) -> list[Json]:
        """All rows of a topic."""
        rows: list[Json] = self.log.read(topic).to_pylist()
        return rows


def difference_of_change(case: Json, seed: int) -> str | None:
    """The first key of which something else came than if both topologies had always been there, or begun then; None if none did."""
    case, chance = named(asking_for_old_values(case)), random.Random(seed)
    larger = with_one_more(case, chance)
    builder, later = Builder(case), Builder(larger)
    builder.build()
    outputs = later.build()
    arrival = Arrival(case, builder.topics, partitions=1)
    steps = arrival.canonical()
    cut = chance.randint(1, len(steps)) if steps else 0
    with open_log(":memory:") as log, log.producer() as producer:
        for topic, declared in builder.topics.items():
            log.create_topic(topic, **declared, config={"retention.ms": "-1"})
        application = Application(log, producer, chance)
        application.run(builder, arrival, steps[:cut])
        application.run(later, arrival, steps[cut:])
        found = new_records(application, outputs, larger)  # type: ignore[arg-type]
    before = [record for step in results({**case, "steps": steps}, Rules.streamkit()) for record in step]
    expected = [*before, *of_the_new(larger, steps, cut)]
    return first_difference(by_key(larger, expected), by_key(larger, found))


def named(case: Json) -> Json:
    """The case with a second output, so that its records name theirs."""
    outputs = case["topology"]["outputs"]
    return {**case, "topology": {**case["topology"], "outputs": [*outputs, {**outputs[0], "name": "again"}]}}


def with_one_more(case: Json, chance: random.Random) -> Json:
    """The case with a processor over one of its streams, if it has one."""
    nodes = case["topology"]["nodes"]
    streams = [node["id"] for node in nodes if node["op"] == "stream"]
    one_more = [{"id": ADDED, "op": "process", "in": chance.choice(streams), "every_ms": 10}] if streams else []
    outputs = [{"name": ADDED, "node": ADDED}] if streams else []
    topology = {**case["topology"], "nodes": [*nodes, *one_more], "outputs": [*case["topology"]["outputs"], *outputs]}
    return {**case, "topology": topology}


def of_the_new(case: Json, steps: Sequence[Json], cut: int) -> list[Any]:
    """What the new operator gives, which knows of former records only how far they have moved the time: points of its grid are past."""
    run = Run(case["topology"], Rules.streamkit())
    for step in steps[:cut]:
        run.graph.times.observe(step["topic"], step["ts"])
    if ADDED in run.graph.nodes:
        run.graph.nodes[ADDED].skip_past_points()
    return [record for step in steps[cut:] for record in run.take(step) if record["out"] == ADDED]
