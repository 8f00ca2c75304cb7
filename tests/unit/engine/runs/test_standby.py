"""Standing by: when a run counts as gone, and what copies of stores hold."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import replace

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.runs import standby
from streamkit.engine.runs.standby import WarmCopies, stand_by
from streamkit.log import upkeep
from streamkit.log.catalog import epochs
from streamkit.log.opening import open_log
from streamkit.names import application_heartbeat
from streamkit.state import restoring
from streamkit.state.restoring import RestoreReport
from streamkit.state.snapshot import snapshot_of_store
from streamkit.state.task_state import open_beside, read_changelogs
from streamkit.state.tiered_store import TieredStore
from tests.kit.waiting import wait_until

LAPSE_MS = 300
NAME = "order-counts"


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A log with the topic of orders, which nothing maintains; runs beat often."""
    monkeypatch.setattr(upkeep, "BEAT_SECONDS", LAPSE_MS / 10_000)
    with open_log(tmp_path / "log") as opened:
        opened.settings = replace(opened.settings, maintenance_interval_ms=0)
        opened.create_topic("orders", "customer string, amount bigint", key="customer", partitions=2)
        yield opened


def counts():
    """Counts orders by customer, then customers by their number of orders: two stages with a store each."""
    app = sk.Topology(NAME)
    orders = app.stream("orders").group_by("customer").agg(n=F.count("*"), store="orders_of")
    orders.emit("latest").select("customer", "n").group_by("n").count(store="customers_of").to("counts")
    return app


def send(log, *customers):
    with log.producer() as producer:
        for customer in customers:
            producer.send("orders", {"customer": customer, "amount": 1})


def run_once(log, **options):
    sk.run(counts(), log=log, engine="local", trigger="available_now", **options).wait()


def is_taken_over(log, seconds=LAPSE_MS * 4 / 1000):
    """Whether somebody who stands by takes over within some lapses."""
    end = time.monotonic() + seconds
    return stand_by(log, NAME, lambda: time.monotonic() > end, lapse_ms=LAPSE_MS)


def beat_as_run(log):
    """A heartbeat as that of a run under way."""
    state = log.catalog.applications.get(NAME)
    log.heartbeats.beat(application_heartbeat(state.id, state.generation))


def test_a_run_that_beats_no_more_is_taken_over(log):
    """A run that died, without a word, is gone after the lapse, and not before."""
    run_once(log)
    beat_as_run(log)
    begun = time.monotonic()
    assert is_taken_over(log, 60)
    assert time.monotonic() - begun >= LAPSE_MS / 1000


def test_an_idle_run_that_is_alive_stays(log):
    """A run without work beats, and is left alone; once it was stopped, nobody follows it."""
    running = sk.run(counts(), log=log, engine="local")
    assert not is_taken_over(log)
    running.stop()
    assert not is_taken_over(log)


def test_an_end_is_not_taken_for_a_death(log):
    """Between its last beat and the word that it ended, a run of hours is not taken for dead."""
    run_once(log)
    beat_as_run(log)
    state = log.catalog.applications.get(NAME)
    name, found = application_heartbeat(state.id, state.generation), []
    watched = standby._Watched(log, NAME)
    watched._seen_at -= 3_600
    found.append(watched.silent_ms())  # the run beats
    log.heartbeats.forget(name)
    found.append(watched.silent_ms())
    log.heartbeats.end(name)
    found.append(watched.silent_ms())
    assert max(found) < 60_000


def test_commits_are_signs_of_life(log):
    """A run whose heartbeats do not arrive, but whose epochs do, is alive."""
    run_once(log)
    state = log.catalog.applications.get(NAME)
    log.heartbeats.forget(application_heartbeat(state.id, state.generation))
    stopped = threading.Event()

    def go_on():
        while not stopped.wait(LAPSE_MS / 6_000):
            send(log, "ann")
            run_once(log)
            again = log.catalog.applications.get(NAME)
            log.heartbeats.forget(application_heartbeat(again.id, again.generation))

    running = threading.Thread(target=go_on)
    running.start()
    end = time.monotonic() + 3
    try:
        assert not stand_by(log, NAME, lambda: time.monotonic() > end, lapse_ms=2_000)
    finally:
        stopped.set()
        running.join()


def test_an_application_that_never_ran_is_begun(log):
    """Of two that stand by before the first run, somebody has to begin."""
    assert is_taken_over(log, 60)


def test_a_log_that_cannot_tell_is_no_death(log, monkeypatch):
    """While the heartbeats cannot be read, nobody is taken over."""
    run_once(log)
    beat_as_run(log)
    monkeypatch.setattr(type(log.heartbeats), "ages_ms", lambda self, prefix: (_ for _ in ()).throw(sk.StreamKitError("away")))
    assert not is_taken_over(log)


