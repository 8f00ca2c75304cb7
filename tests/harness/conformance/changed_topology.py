"""
A case whose application stops, and starts again with another topology: one more operator, with a store of its own.

What was there goes on from its state, as if nothing had happened. What is new begins with the records that come then, or is rebuilt, and gives
then what it would give if it had always been there. Or a second version of the same topology takes the first one's outputs over.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import streamkit as sk
from streamkit.engine.runs import following
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.following import Succession, follow
from streamkit.engine.runs.local import run_available, run_next
from streamkit.engine.runs.planner import Planner
from streamkit.engine.runs.rebuild import Rebuild, rebuild_stores
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError
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
TOGETHER = re.compile(r"--rebuild (\S+)")


class Application:
    """A log in memory on which one topology runs after another; rows are sent and read as by the test driver."""

    def __init__(self, log: Log, producer: Producer, chance: random.Random) -> None:
        self.log = log
        self.producer = producer
        self.chance = chance

    def run(self, builder: Builder, arrival: Arrival, steps: Sequence[Json]) -> None:
        """Process these records with the topology, in epochs of any size and any number of tasks."""
        self.send(arrival, steps)
        planner = self.begin(builder.app)
        run_available(planner, splits=planner.application.tasks, stores=MemoryStores())

    def send(self, arrival: Arrival, steps: Sequence[Json]) -> None:
        """Append these records."""
        for step in steps:
            take(self, step, set(arrival.kinds))  # type: ignore[arg-type]
        self.producer.flush()

    def begin(self, app: sk.Topology) -> Planner:
        """Start a topology, with epochs of any size and any number of tasks."""
        tasks, records_max = self.chance.choice(TASKS), self.chance.choice([1, 3, 1000])
        program = compile_with_settings(app, self.log, None)
        return start(self.log.catalog, self.log.storage, program, tasks=tasks, records_max=records_max)

    def run_some(self, app: sk.Topology) -> None:
        """Run some epochs of a topology, which may end within a frame."""
        planner = self.begin(app)
        for _ in range(self.chance.randrange(4)):
            if run_next(planner, stores=MemoryStores(), records_max=self.chance.choice([1, 2, 5])) is None:
                return

    def rebuild(self, app: sk.Topology, store: str) -> None:
        """Rebuild a store, with those that an error names."""
        program = compile_with_settings(app, self.log, None)
        stores = {store}
        while True:
            wanted = Rebuild(
                tuple(sorted(stores)), records_max=self.chance.choice([1, 3, 1000]), threads=self.chance.choice([1, 2])
            )
            try:
                rebuild_stores(self.log, program, wanted)
            except ConfigError as error:
                stores |= set(TOGETHER.findall(str(error)))
            else:
                return

    def follow(self, app: sk.Topology, leader: str) -> bool:
        """Run a second version up to where the first stands; whether it has taken that over."""
        left = [self.chance.randrange(30)]

        def is_stopped() -> bool:
            left[0] -= 1
            return left[0] < 0 and self.log.catalog.applications.get(leader).successor is None

        wanted = Succession(leader, threads=1, records_max=self.chance.choice([1, 3, 1000]), is_stopped=is_stopped)
        with waits_of(0.0):
            return follow(self.log, compile_with_settings(app, self.log, None), wanted)

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


@contextmanager
def application_of(builder: Builder, chance: random.Random) -> Iterator[Application]:
    """A log in memory with the topics of a topology."""
    with open_log(":memory:") as log, log.producer() as producer:
        for topic, declared in builder.topics.items():
            log.create_topic(topic, **declared, config={"retention.ms": "-1"})
        yield Application(log, producer, chance)


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
    with application_of(builder, chance) as application:
        application.run(builder, arrival, steps[:cut])
        application.run(later, arrival, steps[cut:])
        found = new_records(application, outputs, larger)  # type: ignore[arg-type]
    before = [record for step in results({**case, "steps": steps}, Rules.streamkit()) for record in step]
    expected = [*before, *of_the_new(larger, steps, cut)]
    return first_difference(by_key(larger, expected), by_key(larger, found))


def difference_of_rebuild(case: Json, seed: int) -> str | None:
    """The first key of which something else came than what follows if the larger topology had always been there; None if none did."""
    case, chance = named(asking_for_old_values(case)), random.Random(seed)
    larger = with_one_more(case, chance)
    if larger["topology"]["nodes"] == case["topology"]["nodes"]:
        return None
    builder, later = Builder(case), Builder(larger)
    builder.build()
    outputs = later.build()
    arrival = Arrival(case, builder.topics, partitions=1)
    steps = arrival.canonical()
    cut = chance.randint(1, len(steps)) if steps else 0
    with application_of(builder, chance) as application:
        application.run(builder, arrival, steps[:cut])
        application.send(arrival, steps[cut:])
        application.run_some(builder.app)
        positions = application.log.catalog.applications.get(builder.app.name).positions
        read = {topic: sum(positions.get(application.log.topic(topic).id, {}).values()) for topic in builder.topics}
        application.rebuild(later.app, f"numbers-{ADDED}")
        application.run(later, arrival, [])
        found = new_records(application, outputs, larger)  # type: ignore[arg-type]
    told = list(results({**larger, "steps": steps}, Rules.streamkit()))
    is_read = []
    for step in steps:  # in each topic those that came first
        read[step["topic"]] -= 1
        is_read.append(read[step["topic"]] >= 0)
    expected = [
        record for was_read, step in zip(is_read, told, strict=True) for record in step if not was_read or record["out"] != ADDED
    ]
    return first_difference(by_key(larger, expected), by_key(larger, found))


def difference_of_succession(case: Json, seed: int) -> str | None:
    """The first key of which something else came than from one version alone; None if none did, and nothing came twice or was lost."""
    case, chance = named(asking_for_old_values(case)), random.Random(seed)
    builder = Builder(case)
    outputs = builder.build()
    second = builder.app.with_name("second")
    arrival = Arrival(case, builder.topics, partitions=1)
    steps = arrival.canonical()
    cuts = sorted(chance.randint(0, len(steps)) for _ in range(2))
    with application_of(builder, chance) as application:
        application.run(builder, arrival, steps[: cuts[0]])
        is_over = application.follow(second, builder.app.name)
        application.send(arrival, steps[cuts[0] : cuts[1]])
        application.run_some(builder.app)
        is_over |= chance.random() < 0.5 and application.follow(second, builder.app.name)
        application.log.catalog.applications.hand_over(second.name)
        assert not is_over and application.follow(second, builder.app.name)
        application.send(arrival, steps[cuts[1] :])
        planner = application.begin(second)
        run_available(planner, stores=MemoryStores())
        found = new_records(application, outputs, case)  # type: ignore[arg-type]
    expected = [record for step in results({**case, "steps": steps}, Rules.streamkit()) for record in step]
    return first_difference(by_key(case, expected), by_key(case, found))


@contextmanager
def waits_of(seconds: float) -> Iterator[None]:
    """Let a second version wait so long for the first, where it would wait for a commit."""
    before, following.WAIT_SECONDS = following.WAIT_SECONDS, seconds
    try:
        yield
    finally:
        following.WAIT_SECONDS = before


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
