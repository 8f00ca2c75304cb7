"""A task that restores its store says how far it is, to everybody who sees the folder of the log, as long as it is at work."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest

from streamkit.names import StorePlace, restoring_path, store_folder
from streamkit.state import restoring
from streamkit.state.restoring import LAPSE_SECONDS, RestoreReport, Restoring, forget_restoring, restoring_now, restoring_text


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock, moved by hand."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def folder(root: Path, task: int = 0) -> Path:
    return root / store_folder("points", 2, task, 4)


def test_how_far_a_task_is(tmp_path: Path, clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    """After a second it is told, and then once a second: changes, rate, time left; a line of the logger comes every ten seconds."""
    caplog.set_level(logging.INFO, restoring.__name__)
    with RestoreReport(str(tmp_path), folder(tmp_path), 1_000) as report:
        clock[0] += 0.9
        report.advance(50)
        assert restoring_now(str(tmp_path), "points") == [] and not caplog.records
        clock[0] += 1.1
        report.advance(50)
        (told,) = restoring_now(str(tmp_path), "points")
        assert told == Restoring("points", 2, 0, 4, 100, 1_000, told.seconds)
        assert told.to_json() == {
            "stage": 2, "task": 0, "tasks": 4, "changes": 100, "changes_total": 1_000, "seconds": 2.0, "changes_per_second": 50,
            "seconds_left": 18.0,
        }  # fmt: skip
        clock[0] += 0.5
        report.advance(400)
        assert restoring_now(str(tmp_path), "points") == [told]  # it is told once a second
        for _ in range(9):
            clock[0] += 1.5
            report.advance(10)
    assert restoring_now(str(tmp_path), "points") == []
    first, second, last = (record.getMessage() for record in caplog.records)
    assert first == "points, stage 2, task 0 of 4: its stores catch up: 100 of 1,000 changes, 50 changes/s, 18 s left"
    assert "of 1,000 changes" in second
    assert last == "points, stage 2, task 0 of 4: its stores have caught up: 590 changes in 16.0 s"


def test_what_takes_no_time_is_not_told(tmp_path: Path, clock: list[float], caplog: pytest.LogCaptureFixture) -> None:
    """However many changes there are, nothing is written in the first second."""
    caplog.set_level(logging.INFO, restoring.__name__)
    with RestoreReport(str(tmp_path), folder(tmp_path), 10**7) as report:
        clock[0] += 0.99
        report.advance(10**7)
    assert not list(tmp_path.iterdir()) and not caplog.records


def test_tasks_are_told_apart_and_together(tmp_path: Path, clock: list[float]) -> None:
    """Each task has its file; in words they are one sum, which ends with the slowest."""
    reports = [RestoreReport(str(tmp_path), folder(tmp_path, task), 1_000) for task in range(3)]
    clock[0] += 2
    for task, report in enumerate(reports):
        report.advance(250 * (task + 1))
    told = restoring_now(str(tmp_path), "points")
    assert [(one.task, one.changes) for one in told] == [(0, 250), (1, 500), (2, 750)]
    assert restoring_text(told) == "1,500 of 3,000 changes, 750 changes/s, 6 s left"
    assert restoring_now(str(tmp_path), "point") == []
    forget_restoring(str(tmp_path), "points")
    assert restoring_now(str(tmp_path), "points") == []
    clock[0] += 2
    reports[1].advance(0)
    assert [one.task for one in restoring_now(str(tmp_path), "points")] == [1]


def test_what_a_dead_process_left_is_too_old(tmp_path: Path, clock: list[float]) -> None:
    """A file that nobody goes on with does not count, and neither does one that is being written just now."""
    for task in range(2):
        report = RestoreReport(str(tmp_path), folder(tmp_path, task), 10)
        clock[0] += 2
        report.advance(1)
    old = tmp_path / restoring_path(StorePlace("points", 2, 0, 4))
    modified = old.stat().st_mtime - LAPSE_SECONDS - 1
    os.utime(old, (modified, modified))
    assert [one.task for one in restoring_now(str(tmp_path), "points")] == [1]
    (tmp_path / restoring_path(StorePlace("points", 2, 1, 4))).write_text('{"application": "po')
    assert restoring_now(str(tmp_path), "points") == []


def test_it_is_no_reason_to_fail(tmp_path: Path, clock: list[float]) -> None:
    """Where nothing can be written, stores are restored all the same; errors of theirs are not held back."""
    (tmp_path / "restoring").write_text("a file where a folder should be")
    with pytest.raises(ZeroDivisionError), RestoreReport(str(tmp_path), folder(tmp_path), 10) as report:
        clock[0] += 2
        report.advance(1)
        raise ZeroDivisionError


@pytest.mark.parametrize("path", ["/log/stores/points/2/1-of-4", "stores/points/2/1-of-4"])
def test_a_folder_names_its_task(path: str) -> None:
    """The path of a folder of stores is parsed to the task that keeps them; no other path is."""
    place = StorePlace.parse(path)
    assert place == StorePlace("points", 2, 1, 4) and str(place) == "points, stage 2, task 1 of 4"
    assert store_folder("points", 2, 1, 4) == "stores/points/2/1-of-4"
    assert StorePlace.parse(f"{path}/CURRENT") is None and StorePlace.parse("/tmp/db") is None
