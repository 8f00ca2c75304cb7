"""
Cases of stores and of punctuation, executed by a processor.

Each step of a case is a record; the processor does to its store what the record says, and forwards what the store gave.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import streamkit as sk
from streamkit.testing import TopologyTestDriver

Json = dict[str, Any]
TYPES = {"string": "string", "int": "int", "long": "bigint"}
START_MS = 1_000_000
KINDS = ("session_store", "window_store", "versioned_store")


def difference(case: Json, **options: Any) -> str | None:
    """The first difference from what a case of a store or of punctuation expects, in words; None if there is none."""
    if case["kind"] == "punctuation":
        return _punctuation(case)
    for number, (step, found) in enumerate(zip(case["steps"], _answers(case, **options), strict=True)):
        if "expect" in step and step["expect"] != found:
            return f"step {number} ({step}): found {found}"
    return None


def _answers(case: Json, **options: Any) -> list[Any]:
    """What a store answers to each step."""
    app = sk.Topology("stores")
    make = {"session_store": _SessionSteps, "window_store": _WindowSteps, "versioned_store": _VersionedSteps}[case["kind"]]
    steps = app.stream("steps", schema="id string, step string", key="id")
    steps.process(lambda: make(case["store"]), "answer string", stores=[_store(case)]).to("answers")
    answers: list[Any] = []
    with TopologyTestDriver(app, **options) as driver:
        reached = 0
        for step in case["steps"]:
            if step["op"] == "dropped_records":  # a metric, and no answer of the store
                answers += [json.loads(row["answer"]) for row in driver.read("answers")]
                answers.append(driver.metrics()["expired"])
                continue
            reached = max(reached, *step.get("window", [0]), step.get("ts", 0), step.get("window_start", 0))
            driver.pipe("steps", {"id": "all", "step": json.dumps(step)}, timestamp=reached)
        return [*answers, *(json.loads(row["answer"]) for row in driver.read("answers"))]


def _store(case: Json) -> Any:
    given = case["store"]
    columns = {"key": f"key {TYPES[given['key']]}", "value": f"value {TYPES[given['value']]}"}
    if case["kind"] == "session_store":
        return sk.session_store("store", **columns, retention=f"{given['retention_ms']} ms")
    if case["kind"] == "versioned_store":
        return sk.versioned_store("store", **columns, history_retention=f"{given['history_retention_ms']} ms")
    return sk.window_store(
        "store",
        **columns,
        size=f"{given['window_size_ms']} ms",
        retention=f"{given['retention_ms']} ms",
        retain_duplicates=given["retain_duplicates"],
    )


class _Steps(sk.Processor):
    """Does what records say to the store, by the method of the name of the operation."""

    def __init__(self, given: Json) -> None:
        self.given = given

    def init(self, context: Any) -> None:
        self.context, self.store = context, context.store("store")

    def process(self, record: Any) -> None:
        step = json.loads(record["step"])
        operation: Callable[[Json], Any] = getattr(self, step["op"])
        self.context.forward({"answer": json.dumps(operation(step))})


class _SessionSteps(_Steps):
    def put(self, step: Json) -> None:
        self.store.put(step["key"], *step["window"], None if step["value"] is None else {"value": step["value"]})

    def remove(self, step: Json) -> None:
        self.store.remove(step["key"], *step["window"])

    def fetch(self, step: Json) -> list[Json]:
        return [self._entry(one) for one in self.store.fetch(step["key"])]

    def find_sessions(self, step: Json) -> list[Json]:
        return [self._entry(one) for one in self.store.find_sessions(step["key"], step["earliest_end"], step["latest_start"])]

    def _entry(self, one: Any) -> Json:
        return {"key": one.key["key"], "window": [one.start, one.end], "value": one.value["value"]}


class _WindowSteps(_Steps):
    def put(self, step: Json) -> None:
        value = None if step["value"] is None else {"value": step["value"]}
        self.store.put(step["key"], value, step["window_start"])

    def fetch(self, step: Json) -> list[Json]:
        return [self._entry(one) for one in self.store.fetch(step["key"], step["from"], step["to"])]

    def fetch_all(self, step: Json) -> list[Json]:
        return [self._entry(one) for one in self.store.fetch_all(step["from"], step["to"])]

    def all(self, step: Json) -> list[Json]:
        return [self._entry(one) for one in self.store.all()]

    def _entry(self, one: Any) -> Json:
        return {"key": one.key["key"], "value": one.value["value"], "window_start": one.start}


class _VersionedSteps(_Steps):
    def put(self, step: Json) -> Json:
        put = self.store.put(step["key"], None if step["value"] is None else {"value": step["value"]}, step["ts"])
        return {"put": put.is_put, "valid_to": put.valid_to}

    def get(self, step: Json) -> Json | None:
        return self._version(self.store.get(step["key"], step.get("as_of")))

    def get_range(self, step: Json) -> list[Json | None]:
        order = "descending" if step["order"] == "descending" else "ascending"
        return [self._version(one) for one in self.store.get_range(step["key"], step["from"], step["to"], order=order)]

    def delete(self, step: Json) -> Json | None:
        found = self._version(self.store.delete(step["key"], step["ts"]))
        return found and {name: found[name] for name in ("value", "ts")}

    def _version(self, found: Any) -> Json | None:
        return found and {"value": found.value["value"], "ts": found.timestamp, "valid_to": found.valid_to}


def _punctuation(case: Json) -> str | None:
    """The times at which a schedule calls, as the clock moves, or records come."""
    clock = {"wall_clock_time": "wall_clock", "stream_time": "stream_time"}[case["type"]]

    class Times(sk.Processor):
        def init(self, context: Any) -> None:
            self.context = context
            context.schedule(f"{case['interval_ms']} ms", clock, lambda time: context.forward({"k": "a", "time": time}))

        def process(self, record: Any) -> None:
            """Records only move stream time."""

    app = sk.Topology("punctuation")
    app.stream("in", schema="k string, v int", key="k").process(Times, "time bigint").to("times")
    shift = START_MS - case.get("wall_clock_start_ms", 0) if clock == "wall_clock" else 0
    with TopologyTestDriver(app, start_time=START_MS) as driver:
        if clock == "wall_clock":  # a key group begins with its first record
            driver.pipe("in", {"k": "a", "v": 0}, timestamp=0)
        for number, step in enumerate(case["steps"]):
            if "advance_wall_clock_ms" in step:
                driver.advance_wall_clock(f"{step['advance_wall_clock_ms']} ms")
            else:
                driver.pipe("in", {"k": "a", "v": 0}, timestamp=step["ts"])
            found = [row["time"] - shift for row in driver.read("times")]
            if found != step["expect"]:
                return f"step {number}: expected {step['expect']}, found {found}"
    return None
