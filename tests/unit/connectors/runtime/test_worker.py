"""Workers: who runs which task, what becomes of errors, and how connectors are paused and started again."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial

import pyarrow as pa
import pytest

import streamkit as sk
from streamkit.connectors import Polled, Setting, Source, run
from streamkit.connectors.runtime import status
from streamkit.connectors.runtime.status import TaskStatus
from streamkit.connectors.runtime.worker import Worker
from streamkit.errors import ConfigError
from tests.kit.waiting import wait_until
from topologies.connectors.sqlite_connector import SqliteSink


class Foreign:
    """What the sources of this file read: a number of rows by split, and what goes wrong."""

    def __init__(self):
        self.rows = {"numbers-0": 0, "numbers-1": 0}
        self.errors = []
        self.opened = []
        self.before_poll = lambda: None
        self.close_error = None


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
        FOREIGN.before_poll()
        if FOREIGN.errors:
            raise FOREIGN.errors.pop()
        for split, position in self.positions.items():
            end = FOREIGN.rows[split]
            if position < end:
                self.positions[split] = end
                rows = pa.table({"split": [split] * (end - position), "n": range(position, end)})
                return Polled({"numbers": rows}, {split: {"n": end}})
        return None

    def close(self) -> None:
        if FOREIGN.close_error:
            raise FOREIGN.close_error


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


def test_a_task_that_runs_again_has_no_trace(log, foreign):
    """Why a task failed is shown while it waits to be started again, and no longer once it runs or has ended."""
    foreign.errors = [ConnectionError("gone")] * 3
    seen: list[tuple[str, bool]] = []

    def look():
        seen.extend((one.state, bool(one.trace)) for one in status.read_status(log))
        return (status.RESTARTING, True) in seen and not foreign.errors and seen[-1][0] == status.RUNNING

    with Worker([Numbers("in")], log).start() as worker:
        wait_until(look)
    assert set(seen) == {(status.RESTARTING, True), (status.RUNNING, False)}
    assert [(one.state, one.trace) for one in [*status.read_status(log), *worker.status()]] == [(status.STOPPED, "")] * 2


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
        status.ask(log, "in", is_paused=True)
        wait_until(lambda: [one.state for one in worker.status()] == [status.PAUSED])
        foreign.rows["numbers-0"] = 10
        status.ask(log, "in")
        arrive(log, foreign)
        foreign.errors = [ValueError("no such thing")]
        wait_until(lambda: [one.state for one in worker.status()] == [status.FAILED])
        foreign.rows["numbers-0"] = 20
        status.ask_restart(log, "in")
        arrive(log, foreign)


def test_states_are_published(log, foreign):
    """Whoever reads the log sees the state of each task, also after the worker is gone."""
    with Worker([Numbers("in", tasks_max=2)], log).start():
        wait_until(lambda: [one.state for one in status.read_status(log)] == [status.RUNNING] * 2)
    assert [one.state for one in status.read_status(log)] == [status.STOPPED] * 2


def test_other_tasks_max_fences_the_old_tasks(log, foreign):
    """A worker with another number of tasks takes over: what the old tasks read at that moment comes once, and the old worker says why it ended."""
    old = Worker([Numbers("in", tasks_max=2)], log, session_timeout_ms=2_000).start()
    wait_until(lambda: len(tasks_of([old])) == 2)
    with Worker([Numbers("in", tasks_max=1)], log, session_timeout_ms=2_000).start():
        foreign.rows = {"numbers-0": 10, "numbers-1": 20}
        arrive(log, foreign)
        foreign.rows = {"numbers-0": 30, "numbers-1": 40}
        arrive(log, foreign)
        with pytest.raises(ConfigError, match=r"with another configuration, which is newer; other settings: tasks\.max"):
            old.wait(60)


def test_tasks_beyond_tasks_max_are_not_shown(log, foreign, monkeypatch):
    """Tasks that ended when `tasks.max` was lowered are shown nowhere, also where a placeholder says how many there are; but they are fenced."""
    run([Numbers("in", tasks_max=5)], log, once=True)
    assert [one.task for one in status.read_status(log)] == list(range(5))
    monkeypatch.setenv("TASKS", "2")
    run([Numbers("in", {"tasks.max": "${env:TASKS}"})], log, once=True)
    assert [one.task for one in status.read_status(log)] == [0, 1]
    before = [log.catalog.producers.open(f"connect-in-{task}").epoch for task in range(5)]
    run([Numbers("in", tasks_max=1)], log, once=True)
    assert [one.task for one in status.read_status(log)] == [0]
    after = [log.catalog.producers.open(f"connect-in-{task}").epoch for task in range(5)]
    assert all(later > former + 1 for former, later in zip(before, after, strict=True))


def test_a_changed_file_is_said(log, foreign, caplog):
    """A worker whose file says something else than before names the settings; secrets count as unchanged."""
    run([Numbers("in", password="hunter2")], log, once=True)
    run([Numbers("in", password="hunter3")], log, once=True)
    assert "others than before" not in caplog.text
    run([Numbers("in", topic="numbers")], log, once=True)
    assert "connector in: these settings are others than before: password, topic" in caplog.text


def test_paused_and_stopped_before_the_start(log, foreign):
    """What was asked for before a worker starts holds from its first moment; to run it once is refused."""
    run([Numbers("in")], log, once=True)
    foreign.rows["numbers-0"] = 10
    for asked, state in (({"is_paused": True}, status.PAUSED), ({"is_stopped": True}, status.STOPPED)):
        status.ask(log, "in", **asked)
        opened = len(foreign.opened)
        with Worker([Numbers("in")], log).start() as worker:
            wait_until(partial(is_in_state, worker, state))
            assert numbers(log) == []
            assert (len(foreign.opened) > opened) <= (state == status.PAUSED)
            status.ask(log, "in", **asked)
        with pytest.raises(ConfigError, match="first: streamkit connect resume in"):
            run([Numbers("in")], log, once=True)
    with Worker([Numbers("in")], log).start() as worker:
        status.ask(log, "in")
        arrive(log, foreign)


def test_a_task_that_hangs_is_left_behind(log, foreign, monkeypatch):
    """A worker that stops does not wait for ever for a foreign call; what comes back from it is not committed any more."""
    monkeypatch.setattr("streamkit.connectors.runtime.worker.STOP_SECONDS", 0.1)
    entered, released = threading.Event(), threading.Event()
    foreign.rows["numbers-0"] = 10

    def hang():
        entered.set()
        released.wait(60)

    foreign.before_poll = hang
    worker = Worker([Numbers("in")], log).start()
    assert entered.wait(60)
    worker.stop()
    foreign.before_poll = lambda: None
    run([Numbers("in")], log, once=True)
    left = worker._runs["in", 0].thread
    assert left is not None
    released.set()
    left.join(60)
    assert numbers(log) == expected(foreign)


def test_an_error_of_closing(log, foreign, caplog):
    """An error while a connector is closed hides neither success nor the error before it."""
    foreign.rows["numbers-0"] = 10
    foreign.close_error = OSError("cannot close")
    run([Numbers("in")], log, once=True)
    assert numbers(log) == expected(foreign)
    assert "closing it failed: OSError: cannot close" in caplog.text
    foreign.errors = [ValueError("no such thing")]
    with pytest.raises(ValueError, match="no such thing"):
        run([Numbers("in")], log, once=True)


def test_tasks_of_a_dead_worker(log, foreign):
    """Nobody knows how the tasks of a silent worker are: they are shown as unassigned; one that failed stays failed."""
    run([Numbers("in", tasks_max=3)], log, once=True)
    found = [TaskStatus("in", task, state, "w", "c") for task, state in enumerate((status.RUNNING, status.PAUSED, status.FAILED))]
    status.write_status(log, found)
    assert [one.state for one in status.read_status(log)] == [status.RUNNING, status.PAUSED, status.FAILED]
    later = log.clock.now_ms() + status.ALIVE_MS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(log.clock), "now_ms", lambda _: later)
        assert [one.state for one in status.read_status(log)] == [status.UNASSIGNED, status.UNASSIGNED, status.FAILED]


def test_progress_is_published(log, foreign):
    """The status of a task has its rows, their rate, and when it committed last."""
    foreign.rows["numbers-0"] = 10
    before = log.clock.now_ms()
    run([Numbers("in")], log, once=True)
    found = status.read_status(log)[0].to_json()
    assert found["rows"] == 10
    assert found["rows_per_s"] > 0
    assert before <= found["committed_at_ms"] <= log.clock.now_ms()


def test_new_partitions_of_a_sink(log, tmp_path, monkeypatch):
    """A topic that gets more partitions goes out whole, without a restart by hand."""
    monkeypatch.setattr("streamkit.connectors.runtime.sink_task.PARTITIONS_SECONDS", 0.1)
    log.create_topic("numbers", "n int", key="n", partitions=1)
    with Worker([SqliteSink("out", {"path": str(tmp_path / "out.db"), "topics": "numbers"})], log).start() as worker:
        wait_until(lambda: tasks_of([worker]))
        log.alter_topic("numbers", partitions=4)
        with log.producer() as producer:
            producer.send_batch("numbers", [{"n": n} for n in range(20)])
        wait_until(lambda: out_of(tmp_path / "out.db") == list(range(20)))


def test_a_sink_is_woken_by_commits(log, tmp_path, monkeypatch):
    """Rows go out as they are committed, and a worker ends, although no look is due for a long time."""
    monkeypatch.setattr("streamkit.connectors.runtime.sink_task.IDLE_SECONDS", 1_000.0)
    monkeypatch.setattr("streamkit.log.database.commit_watch.SIGNAL_SECONDS", 1_000.0)
    log.create_topic("numbers", "n int", key="n", partitions=1)
    with Worker([SqliteSink("out", {"path": str(tmp_path / "out.db"), "topics": "numbers"})], log).start() as worker:
        wait_until(lambda: tasks_of([worker]))
        for end in range(1, 6):
            with log.producer() as producer:
                producer.send_batch("numbers", [{"n": end - 1}])
            wait_until(partial(has_out, tmp_path / "out.db", end))


def has_out(path, end):
    return out_of(path) == list(range(end))


def is_in_state(worker, state):
    return [one.state for one in worker.status()] == [state]


def out_of(path):
    with closing(sqlite3.connect(path)) as database:
        has_rows = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'numbers'").fetchone()[0]
        return sorted(n for (n,) in database.execute("SELECT n FROM numbers")) if has_rows else []
