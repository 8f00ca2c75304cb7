"""A topology on Spark, with the catalog on PostgreSQL: driver-side processes open it by its URL, tasks see files alone."""

from __future__ import annotations

import json

import pytest

from streamkit.log.opening import open_log
from streamkit.spark.run import run
from tests.crash import sales
from tests.crash.outcome import check, outcome_of


@pytest.mark.spark
@pytest.mark.slow
def test_the_same_results_as_with_sqlite(spark, postgres, tmp_path):
    """Records, stores and positions are those of a run without Spark on a log with its catalog in a file."""
    outcomes = []
    for location in (str(tmp_path / "file"), postgres.url(storage=tmp_path / "shared")):
        with open_log(location) as log:
            sales.create_inputs(log)
            for number in range(sales.CHUNKS):
                sales.append_chunk(log, number)
            running = run(sales.load_program(), spark, log, tasks=2, max_records_per_epoch=sales.EPOCH_RECORDS, drain=True)
            assert running.wait(120)
            check(log)
            outcomes.append(outcome_of(log))
            assert json.loads(running.job.encode())["location"] == log.location
    assert outcomes[0] == outcomes[1]
