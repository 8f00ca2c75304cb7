"""Promises of the catalog to many writers at once: none meets an error, and each has its turns."""

from __future__ import annotations

import os

import numpy as np
import pytest

from streamkit.log.opening import open_log
from tests.kit.racing import said_by, start_together
from tests.unit.log.database.contending_writer import BUGS

IS_TORTURE = bool(os.environ.get("STREAMKIT_TORTURE"))
WRITERS = 8
SECONDS = 60 if IS_TORTURE else 0.4
P99_MS_MAX = 5_000  # with the cores for themselves; SQLite lets those who wait try again at random


def commits_of(folder, count, seconds, *bug):
    """What each of some processes says of its commits: the durations in ms, and the errors."""
    with open_log(folder) as log:
        log.create_topic("t", "n int", partitions=2)
    said = said_by(start_together("tests.unit.log.database.contending_writer", [[str(folder), str(seconds), *bug]] * count))
    assert all(lines[-1:] == ["END"] for lines in said), said
    return [[float(line) for line in lines[:-1] if is_duration(line)] for lines in said], [
        line for lines in said for line in lines[:-1] if not is_duration(line)
    ]


def is_duration(line):
    return line.replace(".", "", 1).isdigit()


@pytest.mark.timeout(300)
def test_eight_writers(tmp_path, record_property):
    """Eight processes that commit as fast as they can meet no error; at full count each has its turns, and none waits for long."""
    commits, errors = commits_of(tmp_path / "log", WRITERS, SECONDS)

    durations = np.concatenate(commits)
    record_property("tried", {"commits of eight processes at once": len(durations)})
    assert errors == [] and len(durations) > 0
    assert not IS_TORTURE or (min(map(len, commits)) > 0 and np.percentile(durations, 99) <= P99_MS_MAX)
    with open_log(tmp_path / "log") as log:
        assert log.read("t").num_rows == WRITERS + len(durations)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", BUGS)
def test_a_catalog_that_does_not_wait_is_caught(bug, tmp_path):
    """A transaction that takes its lock too late, or gives up on it at once, is an error that some writer meets."""
    _, errors = commits_of(tmp_path / "log", 3, 2 if IS_TORTURE else 0.5, bug)

    assert any("was locked for" in error for error in errors)
