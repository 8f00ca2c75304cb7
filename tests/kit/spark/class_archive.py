"""
The classes that Spark's JVM loads for a run, as an archive: the JVMs of tests map it, and so start with half the work.

    python -m tests.kit.spark.class_archive FILE        make test does it once

A JVM of another Java, or with other jars, takes no notice of the file.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = Path(__file__).parents[3] / "build" / "spark-classes.jsa"
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # starts with half the work, and would run slower after minutes


def java_options() -> str:
    """The options of the JVMs of tests; those that find the archive not their own say nothing of it."""
    return f"{QUICK_JVM} -XX:SharedArchiveFile={FILE} -Xlog:disable" if FILE.exists() else QUICK_JVM


def make(file: Path) -> None:
    """Run a topology in a JVM that writes the archive when it ends."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    part = file.with_suffix(".part")
    file.parent.mkdir(parents=True, exist_ok=True)
    os.environ |= {"JDK_JAVA_OPTIONS": QUICK_JVM, "PYSPARK_PYTHON": sys.executable}
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options '-XX:ArchiveClassesAtExit={part} -Xlog:disable' pyspark-shell"
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    session = builder.getOrCreate()
    run_once(session)
    session.stop()
    jvm = vars(SparkContext._gateway)["proc"]
    jvm.stdin.close()
    jvm.wait()
    if part.exists():
        part.replace(file)


def run_once(session: SparkSession) -> None:
    """Take a few records through reader, kernel and sink."""
    import streamkit as sk
    from streamkit import functions as F

    app = sk.Topology("counts")
    app.stream("numbers").filter("n > 0").group_by("key").agg(total=F.sum("n")).to("totals")
    with tempfile.TemporaryDirectory() as folder, sk.open_log(folder) as log:
        log.create_topic("numbers", "key string, n int", key="key", partitions=2)
        with log.producer() as producer:
            producer.send_batch("numbers", [{"key": str(number), "n": number} for number in range(10)])
        sk.run(app, session, log, trigger="available_now").wait()


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
