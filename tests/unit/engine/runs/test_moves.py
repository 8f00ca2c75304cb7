"""Promises of the count of tasks that changed their executor."""

from __future__ import annotations

from streamkit.engine.runs.moves import moves


def test_tasks_on_another_executor_are_counted():
    """Each task of an epoch that ran elsewhere than in the one before it is one."""
    assert moves([{"executors": ["a", "b", "a"]}, {"executors": ["a", "a", "b"]}, {"executors": ["a", "a", "b"]}]) == 2


def test_epochs_in_one_process_do_not_count():
    """Epochs without executors, between others or alone, are no moves."""
    assert moves([{"executors": ["a", "b"]}, {"records": 3}, {"executors": ["a", "a"]}]) == 1
    assert moves([{"records": 3}, {}]) == moves([]) == 0


def test_another_number_of_tasks_begins_from_there():
    """What has another number of tasks is not compared with what was before."""
    assert moves([{"executors": ["a", "b"]}, {"executors": ["b", "a", "a"]}, {"executors": ["b", "a", "b"]}]) == 1
