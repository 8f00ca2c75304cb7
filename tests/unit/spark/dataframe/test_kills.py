"""A query from topic to topic whose processes are all killed at the worst moments: each row is there once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.kill_tree import family, kill, outliving
from tests.kit.sampling import TAKES_ALL
from tests.unit.spark.dataframe.conftest import amounts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not TAKES_ALL, reason="its JVMs take a minute: only under torture"),
]

ROOT = Path(__file__).parents[4]
RECORDS_MAX = 6
LIFE_SECONDS = 200
SUBMIT = "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 --conf spark.log.level=ERROR pyspark-shell"
ENVIRONMENT = os.environ | {"PYSPARK_SUBMIT_ARGS": SUBMIT, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}


def started(log, checkpoint):
    command = [sys.executable, "-m", "tests.unit.spark.dataframe.copying", log.root, str(checkpoint), str(RECORDS_MAX)]
    return subprocess.Popen(command, env=ENVIRONMENT, cwd=ROOT, start_new_session=True)


def last_batch(log):
    """The number of the last batch in the log; -1 without one."""
    state = log.catalog.producers.find("copying")
    found = None if state is None else log.catalog.producers.last_sequence(state.id, log.topic("copy").id)
    return -1 if found is None else found


def last_noted(checkpoint):
    """The number of the last batch that Spark has noted as done; -1 without one."""
    return max((int(file.name) for file in checkpoint.glob("commits/[0-9]*") if file.name.isdecimal()), default=-1)


def last_planned(checkpoint):
    """The number of the last batch that Spark has begun; -1 without one."""
    return max((int(file.name) for file in checkpoint.glob("offsets/[0-9]*") if file.name.isdecimal()), default=-1)


def kill_when(log, checkpoint, holds):
    """Run the query until something holds, and kill all its processes then; whether it still held."""
    process = started(log, checkpoint)
    end = time.monotonic() + LIFE_SECONDS
    while process.poll() is None and not holds() and time.monotonic() < end:
        time.sleep(0.002)
    dying = family(process.pid)
    kill(dying)
    process.wait()
    assert outliving(dying, 30) == []
    return holds()


def test_killed_at_the_worst_moments(log, tmp_path):
    """Killed while tasks write, and between the log's commit and Spark's note: the copy has each row once, and no slab is left over."""
    checkpoint = tmp_path / "checkpoint"

    def is_between():
        return last_batch(log) > last_noted(checkpoint)

    def is_writing():
        """A batch is begun, of which a slab is staged, and not committed."""
        batch = last_planned(checkpoint)
        staged = set(log.storage.list("slabs")) - log.catalog.manifest.referenced()
        return batch > max(last_batch(log), 0) and bool(staged)

    lives = [kill_when(log, checkpoint, holds) for holds in (is_between, is_writing, is_between)]
    process = started(log, checkpoint)
    assert process.wait(LIFE_SECONDS) == 0
    assert sum(lives) >= 2
    assert amounts(log) == [float(number) for number in range(40)]
    log.maintain()
    assert set(log.storage.list("slabs")) == log.catalog.manifest.referenced()
