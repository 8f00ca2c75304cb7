"""Promises of the catalog to many writers at once: none meets an error, none waits for long, none is left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from streamkit.log.opening import open_log
from tests.log.contending_writer import BUGS

ROOT = Path(__file__).parents[2]
WRITERS = 8
SECONDS = 60 if os.environ.get("STREAMKIT_TORTURE") else 5
P99_MS_MAX = 2_000  # on two busy cores; every commit waits for the disk, and for seven others


def commits_of(folder, seconds, *bug):
    """The durations of the commits of each of eight processes, in ms; a commit that failed raises."""
    with open_log(folder) as log:
        log.create_topic("t", "n int", partitions=2)
    command = [sys.executable, "-m", "tests.log.contending_writer", str(folder), str(seconds), *bug]
    writers = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("begin\n")
        writer.stdin.flush()
    said = [writer.communicate()[0].splitlines() for writer in writers]
    assert all(lines and lines[-1] == "END" for lines in said), said
    return [[float(line) for line in lines[:-1]] for lines in said]


@pytest.mark.timeout(300)
def test_eight_writers(tmp_path, record_property):
    """Eight processes that commit as fast as they can: no error, each has its turn, 99 of 100 commits take at most two seconds."""
    commits = commits_of(tmp_path / "log", SECONDS)

    durations = np.concatenate(commits)
    record_property("tried", {"commits of eight processes at once": len(durations)})
    print(f"{len(durations)} commits, p50 {np.percentile(durations, 50):.0f} ms, p99 {np.percentile(durations, 99):.0f} ms")
    assert np.percentile(durations, 99) <= P99_MS_MAX
    assert min(map(len, commits)) * 10 >= max(map(len, commits))
    with open_log(tmp_path / "log") as log:
        assert log.read("t").num_rows == len(durations)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("bug", BUGS)
def test_a_catalog_that_does_not_wait_is_caught(bug, tmp_path):
    """A transaction that takes its lock too late, or gives up on it at once, shows as an error that some writer meets."""
    with pytest.raises((AssertionError, ValueError)):
        commits_of(tmp_path / "log", 2, bug)
