"""What is shown of an error: the message and frames of Python, none of the JVM's, which are in a file."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import streamkit as sk
from streamkit.names import spark_log_path
from streamkit.spark.failure import without_jvm_frames

APP = """
import streamkit as sk
from streamkit import functions as F

app = sk.Topology("ratios")
app.stream("orders").with_columns(ratio=F.col("n") / F.col("m")).to("out")
if __name__ == "__main__":
    sk.main(app)
"""


def test_frames_of_the_jvm_are_left_out():
    """Of what Spark says, messages and Python's frames stay."""
    said = (
        '[STREAM_FAILED] it failed\n  File "app.py", line 3, in look\n    at(3)\nValueError: no\n'
        "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:1)\n"
        "\tat java.base/java.lang.Thread.run(Thread.java:2)\n\t... 12 more\nCaused by: it\n\nJVM stacktrace:\nx.y\n\tat a.b(c:1)\n"
    )

    assert without_jvm_frames(said) == (
        '[STREAM_FAILED] it failed\n  File "app.py", line 3, in look\n    at(3)\nValueError: no\nCaused by: it'
    )


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_says_what_is_ours_and_spark_writes_a_file(tmp_path):
    """A run that fails prints its own few lines and the message last; Spark's lines and the JVM's frames are in the file that is named."""
    root = tmp_path / "log"
    with sk.open_log(root) as log:
        log.create_topic("orders", "user string, n int, m int", key="user", partitions=1)
        with log.producer() as producer:
            producer.send("orders", {"user": "ann", "n": 1, "m": 0})
    (tmp_path / "app.py").write_text(APP)
    command = [sys.executable, "-m", "streamkit.cli", "run", str(tmp_path / "app.py"), "--once", "--log", str(root)]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "80"}, timeout=280, check=False)

    lines = ended.stderr.splitlines()
    file = root / spark_log_path("ratios")
    assert ended.returncode == 1
    assert lines[-2].startswith("EvaluationError: topic orders, partition ") and "divide by zero" in lines[-2]
    assert lines[-1] == f"  at {tmp_path / 'app.py'}:6"
    assert f"what Spark said is in {file}; --verbose shows it" in lines
    assert len(lines) < 10 and "WARN" not in ended.stderr
    assert "\tat org.apache.spark" in file.read_text() and "divide by zero" in file.read_text()
