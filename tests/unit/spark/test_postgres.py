"""A topology on Spark, with the catalog on PostgreSQL: driver-side processes open it by its URL, tasks see files alone."""

from __future__ import annotations

import json
import shutil
import socket
import threading
from dataclasses import replace

import pytest

from streamkit.engine.epoch.anchor import Anchor
from streamkit.engine.epoch.epoch import Application
from streamkit.engine.runs.local import run_available
from streamkit.engine.runs.start import start
from streamkit.errors import ConfigError
from streamkit.launch.run import run
from streamkit.log.opening import open_log
from streamkit.names import fresh_token
from streamkit.spark.job import Job
from streamkit.spark.job_log import job_log
from streamkit.spark.task_storage import place_of, task_storage
from tests.kit import sales
from tests.kit.sales_outcome import check, outcome_of
from tests.kit.sampling import TAKES_ALL

APPLICATION = Application(0, "a", 0, 1, 128, 16, 1, (), {}, ())


def loaded(location):
    """A log there with all sales and nothing done."""
    log = open_log(location)
    sales.create_inputs(log)
    for number in range(sales.CHUNKS):
        sales.append_chunk(log, number)
    return log


def test_the_same_results_as_with_sqlite_though_the_server_was_away(spark, postgres, tmp_path):
    """
    Records, stores and positions are those of a run without Spark on a log with its catalog in a file.

    While the server does not answer for two seconds, in torture for six, the application on Spark waits.
    """
    with loaded(str(tmp_path / "file")) as log:
        run_available(start(log.catalog, log.storage, sales.load_program(), tasks=1), drain=True)
        expected = outcome_of(log)
    with loaded(postgres.url(storage=tmp_path / "shared")) as log:
        running = run(sales.load_program(), spark, log, tasks=2, max_records_per_epoch=sales.EPOCH_RECORDS, drain=True)
        assert json.loads(running.job.encode())["location"] == log.location
        while running.is_active and running.status()["epoch"] < 2:
            assert not running.wait(0.05)
        postgres.crash()
        server = threading.Timer(6 if TAKES_ALL else 2, postgres.start)
        server.start()
        assert running.wait(200)
        server.join()
        check(log)
        assert outcome_of(log) == expected


def test_the_log_is_opened_once_in_a_process(tmp_path, monkeypatch):
    """A driver-side process keeps the log for its job; another start, another catalog file and an error make it open it again."""
    opened = []

    def counted(*places, **options):
        opened.append(places)
        return open_log(*places, **options)

    monkeypatch.setattr("streamkit.spark.job_log.open_log", counted)
    with open_log(tmp_path / "log") as log:
        job = Job(log.location, place_of(log), sales.load_program(), APPLICATION, Anchor(), 1, 1)
    for _ in range(3):
        with job_log(job) as first:
            assert first.topics() == []
    assert len(opened) == 1
    with pytest.raises(ValueError), job_log(job):
        raise ValueError
    with job_log(job) as second:
        assert second is not first and len(opened) == 2
    with job_log(replace(job, token=fresh_token())):
        assert len(opened) == 3
    shutil.rmtree(tmp_path / "log")
    with open_log(tmp_path / "log") as log:
        log.create_topic("t", "n int")
    with job_log(replace(job, token=job.token)) as third:
        assert third.topics() == ["t"]


def test_tasks_know_the_storage(postgres, tmp_path):
    """On a host without the log's folder a task fails with the host's name and the folder's, and makes nothing there."""
    for location in (postgres.url(storage=tmp_path / "shared"), str(tmp_path / "file")):
        with open_log(location) as log:
            place = place_of(log)
        assert task_storage(place).root == place.root
        missing = replace(place, root=str(tmp_path / "elsewhere"))
        with pytest.raises(
            ConfigError, match=rf"the host {socket.gethostname()} does not have the files of the log: .* is missing in"
        ):
            task_storage(missing)
        assert not (tmp_path / "elsewhere").exists()
