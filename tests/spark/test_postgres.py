"""A topology on Spark, with the catalog on PostgreSQL: driver-side processes open it by its URL, tasks see files alone."""

from __future__ import annotations

import json

from streamkit.engine.local import run_available
from streamkit.engine.start import start
from streamkit.launch.run import run
from streamkit.log.opening import open_log
from tests.crash import sales
from tests.crash.outcome import check, outcome_of


def loaded(location):
    """A log there with all sales and nothing done."""
    log = open_log(location)
    sales.create_inputs(log)
    for number in range(sales.CHUNKS):
        sales.append_chunk(log, number)
    return log


def test_the_same_results_as_with_sqlite(spark, postgres, tmp_path):
    """Records, stores and positions are those of a run without Spark on a log with its catalog in a file."""
    with loaded(str(tmp_path / "file")) as log:
        run_available(start(log.catalog, log.storage, sales.load_program(), tasks=1), drain=True)
        expected = outcome_of(log)
    with loaded(postgres.url(storage=tmp_path / "shared")) as log:
        running = run(sales.load_program(), spark, log, tasks=2, max_records_per_epoch=sales.EPOCH_RECORDS, drain=True)
        assert running.wait(200)
        check(log)
        assert json.loads(running.job.encode())["location"] == log.location
        assert outcome_of(log) == expected
