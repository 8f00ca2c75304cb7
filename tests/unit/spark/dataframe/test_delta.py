"""A topic in a Delta table by Spark alone, killed between Delta's commit and Spark's note of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.kill_tree import family, kill, outliving
from tests.kit.sampling import TAKES_ALL
from tests.kit.servers.kafka import jars_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not TAKES_ALL, reason="its JVMs take a minute: only under torture"),
]

ROOT = Path(__file__).parents[4]
RECORDS_MAX = 8
LIVES_MAX = 6
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>delta</artifactId><version>1</version>
<dependencies><dependency>
<groupId>io.delta</groupId><artifactId>delta-spark_4.2_2.13</artifactId><version>4.4.0</version>
</dependency></dependencies></project>
"""
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.python.authenticate.socketTimeout": "120s",
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Where a process finds Delta: its jars from Maven, since Spark's own resolution stumbles over half-filled caches."""
    jars = jars_of(tmp_path_factory.mktemp("delta"), POM)
    if jars is None:
        pytest.skip("Delta's jars cannot be had: Maven is missing, or its repository cannot be reached")
    own = ",".join(str(jar) for jar in sorted(jars.glob("delta-*.jar")))
    settings = " ".join(f"--conf {name}={value}" for name, value in SETTINGS.items())
    submit = f"--master local[2] --jars {own} {settings} pyspark-shell"
    return os.environ | {"PYSPARK_SUBMIT_ARGS": submit, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}


def numbers(folder, suffix=""):
    """The numbers that files of a folder have for a name."""
    return {
        int(file.name.removesuffix(suffix))
        for file in folder.glob(f"[0-9]*{suffix}")
        if file.name.removesuffix(suffix).isdecimal()
    }


def is_between(table):
    """Whether Delta has a batch that Spark has not noted yet."""
    return len(numbers(table / "_delta_log", ".json")) > len(numbers(table / "_checkpoint" / "commits"))


def is_killed_between(log, table, environment):
    """Run the query until Delta has a batch of which Spark has no note, and kill it there; whether that came out."""
    known = numbers(table / "_delta_log", ".json")
    command = [
        sys.executable,
        "-m",
        "topologies.connectors.spark_delta",
        "orders",
        table,
        "--log",
        log.root,
        "--records-max",
        str(RECORDS_MAX),
    ]
    process = subprocess.Popen([*map(str, command)], env=environment, cwd=ROOT, start_new_session=True)
    while process.poll() is None and not (numbers(table / "_delta_log", ".json") > known and is_between(table)):
        time.sleep(0.002)
    dying = family(process.pid)
    kill(dying)
    process.wait()
    assert outliving(dying, 30) == []
    return is_between(table)


def test_exactly_once_into_delta(log, tmp_path, environment):
    """
    Twice killed between Delta's commit of a batch and Spark's note of it, the table equals the topic, row by row.

    And a batch that is appended twice under one application id and version is there once.
    """
    table = tmp_path / "table"
    lives = [is_killed_between(log, table, environment) for _ in range(2)]
    while sum(lives) < 2 and len(lives) < LIVES_MAX:
        lives.append(is_killed_between(log, table, environment))
    assert sum(lives) >= 2
    command = [sys.executable, "-m", "tests.unit.spark.dataframe.delta_table", log.root, str(table), str(RECORDS_MAX)]
    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.stdout.split()[-2:] == ["equal", "40"], ended.stderr
