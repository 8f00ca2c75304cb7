"""What each kind of conformance case asks, and whether StreamKit gives it."""

from __future__ import annotations

from typing import Any

import streamkit as sk
from streamkit.testing import TopologyTestDriver
from tests.harness.conformance import suppressed
from tests.harness.conformance.builder import BOUNDS, Json
from tests.harness.conformance.interpreter import explained
from tests.harness.conformance.running import FailedStepError, milliseconds, results
from tests.kit import store_calls as stores

KINDS = (
    "topology",
    "windows_for",
    "window_store",
    "session_store",
    "versioned_store",
    "key_value_store",
    "punctuation",
    "suppress_processor",
)


def difference(case: Json) -> str | None:
    """The first difference from what the case expects that no rule of StreamKit asks for, in words; None if there is none."""
    if case["kind"] not in KINDS:
        return f"kinds of cases are {', '.join(KINDS)}; found {case['kind']}"
    try:
        if case["kind"] == "topology":
            return _topology(case)
        if case["kind"] == "suppress_processor":
            return suppressed.difference(case)
        return _windows_for(case) if case["kind"] == "windows_for" else stores.difference(case)
    except Exception as error:  # whatever stops a case is its difference, and the other cases run
        first_line = (str(error).splitlines() or [""])[0]
        return f"{type(error).__name__}: {first_line}"


def deviation(case: Json) -> tuple[str, ...]:
    """The rules of StreamKit (switches of `Rules`) by which a topology gives something else than Kafka Streams; none if it does not."""
    found = found_steps(case)
    if explained.difference(case, expected_steps(case), found) is None:
        return ()
    return explained.explained(case, expected_steps(case), found) or ()


def _topology(case: Json) -> str | None:
    expected, found = expected_steps(case), found_steps(case)
    differs = explained.difference(case, expected, found)
    if differs is None or explained.explained(case, expected, found):
        return None
    failed = f"; failed with {found[-1]['error']}" if isinstance(found[-1], dict) else ""
    return differs + failed


def expected_steps(case: Json) -> list[Any]:
    """What a case expects of each step; a step that is to fail is a dictionary, and the last."""
    steps: list[Any] = []
    for step in case["steps"]:
        fails = "expect_error" in step or isinstance(step["expect"], dict)
        steps.append({"error": "expected"} if fails else step["expect"])
        if fails:
            break
    return steps


def found_steps(case: Json) -> list[Any]:
    """What each step gives; a step that fails is a dictionary, and the last."""
    try:
        return list(results(case))
    except FailedStepError as failure:
        return [*failure.steps, {"error": str(failure).splitlines()[0]}]


def _windows_for(case: Json) -> str | None:
    """The windows into which a record of each time is counted, by itself, so that no window is late for it."""
    for number, step in enumerate(case["steps"]):
        found = _windows_of(step["ts"], case["window"])
        if found != step["expect"]:
            return f"step {number}: expected {step['expect']}, found {found}"
    return None


def _windows_of(time: int, window: Json) -> list[list[int]]:
    advance = f"{window.get('advance_ms', window['size_ms'])} ms"
    app = sk.Topology("windows")
    source = app.stream("in", schema="k string, v int", key="k")
    counts = source.group_by_key().windowed_by(sk.hopping(f"{window['size_ms']} ms", advance, grace="1 day")).count()
    counts.emit("every").to("out")
    with TopologyTestDriver(app) as driver:
        driver.pipe("in", {"k": "a", "v": 1}, timestamp=time)
        return [[milliseconds(row[name]) for name in BOUNDS] for row in driver.read("out")]
