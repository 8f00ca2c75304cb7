"""
The records of a case in the order in which they are processed, whatever the cut: order key, input, partition, offset.

The order key is the largest event time so far in a partition. Inputs are in the order of the plan: tables before streams, then by
name. Global tables are read whole before anything else, so their records come first.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

from streamkit.log.opening import open_log
from tests.harness.conformance.builder import Json, is_nothing

Lane = tuple[str, int]


class Arrival:
    """
    The records of a case, and the partition in which each of them lies. `topics` declares the topics.

    With several partitions there are no records without a key, because it is open where they lie.
    """

    def __init__(self, case: Json, topics: dict[str, dict[str, Any]], partitions: int) -> None:
        self.kinds = {node["topic"]: node["op"] for node in case["topology"]["nodes"] if "topic" in node}
        self.steps = [step for step in case["steps"] if self._is_taken(step, partitions)]
        self.topics = topics
        self.partitions = self._partitions_of_keys(partitions)

    def canonical(self) -> list[Json]:
        """The records in canonical order."""
        newest: dict[Lane, int] = {}
        placed = []
        for offset, step in enumerate(self.steps):
            topic, lane = step["topic"], self._lane(step)
            newest[lane] = max(newest.get(lane, step["ts"]), step["ts"])
            kind = self.kinds[topic]
            is_stream = kind == "stream"
            place = (0,) if kind == "global_table" else (1, newest[lane], is_stream, topic, lane[1])
            placed.append(((*place, offset), step))
        return [step for _, step in sorted(placed, key=lambda one: one[0])]

    def shuffled(self, chance: random.Random) -> list[Json]:
        """The records in any order that keeps that of each partition."""
        lanes: dict[Lane, list[Json]] = defaultdict(list)
        for step in self.steps:
            lanes[self._lane(step)].append(step)
        order = [lane for lane, steps in lanes.items() for _ in steps]
        chance.shuffle(order)
        return [lanes[lane].pop(0) for lane in order]

    def _is_taken(self, step: Json, partitions: int) -> bool:
        if step["key"] is None and partitions > 1:
            return False
        return self.kinds[step["topic"]] == "stream" or not is_nothing(step)

    def _lane(self, step: Json) -> Lane:
        return step["topic"], self.partitions.get((step["topic"], step["key"]), 0)

    def _partitions_of_keys(self, partitions: int) -> dict[tuple[str, Any], int]:
        """Where the log puts the keys of each topic; a record without a key lies in partition 0."""
        if partitions == 1:
            return {}
        keys = {(step["topic"], step["key"]) for step in self.steps if step["key"] is not None}
        with open_log(":memory:") as log:
            with log.producer() as producer:
                for topic, declared in self.topics.items():
                    log.create_topic(topic, **{**declared, "partitions": partitions})
                    for key in sorted(key for name, key in keys if name == topic):
                        producer.send(topic, {**dict.fromkeys(log.topic(topic).schema.names), "k": key})
            return {(topic, row["k"]): row["_partition"] for topic in self.topics for row in log.read(topic, ["k"]).to_pylist()}
