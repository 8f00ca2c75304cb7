"""What the driver-side process of a query plans; no session of Spark is needed for that."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.epoch.epoch import EpochPlan, ReaderSplit
from streamkit.engine.runs import planner as planners
from streamkit.engine.runs.local import run_next, run_tasks
from streamkit.engine.runs.start import start
from streamkit.errors import FencedError
from streamkit.failpoints import armed
from streamkit.log.opening import open_log
from streamkit.names import store_folder
from streamkit.plan.plain import from_plain, to_plain
from streamkit.spark import epochs as epochs_module
from streamkit.spark.commit import commit_reports
from streamkit.spark.epochs import Epochs
from streamkit.spark.job import Job
from streamkit.spark.task_storage import place_of
from streamkit.state.rocksdb import StoreBusyError
from streamkit.state.stores import MemoryStores
from streamkit.state.tiered_store import TieredStore
from tests.kit.waiting import wait_until

FOR_EVER = (0.0, 1_000.0)
IDLE_SECONDS = epochs_module.IDLE_SECONDS


@pytest.fixture(autouse=True)
def quick_answers(monkeypatch):
    """That there is nothing to take is answered soon."""
    monkeypatch.setattr(epochs_module, "IDLE_SECONDS", 0.2)


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "log") as opened:
        opened.create_topic("ins", "k string, v int", key="k", partitions=1, config={"retention.ms": -1})
        with opened.producer() as producer:
            producer.send_batch("ins", [{"k": f"k{number % 3}", "v": 1} for number in range(20)])
        yield opened


def job_of(log, planner):
    """What the processes of a query are told at its start."""
    return Job(log.location, place_of(log), planner.program, planner.application, planner.anchor, planner.records_max, 1)


def planned(epochs, planner):
    """The plan and the splits of the next epoch, as the source hands them to Spark."""
    before = planner.committed_end()
    texts = epochs.splits(to_plain(before), to_plain(planner.next_end(before)))
    splits = tuple(from_plain(ReaderSplit, json.loads(split)) for split, _ in texts)
    return from_plain(EpochPlan, json.loads(texts[0][1])), splits


def test_a_process_that_comes_later_names_no_plan_file_that_has_gone(log):
    """
    The job has the anchor of the start for ever; where a process of the query moved it on and ended, the next one begins with
    the changelogs, and a task without a store finds all of them.
    """
    app = sk.Topology("counting")
    app.stream("ins").group_by("k").agg(n=F.count("*"), store="counts").emit("every").to("outs")
    program = sk.compile(app, log)
    assert run_next(start(log.catalog, log.storage, program, records_max=1), stores=MemoryStores())
    planner = start(log.catalog, log.storage, program, records_max=1)
    job = job_of(log, planner)
    assert planned(Epochs(job.encode()), planner)[0].changes.plan_files == job.anchor.plan_files

    moved = planner
    while job.anchor.is_kept(log.storage):
        assert run_next(moved, stores=MemoryStores())
        moved = moved.with_near_anchor(0)
    plan, splits = planned(Epochs(job.encode()), planner)
    assert all(map(log.storage.exists, plan.changes.plan_files))
    reports = run_tasks(program, plan, splits, log.storage, MemoryStores())
    assert len(reports) == plan.application.tasks


def counting(log):
    """Counts by key, with every result."""
    app = sk.Topology("counting")
    app.stream("ins").group_by("k").agg(n=F.count("*"), store="counts").emit("every").to("outs")
    return sk.compile(app, log)


@pytest.fixture
def begun(log):
    """
    Begins a generation in epochs of three records, of which those of `local_records` at most are small.

    The start, its job and the driver-side process of its query, which ends with the test.
    """
    opened = []

    def begin(local_records, *, records_max=3, answers=1, **options):
        planner = start(log.catalog, log.storage, counting(log), tasks=1, records_max=records_max)
        job = replace(job_of(log, planner), local_records=local_records, **options)
        opened.append(Epochs(job.encode()))
        opened[-1]._answers = answers  # which it has given
        return job, opened[-1]

    yield begin
    for one in opened:
        one.close()


def send(log, *amounts):
    """A commit for each of these numbers of records."""
    with log.producer() as producer:
        for amount in amounts:
            producer.send_batch("ins", [{"k": f"k{number % 3}", "v": 1} for number in range(amount)])
            producer.flush()


def run_as_spark(job, epochs, start, answered):
    """What Spark does with an answer: the epoch from its own last offset up to there in tasks, which open the stores, and their commit."""
    texts = epochs.splits(start, answered)
    if not texts:
        commit_reports(job.encode(), [])
        return
    plan = from_plain(EpochPlan, json.loads(texts[0][1]))
    splits = tuple(from_plain(ReaderSplit, json.loads(split)) for split, _ in texts)
    with sk.open_log(job.location) as opened:
        reports = run_tasks(job.program, plan, splits, opened.storage)
    commit_reports(job.encode(), [json.dumps(to_plain(report)) for report in reports])


def committed(log):
    """The numbers of records that the committed epochs took."""
    state = log.catalog.applications.get("counting")
    return [epoch.metrics["records"] for epoch in log.catalog.epochs.last(state.id)]


def is_held(log):
    try:
        TieredStore(Path(log.root) / store_folder("counting", 1, 0, 1)).close()
    except StoreBusyError:
        return True
    return False


def are_right(log, records):
    """Whether every record was counted once, in order: the results are those of a count, and the store has the last of each key."""
    found = defaultdict(list)
    for row in log.read("outs").to_pylist():
        found[row["k"]].append(row["n"])
    assert sum(len(counts) for counts in found.values()) == records
    assert all(counts == [*range(1, len(counts) + 1)] for counts in found.values())
    rows = log.store("counting", "counts").to_arrow().to_pylist()
    return {row["k"]: row["n"] for row in rows} == {key: len(counts) for key, counts in found.items()}


def test_small_epochs_are_run_where_they_are_planned(log, begun):
    """
    Spark is told that there is nothing to do for it, and everything is committed; the stores stay open until the process ends.

    The first answer comes behind one epoch: Spark then begins with an empty batch, which takes long.
    """
    _, epochs = begun(3, answers=0)
    initial = epochs.initial_offset()
    assert epochs.latest_offset(initial) == initial
    assert committed(log) == [3]
    assert epochs.latest_offset(initial) == initial
    assert committed(log) == [3] * 6 + [2] and are_right(log, 20) and is_held(log)
    send(log, 2)
    assert epochs.latest_offset(initial) == initial
    assert committed(log)[-1] == 2 and are_right(log, 22)
    epochs.close()
    assert not is_held(log)


def test_small_and_large_epochs_in_turns(log, begun):
    """An epoch of more records is Spark's, from where the small ones ended, with the stores that were open here; then small ones go on."""
    job, epochs = begun(3, records_max=8)
    known, of_spark = epochs.initial_offset(), 0
    for amounts in ((), (1,), (9,), (2, 1), (4,), (30,), (3,), ()):
        send(log, *amounts)
        while (answered := epochs.latest_offset(known)) != known:
            assert not is_held(log)
            run_as_spark(job, epochs, known, answered)
            known, of_spark = answered, of_spark + 1
    assert committed(log) == [8, 8, 4, 1, 8, 1, 3, 4, 8, 8, 8, 6, 3]
    assert of_spark == 9
    assert are_right(log, 70)


