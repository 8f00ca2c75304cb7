"""Connect's `errors.*`: how long an operation is tried again, with which waits, and what of a failure is logged."""

from __future__ import annotations

import logging
import threading

import pyarrow as pa
import pytest

from streamkit.connectors.runtime.error_log import log_failures
from streamkit.connectors.runtime.failed_records import FailedConnector
from streamkit.connectors.runtime.pipeline import PipelineStep, RecordFailure, pass_through
from streamkit.connectors.runtime.retry import Retry
from streamkit.errors import SchemaError
from streamkit.names import OFFSET, PARTITION, TIMESTAMP, TOPIC


class Clock:
    """A clock that waits move, and the waits."""

    def __init__(self):
        self.now_ms = 0.0
        self.waits = []

    def wait(self, seconds):
        self.waits.append(round(seconds * 1_000))
        self.now_ms += seconds * 1_000

    def retry(self, timeout_ms, delay_max_ms=60_000, stop=None):
        passes = lambda error: isinstance(error, ConnectionError)  # noqa: E731
        return Retry(timeout_ms, delay_max_ms, passes, stop or threading.Event(), lambda: self.now_ms, self.wait)


def failing(times, error=ConnectionError):
    left = [times]

    def operation():
        left[0] -= 1
        if left[0] >= 0:
            raise error("gone")
        return "done"

    return operation


def test_waits_double():
    """The wait is 300 ms at first, then twice as long each time."""
    clock = Clock()
    assert clock.retry(60_000).run(failing(5)) == "done"
    assert clock.waits == [300, 600, 1_200, 2_400, 4_800]


def test_long_waits_are_drawn():
    """A wait that would be longer than errors.retry.delay.max.ms is drawn below it."""
    clock = Clock()
    assert clock.retry(-1, 1_000).run(failing(50)) == "done"
    assert clock.waits[:2] == [300, 600]
    assert all(0 <= wait <= 1_000 for wait in clock.waits[2:])
    assert len(set(clock.waits[2:])) > 10


def test_the_time_is_up():
    """After errors.retry.timeout the error is raised: the last wait ends there, and one more try follows it; 0 means no retry."""
    clock = Clock()
    with pytest.raises(ConnectionError):
        clock.retry(1_000).run(failing(100))
    assert clock.waits == [300, 600, 100]
    clock = Clock()
    with pytest.raises(ConnectionError):
        clock.retry(0).run(failing(1))
    assert clock.waits == []


def test_errors_that_stay_are_not_tried_again():
    """Only errors that may pass are tried again."""
    clock = Clock()
    with pytest.raises(ValueError):
        clock.retry(-1).run(failing(1, ValueError))
    assert clock.waits == []


def test_a_stop_ends_the_retries():
    """A task that is told to stop does not wait on."""
    clock, stop = Clock(), threading.Event()
    stop.set()
    with pytest.raises(ConnectionError):
        clock.retry(-1, stop=stop).run(failing(100))
    assert len(clock.waits) == 1


def test_steps_are_tried_again():
    """A step whose error may pass is tried again with the same rows; a record's own error is not."""
    clock, times = Clock(), []

    def run(topic, rows):
        times.append(rows.num_rows)
        if len(times) < 3:
            raise ConnectionError("the registry is down")
        if None in rows["n"].to_pylist():
            raise SchemaError("found null", (1,))
        return {topic: rows}

    passed = pass_through([PipelineStep("VALUE_CONVERTER", run)], "t", pa.table({"n": [1, None, 3]}), clock.retry(10_000))
    assert times == [3, 3, 3, 2]
    assert [failure.row for failure in passed.failures] == [1]
    assert dict(passed.parts)["t"]["n"].to_pylist() == [1, 3]


@pytest.mark.parametrize("has_places", [False, True])
def test_failures_in_the_log(caplog, has_places):
    """errors.log.enable writes stage, class and error; errors.log.include.messages where the record was, and never its contents."""
    rows = pa.table({TOPIC: ["t"], PARTITION: [3], OFFSET: [17], TIMESTAMP: [5], "card": ["4711"]})
    origin = FailedConnector("out", 2, "a.Sink", True, lambda text: text.replace("hunter2", "***"))
    settings = {"errors.log.enable": True, "errors.log.include.messages": has_places}
    with caplog.at_level(logging.ERROR):
        log_failures(origin, settings, "t", rows, [RecordFailure(0, "TASK_PUT", SchemaError("no column, says hunter2"))])
        log_failures(
            origin, settings | {"errors.log.enable": False}, "t", rows, [RecordFailure(0, "TASK_PUT", SchemaError("silent"))]
        )
    where = ", where the record is {topic='t', partition=3, offset=17, timestamp=5}" if has_places else ""
    said = f"Error encountered in task out-2. Executing stage 'TASK_PUT' with class 'a.Sink'{where}. no column, says ***"
    assert [record.getMessage() for record in caplog.records] == [said]
