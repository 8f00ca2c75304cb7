"""A case, interpreted step by step."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.conformance.builder import is_nothing
from tests.harness.conformance.interpreter.graph import Graph
from tests.harness.conformance.interpreter.record import Record, Windowed
from tests.harness.conformance.interpreter.rules import Rules
from tests.harness.conformance.interpreter.suppressed_table import BufferFullError

Json = dict[str, Any]
Step = Any


def results(case: Json, rules: Rules) -> list[Step]:
    """The records of each step, in the format of `expect`; a step that fails is `{"error": why}` and the last one."""
    run = Run(case["topology"], rules)
    found: list[Step] = []
    for step in case["steps"]:
        try:
            found.append(run.take(step))
        except BufferFullError as error:
            return [*found, {"error": str(error)}]
    return found


class Run:
    """A topology that takes steps."""

    def __init__(self, topology: Json, rules: Rules) -> None:
        self.rules = rules
        self.emitted: list[Json] = []
        self.is_named = len(topology["outputs"]) > 1
        self.gives_only_known = any(node.get("type") in ("session", "sliding") for node in topology["nodes"])
        self.newest: dict[str, dict[str, bool]] = {out["name"]: {} for out in topology["outputs"] if out.get("as") == "newest"}
        self.streams = {node["topic"] for node in topology["nodes"] if node["op"] == "stream"}
        self.graph = Graph(topology, rules, self._emit)

    def take(self, step: Json) -> list[Json]:
        """What one step emits."""
        self.emitted = []
        if "advance_wall_clock_ms" in step:
            self.graph.wall_clock.now += step["advance_wall_clock_ms"]
        elif not self._is_refused(step):
            self._take(step["topic"], Record(step["key"], step["value"], step["ts"]))
        return self._without_replaced(self.emitted) if self.newest else self.emitted

    def _without_replaced(self, emitted: list[Json]) -> list[Json]:
        """
        What a step emits, and of outputs that show what is newest only the last of each key and window.

        A session or a sliding window that was not known before the step is not deleted.
        """
        kept: list[Json] = []
        found: set[str] = set()
        for record in reversed(emitted):
            known = self.newest.get(record.get("out", next(iter(self.newest))))
            if known is not None:
                place = json.dumps([record["key"], record["window"]])
                is_replaced, is_known = place in found, known.get(place, False)
                found.add(place)
                if is_replaced or (self.gives_only_known and record["value"] is None and not is_known):
                    continue
                known[place] = record["value"] is not None
            kept.append(record)
        return kept[::-1]

    def _is_refused(self, step: Json) -> bool:
        """Whether no producer sends such a record."""
        is_of_table = step["topic"] not in self.streams
        return self.rules.tables_take_no_record_of_nothing and is_of_table and is_nothing(step)

    def _take(self, topic: str, record: Record) -> None:
        for table in self.graph.global_tables.get(topic, []):
            table.receive(record)
        self.graph.times.observe(topic, record.timestamp)
        if self.rules.time_of_inputs:
            for operator in self.graph.timed:
                operator.pass_time()
                self.graph.topics.drain()
        if topic in self.graph.sources:
            self.graph.sources[topic].forward(record)
            self.graph.topics.drain()
        for operator in self.graph.finishing:
            operator.finish()
            self.graph.topics.drain()

    def _emit(self, output: str, record: Record, has_old: bool) -> None:
        key, window = record.key, {}
        if isinstance(key, Windowed):
            key, window = key.key, {"window": [key.start, key.end]}
        emitted: Json = {"out": output} if self.is_named else {}
        emitted |= {"key": key, **window, "value": record.value}
        if has_old:
            emitted["old"] = record.old
        self.emitted.append({**emitted, "ts": record.timestamp})
