"""What Kafka Streams' own tests expect, run through the engine record by record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import streamkit as sk
from streamkit.engine.compile import compile
from streamkit.engine.local import run_next
from streamkit.engine.start import start
from streamkit.log.log import Log
from streamkit.plan.program import Program
from tests.conformance.adapter import Adapter, Json, Output
from tests.engine.engine_run import Run, append, execute, fresh_log, placed, written

DATA = Path(__file__).parent / "data"
NOT_YET = json.loads((DATA / "not_yet.json").read_text(encoding="utf-8"))  # name: what the DSL lacks
DEVIATIONS = json.loads(
    (DATA / "deviations.json").read_text(encoding="utf-8")
)  # name: why, and what is emitted here instead, by step
FILES = [file for file in sorted(DATA.glob("*.json")) if file.stem not in ("not_yet", "deviations")]
CASES = [case for file in FILES for case in json.loads(file.read_text(encoding="utf-8"))]
TOPOLOGIES = [case for case in CASES if case["kind"] == "topology"]
WINDOWS = [case for case in CASES if case["kind"] == "windows_for"]
Expected = dict[str, list[tuple[Any, ...]]]


def name_of(case: Json) -> str:
    return str(case["name"])


@pytest.fixture(scope="module")
def compiled() -> dict[str, Program]:
    """Programs by the topology they came from; cases share topologies."""
    return {}


@pytest.mark.parametrize("case", TOPOLOGIES, ids=name_of)
def test_every_record_gives_what_kafka_streams_gives(compiled: dict[str, Program], case: Json) -> None:
    """Each step's outputs (key, window, value, event time, order) are the recorded ones, or those of a listed deviation."""
    adapter = Adapter(case)
    outputs = adapter.build()
    with fresh_log() as log:
        adapter.create_topics(log)
        topology = json.dumps(case["topology"], sort_keys=True)
        if topology not in compiled:
            compiled[topology] = compile(adapter.app, log)
        planner = start(log.catalog, log.storage, compiled[topology], tasks=2)
        seen = dict.fromkeys(outputs, 0)
        for number, step in enumerate(case["steps"]):
            if "topic" not in step:
                continue  # wall-clock time moves nothing here
            append(log, step["topic"], [adapter.row(step)])
            run_next(planner)
            found = new_records(log, outputs, seen)
            assert found == expected_of(case, number, outputs), f"step {number}: {step}"


@pytest.mark.parametrize("case", WINDOWS, ids=name_of)
def test_a_record_falls_into_the_windows_that_kafka_streams_names(case: Json) -> None:
    """A time is counted in exactly the windows that the case lists."""
    window, app = case["window"], sk.Topology("windows")
    advance = f"{window.get('advance_ms', window['size_ms'])} ms"
    counts = app.stream("in").group_by_key().windowed_by(sk.hopping(f"{window['size_ms']} ms", advance, grace="1 day"))
    counts.count().emit("every").to("out")
    with fresh_log() as log:
        log.create_topic("in", "k string, v int", key="k", partitions=1)
        append(log, "in", [{"k": "a", "v": 1, "ts": step["ts"]} for step in case["steps"]])
        execute(log, compile(app, log), Run(drain=False))
        found = [[e.row["window_start"], e.row["window_end"]] for e in written(log, "out")]
    assert found == [bounds for step in case["steps"] for bounds in step["expect"]]


def test_what_cannot_be_expressed_yet_is_listed() -> None:
    """Of 205 cases, those that the DSL has no words for are listed, each with what is missing; the list only ever shrinks."""
    assert len(NOT_YET) == 144
    assert len(NOT_YET) + len(CASES) == 205
    assert not NOT_YET.keys() & {case["name"] for case in CASES}
    assert all(reason for reason in NOT_YET.values())


def test_deviations_are_listed_with_their_reason() -> None:
    """Where the reference has a defect, the sound outcome is listed with the reason, and differs from the reference's."""
    by_name = {case["name"]: case for case in CASES}
    assert len(DEVIATIONS) == 5
    for name, deviation in DEVIATIONS.items():
        assert deviation["reason"]
        recorded = [step["expect"] for step in by_name[name]["steps"]]
        assert any(recorded[int(number)] != expect for number, expect in deviation["expect"].items())


def new_records(log: Log, outputs: Mapping[str, Output], seen: dict[str, int]) -> Expected:
    """What the last step added to each output; seen offsets move on."""
    found = {}
    for name, output in outputs.items():
        rows = [e for _, _, e in sorted(placed(log, output.topic), key=lambda row: row[1])][seen[name] :]
        seen[name] += len(rows)
        found[name] = in_order(
            output, [(e.row["k"], bounds_of(e.row), None if e.deleted else e.row["v"], e.timestamp) for e in rows]
        )
    return found


def expected_of(case: Json, number: int, outputs: Mapping[str, Output]) -> Expected:
    """What the case expects of a step, by output."""
    step = case["steps"][number]
    records = DEVIATIONS.get(case["name"], {"expect": {}})["expect"].get(str(number), step["expect"])
    found: Expected = {name: [] for name in outputs}
    for record in records:
        name = record.get("out", next(iter(outputs)))
        value = record["value"] if record["value"] is None else outputs[name].value(record["value"])
        found[name].append((record["key"], tuple(record["window"]) if "window" in record else None, value, record["ts"]))
    return {name: in_order(outputs[name], rows) for name, rows in found.items()}


def in_order(output: Output, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Final results of one moment have no order among keys."""
    return sorted(rows, key=repr) if output.is_final else list(rows)


def bounds_of(row: Mapping[str, Any]) -> tuple[int, int] | None:
    return (row["window_start"], row["window_end"]) if "window_start" in row else None
