"""Workers: who runs which task, what becomes of errors, and how connectors are paused and started again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.connectors import Polled, Setting, Source, run
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.worker import Worker
from tests.waiting import wait_until


class Foreign:
    """What the sources of this file read: a number of rows by split, and what goes wrong."""

    def __init__(self):
        self.rows = {"numbers-0": 0, "numbers-1": 0}
        self.errors = []
        self.opened = []


FOREIGN = Foreign()


class Numbers(Source):
    """Counts up to what the foreign system says."""

    SETTINGS = (Setting("password", "opens nothing", default="", is_secret=True),)

    def splits(self) -> Sequence[str]:
        return sorted(FOREIGN.rows)

    def open(self, positions: Mapping[str, Mapping[str, int] | None]) -> None:
        self.positions = {split: (position or {"n": 0})["n"] for split, position in positions.items()}
        FOREIGN.opened.append(sorted(positions))

    def poll(self, timeout: float) -> Polled | None:
        if FOREIGN.errors:
            raise FOREIGN.errors.pop()
        for split, position in self.positions.items():
            end = FOREIGN.rows[split]
            if position < end:
                self.positions[split] = end
                rows = pa.table({"split": [split] * (end - position), "n": range(position, end)})
                return Polled({"numbers": rows}, {split: {"n": end}})
        return None


@pytest.fixture(autouse=True)
def foreign(monkeypatch):
    found = Foreign()
    monkeypatch.setitem(globals(), "FOREIGN", found)
    return found


@pytest.fixture
def log(tmp_path):
    with sk.open_log(tmp_path / "log") as log:
        yield log


def numbers(log):
    if "numbers" not in log.topics():
        return []
    return sorted((row["split"], row["n"]) for row in log.read("numbers").to_pylist())


def expected(foreign):
    return [(split, n) for split, end in sorted(foreign.rows.items()) for n in range(end)]


def arrive(log, foreign):
    wait_until(lambda: numbers(log) == expected(foreign))


def tasks_of(workers):
    return sorted((one.connector, one.task) for worker in workers for one in worker.status() if one.state == status.RUNNING)


def test_what_is_there_is_moved_once(log, foreign):
    """With `once`, all tasks run to the end of what is there, and the worker says how they ended."""
    foreign.rows = {"numbers-0": 10, "numbers-1": 20}
    worker = run([Numbers("in", tasks_max=2)], log, once=True)
    assert numbers(log) == expected(foreign)
    assert [(one.state, one.to_json()["rows"]) for one in worker.status()] == [("DONE", 10), ("DONE", 20)]


def test_an_error_that_may_pass(log, foreign):
    """A task whose foreign system is gone for a moment starts again, and leaves nothing out."""
    foreign.rows = {"numbers-0": 10, "numbers-1": 0}
    foreign.errors = [ConnectionError("gone")]
    run([Numbers("in")], log, once=True)
    assert numbers(log) == expected(foreign)


def test_an_error_that_stays(log, foreign):
    """Any other error fails the task: who runs it once gets the error, and the status has it."""
    foreign.rows["numbers-0"] = 10
    foreign.errors = [ValueError("no such thing")]
    with pytest.raises(ValueError, match="no such thing"):
        run([Numbers("in")], log, once=True)
    (found,) = status.read_status(log)
    assert found.state == status.FAILED
    assert "no such thing" in found.trace


def test_secrets_are_not_shown(log, foreign, caplog):
    """The text of an error is published without the connector's secrets."""
    foreign.errors = [ValueError("cannot log in with hunter2")]
    with pytest.raises(ValueError):
        run([Numbers("in", password="hunter2")], log, once=True)
    (found,) = status.read_status(log)
    assert "cannot log in with ***" in found.trace
    assert "hunter2" not in json.dumps(found.to_json()) + caplog.text


def test_workers_share_tasks(log, foreign):
    """Two workers have a task each, and the one that is left has both."""
    one, other = Worker([Numbers("in", tasks_max=2)], log).start(), Worker([Numbers("in", tasks_max=2)], log).start()
    try:
        wait_until(lambda: len(tasks_of([one])) == len(tasks_of([other])) == 1)
        assert tasks_of([one, other]) == [("in", 0), ("in", 1)]
        foreign.rows = {"numbers-0": 10, "numbers-1": 20}
        arrive(log, foreign)
        one.stop()
        wait_until(lambda: len(tasks_of([other])) == 2)
        foreign.rows = {"numbers-0": 30, "numbers-1": 40}
        arrive(log, foreign)
    finally:
        one.stop()
        other.stop()


def test_pause_and_restart(log, foreign):
    """A paused connector brings nothing until it goes on; a failed one works again after a restart."""
    with Worker([Numbers("in")], log).start() as worker:
        wait_until(lambda: tasks_of([worker]))
        status.ask(log, "in", pause=True)
        wait_until(lambda: [one.state for one in worker.status()] == [status.PAUSED])
        foreign.rows["numbers-0"] = 10
        status.ask(log, "in", pause=False)
        arrive(log, foreign)
        foreign.errors = [ValueError("no such thing")]
        wait_until(lambda: [one.state for one in worker.status()] == [status.FAILED])
        foreign.rows["numbers-0"] = 20
        status.ask(log, "in", restart=True)
        arrive(log, foreign)


def test_states_are_published(log, foreign):
    """Whoever reads the log sees the state of each task, also after the worker is gone."""
    with Worker([Numbers("in", tasks_max=2)], log).start():
        wait_until(lambda: [one.state for one in status.read_status(log)] == [status.RUNNING] * 2)
    assert [one.state for one in status.read_status(log)] == [status.STOPPED] * 2
