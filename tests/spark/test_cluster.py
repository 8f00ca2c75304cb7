"""A run on a master of its own: what it says while it has no executors, and what it gives once it has some."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import streamkit as sk
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HERE = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
TOPOLOGY = """
import streamkit as sk
app = sk.Topology("spending")
app.stream("orders").group_by("customer").count(store="counts").to("spending")
sk.main(app)
"""


@contextmanager
def started(output, *command, **environment):
    """A process that writes into a file, and ends with the block."""
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env=HERE | environment, cwd=output.parent)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def said(output, pattern):
    """What a pattern finds in an output so far."""
    return re.search(pattern, output.read_text(errors="replace"))


@pytest.mark.slow
def test_a_run_says_that_it_waits_for_executors(tmp_path):
    """Its lines name the master that gave it none; as soon as there is a worker it goes on, whose tasks find the log's files."""
    with sk.open_log(tmp_path / "log") as log:
        log.create_topic("orders", "customer string", key="customer")
        with log.producer() as producer:
            producer.send_batch("orders", [{"customer": name} for name in ("ann", "bob", "ann")])
    (tmp_path / "topology.py").write_text(TOPOLOGY)
    outputs = [tmp_path / name for name in ("master.txt", "run.txt", "worker.txt")]
    for output in outputs:
        output.touch()
    master, run, worker = outputs
    deploy = "org.apache.spark.deploy"
    with started(master, SPARK_CLASS, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"):
        wait_until(lambda: said(master, r"Starting Spark master at (spark://\S+)"))
        url = said(master, r"Starting Spark master at (spark://\S+)")[1]
        submitted = f"--master {url} --conf spark.driver.host=127.0.0.1 --conf spark.executor.memory=512m pyspark-shell"
        command = [sys.executable, str(tmp_path / "topology.py"), "--log", str(tmp_path / "log"), "--once"]
        with started(run, *command, PYSPARK_SUBMIT_ARGS=submitted, PYSPARK_PYTHON=sys.executable) as process:
            wait_until(
                lambda: process.poll() is not None or said(run, r"waits for executors: spark://.* has given the application none")
            )
            assert process.poll() is None, run.read_text()
            options = [
                "--host",
                "127.0.0.1",
                "--cores",
                "1",
                "--memory",
                "1g",
                "--webui-port",
                "0",
                "--work-dir",
                str(tmp_path / "work"),
            ]
            with started(worker, SPARK_CLASS, f"{deploy}.worker.Worker", *options, url):
                assert process.wait(120) == 0, run.read_text()
    with sk.open_log(tmp_path / "log") as log:
        assert sorted((row["customer"], row["count"]) for row in log.read("spending").to_pylist()) == [("ann", 2), ("bob", 1)]
