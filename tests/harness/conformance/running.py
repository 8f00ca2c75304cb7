"""A conformance case, run step by step in the test driver: what each step gives."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from streamkit.errors import StreamKitError
from streamkit.testing import TopologyTestDriver
from tests.harness.conformance.builder import BOUNDS, Builder, Json, is_nothing, key_groups_of

Record = dict[str, Any]
Steps = list[list[Record]]


class FailedStepError(Exception):
    """A step failed; `steps` has what those before it gave."""

    def __init__(self, steps: Steps, cause: Exception) -> None:
        super().__init__(str(cause))
        self.steps = steps


def results(case: Json, *, tasks: int = 1) -> Steps:
    """The records that each step gives; FailedStepError from the step on that failed."""
    builder = Builder(case)
    outputs = builder.build()
    found: Steps = []
    streams = {node["topic"] for node in case["topology"]["nodes"] if node["op"] == "stream"}
    with bounded_as_a_whole(case), TopologyTestDriver(builder.app, topics=builder.topics, tasks=tasks) as driver:
        for step in case["steps"]:
            try:
                take(driver, step, streams)
                found.append(new_records(driver, outputs, case))
            except StreamKitError as error:
                raise FailedStepError(found, error) from error
    return found


@contextmanager
def bounded_as_a_whole(case: Json) -> Iterator[None]:
    """Run a case in as many key groups as it needs, so that a bound of a suppress counts for all its keys."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMKIT_KEY_GROUPS", str(key_groups_of(case["topology"])))
        yield


def take(driver: TopologyTestDriver, step: Json, streams: set[str], timed: Mapping[str, int] | None = None) -> None:
    """Send the record of a step; to the topics `timed` with its time in a column, written under the one that stands there."""
    own = {"at": step["ts"]} if step.get("topic") in (timed or {}) else {}
    written = (timed or {}).get(step.get("topic", ""), step.get("ts"))
    if "advance_wall_clock_ms" in step:
        driver.advance_wall_clock(f"{step['advance_wall_clock_ms']} ms")
    elif is_nothing(step):
        if step["topic"] in streams:  # a table drops it
            driver.pipe(step["topic"], {"k": None, "v": None, **own}, timestamp=written)
    elif step["value"] is None:
        driver.delete(step["topic"], {"k": step["key"]}, timestamp=step["ts"])
    else:
        driver.pipe(step["topic"], {"k": step["key"], "v": step["value"], **own}, timestamp=written)


def take_together(driver: TopologyTestDriver, steps: Sequence[Json], timed: Mapping[str, int] | None = None) -> None:
    """Send the records of steps of one topic, that are not nothing for a table, in one commit; with their times as `take` does."""
    topic = steps[0]["topic"]
    written = (timed or {}).get(topic)
    rows = []
    for number, step in enumerate(steps):
        row = {"k": step["key"], "v": step["value"], "_timestamp": np.datetime64(step["ts"], "ms")}
        if step["value"] is None and step["key"] is not None:
            row["_deleted"] = True
        elif written is not None:
            row |= {"at": step["ts"], "_timestamp": np.datetime64(written + number, "ms")}
        rows.append(row)
    driver.pipe(topic, rows)


def new_records(driver: TopologyTestDriver, outputs: Mapping[str, str], case: Json) -> list[Record]:
    """What came to each output since the last call."""
    changes = {output["name"] for output in case["topology"]["outputs"] if output.get("as") == "changes"}
    found = []
    for name, topic in outputs.items():
        for row in driver.read(topic):
            record = {"key": row["k"], "value": row["v"], "ts": milliseconds(row["_timestamp"])}
            if "window_start" in row:
                record["window"] = [milliseconds(row[name]) for name in BOUNDS]
            if name in changes:
                record["old"] = row.get("old_v")
            if len(outputs) > 1:
                record["out"] = name
            found.append(record)
    return found


def milliseconds(moment: dt.datetime | np.datetime64) -> int:
    """A moment as a number; those after the year 9999 are NumPy's."""
    if isinstance(moment, np.datetime64):
        return int(moment.astype("datetime64[ms]").astype(np.int64))
    return round(moment.timestamp() * 1000)
