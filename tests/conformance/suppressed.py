"""
Changes that are fed straight into a suppress, as a topology that makes such changes.

Those without windows are the changes of a topic's table, those with windows the results of an aggregate that keeps the newest value.
A change that is to come out with its old value is one of two: a record with the old value goes before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
TABLE = {"id": "table", "op": "table", "topic": "in"}


def as_topology(case: Json) -> dict[str, Any]:
    """The case of a topology; ValueError if none makes such changes."""
    windows = [step["window"] for step in case["steps"] if "window" in step]
    nodes = _windowed(windows, case["suppress"].get("grace_ms", 0)) if windows else [TABLE]
    until = {"id": "suppress", "op": "suppress", "in": nodes[-1]["id"], **case["suppress"]}
    outputs = [{"name": "out", "node": "suppress", "as": "changes"}]
    topology = {"types": {"key": "string", "value": "int"}, "nodes": [*nodes, until], "outputs": outputs}
    came = [_identity(record) for step in case["steps"] for record in step["expect"]]
    steps = [one for step in case["steps"] for one in _steps(step, case["suppress"], _identity(step) in came)]
    return {"name": case["name"], "kind": "topology", "topology": topology, "steps": steps}


def _windowed(windows: list[list[int]], grace_ms: int) -> list[dict[str, Any]]:
    """An aggregate that keeps the newest value, over windows such as these."""
    (size_ms,) = {end - start for start, end in windows}
    if size_ms <= 0 or any(start % size_ms for start, _ in windows):
        raise ValueError(f"expected windows of one size that stand side by side; found {windows}")
    return [
        {"id": "stream", "op": "stream", "topic": "in"},
        {"id": "groups", "op": "group_by_key", "in": "stream"},
        {"id": "windows", "op": "window", "in": "groups", "type": "tumbling", "size_ms": size_ms, "grace_ms": grace_ms},
        {"id": "newest", "op": "aggregate", "in": "windows", "init": None, "fn": "newest"},
    ]


def _steps(step: Json, suppress: Json, comes_out: bool) -> list[dict[str, Any]]:
    """The record of a change, behind that of its old value if this shows. Without a limit the old value comes out itself."""
    start, end = step.get("window", (step["ts"], step["ts"] + 1))
    if not start <= step["ts"] < end:
        raise ValueError(f"a window takes records from its start to before its end; found {step['ts']} in {start} to {end}")
    record = {"topic": "in", "key": step["key"], "value": step["value"], "ts": step["ts"]}
    own = {**record, **{name: step[name] for name in ("expect", "expect_error") if name in step}}
    if not comes_out or step["old"] is None:
        return [own]
    window = {"window": step["window"]} if "window" in step else {}
    before = {"key": step["key"], **window, "value": step["old"], "old": None, "ts": step["ts"]}
    is_seen = suppress["until"] == "time_limit" and suppress["ms"] == 0
    return [{**record, "value": step["old"], "expect": [before] if is_seen else []}, own]


def _identity(record: Json) -> tuple[Any, ...]:
    return (record["key"], *record.get("window", ()), record["value"])
