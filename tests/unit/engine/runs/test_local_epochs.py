"""Epochs that one process runs whole: what their plans name, and what happens when a store is not where the last epoch left it."""

from __future__ import annotations

import shutil
import threading
from contextlib import closing
from pathlib import Path

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs import local_epochs
from streamkit.engine.runs.local_epochs import LocalEpochs
from streamkit.engine.runs.start import start
from streamkit.engine.stage.kernel import run_last_kernel
from streamkit.errors import EvaluationError
from streamkit.log.opening import open_log
from streamkit.names import application_writer, plan_folder, store_folder
from streamkit.state.rocksdb import RocksStore

KEYS = 7


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "log") as opened:
        opened.create_topic("orders", "customer string, amount bigint", key="customer", partitions=4)
        yield opened


@pytest.fixture
def epochs(log):
    with closing(started(log)) as running:
        yield running


def started(log, change=lambda orders: orders):
    app = sk.Topology("order-counts")
    orders = change(app.stream("orders"))
    orders.group_by("customer").agg(n=F.count("*"), total=F.sum("amount"), store="orders_of").to("counts")
    return LocalEpochs(log, start(log.catalog, log.storage, sk.compile(app, log), tasks=2), 2)


def run(log, epochs, number):
    """Send a few rows, and run them as an epoch; gives its plan."""
    with log.producer() as producer:
        for customer in range(KEYS):
            producer.send("orders", {"customer": f"c{customer}", "amount": number})
    before = epochs.committed_end()
    planned = epochs.plan(before, epochs.planner.next_end(before))
    epochs.run(planned)
    return planned[0]


def totals(log):
    return {row["customer"]: (row["n"], row["total"]) for row in log.store("order-counts", "orders_of").to_arrow().to_pylist()}


def expected(count):
    return {f"c{customer}": (count, sum(range(count))) for customer in range(KEYS)}


def folder(log, task):
    return Path(log.storage.root) / store_folder("order-counts", 1, task, 2)


def test_a_plan_names_what_the_last_epoch_changed(log, epochs):
    """However many there were: nothing is written down for stores that are far behind, and no small commit is moved for that."""
    plans = [run(log, epochs, number) for number in range(40)]

    assert {len(plan.changes.extents) for plan in plans[2:]} == {len(plans[2].changes.extents)}
    assert all(len(plan.changes.tokens) == 2 for plan in plans[2:])
    assert log.storage.list(plan_folder(application_writer(epochs.planner.application.id))) == ()
    assert totals(log) == expected(40)


def test_stores_are_known_again_after_a_release(log, epochs):
    """Another process may have had them meanwhile, so the first plan after it names all changes."""
    for number in range(3):
        run(log, epochs, number)
    epochs.release()
    shutil.rmtree(folder(log, 0))

    assert run(log, epochs, 3).changes.first_epoch == 0
    assert run(log, epochs, 4).changes.first_epoch == 3
    assert totals(log) == expected(5)


@pytest.mark.parametrize("tasks", [(0,), (1,), (0, 1)])
def test_a_store_that_is_lost_comes_back(log, epochs, tasks):
    """Its folder is deleted under the run: the epoch is planned again with all changes, and gives what it would have given."""
    for number in range(6):
        if number == 3:
            for task in tasks:
                shutil.rmtree(folder(log, task))
        run(log, epochs, number)

    assert totals(log) == expected(6)


def test_a_store_that_another_has(log, epochs):
    """Each epoch reads it as the other left it, and the changes since from the changelog."""
    for number in range(2):
        run(log, epochs, number)
    epochs.release()
    other = RocksStore(folder(log, 1))
    try:
        for number in range(2, 6):
            run(log, epochs, number)
    finally:
        other.close()

    assert totals(log) == expected(6)


def threads_of_tasks(log, epochs, monkeypatch):
    """Run three epochs; of each, whether its tasks ran in this thread."""
    ran: list[list[bool]] = []

    def noted(*arguments):
        ran[-1].append(threading.current_thread() is threading.main_thread())
        return run_last_kernel(*arguments)

    monkeypatch.setattr("streamkit.engine.runs.local.run_last_kernel", noted)
    for number in range(3):
        ran.append([])
        run(log, epochs, number)
    assert totals(log) == expected(3)
    return ran


def test_tasks_of_a_small_epoch_take_turns(log, epochs, monkeypatch):
    """They are nearly all Python; but those of the first epoch may have stores to restore, and run side by side."""
    assert threads_of_tasks(log, epochs, monkeypatch) == [[False, False], [True, True], [True, True]]


def test_tasks_of_a_large_epoch_run_side_by_side(log, epochs, monkeypatch):
    """Arrow lets go of Python's lock, so that as many tasks run as there are cores."""
    monkeypatch.setattr(local_epochs, "SIDE_BY_SIDE_RECORDS", KEYS)
    assert threads_of_tasks(log, epochs, monkeypatch) == [[False, False]] * 3


def test_functions_of_users_are_called_side_by_side(log, monkeypatch):
    """They may wait for something else than a core."""
    with closing(started(log, lambda orders: orders.map_values(dict, "amount bigint"))) as epochs:
        assert threads_of_tasks(log, epochs, monkeypatch) == [[False, False]] * 3


def test_no_task_is_at_work_when_an_epoch_has_failed(epochs):
    """Who runs the epoch again opens the same stores."""
    has_failed, ended = threading.Event(), []

    def work(task):
        if task == 0:
            has_failed.set()
            raise EvaluationError("no")
        assert has_failed.wait(60)
        ended.append(task)

    with pytest.raises(EvaluationError):
        epochs._side_by_side(work, (0, 1))
    assert ended == [1]
