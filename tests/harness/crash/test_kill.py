"""Driver, JVM and workers killed at random moments, on Spark and in one process: `make torture` does it fifty times."""

from __future__ import annotations

import time
from random import Random

import pytest

import streamkit as sk
from streamkit.log.opening import open_log
from tests.harness.crash.torture import Place, Report, compare, killed_life, prepared, started, torture
from tests.kit import sales
from tests.kit.sales_outcome import finish
from tests.kit.sampling import TAKES_ALL
from tests.kit.waiting import wait_until

KILLS = 1
CHUNKS = 4
WAIT_SECONDS = 200


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not TAKES_ALL, reason="starts Spark twice, and the other test kills it too: make torture")
def test_kills_at_random_moments(tmp_path):
    """A run that was killed, and started again, leaves what one leaves that never was."""
    seed = int(time.time())
    print("seed", seed)

    assert torture(KILLS, seed, tmp_path, tell=print, engines=("spark",)).kills.total() == KILLS


@pytest.mark.slow
def test_engines_in_turns(tmp_path, spark):
    """Runs that are killed at random, in one process and on Spark, and one on Spark that ends well, leave what a single run leaves."""
    seed = int(time.time())
    print("seed", seed)
    random, place, report = Random(seed), Place(tmp_path), Report(seed)
    expected = prepared(place, CHUNKS, later=2)
    for number, engine in enumerate(("local", "spark")):
        life = started(place, engine, random, 20, "never")
        assert killed_life(life, random, report)
        life.end()
        with open_log(place.log) as log:  # the next life has work, however far this one came
            sales.append_chunk(log, CHUNKS + number)
    with open_log(place.log) as log:
        running = sk.run(sales.load_program(), spark, log, tasks=random.choice((None, 1, 2)), max_records_per_epoch=20)
        try:
            wait_until(lambda: running.records() or not running.is_active, WAIT_SECONDS)
        finally:
            running.stop()
        assert running.records()
    assert started(place, "local", random, 50).process.wait(WAIT_SECONDS) == 0

    compare(finish(place.log), expected, place)
