"""What each kind of conformance case asks, and whether StreamKit gives it."""

from __future__ import annotations

from typing import Any

import streamkit as sk
from streamkit.errors import StreamKitError
from streamkit.testing import TopologyTestDriver
from tests.conformance import stores
from tests.conformance.builder import Json
from tests.conformance.comparison import first_difference
from tests.conformance.running import FailedStepError, results


def difference(case: Json) -> str | None:
    """The first difference from what the case expects, in words; None if there is none."""
    of_stores = dict.fromkeys(("key_value_store", "window_store", "session_store", "versioned_store", "punctuation"), stores.difference)
    known = {"topology": _topology, "windows_for": _windows_for, **of_stores}
    if case["kind"] not in known:
        return f"kinds of cases are {', '.join(known)}; found {case['kind']}"
    try:
        return known[case["kind"]](case)
    except (StreamKitError, AttributeError, TypeError, ValueError, AssertionError) as error:
        first_line = (str(error).splitlines() or [""])[0]
        return f"{type(error).__name__}: {first_line}"


def _topology(case: Json) -> str | None:
    expected = [step["expect"] for step in case["steps"]]
    try:
        found: list[Any] = list(results(case))
    except FailedStepError as failure:
        found = [*failure.steps]
        if len(found) < len(expected) and _fails(case["steps"][len(found)]):
            return first_difference(case, expected[: len(found)], found)
        return first_difference(case, expected[: len(found)], found) or f"step {len(found)} failed: {str(failure).splitlines()[0]}"
    return first_difference(case, expected, found)


def _fails(step: Json) -> bool:
    """Whether a step is expected to fail."""
    return "expect_error" in step or isinstance(step["expect"], dict)


def _windows_for(case: Json) -> str | None:
    """The windows into which records of these times are counted."""
    window = case["window"]
    advance = f"{window.get('advance_ms', window['size_ms'])} ms"
    app = sk.Topology("windows")
    source = app.stream("in", schema="k string, v int", key="k")
    counts = source.group_by_key().windowed_by(sk.hopping(f"{window['size_ms']} ms", advance, grace="1 day")).count()
    counts.emit("every").to("out")
    with TopologyTestDriver(app) as driver:
        for number, step in enumerate(case["steps"]):
            driver.pipe("in", {"k": "a", "v": 1}, timestamp=step["ts"])
            found = [[round(row[name].timestamp() * 1000) for name in ("window_start", "window_end")] for row in driver.read("out")]
            if found != step["expect"]:
                return f"step {number}: expected {step['expect']}, found {found}"
    return None
