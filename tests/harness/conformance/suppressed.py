"""
Changes that are fed straight into a suppress: those of a table that a topic holds, whose keys may have windows.

A case also says which old value comes along. In Kafka Streams that is the one of the last change that was held back, whatever was given;
here it is what was given last, as the page of the operator says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import streamkit as sk
from streamkit.errors import SuppressionFullError
from streamkit.testing import TopologyTestDriver
from tests.harness.conformance.builder import BOUNDS, LONGEST_MS
from tests.harness.conformance.running import bounded_as_a_whole, milliseconds
from tests.kit.engine_run import moment

Json = Mapping[str, Any]
Record = dict[str, Any]
FULL = {"emit_early": "emit", "shut_down": "stop"}


def difference(case: Json) -> str | None:
    """The first step that gives something else than the case expects, in words; None if there is none."""
    wanted, found = list(expected(case)), list(steps(case))
    for number, (one, other) in enumerate(zip(wanted, found, strict=False)):
        if one != other:
            return f"step {number}: expected {one}, found {other}"
    return None if len(wanted) == len(found) else f"expected {len(wanted)} steps, found {len(found)}"


def expected(case: Json) -> Iterator[list[Record] | str]:
    """What each step is to give, with the old value that was given before; "full" is the last where the buffer may have no more."""
    given: dict[tuple[Any, ...], Any] = {}
    for step in case["steps"]:
        if "expect_error" in step:
            yield "full"
            return
        records = []
        for record in step["expect"]:
            records.append({**record, "old": given.get(_identity(record))})
            given[_identity(record)] = record["value"]
        yield records


def steps(case: Json) -> Iterator[list[Record] | str]:
    """What each change gives, one epoch each."""
    windowed = has_windows(case)
    with bounded_as_a_whole({"topology": {"nodes": [case["suppress"]]}}), TopologyTestDriver(topology(case)) as driver:
        for step in case["steps"]:
            try:
                feed(driver, step)
                yield [as_record(row, windowed) for row in driver.read("out")]
            except SuppressionFullError:
                yield "full"
                return


def topology(case: Json) -> sk.Topology:
    """The suppress of a case behind the table of its changes."""
    app, suppress, windowed = sk.Topology("suppressed"), case["suppress"], has_windows(case)
    types = [_type_of([step[name] for step in case["steps"]]) for name in ("key", "value")]
    key = ("k", *BOUNDS) if windowed else ("k",)
    columns = [f"k {types[0]}", *(f"{name} timestamp" for name in BOUNDS if windowed), f"v {types[1]}"]
    table = app.table("in", schema=", ".join(columns), key=key, windowed=_window(case) if windowed else None)
    is_final = suppress["until"] == "window_closes"
    until = sk.window_closes() if is_final else sk.time_limit(f"{min(suppress['ms'], LONGEST_MS)} ms")
    bounds = {}
    if buffer := suppress.get("buffer"):
        bounds = {"max_rows": buffer["max_records"], "when_full": FULL[buffer["when_full"]]}
    table.suppress(until=until, **bounds).emit("every", old=True).to("out")
    return app


def feed(driver: TopologyTestDriver, step: Json) -> None:
    """Bring one change to the table."""
    bounds = dict(zip(BOUNDS, map(moment, step.get("window", ())), strict=False))
    if step["value"] is None:
        driver.delete("in", {"k": step["key"], **bounds}, timestamp=step["ts"])
    else:
        driver.pipe("in", {"k": step["key"], **bounds, "v": step["value"]}, timestamp=step["ts"])


def as_record(row: Json, windowed: bool) -> Record:
    """A row as cases write it."""
    window = {"window": [milliseconds(row[name]) for name in BOUNDS]} if windowed else {}
    return {"key": row["k"], **window, "value": row["v"], "ts": milliseconds(row["_timestamp"]), "old": row["old_v"]}


def has_windows(case: Json) -> bool:
    """Whether the keys of the changes have windows; ValueError if only some have."""
    found = {"window" in step for step in case["steps"]}
    if len(found) > 1:
        raise ValueError("some changes have windows and some have none; expected all or none")
    return found == {True}


def _window(case: Json) -> Any:
    """Windows of the longest one's length: each closes by its own end, so that the others may be shorter, and sessions too."""
    size_ms = max(end - start for start, end in (step["window"] for step in case["steps"]))
    return sk.tumbling(f"{max(size_ms, 1)} ms", grace=f"{case['suppress'].get('grace_ms', 0)} ms")


def _identity(record: Json) -> tuple[Any, ...]:
    return (record["key"], *record.get("window", ()))


def _type_of(values: list[Any]) -> str:
    return "string" if any(isinstance(value, str) for value in values) else "bigint"
