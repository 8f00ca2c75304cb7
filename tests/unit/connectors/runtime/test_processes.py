"""Workers in processes of their own: what one leaves behind that is killed, another takes over."""

from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing, contextmanager

import pytest

import streamkit as sk
from streamkit.connectors.runtime import status
from tests.kit.program import Program
from tests.kit.sampling import TAKES_ALL
from tests.kit.waiting import wait_until

ROWS = 300
PROGRAM = """
import sys
import streamkit as sk
from streamkit.connectors import Worker
from streamkit.connectors.connector_file import read_connectors
Worker(read_connectors(sys.argv[1]), sk.open_log(sys.argv[2]), session_timeout_ms=2_000).start().wait()
"""


@pytest.fixture
def files(tmp_path):
    """A database to read, and the connectors that copy its tables to another database by the log."""
    with closing(sqlite3.connect(tmp_path / "in.db")) as database:
        for table in ("people-0", "people-1"):
            database.execute(f'CREATE TABLE "{table}" (n int)')
    module = "topologies.connectors.sqlite_connector"
    source = {"connector.class": f"{module}:SqliteSource", "path": str(tmp_path / "in.db"), "tables": "people-0,people-1"}
    sink = {"connector.class": f"{module}:SqliteSink", "path": str(tmp_path / "out.db"), "topics": "people"}
    found = [
        {"name": "in", "config": source | {"topic": "people", "topic.partitions": 4, "tasks.max": 2}},
        {"name": "out", "config": sink | {"tasks.max": 2}},
    ]
    (tmp_path / "connectors.json").write_text(json.dumps(found))
    return tmp_path


@contextmanager
def worker(files, location):
    """What `streamkit connect run` runs, with a shorter session; killed at the end."""
    process = Program(None, str(files / "connectors.json"), str(location), code=PROGRAM, has_errors=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def add(files, first):
    with closing(sqlite3.connect(files / "in.db")) as database:
        for n in range(first, first + ROWS):
            database.execute(f'INSERT INTO "people-{n % 2}" VALUES ({n})')
            database.commit()


def written(files):
    with closing(sqlite3.connect(files / "out.db")) as database:
        has_rows = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'people'").fetchone()[0]
        return sorted(n for (n,) in database.execute("SELECT n FROM people")) if has_rows else []


def holders(log):
    """The processes that run tasks."""
    return {one.worker.split("-")[-2] for one in status.read_status(log) if one.state == status.RUNNING}


def test_another_takes_over(files, tmp_path):
    """A worker that is killed loses its tasks to the other within the session's time; nothing is lost, nothing doubled."""
    check_takeover(files, tmp_path / "log")


@pytest.mark.skipif(not TAKES_ALL, reason="as the other, with another catalog: make torture")
def test_another_takes_over_by_postgresql(files, postgres, tmp_path):
    """It is the same where the workers share a log by PostgreSQL."""
    check_takeover(files, postgres.url(storage=tmp_path / "shared"))


def check_takeover(files, location):
    with sk.open_log(location) as log, worker(files, location) as one, worker(files, location) as other:
        wait_until(lambda: holders(log) == {str(one.pid), str(other.pid)})
        add(files, 0)
        one.send_signal(signal.SIGKILL)
        add(files, ROWS)
        wait_until(lambda: written(files) == list(range(2 * ROWS)))
        assert log.topic("people").partitions == 4
        assert sum(log.end_offsets("people").values()) == 2 * ROWS
