"""Users' functions with what they capture are a file of each start, and no text; no session of Spark is needed for that."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import streamkit as sk
from streamkit.engine.epoch.anchor import Anchor
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError, CorruptionError, TopologyError
from streamkit.log.opening import open_log
from streamkit.names import checkpoint_folder, fresh_token
from streamkit.spark.captured import read_functions, write_functions
from streamkit.spark.job import Job, decode_job
from streamkit.spark.spark_run import remove_dead_checkpoints
from streamkit.spark.task_storage import StoragePlace, place_of

MODEL_BYTES = 20 << 20


@pytest.fixture
def log(tmp_path):
    with open_log(tmp_path / "log") as opened:
        opened.create_topic("in", "k string, v int", key="k", partitions=1)
        yield opened


def program_of(log, captured):
    app = sk.Topology("scoring")
    app.stream("in").map_values(lambda row: {"x": row["v"] + len(captured)}, "x bigint").to("out")
    return sk.compile(app, log)


def job_of(log, program, planner):
    """The job of a start, as its query has it."""
    checkpoint = checkpoint_folder("scoring", planner.application.generation, fresh_token())
    path = write_functions(program, log.root, checkpoint)
    return Job(log.location, place_of(log), program, planner.application, Anchor(), 1, 1, functions=path)


def test_the_job_stays_short_and_each_process_reads_what_functions_capture(log):
    """A model of 20 MB is written once, and the text of the job names its file; a second start has a file of its own, and the first goes."""
    program = program_of(log, os.urandom(MODEL_BYTES))
    planner = start(log.catalog, log.storage, program)
    job = job_of(log, program, planner)
    file = Path(log.root, job.functions)
    assert len(job.encode()) < 20_000 and MODEL_BYTES < file.stat().st_size < 1.1 * MODEL_BYTES
    assert decode_job(job.encode()) == job
    (function,) = read_functions(log.root, job.functions).values()
    assert function.call({"v": 1}) == {"x": MODEL_BYTES + 1}

    again = start(log.catalog, log.storage, program)
    second = job_of(log, program, again)
    remove_dead_checkpoints(log.root, again.application)
    assert not file.exists() and Path(log.root, second.functions).exists()
    assert file.name == Path(second.functions).name


def test_a_topology_without_functions_writes_nothing(log):
    """There is no file, and nothing is read."""
    app = sk.Topology("scoring")
    app.stream("in").filter("v > 1").to("out")
    program = sk.compile(app, log)
    job = job_of(log, program, start(log.catalog, log.storage, program))
    assert job.functions == "" and not Path(log.root, "checkpoints").exists()


def test_a_file_that_is_gone_or_changed_is_an_error(log, tmp_path):
    """Nothing is unpickled that was not written by the start; a host without the log's folder is named as such."""
    program = program_of(log, b"abc")
    job = job_of(log, program, start(log.catalog, log.storage, program))
    file = Path(log.root, job.functions)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"x")
    with pytest.raises(CorruptionError, match="is not what was written; start the application again"):
        decode_job(job.encode())
    file.unlink()
    with pytest.raises(ConfigError, match=r"functions of the query are not there: .* start it again"):
        decode_job(replace(job, token=fresh_token()).encode())
    elsewhere = replace(job, place=StoragePlace(str(tmp_path / "elsewhere"), mark="catalog.db"))
    with pytest.raises(ConfigError, match="does not have the files of the log"):
        decode_job(elsewhere.encode())


def test_a_function_that_cannot_travel_is_refused(log):
    """It captures a lock: the error names the function before anything is written."""
    lock = threading.Lock()
    app = sk.Topology("scoring")
    app.stream("in").map_values(lambda row: {"x": lock.locked()}, "x boolean").to("out")
    program = sk.compile(app, log)
    with pytest.raises(TopologyError, match="cannot be sent to the processes of the query"):
        write_functions(program, log.root, "checkpoints/scoring/1-x")
    assert not Path(log.root, "checkpoints").exists()
