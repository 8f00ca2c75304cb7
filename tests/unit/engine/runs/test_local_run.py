"""A run in this process: what its handle does, how it ends, and who fences whom."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs import local
from streamkit.engine.runs.commit import commit_epoch
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError, EpochFailedError, EvaluationError, FencedError, StreamKitError, TopicNotFoundError
from streamkit.failpoints import armed
from streamkit.log.opening import open_log
from streamkit.names import application_folders, store_folder
from streamkit.state.rocksdb import StoreBusyError
from streamkit.state.tiered_store import TieredStore
from tests.kit.sampling import first
from tests.kit.waiting import wait_until

WAIT_SECONDS = 60


@pytest.fixture(params=first(1, ["file", "memory"]))
def log(request, tmp_path):
    """An empty log with the topic of orders; nothing maintains it, unless a test says so."""
    with open_log(":memory:" if request.param == "memory" else tmp_path / "log") as opened:
        opened.settings = replace(opened.settings, maintenance_interval_ms=0)
        opened.create_topic("orders", "customer string, amount bigint", key="customer", partitions=2)
        yield opened


def send(log, *amounts):
    with log.producer() as producer:
        for amount in amounts:
            producer.send("orders", {"customer": f"c{amount % 3}", "amount": amount})


def send_customers(log, *customers):
    with log.producer() as producer:
        for customer in customers:
            producer.send("orders", {"customer": customer, "amount": 1})


def counts():
    """Counts orders by customer."""
    app = sk.Topology("order-counts")
    app.stream("orders").group_by("customer").agg(n=F.count("*"), total=F.sum("amount"), store="orders_of").to("counts")
    return app


def run(log, **options):
    return sk.run(counts(), log=log, engine="local", **options)


def committed(running):
    return running.status()["epoch"]


def totals(log):
    """The newest total of each customer."""
    return {row["customer"]: row["total"] for row in log.store("order-counts", "orders_of").to_arrow().to_pylist()}


def test_it_goes_on_with_what_comes(log):
    """The caller is free while the run takes what comes in, until it is stopped; the next one goes on from there."""
    running = run(log, tasks=2)
    assert running.is_active and running.wait(0) is False
    send(log, 1, 2, 3)
    wait_until(lambda: running.records() == 3, WAIT_SECONDS)
    send(log, 4)
    wait_until(lambda: running.records() == 4, WAIT_SECONDS)
    running.stop()

    assert running.wait(0) and not running.is_active
    assert totals(log) == {"c0": 3, "c1": 5, "c2": 2}
    send(log, 7)
    again = run(log, trigger="available_now")
    assert again.wait(WAIT_SECONDS)
    assert (again.records(), totals(log)["c1"]) == (1, 12)


def test_handle(log):
    """Status, progress, totals and stores say what was done."""
    send(log, 1, 2, 3, 4)
    finished = run(log, tasks=2, max_records_per_epoch=3, drain=True)
    assert finished.wait(WAIT_SECONDS)
    epochs = finished.progress()

    assert repr(finished) == "Run('order-counts', ended, generation 1)"
    assert "<td>state</td><td>ended</td>" in finished._repr_html_() and "<td>epoch</td><td>2</td>" in finished._repr_html_()
    assert finished.status() == {
        "application": "order-counts",
        "active": False,
        "generation": 1,
        "epoch": 2,
        "stream_time_ms": epochs[-1]["stream_time_ms"],
        "tasks": 2,
        "drained": False,
        "waits_for": None,
        "restoring": [],
    }
    assert finished.records() == finished.backlog() == sum(epoch["records"] for epoch in epochs) == 4
    assert finished.lag() == 0
    assert sum(finished.total("changes").values()) == finished.total("written")["counts"] > 0
    assert finished.store("orders_of").to_arrow().num_rows == 3


def test_drain_closes_windows(log):
    """A drain takes what is there, and then closes every window; a second one finds nothing to do."""
    app = sk.Topology("order-counts")
    windows = app.stream("orders").group_by("customer").windowed_by(sk.tumbling("1 day", grace="0 s"))
    windows.agg(n=F.count("*")).emit("final").to("days")
    send(log, 1, 2, 3)
    for _ in range(2):
        drained = sk.run(app, log=log, engine="local", drain=True)
        assert drained.wait(WAIT_SECONDS)
        assert drained.status()["drained"] and drained.status()["epoch"] == 2
        assert log.read("days").num_rows == 3


def test_available_now_takes_what_was_there(log):
    """What comes in after the start waits for the next run."""
    send(log, 1, 2)
    with armed("epoch.planned", lambda: send(log, 5)):
        finished = run(log, trigger="available_now", max_records_per_epoch=1)
        assert finished.wait(WAIT_SECONDS)

    assert finished.records() == 2 and finished.lag() == 2


@pytest.mark.parametrize("log", first(1, ["memory", "file"]), indirect=True)
def test_interval(log):
    """With an interval, the starts of epochs are so far apart, and a stop does not wait for the next."""
    send(log, 1, 2, 3)
    running = run(log, trigger="200 milliseconds", max_records_per_epoch=1)
    wait_until(lambda: committed(running) == 3, WAIT_SECONDS)
    running.stop()
    times = [epoch["timestamp_ms"] for epoch in running.progress()]
    assert times[-1] - times[0] >= 300

    send(log, 4, 5)
    slow = run(log, trigger="1 hour", max_records_per_epoch=1)
    wait_until(lambda: committed(slow) == 4, WAIT_SECONDS)
    slow.stop()
    assert slow.wait(0) and slow.records() == 1


def is_held(log, task=0):
    """Whether somebody has the store of a task open."""
    folder = Path(log.storage.root) / store_folder("order-counts", 1, task, 1)
    if not folder.exists():
        return False
    try:
        TieredStore(folder).close()
    except StoreBusyError:
        return True
    return False


def test_stores_are_held_as_long_as_a_run_goes_on(log):
    """A run keeps its stores open while it waits, and anybody can read them; it gives them back at its end, and when another fences it."""
    send(log, 1, 2, 3)
    running = run(log, tasks=1)
    wait_until(lambda: running.records() == 3 and is_held(log), WAIT_SECONDS)
    assert totals(log) == {"c0": 3, "c1": 1, "c2": 2}
    send(log, 4)
    wait_until(lambda: running.records() == 4, WAIT_SECONDS)
    assert totals(log) == {"c0": 3, "c1": 5, "c2": 2} and is_held(log)
    running.stop()
    assert not is_held(log)

    older = run(log)
    send(log, 5)
    wait_until(lambda: older.records() == 1, WAIT_SECONDS)
    newer = run(log)
    send(log, 6)
    wait_until(lambda: newer.records() == 1, WAIT_SECONDS)
    with pytest.raises(FencedError):
        older.wait(WAIT_SECONDS)
    newer.stop()
    assert totals(log) == {"c0": 9, "c1": 5, "c2": 7} and not is_held(log)


@pytest.mark.parametrize("log", first(1, ["file"]), indirect=True)
def test_a_reset_beside_a_run_that_holds_its_stores(log):
    """An application that is reset ends the run that goes on, which leaves nothing in the stores of the next one."""
    send(log, 1, 2, 3)
    older = run(log)
    wait_until(lambda: older.records() == 3, WAIT_SECONDS)
    for path in log.catalog.applications.reset("order-counts"):
        log.storage.delete(path)
    for folder in application_folders("order-counts"):
        shutil.rmtree(Path(log.root) / folder, ignore_errors=True)
    newer = run(log)
    send(log, 4)
    wait_until(lambda: newer.records() == 4, WAIT_SECONDS)
    with pytest.raises(StreamKitError):
        older.wait(WAIT_SECONDS)
    newer.stop()
    assert totals(log) == {"c0": 3, "c1": 5, "c2": 2}
    assert run(log, drain=True).wait(WAIT_SECONDS)
    assert totals(log) == {"c0": 3, "c1": 5, "c2": 2}


def test_stores_are_not_held_through_a_long_pause(log):
    """Between epochs that are far apart nobody has the stores open: a newer run need not wait until the older one notices."""
    send(log, 1, 2, 3)
    running = run(log, tasks=1, trigger="1 hour")
    wait_until(lambda: running.records() == 3, WAIT_SECONDS)
    wait_until(lambda: not is_held(log), WAIT_SECONDS)
    running.stop()


def test_an_epoch_that_fails_gives_stores_back(log):
    """What ends an epoch closes the stores that were held, also those of the tasks beside it."""
    app = sk.Topology("order-counts")
    number = F.col("customer").cast("int")
    app.stream("orders").group_by("customer").agg(n=F.sum(number), store="orders_of").to("counts")
    send_customers(log, "1")
    running = sk.run(app, log=log, engine="local", tasks=1)
    wait_until(lambda: committed(running) == 1 and is_held(log), WAIT_SECONDS)
    send_customers(log, "three")
    with pytest.raises(EvaluationError):
        running.wait(WAIT_SECONDS)
    assert not is_held(log)


def test_a_newer_run_fences(log):
    """A newer run of the application, wherever it runs, ends an older one that is waiting, with an error that says so."""
    send(log, 1)
    older = run(log)
    wait_until(lambda: committed(older) == 1, WAIT_SECONDS)
    start(log.catalog, log.storage, sk.compile(counts(), log))

    with pytest.raises(FencedError, match=r"generation 1 cannot commit, generation 2 has started since; this run must stop"):
        older.wait(WAIT_SECONDS)
    assert not older.is_active and repr(older) == "Run('order-counts', ended by FencedError, generation 1)"


def test_a_newer_run_fences_an_epoch_under_way(log):
    """An epoch whose run was fenced before its commit leaves no trace; the newer run takes its records once."""
    send(log, 1, 2, 3)
    fenced, go_on = threading.Event(), threading.Event()

    def pause():
        if not fenced.is_set():
            fenced.set()
            go_on.wait(WAIT_SECONDS)

    with armed("commit.verified", pause):
        older = run(log)
        assert fenced.wait(WAIT_SECONDS)
        newer = run(log, drain=True)
        assert newer.wait(WAIT_SECONDS)
        go_on.set()
        with pytest.raises(FencedError):
            older.wait(WAIT_SECONDS)

    assert totals(log) == {"c0": 3, "c1": 1, "c2": 2}


def test_errors_come_out_of_wait(log):
    """What ends a run is raised by every wait for it, and names the record; what was committed before stands."""
    app = sk.Topology("numbers")
    app.stream("orders").select("customer", number=F.col("customer").cast("int")).to("numbers")
    send_customers(log, "1", "2")
    running = sk.run(app, log=log, engine="local")
    wait_until(lambda: committed(running) == 1, WAIT_SECONDS)
    send_customers(log, "three")

    for _ in range(2):
        with pytest.raises(EvaluationError, match=r"topic orders, partition \d, offset \d, key customer = 'three'"):
            running.wait(WAIT_SECONDS)
    assert running.status()["epoch"] == 1 and repr(running) == "Run('numbers', ended by EvaluationError, generation 1)"


def test_an_epoch_is_tried_again(log, monkeypatch):
    """An epoch whose commit found that attempts did not agree runs again in a new generation, a few times and then no more."""
    send(log, 1, 2, 3)
    fail = [True, True]

    def commit(*arguments):
        if fail:
            fail.pop()
            raise EpochFailedError("attempts did not agree")
        return commit_epoch(*arguments)

    monkeypatch.setattr(local, "commit_epoch", commit)
    finished = run(log, drain=True)
    assert finished.wait(WAIT_SECONDS)
    assert (finished.status()["generation"], finished.records(), totals(log)) == (3, 3, {"c0": 3, "c1": 1, "c2": 2})

    fail[:] = [True] * 100
    send(log, 4)
    given_up = run(log, drain=True)
    with pytest.raises(EpochFailedError, match="did not agree"):
        given_up.wait(WAIT_SECONDS)
    assert given_up.status()["generation"] == 7


def test_interrupt_of_a_wait(log):
    """Ctrl-C while the main thread waits stops the run, and is raised."""
    running = run(log)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a session of Spark may have put its own there
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            running.wait(WAIT_SECONDS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not running.is_active and running.wait(0)


def test_stop_finishes_the_epoch(log):
    """A stop waits for the epoch under way, which is committed; nothing runs when it returns."""
    send(log, 1, 2)
    under_way, go_on = threading.Event(), threading.Event()

    def pause():
        under_way.set()
        go_on.wait(WAIT_SECONDS)

    with armed("kernel.in_operator", pause):
        running = run(log, max_records_per_epoch=1)
        assert under_way.wait(WAIT_SECONDS)
        threading.Timer(0.1, go_on.set).start()
        running.stop()

    assert running.records() == 1
    assert not [one for one in threading.enumerate() if "order-counts" in one.name or one.name == "streamkit-maintenance"]


@pytest.mark.parametrize("log", first(1, ["file", "memory"]), indirect=True)
def test_idle_run_is_cheap(log):
    """A run that has nothing to do takes less than three hundredths of a core."""
    running = run(log)
    time.sleep(0.3)
    before, began = time.process_time(), time.monotonic()
    time.sleep(0.7)
    used = (time.process_time() - before) / (time.monotonic() - began)
    running.stop()

    assert used < 0.03


def test_maintenance_runs_beside_it(log):
    """A running application maintains its log, here merges the small files of a topic, and takes new records meanwhile."""
    for amount in range(12):
        send(log, amount)
    log.settings = replace(log.settings, maintenance_interval_ms=50)
    slabs = len({extent.path for extent in extents(log)})
    running = run(log)
    wait_until(lambda: len({extent.path for extent in extents(log)}) < slabs, WAIT_SECONDS)
    running.stop()

    assert sum(totals(log).values()) == sum(range(12))


def extents(log):
    return log.catalog.manifest.cut([log.topic("orders").id], {}).extents


def test_what_cannot_run_is_refused(log):
    """Options out of range, engines that are not there, a session that is not needed: ConfigError before anything starts."""
    app = counts()
    for options, message in (
        ({"engine": "flink"}, r"engine='flink'; expected one of 'spark', 'local'"),
        ({"engine": "local", "spark": object()}, r"leave one of the two out"),
        ({"engine": "local", "trigger": "often"}, r"trigger='often'; expected None, an interval"),
        ({"engine": "local", "tasks": 0}, r"tasks=0; expected 1 to"),
    ):
        with pytest.raises(ConfigError, match=message):
            sk.run(app, log=log, **options)
    log.delete_topic("orders")
    with pytest.raises(TopicNotFoundError):
        sk.run(app, log=log, engine="local")
    assert log.catalog.applications.every() == []
