"""Flink SQL's side: `Nexmark.java`, exactly once with RocksDB, set as Nexmark itself sets it, into a sink that drops everything."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.bench.maven import compile_java, jars
from tests.bench.nexmark.cost import Run, runs_of
from tests.bench.nexmark.events import write_packed

VERSION = "2.3.0"
NAMES = (
    "clients", "streaming-java", "table-api-java-bridge", "table-planner-loader", "table-runtime", "connector-files", "csv",
    "statebackend-rocksdb",
)  # fmt: skip
ARTIFACTS = (*(f"org.apache.flink:flink-{name}:{VERSION}" for name in NAMES), "org.slf4j:slf4j-simple:1.7.36")
PROGRAMS = ("java", "javac", "mvn")
SOURCES = sorted(Path(__file__).parent.glob("*.java"))
FACTORIES = ("PackedTables", "SideInput")
SERVICES = Path("META-INF/services/org.apache.flink.table.factories.Factory")
OPENED = tuple(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("util", "lang", "nio", "time"))
TEXTS = "NEXMARK_QUERIES"  # a folder with q0.sql and so on: nexmark-flink's, which are not part of StreamKit
RUN_SECONDS = 3_600


def flink_runs(folder: Path, queries: Sequence[str], events: Sequence[int]) -> list[Run] | str:
    """What each query took over each number of events, in this order; else why Flink cannot be had."""
    texts = os.environ.get(TEXTS)
    if not texts or not (Path(texts) / "q0.sql").exists():
        return f"{TEXTS} names no folder with the query texts of nexmark-flink"
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        return f"{' and '.join(missing)} cannot be found"
    if (libraries := jars(folder / "flink-jars", ARTIFACTS)) is None:
        return f"Flink {VERSION} cannot be had from Maven"
    classes, work = folder / "flink-classes", folder / "flink-work"
    shutil.rmtree(work, ignore_errors=True)
    compile_java(SOURCES, libraries, classes)
    (classes / SERVICES).parent.mkdir(parents=True)
    (classes / SERVICES).write_text("\n".join(FACTORIES) + "\n")
    packed = [work / "events" / str(count) for count in events]
    for one, count in zip(packed, events, strict=True):
        write_packed(one, count)
    line = [
        "java", "-Xms6g", "-Xmx6g", "-XX:+UseParallelGC", *OPENED, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp", f"{classes}:{libraries}/*", "Nexmark", ",".join(queries), texts, str(work), *map(str, packed),
    ]  # fmt: skip
    done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=RUN_SECONDS)
    assert done.returncode == 0, f"Nexmark on Flink failed: {done.stderr[-2000:]}"
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(classes)
    return runs_of(done.stdout)