@pytest.mark.parametrize("is_bounded", [True, False])
def test_an_answer_in_time(log, begun, monkeypatch, is_bounded):
    """While small epochs go on Spark is answered: by what it knows, or, in a run that would end by that, by what leaves it nothing to run."""
    monkeypatch.setattr(epochs_module, "ANSWER_SECONDS", 0.0)
    ends = {log.topic("ins").id: log.end_offsets("ins")}
    job, epochs = begun(3, until=ends if is_bounded else None)
    start, seen = epochs.initial_offset(), []
    for number in range(1, 8):
        seen.append(epochs.latest_offset(start))
        assert len(committed(log)) == number
        if is_bounded:
            assert epochs.splits(start, seen[-1]) == []
            run_as_spark(job, epochs, start, seen[-1])
            start = seen[-1]
    assert [one["epoch"] for one in seen] == (list(range(1, 8)) if is_bounded else [0] * 7)
    assert epochs.latest_offset(start) == start and are_right(log, 20)


def test_an_interval_is_an_epoch(log, begun):
    """With an interval between epochs each answer is one epoch, and stores are not held until the next if that is long."""
    _, epochs = begun(3, interval_ms=60_000)
    initial = epochs.initial_offset()
    for number in range(1, 4):
        assert epochs.latest_offset(initial) == initial
        assert len(committed(log)) == number and not is_held(log)


def test_a_drain_ends_on_spark(log, begun):
    """The epoch that closes all windows may be a large one however few records it has, so it is Spark's."""
    app = sk.Topology("counting")
    windows = app.stream("ins").group_by("k").windowed_by(sk.tumbling("1 day", grace="0 s"))
    windows.agg(n=F.count("*"), store="counts").emit("final").to("days")
    planner = start(log.catalog, log.storage, sk.compile(app, log), tasks=1)
    job = replace(job_of(log, planner), local_records=100, until=planner.input_ends(), drain=True)
    epochs = Epochs(job.encode())
    initial = epochs.initial_offset()
    answered = epochs.latest_offset(initial)
    assert answered["closing"] and committed(log) == [20] and not is_held(log)
    run_as_spark(job, epochs, initial, answered)
    assert epochs.latest_offset(answered) == answered
    assert sum(log.read("days")["n"].to_pylist()) == 20


def test_an_epoch_that_fails_is_left_to_spark(log, begun, monkeypatch, caplog):
    """So its tasks say what is wrong, and try again; the stores are free for them, and for a while nothing is run here."""
    job, epochs = begun(3)
    initial = epochs.initial_offset()

    def fail():
        raise ValueError("a fault on purpose")

    with armed("kernel.in_operator", fail):
        answered = epochs.latest_offset(initial)
    assert (answered["epoch"], committed(log), is_held(log)) == (1, [], False)
    assert "epoch 1 runs again in Spark's tasks, because it failed in the driver's process: a fault on purpose" in caplog.text
    run_as_spark(job, epochs, initial, answered)
    assert epochs.latest_offset(answered)["epoch"] == 2 and len(committed(log)) == 1
    monkeypatch.setattr(epochs, "_local_since", 0.0)
    assert epochs.latest_offset(answered) == answered
    assert are_right(log, 20)


