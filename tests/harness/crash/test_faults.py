"""What goes wrong without killing the process: nothing becomes visible, and the same generation can go on."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from streamkit.engine.runs.local import run_available, run_next
from streamkit.engine.runs.start import start
from streamkit.errors import EvaluationError, StorageFullError
from streamkit.failpoints import SimulatedCrash, armed
from streamkit.log.opening import open_log
from streamkit.state import run_folder, task_state
from tests.harness.crash.processes import after, fail_to_sync
from tests.kit import sales
from tests.kit.sales_outcome import check, finish, orphans_of, outcome_of, visible
from tests.kit.sampling import TAKES_ALL


@pytest.fixture
def log(halfway, copied):
    with open_log(copied(halfway)) as log:
        yield log


@pytest.fixture
def planner(log):
    return started(log)


def started(log):
    return start(log.catalog, log.storage, sales.load_program(), records_max=sales.EPOCH_RECORDS)


def stages_with_stores(planner):
    """The stages that have stores."""
    return {store.stage for store in planner.program.stores}


def turns(*cases):
    """All of them, one after the other; in torture also each alone."""
    return [cases, *((case,) for case in cases if TAKES_ALL)]


def failing(error):
    def fail():
        raise error

    return fail


def goes_on(log, planner, expected):
    run_available(planner)
    check(log)
    return outcome_of(log) == expected


def test_a_file_whose_sync_failed_is_written_anew(log, planner, expected):
    """Crash point 13: the kernel writes the same slab under another token, and nothing is left of the first."""
    with armed("storage.before_fsync", after(1, fail_to_sync)):
        run_next(planner)
    assert orphans_of(log) == set()
    assert goes_on(log, planner, expected)


def test_a_disk_that_fails_twice_fails_the_epoch(log, planner, expected):
    """A second failure is an error; the epoch can run again."""
    before = visible(log)
    with (
        armed("storage.before_fsync", fail_to_sync),
        pytest.raises(OSError, match="purpose"),
    ):
        run_next(planner)
    assert visible(log) == before
    assert goes_on(log, planner, expected)


@pytest.mark.parametrize("points", turns("storage.half_written", "storage.before_fsync", "storage.after_fsync"))
def test_a_full_disk_fails_the_epoch(points, log, planner, expected):
    """A slab that finds no room is removed again; what was committed stays readable, and with room the epoch runs."""
    before, files = visible(log), log.storage.list("slabs")
    for point in points:
        with (
            armed(point, failing(OSError(errno.ENOSPC, "no room on purpose"))),
            pytest.raises(StorageFullError, match="free disk space"),
        ):
            run_next(planner)
        assert visible(log) == before and log.storage.list("slabs") == files
    assert goes_on(log, planner, expected)


@pytest.mark.parametrize("memory_bytes", [64 << 20, 1], ids=["runs", "RocksDB"])
def test_a_full_disk_fails_the_epoch_while_its_stores_apply(memory_bytes, log, planner, expected, monkeypatch):
    """A store that finds no room, at whatever write of its files, fails the epoch; with room the same generation goes on, with whole stores."""
    planner = replace(planner, application=replace(planner.application, store_memory_bytes=memory_bytes))
    run_next(planner)  # whose changes its stores are to apply
    before, write, left = visible(log), run_folder._ChecksummedFile.write, iter(range(0))

    def write_while_there_is_room(file, data):
        if next(left, None) is None:
            write(file, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "no room on purpose")
        return write(file, data)

    failures = 0
    with monkeypatch.context() as patch:
        patch.setattr(run_folder._ChecksummedFile, "write", write_while_there_is_room)
        while visible(log) == before:
            left = iter(range(failures))
            try:
                run_next(planner)
            except StorageFullError as error:
                assert "/stores/sales/" in str(error) and "free disk space" in str(error)
                failures += 1
    assert failures > len(stages_with_stores(planner))
    assert goes_on(log, planner, expected)


@pytest.mark.parametrize("visits", turns(1, 13, 40))
def test_an_operator_that_raises_leaves_no_trace(visits, log, planner, expected):
    """Crash point 9: an error in an operator is the caller's; stores hold nothing of the epoch, and it can run again."""
    before = visible(log)
    for visit in visits:
        with armed("kernel.in_operator", after(visit, failing(EvaluationError("on purpose")))), pytest.raises(EvaluationError):
            run_next(planner)
        assert visible(log) == before
    assert goes_on(log, planner, expected)


@pytest.mark.parametrize("visits", turns(5, 2, 1))
def test_a_store_that_was_brought_up_half_way(visits, log, planner, expected, monkeypatch):
    """Crash point 8: where a part of the changes is durable in a store, the next start applies the rest."""
    run_next(planner)
    monkeypatch.setattr(task_state, "CHANGES_PER_WRITE", 1)
    for visit in visits:
        with armed("state.between_writes", after(visit, failing(SimulatedCrash()))), pytest.raises(SimulatedCrash):
            run_next(planner)
        planner = started(log)
    assert finish(log.root) == expected
