"""Promises about records that wait in Kafka, as far as they need no broker."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from tests.bench.background_process import background_process
from tests.bench.kafka_backlog import Backlog, NewestCounts, kafka_backlog_rows, processor_seconds


def results(*rows):
    return pa.table(dict(zip(("user", "window_start", "payments"), zip(*rows, strict=True), strict=True)))


def test_absent(tmp_path, monkeypatch):
    """Without Java and Maven there is no broker, and the row says so."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    (row,) = kafka_backlog_rows(tmp_path)
    assert "Java" in row.work
    assert row.ratio is None


def test_newest_counts():
    """Of each user and window the last result counts, whichever poll brought it."""
    counts = NewestCounts()
    counts.take(
        results(("user00001", "10:00", 2), ("user00002", "10:00", 1), ("user00001", "10:00", 5), ("user00001", "10:01", 1))
    )
    assert counts.records == 7
    counts.take(results(("user00001", "10:01", 4), ("user00002", "10:00", 3)))
    assert counts.records == 12


@pytest.mark.parametrize(("first_records", "steady_rate"), [(500_000, 0.5), (2_500_000, None)])
def test_rates(first_records, steady_rate):
    """One rate has the start, the other has neither it nor what the first results account for."""
    found = Backlog(2_500_000, 10.0, 6.0, first_records, 40, {})
    assert (found.rate, found.steady_rate) == (0.25, steady_rate)


def test_processor_seconds():
    """The work of a process and of those that it started, each by its name."""
    source = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True); time.sleep(60)"
    read, write = os.pipe()
    with background_process(["-c", source, "runtime.worker_process"], stdout=write):
        os.read(read, 1)
        found = processor_seconds(os.getpid())
    os.close(read)
    os.close(write)
    assert found["source"] >= 0.25
    assert found["engine"] > 0
