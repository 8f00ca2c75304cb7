"""
How the JVMs of tests start soon: one compiler less, and an archive of the classes that Spark loads.

`python -m tests.quick_java` makes the archive beside the environment; `make test` does where there is none. A session of two
small queries takes 6.5 s of a core with it instead of 10.4. A JVM that it does not fit, one of another version, goes without.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # starts with half the work, and would run slower after minutes
MAKING_SECONDS = 300
SESSION = """
from pyspark.sql import SparkSession
from tests.conftest import SETTINGS
builder = SparkSession.builder.master("local[2,4]")
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
session.range(100).selectExpr("id % 7 AS k", "upper(string(id)) AS v").groupBy("k").count().collect()
session.createDataFrame([(1, "a")], "n int, v string").collect()
session.readStream.format("rate").load().writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
session.stop()
"""


def java_options() -> str:
    """The options of a test's JVM: with the archive, if there is one, and without a word if it does not fit."""
    return f"{OPTIONS} -XX:SharedArchiveFile={ARCHIVE} -Xshare:auto -Xlog:disable" if ARCHIVE.exists() else OPTIONS


def make_archive() -> None:
    """Write the archive at the end of a short session; where that fails, say so, since tests run without it too."""
    part = ARCHIVE.with_name(f"{ARCHIVE.name}.{os.getpid()}")
    environment = os.environ | {"JDK_JAVA_OPTIONS": f"{OPTIONS} -XX:ArchiveClassesAtExit={part} -Xlog:disable"}
    try:
        subprocess.run([sys.executable, "-c", SESSION], env=environment, check=True, capture_output=True, timeout=MAKING_SECONDS)
        part.replace(ARCHIVE)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"JVMs of tests start without an archive of Spark's classes, because making it failed: {error}", file=sys.stderr)


if __name__ == "__main__":
    make_archive()
