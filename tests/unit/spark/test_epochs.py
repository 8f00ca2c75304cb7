"""What the driver-side process of a query plans; no session of Spark is needed for that."""

from __future__ import annotations

import json

import pytest

import streamkit as sk
from streamkit import functions as F
from streamkit.engine.epoch.epoch import EpochPlan, ReaderSplit
from streamkit.engine.runs.local import run_next, run_tasks
from streamkit.engine.runs.start import start
from streamkit.log.opening import open_log
from streamkit.plan.plain import from_plain, to_plain
from streamkit.spark.epochs import Epochs
from streamkit.spark.job import Job
from streamkit.spark.task_storage import place_of
from streamkit.state.stores import MemoryStores


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
