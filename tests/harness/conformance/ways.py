"""
The ways in which a case may be run, none of which changes what it gives: tasks, cuts, partitions, arrivals, crashes, restarts.

`difference` runs a case in one way, and compares all that came of it with what the interpreter gives for the records in their
canonical order. Records of one key and window are compared in order; those without a key have none, nor have those that got their key
in several tasks, which write them.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby

from streamkit.testing import TopologyTestDriver
from tests.harness.conformance.arrival import Arrival
from tests.harness.conformance.builder import Builder, Json, key_groups_of
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.run import results
from tests.harness.conformance.running import Record, new_records, take, take_together
from tests.kit.row_counts import check_row_counts, sampled_early
from tests.kit.tiny_tiers import tiny_tiers

TASKS = (1, 2, 3, 7)
REKEYING = frozenset({"select_key", "map", "flat_map"})
STATELESS = REKEYING | {"filter", "filter_not", "map_values", "flat_map_values", "merge", "split", "to_stream"}
POINTS = (
    "epoch.planned",
    "state.before_open",
    "state.between_writes",
    "kernel.in_operator",
    "kernel.slab_durable",
    "kernel.finished",
    "commit.verified",
    "commit.before_commit",
    "commit.after_commit",
    "epoch.returned",
)
Lists = dict[str, list[Record]]


@dataclass(frozen=True)
class Way:
    """
    One way to run a case; `seed` decides what is left to chance.

    `batching` is that of the driver, or "random". `is_shuffled`: records of different partitions arrive in any order, all before the
    only epoch. `is_late`: they arrive as the case has them, later ones after the epochs of earlier ones; else in canonical order.
    `crashes` and `restarts`: how likely one is before a record. `has_own_times`: a column says their event time, and they are written
    under any other. `is_together`: neighbours of one topic are sent in one commit, where no epoch asks for commits of their own.
    `is_in_tiers`: stores are in files, with tiny limits.
    """

    seed: int = 0
    tasks: int = 1
    batching: str = "each"
    partitions: int = 1
    is_shuffled: bool = False
    is_late: bool = False
    crashes: float = 0.0
    restarts: float = 0.0
    has_own_times: bool = False
    is_together: bool = False
    is_in_tiers: bool = False


def random_way(seed: int) -> Way:
    """Any way."""
    chance = random.Random(seed)
    batching = chance.choice(["all", "all", "all", "each", "one", "random", "random"])
    return Way(
        seed=seed,
        tasks=chance.choice(TASKS),
        batching=batching,
        partitions=chance.choice([1, 2, 3]),
        is_shuffled=batching == "all" and chance.random() < 0.5,
        is_late=batching in ("each", "one"),
        crashes=chance.choice([0.0, 0.0, 0.1, 0.3]),
        restarts=chance.choice([0.0, 0.0, 0.1]),
        has_own_times=chance.random() < 0.3,
        is_together=chance.random() < 0.5,
        is_in_tiers=chance.random() < 0.5,
    )


def difference(case: Json, way: Way) -> str | None:
    """The first key of which the engine gave something else than the interpreter, in words; None if there is none."""
    found, steps = given(case, way)
    case = asking_for_old_values(case)
    expected = [record for step in results({**case, "steps": steps}, Rules.streamkit()) for record in step]
    return first_difference(by_key(case, expected), by_key(case, found))


def difference_of_ways(case: Json, *ways: Way) -> str | None:
    """The first key of which the engine gives something else in a way than in the first one; for ways that take records in one order."""
    case = asking_for_old_values(case)
    first, *others = [by_key(case, given(case, way)[0]) for way in ways]
    return next((found for other in others if (found := first_difference(first, other)) is not None), None)


def given(case: Json, way: Way) -> tuple[list[Record], list[Json]]:
    """What comes of a case in a way, and the records in the order in which they are to be taken."""
    case, chance = asking_for_old_values(case), random.Random(way.seed)
    builder = Builder(case, has_own_times=way.has_own_times)
    outputs = builder.build()
    arrival = Arrival(case, builder.topics, way.partitions)
    steps = arrival.steps if way.is_late else arrival.canonical()
    with sampled_early(way.seed), tiny_tiers(way.seed) if way.is_in_tiers else nullcontext(), driver_of(builder, way) as driver:
        for sent in commits(arrival.shuffled(chance) if way.is_shuffled else steps, way):
            disturb(driver, way, chance)
            timed = {name: chance.randrange(100_000) for name in builder.topics} if way.has_own_times else None
            if len(sent) > 1:
                take_together(driver, sent, _timed(timed, arrival.kinds))
            else:
                take(driver, sent[0], set(arrival.kinds), _timed(timed, arrival.kinds))
        driver.log
        if not driver.is_running:
            driver.restore(tasks=chance.choice(TASKS))
        check_row_counts(driver.log, builder.app.name)
        return new_records(driver, outputs, case), steps


def commits(steps: Sequence[Json], way: Way) -> list[list[Json]]:
    """The records of each commit: neighbours of one topic, or one."""
    if way.is_together and way.batching == "all":
        return [list(sent) for _, sent in groupby(steps, key=lambda step: step["topic"])]
    return [[step] for step in steps]


def _timed(timed: Mapping[str, int] | None, kinds: Mapping[str, str]) -> Mapping[str, int]:
    """The topics whose records have their time in a column: all but global tables."""
    return {name: time for name, time in (timed or {}).items() if kinds[name] != "global_table"}


def is_bounded(case: Json) -> bool:
    """Whether a suppress has a bound, which counts for a key group: such a case runs with one key group, step by step."""
    return key_groups_of(case["topology"]) == 1


def asking_for_old_values(case: Json) -> Json:
    """The case, whose tables that are observed as changes send old values."""
    asked = {output["node"] for output in case["topology"]["outputs"] if output.get("as") == "changes"}
    nodes = [{**node, "send_old_values": True} if node["id"] in asked else node for node in case["topology"]["nodes"]]
    return {**case, "topology": {**case["topology"], "nodes": nodes}}


def by_key(case: Json, records: Sequence[Record]) -> Lists:
    """The records of each output, key and window, in order; those of no key in any, and those that several tasks write."""
    first = case["topology"]["outputs"][0]["name"]
    nodes = {node["id"]: node for node in case["topology"]["nodes"]}
    unordered = {output["name"] for output in case["topology"]["outputs"] if _is_written_by_several(nodes, output["node"])}
    found: Lists = defaultdict(list)
    for record in records:
        place = json.dumps([record.get("out", first), record["key"], record.get("window")], ensure_ascii=False)
        found[place].append({name: value for name, value in record.items() if name != "out"})
    for place, one in found.items():
        if json.loads(place)[1] is None or json.loads(place)[0] in unordered:
            one.sort(key=repr)
    return found


def _is_written_by_several(nodes: Mapping[str, Json], name: str, is_rekeyed: bool = False) -> bool:
    """Whether records have got another key behind an exchange and meet none behind that: records of one key come from several tasks."""
    node = nodes[name.split(".", maxsplit=1)[0]]
    if node["op"] not in STATELESS:
        return is_rekeyed and node["op"] != "stream"
    inputs = node.get("ins") or [node["in"]]
    has_other_key = node["op"] in REKEYING or "key_fn" in node
    return any(_is_written_by_several(nodes, one, is_rekeyed or has_other_key) for one in inputs)


def first_difference(expected: Mapping[str, list[Record]], found: Mapping[str, list[Record]]) -> str | None:
    """The first place of which two runs say different things, and both records there."""
    for place in sorted({*expected, *found}):
        wanted, given = expected.get(place, []), found.get(place, [])
        for number in range(max(len(wanted), len(given))):
            pair = [
                json.dumps(list_[number], ensure_ascii=False, sort_keys=True) if number < len(list_) else "nothing"
                for list_ in (wanted, given)
            ]
            if pair[0] != pair[1]:
                return f"{place}, record {number}: expected {pair[0]}, found {pair[1]}"
    return None


def driver_of(builder: Builder, way: Way) -> TopologyTestDriver:
    topics = {name: {**declared, "partitions": way.partitions} for name, declared in builder.topics.items()}
    batching = random.Random(way.seed) if way.batching == "random" else way.batching
    return TopologyTestDriver(builder.app, topics=topics, tasks=way.tasks, batching=batching)


def disturb(driver: TopologyTestDriver, way: Way, chance: random.Random) -> None:
    """Crash, start again after a while, or restart with another number of tasks."""
    if not driver.is_running:
        if way.is_late or chance.random() < 0.5:
            driver.restore(tasks=chance.choice(TASKS))
    elif chance.random() < way.crashes:
        driver.crash(at=chance.choice(POINTS))
    elif not way.is_shuffled and chance.random() < way.restarts:
        driver.restart(tasks=chance.choice(TASKS))