def rows_beside(log, root, store):
    """What the copies in a folder hold of a store, and what its changelog says."""
    snapshot = log.catalog.read(lambda transaction: snapshot_of_store(transaction, NAME, store))
    found: list[tuple[bytes, bytes]] = []
    expected: list[tuple[bytes, bytes]] = []
    for task in range(snapshot.application.tasks):
        share, bounds = snapshot.share(snapshot.groups(task)), [snapshot.share(snapshot.groups(task)).prefixes]
        for rows, state in (
            (found, open_beside(log.storage, snapshot.folder(root, task), share, snapshot.changes)),
            (expected, read_changelogs(log.storage, share, snapshot.changes)),
        ):
            keys, values = state.scan(bounds)
            rows += zip(keys.to_pylist(), values.to_pylist(), strict=True)
            state.close()
    return found, expected


@pytest.mark.parametrize("tasks", [1, 3])
def test_copies_follow_the_changelog(log, tmp_path, tasks):
    """Each round brings the stores of every stage up to the newest epoch; a round without commits does nothing."""
    copies = WarmCopies(log, NAME, str(tmp_path / "elsewhere"))
    assert copies.refresh() == 0
    for customers in (["ann", "bob"], ["ann"], ["cid"] * 3, ["bob", "ann"]):
        send(log, *customers)
        run_once(log, tasks=tasks)
        assert copies.refresh() > 0
        assert copies.refresh() == 0
        for store in ("orders_of", "customers_of"):
            found, expected = rows_beside(log, str(tmp_path / "elsewhere"), store)
            assert found == expected != []


def test_copies_are_used_by_the_run_that_takes_over(log, tmp_path):
    """A run over copies applies nothing that they hold already."""
    send(log, "ann", "bob")
    run_once(log, tasks=1)
    WarmCopies(log, NAME, str(tmp_path / "elsewhere")).refresh()
    snapshot = log.catalog.read(lambda transaction: snapshot_of_store(transaction, NAME, "orders_of"))
    state = open_beside(
        log.storage, snapshot.folder(str(tmp_path / "elsewhere"), 0), snapshot.share(snapshot.groups(0)), snapshot.changes
    )
    assert not state._missing
    state.close()


def test_copies_outlive_forgotten_tokens(log, tmp_path, monkeypatch):
    """A copy of an epoch that the catalog has forgotten goes on by its generation, and is not made again."""
    root, copies = str(tmp_path / "elsewhere"), None
    running = sk.run(counts(), log=log, engine="local", tasks=1)
    monkeypatch.setattr(epochs, "HISTORY_EPOCHS", 3)
    applied = []
    for turn in range(9):
        send(log, f"c{turn}")
        wait_until(lambda sent=turn + 1: log.catalog.applications.get(NAME).metrics.get("records", 0) == sent)  # type: ignore[misc]
        if turn in (2, 8):
            copies = copies or WarmCopies(log, NAME, root)
            applied.append(copies.refresh())
    running.stop()
    found, expected = rows_beside(log, root, "orders_of")
    assert found == expected != []
    assert sum(applied) == sum(running.total("changes").values())  # each once


def test_a_store_that_is_open_is_left_alone(log, tmp_path):
    """Who has a store open keeps it; the copy follows once it is free."""
    root = str(tmp_path / "elsewhere")
    send(log, "ann")
    run_once(log, tasks=1)
    snapshot = log.catalog.read(lambda transaction: snapshot_of_store(transaction, NAME, "orders_of"))
    held = TieredStore(snapshot.folder(root, 0), memory_bytes=1 << 20)
    copies = WarmCopies(log, NAME, root)
    copies.refresh()
    assert held.position() is None
    held.close()
    send(log, "bob")
    run_once(log)
    copies.refresh()
    found, expected = rows_beside(log, root, "orders_of")
    assert found == expected != []


def test_copies_are_not_told_as_a_restore(log, tmp_path, monkeypatch):
    """Whoever waits for a run hears how far its own stores are, and nothing of the copies that another host makes."""
    send(log, "ann", "bob")
    run_once(log)
    told = []
    monkeypatch.setattr(restoring, "TELL_SECONDS", 0.0)
    monkeypatch.setattr(RestoreReport, "_tell", lambda report, *_: told.append(report))
    assert WarmCopies(log, NAME, str(tmp_path / "other")).refresh()
    assert not told
    shutil.rmtree(tmp_path / "log" / "stores")
    send(log, "ann")
    run_once(log)
    assert told
