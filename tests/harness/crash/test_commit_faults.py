"""
Whatever the catalog's disk does inside COMMIT, the epoch is wholly there or not at all, and the run goes on to the right results.

Crash points 20 and 21: one fault at each write, sync and truncation from COMMIT on.
"""

from __future__ import annotations

import shutil
from functools import partial

import pytest

from streamkit.engine.runs.commit import commit_epoch
from streamkit.engine.runs.local import run_available
from streamkit.errors import StreamKitError
from streamkit.failpoints import armed
from streamkit.log.opening import open_log
from tests.harness.crash.processes import IS_TORTURE
from tests.kit import sales
from tests.kit.commit_bugs import BUGS as PLANTS
from tests.kit.faults import FaultyVfs
from tests.kit.sales_outcome import check, finish, outcome_of

VFS = "streamkit-crash-commit"
BUGS = {  # and what the disk does when they show
    "positions are committed before what was made of them": "kill",
    "a commit that failed is taken for done": "io",
}


@pytest.fixture(scope="module")
def fault():
    vfs = FaultyVfs(VFS)
    yield vfs.fault
    vfs.unregister()


@pytest.fixture(scope="module")
def calls(staged, fast_folder, fault):
    """What COMMIT asks of the disk."""
    with open_log(shutil.copytree(staged.folder, fast_folder / "counted"), vfs=VFS) as log:
        with armed("commit.before_commit", lambda: fault.arm(None)):
            commit_epoch(log.catalog, log.storage, staged.program, staged.attempts[0])
        return list(fault.calls)


def epoch_of(folder):
    with open_log(folder) as log:
        check(log)
        return log.catalog.applications.get(sales.APPLICATION).epoch


def chosen(calls):
    """The calls after which the run is taken to its end: one in the midst and the last; under torture all of them."""
    return range(1, len(calls) + 1) if IS_TORTURE else (len(calls) // 2, len(calls))


def deadly(calls, kind):
    """The calls that the process dies at: the first of each, one in the midst and the last two; under torture all. Writes may come out half."""
    numbers = [number for number, call in enumerate(calls, 1) if kind == "kill" or call == "write"]
    firsts = {calls.index(call) + 1 for call in calls}
    few = {*numbers[-2:], numbers[len(numbers) // 2], *(firsts & {*numbers})}
    return numbers if IS_TORTURE else sorted(few)


@pytest.mark.parametrize("kind", ["kill", "torn"])
def test_death_inside_commit(kind, staged, calls, copied, processes, expected):
    """A process that dies at any call of COMMIT leaves two epochs or three, and the next one comes to the same results."""
    epochs = set()
    for at in deadly(calls, kind):
        folder = copied(staged.folder)
        assert processes.is_killed("commit", folder=str(folder), reports=str(staged.folder / "reports.json"), kind=kind, at=at)
        epochs.add(epoch_of(folder))
        if at in chosen(calls) or (kind == "torn" and IS_TORTURE):
            assert finish(folder) == expected
    assert epochs == ({2, 3} if kind == "kill" else {2})


@pytest.mark.parametrize("kind", ["io", "full", "late"])
def test_a_disk_that_fails_inside_commit(kind, staged, calls, copied, fault, expected):
    """A commit that reports an error left nothing, one that returns left all of it; the same generation then goes on."""
    outcomes = fail_inside_commit(kind, chosen(calls), staged, copied, fault, expected)
    assert 2 in outcomes


def fail_inside_commit(kind, calls, staged, copied, fault, expected):
    """Commit with a fault at each of these calls; the epochs that there were after it."""
    outcomes = set()
    for at in calls:
        with open_log(copied(staged.folder), vfs=VFS) as log:
            with armed("commit.before_commit", partial(fault.arm, kind, at)):
                epoch = committed_epoch(log, staged)
            fault.arm(None)
            assert log.catalog.applications.get(sales.APPLICATION).epoch == epoch
            outcomes.add(epoch)
            run_available(staged.planner(log))
            check(log)
            assert outcome_of(log) == expected
    return outcomes


def committed_epoch(log, staged):
    """Commit; the epoch that the application must be at by what was reported."""
    try:
        commit_epoch(log.catalog, log.storage, staged.program, staged.attempts[0])
    except StreamKitError:
        return 2
    return 3


@pytest.mark.parametrize("bug", BUGS)
def test_a_wrong_commit_is_caught(bug, staged, copied, processes, fault, expected, monkeypatch):
    """A commit that is wrong in one way shows when its process dies, or its disk fails."""
    folder, kind = copied(staged.folder), BUGS[bug]
    if kind == "kill":
        reports = str(staged.folder / "reports.json")
        assert processes.is_killed("commit", folder=str(folder), reports=reports, kind=kind, at=1, bug=bug)
    else:
        PLANTS[bug](monkeypatch.setattr)

    with pytest.raises((AssertionError, StreamKitError)):
        if kind == "kill":
            assert finish(folder) == expected
        else:
            fail_inside_commit(kind, (1,), staged, copied, fault, expected)