def test_a_fenced_process_gives_stores_back(log, begun):
    """A newer start ends the process that waits, and what it holds."""
    _, epochs = begun(3)
    initial = epochs.initial_offset()
    epochs.latest_offset(initial)
    assert is_held(log)
    _, newer = begun(3)
    with pytest.raises(FencedError):
        epochs.latest_offset(initial)
    assert not is_held(log)
    send(log, 1)
    newer.latest_offset(initial)
    assert are_right(log, 21)


@pytest.mark.parametrize(("limit", "epoch"), [("BYTES_MAX", 1), ("FRAMES_MAX", 1), ("CHANGES_MAX", 2)])
def test_epochs_of_few_records_that_are_heavy(log, begun, monkeypatch, limit, epoch):
    """An epoch that has much to read, or to apply to stores, is Spark's however few records it takes."""
    monkeypatch.setattr(epochs_module, limit, 0)
    _, epochs = begun(3)
    answered = epochs.latest_offset(epochs.initial_offset())
    assert (answered["epoch"], is_held(log)) == (epoch, False)


def test_without_small_epochs_all_are_for_spark(log, begun):
    """The setting turns it off."""
    _, epochs = begun(0)
    assert epochs.latest_offset(epochs.initial_offset())["epoch"] == 1
    assert committed(log) == []


def test_an_answer_waits_for_something_to_take(log, begun, monkeypatch):
    """Spark asks again at once, so the answer that there is nothing comes late, and one that there is something as soon as that is so."""
    monkeypatch.setattr(epochs_module, "IDLE_SECONDS", IDLE_SECONDS)
    job, epochs = begun(0, records_max=100)
    known = epochs.latest_offset(epochs.initial_offset())
    run_as_spark(job, epochs, epochs.initial_offset(), known)
    asked = time.monotonic()
    assert epochs.latest_offset(known) == known
    assert time.monotonic() - asked > IDLE_SECONDS - 0.1

    monkeypatch.setattr(epochs_module, "IDLE_SECONDS", FOR_EVER[1])
    monkeypatch.setattr(planners, "WAIT_SECONDS", FOR_EVER)
    threading.Timer(0.1, send, [log, 1]).start()
    assert epochs.latest_offset(known)["records"] == 1


def asked_in_a_thread(epochs, start, found):
    """A thread that asks once; it notes the class of what is raised."""

    def ask():
        try:
            found.append(epochs.latest_offset(start))
        except FencedError as error:
            found.append(type(error))

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def test_small_epochs_are_run_while_an_answer_waits(log, begun, monkeypatch):
    """What comes meanwhile is run as it comes, without Spark; it is answered when the time is over."""
    monkeypatch.setattr(epochs_module, "IDLE_SECONDS", 3.0)
    _, epochs = begun(3)
    initial = epochs.initial_offset()
    found: list[object] = []
    thread = asked_in_a_thread(epochs, initial, found)
    wait_until(lambda: sum(committed(log)) == 20)
    send(log, 1)
    wait_until(lambda: sum(committed(log)) == 21)
    was_waiting = thread.is_alive()
    thread.join()

    assert found == [initial] and committed(log)[-1] == 1 and are_right(log, 21)
    assert was_waiting


def test_a_newer_start_ends_a_wait(log, begun, monkeypatch):
    """A process that waits holds stores, so it notices at once that they are another's."""
    monkeypatch.setattr(epochs_module, "IDLE_SECONDS", FOR_EVER[1])
    monkeypatch.setattr(planners, "WAIT_SECONDS", FOR_EVER)
    _, epochs = begun(3)
    found: list[object] = []
    thread = asked_in_a_thread(epochs, epochs.initial_offset(), found)
    wait_until(lambda: sum(committed(log)) == 20)
    begun(3)
    thread.join()

    assert found == [FencedError] and not is_held(log)


@pytest.mark.parametrize("change", [{"until": True}, {"interval_ms": 100}, {"until": True, "drain": True}])
def test_an_answer_does_not_wait_in_a_run_that_ends_or_has_an_interval(log, begun, monkeypatch, change):
    """There Spark ends the run, or waits itself."""
    monkeypatch.setattr(epochs_module, "IDLE_SECONDS", FOR_EVER[1])
    monkeypatch.setattr(planners, "WAIT_SECONDS", FOR_EVER)
    ends = {log.topic("ins").id: log.end_offsets("ins")}
    job, epochs = begun(0, records_max=100, **(change | {"until": ends} if "until" in change else change))
    initial = epochs.initial_offset()
    run_as_spark(job, epochs, initial, known := epochs.latest_offset(initial))

    assert epochs.latest_offset(known) == known
