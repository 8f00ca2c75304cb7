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
from streamkit.engine.runs.options import Options
from streamkit.engine.runs.standby import Standby, WarmCopies, stand_by
from streamkit.errors import ConfigError
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


def renamed():
    """The same with another name for a store, so that the state of each is orphaned by the other."""
    app = sk.Topology(NAME)
    app.stream("orders").group_by("customer").agg(n=F.count("*"), store="renamed").to("others")
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


@pytest.mark.parametrize(
    ("topology", "tasks", "reason"),
    [(renamed, None, "orders_of"), (counts, 999, "tasks=999; expected 1 to 128")],
)
def test_what_could_not_take_over_is_refused_at_once(log, topology, tasks, reason):
    """A topology or options that a start would refuse are no standby, and nothing has changed."""
    Standby(topology(), log, Options(tasks=1)).check()  # it never ran
    run_once(log, tasks=1)
    Standby(counts(), log, Options()).check()
    with pytest.raises(
        ConfigError, match=f"(?s)a start of {NAME} would be refused, so this process could not take it over: .*{reason}"
    ):
        Standby(topology(), log, Options(tasks=tasks)).check()
    assert log.catalog.applications.get(NAME).generation == 1


def test_a_folder_that_cannot_be_made_is_refused_at_once(log, tmp_path):
    """It is refused as by a start, also where the system says that the path does not exist."""
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    for folder in ("/proc/nothing", str(tmp_path / "link")):
        log.settings = replace(log.settings, local_dir=folder)
        with pytest.raises(ConfigError, match=f"the setting local_dir is '{folder}', and .* cannot be made: "):
            Standby(counts(), log, Options()).check()


def test_an_application_that_has_changed_is_told_once(log, caplog):
    """Its process may be the one of an earlier version: it says so when the new one begins, and stands by."""
    run_once(log)
    end, turns = time.monotonic() + 3, []

    def is_stopped():
        turns.append(1)
        if len(turns) in (3, 6):
            app = renamed()
            app.drop_store("orders_of")
            app.drop_store("customers_of")
            sk.run(app, log=log, engine="local", trigger="available_now").wait()
        return len(turns) == 9 or time.monotonic() > end

    assert not Standby(counts(), log, Options()).wait(is_stopped)
    assert log.catalog.applications.get(NAME).generation == 3
    told = [text for text in caplog.messages if "this process could not take it over" in text]
    assert len(told) == 2 and all("renamed" in text for text in told)  # each generation once


def test_a_takeover_that_fails_is_tried_again(log, caplog, monkeypatch):
    """Why it failed is said once; each is waited for longer than the one before, unless a new run begins."""
    run_once(log)
    pauses, standby_of = [], Standby(counts(), log, Options())

    def stood_by(*_, pause_ms, **__):
        pauses.append(pause_ms)
        return True

    monkeypatch.setattr(standby, "stand_by", stood_by)
    for _ in range(6):
        assert standby_of.wait(lambda: False) and standby_of.is_taking_over
        standby_of.failed(sk.StreamKitError("the catalog was locked"))
        assert not standby_of.is_taking_over
    assert pauses == [0, 4_000, 8_000, 16_000, 30_000, 30_000]
    assert len([text for text in caplog.messages if "the catalog was locked" in text]) == 1
    standby_of.fenced()
    assert standby_of.wait(lambda: False)
    assert pauses[-1] == 0


def test_a_pause_ends_with_a_new_run(log):
    """The run that begins within a pause, and dies, is taken over after a lapse."""
    run_once(log)
    beat_as_run(log)
    begun = time.monotonic()
    assert not stand_by(log, NAME, lambda: time.monotonic() > begun + 1, lapse_ms=LAPSE_MS, pause_ms=60_000)
    turns = []

    def is_stopped():
        turns.append(1)
        if len(turns) == 3:
            run_once(log)
            beat_as_run(log)
        return time.monotonic() > begun + 30

    assert stand_by(log, NAME, is_stopped, lapse_ms=LAPSE_MS, pause_ms=60_000)


def test_copies_that_cannot_be_made_cost_only_warmth(log, tmp_path, caplog):
    """A disk that goes is told once, with the setting, and tried again after a growing pause; when it is back there are copies."""
    disk, link = tmp_path / "disk", tmp_path / "link"
    disk.mkdir()
    link.symlink_to(disk)
    log.settings = replace(log.settings, local_dir=str(link))
    send(log, "ann", "bob")
    run_once(log, tasks=1)
    copies = WarmCopies(log, NAME)
    assert copies.refresh() > 0
    send(log, "ann")
    run_once(log)
    shutil.rmtree(disk)
    pauses = []
    for _ in range(8):
        assert copies.refresh() == 0
        pauses.append(copies.pause_seconds)
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    (told,) = [text for text in caplog.messages if "cannot be copied" in text]
    assert f"{link}/" in told and "(local_dir)" in told and "File exists" in told
    disk.mkdir()
    assert copies.refresh() > 0 and copies.pause_seconds == 1


def test_copies_that_cannot_be_made_are_told_once_whatever_is_tried_again(log, tmp_path, caplog):
    """Each wait between takeovers that fail goes on with the copies of the one before."""
    send(log, "ann")
    run_once(log)
    (tmp_path / "file").write_text("no folder")
    log.settings = replace(log.settings, local_dir=str(tmp_path / "file"))
    standby_of, turns = Standby(counts(), log, Options()), list[int]()
    for _ in range(3):
        turns.clear()
        assert not standby_of.wait(lambda: turns.append(1) or len(turns) > 3)  # type: ignore[func-returns-value]
    assert len([text for text in caplog.messages if "cannot be copied" in text]) == 1
