"""
The benchmark: StreamKit against Spark on the same rows, in turn, in one run; medians, and the machine beside them.

    make bench            everything; writes build/bench.json
    python -m tests.bench windowed latency memory compaction     some of it
    python -m tests.bench operators --fraction 0.02              the operators, on a fiftieth of their records: to see that all work
    NEXMARK_QUERIES=DIR python -m tests.bench nexmark            beside Flink SQL, with the query texts of nexmark-flink in a folder
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))  # for Spark's workers

from pyspark.sql import SparkSession  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from streamkit.log.opening import open_log  # noqa: E402
from streamkit.spark.session import AT_ANY_TIME, get_or_create_session  # noqa: E402
from tests.bench import kafka  # noqa: E402
from tests.bench.compaction import compact_apart, fill  # noqa: E402
from tests.bench.connect import connect_rows  # noqa: E402
from tests.bench.connect_memory import connect_memory_rows  # noqa: E402
from tests.bench.dataframes import dataframe_rows  # noqa: E402
from tests.bench.driver import driver_rows  # noqa: E402
from tests.bench.formats import format_rows  # noqa: E402
from tests.bench.functions import function_rows  # noqa: E402
from tests.bench.idle import idle_rows  # noqa: E402
from tests.bench.kafka_backlog import kafka_backlog_rows  # noqa: E402
from tests.bench.kafka_sink import kafka_sink_rows  # noqa: E402
from tests.bench.kafka_source import kafka_source_rows  # noqa: E402
from tests.bench.large_state import large_state_rows  # noqa: E402
from tests.bench.latency import WARM_UP_EPOCHS, spark_latencies_apart, streamkit_latencies  # noqa: E402
from tests.bench.live import live_rows  # noqa: E402
from tests.bench.live_kafka import live_kafka_rows  # noqa: E402
from tests.bench.log_rows import log_rows  # noqa: E402
from tests.bench.memory import peak_megabytes  # noqa: E402
from tests.bench.nexmark.rows import nexmark_rows  # noqa: E402
from tests.bench.one_key import seconds as one_key_seconds  # noqa: E402
from tests.bench.operators import OPERATORS  # noqa: E402
from tests.bench.point_query import point_query_rows  # noqa: E402
from tests.bench.row import Row  # noqa: E402
from tests.bench.rows import Rows  # noqa: E402
from tests.bench.small_commits import small_commit_rows  # noqa: E402
from tests.bench.start import start_rows  # noqa: E402
from tests.bench.takeover import takeover_rows  # noqa: E402
from tests.bench.windowed import ROCKSDB, parquet_stream, spark_seconds, streamkit_seconds, topic_stream  # noqa: E402

ROUNDS = 3
WARM_UP_ROUNDS = 2  # the JVM still compiles in the first runs of either side, on the cores they need
RECORDS = 20_000_000
EPOCH_RECORDS = 4_000_000
COMPACTED_RECORDS = 5_000_000
LATENCY_EPOCHS = 101 + WARM_UP_EPOCHS
BUILD = Path("build")


def windowed(session: SparkSession, folder: Path) -> Iterator[Row]:
    """Throughput of the windowed aggregation, with event time over 600 s and over 6,000 s."""
    for seconds, warm_up in ((600, WARM_UP_ROUNDS), (6_000, 0)):
        rows = Rows(RECORDS, seconds=seconds)
        rounds = [_windowed_round(session, rows, folder, f"windowed-{seconds}-{turn}") for turn in range(warm_up + ROUNDS)]
        ours, parquet, topic = (list(chain.from_iterable(side)) for side in zip(*rounds[warm_up:], strict=True))
        for name, theirs, wanted in (("Parquet", parquet, ">= 2"), ("a Python source", topic, ">= 3")):
            yield _rates(
                f"windowed, {seconds:,} s of event time", ours, f"Spark behind {name}", theirs, wanted if seconds == 600 else "-"
            )


def _windowed_round(session: SparkSession, rows: Rows, folder: Path, name: str) -> tuple[list[float], list[float], list[float]]:
    return (
        streamkit_seconds(session, rows, folder, EPOCH_RECORDS, name),
        spark_seconds(parquet_stream(session, rows, folder, EPOCH_RECORDS), folder, "parquet"),
        spark_seconds(topic_stream(session, rows, folder, EPOCH_RECORDS), folder, "topic"),
    )


def one_key(session: SparkSession, folder: Path) -> Iterator[Row]:
    """Two joins and an aggregation on one key in one kernel, beside the same in three."""
    rows = Rows(RECORDS // 4)
    ours, apart = [], []
    for turn in range(ROUNDS):
        ours += one_key_seconds(session, rows, folder, EPOCH_RECORDS // 4, f"one-key-{turn}", is_shared=True)
        apart += one_key_seconds(session, rows, folder, EPOCH_RECORDS // 4, f"three-keys-{turn}", is_shared=False)
    mine, theirs = (EPOCH_RECORDS / 4 / median(side) / 1e6 for side in (ours, apart))
    work = "two joins and an aggregation on one key"
    yield Row(work, mine, "M records/s", "re-keyed before each", theirs, mine / theirs, ">= 1.2", os.getloadavg()[0])


def latency(session: SparkSession, folder: Path) -> Iterator[Row]:
    """Median duration of small epochs."""
    rows = Rows(LATENCY_EPOCHS * 1_000, keys=1_000, seconds=600, seed=2)
    ours, theirs = [], []
    for turn in range(ROUNDS):
        ours += streamkit_latencies(session, rows, folder, f"latency-{turn}")
        theirs += spark_latencies_apart(rows, folder)
    mine, spark = median(ours) * 1000, median(theirs) * 1000
    yield Row(
        "epoch latency p50, 1,000 records",
        mine,
        "ms",
        "Spark stateful, file sink",
        spark,
        mine / spark,
        "<= 1.5",
        os.getloadavg()[0],
    )


def live(session: SparkSession, folder: Path) -> Iterator[Row]:
    """From `send` to `poll` while a producer commits every 10 ms, in processes of their own."""
    yield from live_rows(folder)


def live_kafka(session: SparkSession, folder: Path) -> Iterator[Row]:
    """From a record in Kafka to its result in Kafka, 1,000 records a second."""
    yield from live_kafka_rows(folder)


def kafka_backlog(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Records that wait in Kafka, counted into Kafka, beside Kafka Streams."""
    yield from kafka_backlog_rows(folder, fraction)


def kafka_sink(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Processor time of a record on its way out to Kafka."""
    yield from kafka_sink_rows(folder, fraction)


def kafka_source(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Processor time of a record on its way in from Kafka."""
    yield from kafka_source_rows(folder, fraction)


def point_query(session: SparkSession, folder: Path) -> Iterator[Row]:
    """A look-up of one key from another process, while the application runs."""
    yield from point_query_rows(folder)


def memory(session: SparkSession, folder: Path) -> Iterator[Row]:
    """Peak memory at 20 M records against 2 M."""
    small, large = peak_megabytes(2_000_000, folder), peak_megabytes(RECORDS, folder)
    yield Row("peak memory, 20 M records", large, "MiB", "2 M records", small, large / small, "<= 1.2", os.getloadavg()[0])


def log(session: SparkSession, folder: Path) -> Iterator[Row]:
    """Append, read, open and seek of the log alone, beside a Kafka broker where one can be had."""
    with kafka.broker(folder) as broker, open_log(folder / "log") as opened:
        yield from log_rows(opened, broker, folder)
    shutil.rmtree(folder / "log")


def compaction(session: SparkSession, folder: Path) -> Iterator[Row]:
    """Compaction against the durable append of the same records, and its memory over five times as many."""
    rates, appended, peaks, root = [], [], [], folder / "log-compaction"
    for _ in range(ROUNDS):
        appended.append(COMPACTED_RECORDS / fill(root, COMPACTED_RECORDS) / 1e6)
        seconds, peak = compact_apart(root)
        rates.append(COMPACTED_RECORDS / seconds / 1e6)
        peaks.append(peak)
    mine, theirs, load = median(rates), median(appended), os.getloadavg()[0]
    work = "compaction, 5 M records, 100 k keys"
    yield Row(work, mine, "M records/s", "their durable append", theirs, mine / theirs, ">= 1 M/s", load)
    fill(root, 5 * COMPACTED_RECORDS)
    large, small = compact_apart(root)[1], median(peaks)
    yield Row("peak memory, compaction of 25 M", large, "MiB", "of 5 M", small, large / small, "<= 1.2", os.getloadavg()[0])
    shutil.rmtree(root)


def driver(session: SparkSession, folder: Path) -> Iterator[Row]:
    """The test driver, without Spark."""
    yield from driver_rows()


def functions(session: SparkSession, folder: Path) -> Iterator[Row]:
    """Functions in expressions, on one core."""
    yield from function_rows(session, folder)


def start(session: SparkSession, folder: Path) -> Iterator[Row]:
    """What a user waits for before the first result, without Spark."""
    yield from start_rows(folder)


def connect(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Connectors, without Spark."""
    yield from connect_rows(folder, fraction)


def connect_memory(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Peak memory of connectors over ten times the input, without Spark."""
    yield from connect_memory_rows(folder, fraction)


def dataframes(session: SparkSession, folder: Path) -> Iterator[Row]:
    """Topics as DataFrames, beside Parquet files."""
    yield from dataframe_rows(session, folder)


def takeover(session: SparkSession, folder: Path) -> Iterator[Row]:
    """From the death of a run to the first new result of another, in processes of their own."""
    yield from takeover_rows(folder)


def small_commits(session: SparkSession, folder: Path) -> Iterator[Row]:
    """`send` and `flush` of ten rows, beside an fdatasync."""
    yield from small_commit_rows(folder)


def idle(session: SparkSession, folder: Path) -> Iterator[Row]:
    """What an application costs that has nothing to do."""
    yield from idle_rows(folder)


def large_state(session: SparkSession, folder: Path, fraction: float = 1) -> Iterator[Row]:
    """State of millions of keys, beside Kafka Streams."""
    yield from large_state_rows(folder, fraction)


Work = Callable[[SparkSession, Path], Iterator[Row]]
WORKS: dict[str, Work] = {
    "windowed": windowed,
    "one_key": one_key,
    "latency": latency,
    "live": live,
    "live_kafka": live_kafka,
    "kafka_backlog": kafka_backlog,
    "kafka_sink": kafka_sink,
    "kafka_source": kafka_source,
    "takeover": takeover,
    "point_query": point_query,
    "small_commits": small_commits,
    "idle": idle,
    "large_state": large_state,
    "memory": memory,
    "log": log,
    "compaction": compaction,
    "driver": driver,
    "start": start,
    "functions": functions,
    "connect": connect,
    "connect_memory": connect_memory,
    "dataframes": dataframes,
    "formats": format_rows,
    "nexmark": nexmark_rows,
}
SIZED: dict[str, Callable[..., Iterator[Row]]] = {
    **OPERATORS,
    "connect": connect,
    "connect_memory": connect_memory,
    "kafka_backlog": kafka_backlog,
    "kafka_sink": kafka_sink,
    "kafka_source": kafka_source,
    "large_state": large_state,
    "nexmark": nexmark_rows,
}


def main(arguments: list[str]) -> None:
    works = chosen_works(arguments)
    folder = Path(os.environ.get("STREAMKIT_BENCH_FOLDER") or tempfile.mkdtemp(prefix="streamkit-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(width=160)
    file_system = _file_system(folder)
    session = _session()
    rows = []
    try:
        for work in works:
            for row in work(session, folder):
                rows.append(row)
                console.print(
                    f"{row.work}: {row.value:,.2f} {row.unit} against {_number(row.against_value)}, ratio {_number(row.ratio)}"
                )
    finally:
        session.stop()
        if "STREAMKIT_BENCH_FOLDER" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)
    BUILD.mkdir(exist_ok=True)
    (BUILD / "bench.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    _print(console, rows, file_system)


def chosen_works(arguments: list[str]) -> list[Work]:
    """The works of a command line: those named, else all. `operators` stands for theirs; a fraction goes with those of SIZED alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure StreamKit against Spark.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*WORKS, "operators", *OPERATORS)))
    parser.add_argument(
        "--fraction",
        type=float,
        default=1,
        help="of the records of operators, connectors and Nexmark, above 0 to 1; below 1 no measurement",
    )
    options = parser.parse_args(arguments)
    given: list[Iterable[str]] = [OPERATORS if name == "operators" else (name,) for name in options.names] or [WORKS, OPERATORS]
    names = list(dict.fromkeys(chain.from_iterable(given)))
    if unknown := [name for name in names if name not in {**WORKS, **OPERATORS}]:
        parser.error(f"there is no work named {', '.join(unknown)}; expected {', '.join((*WORKS, 'operators', *OPERATORS))}")
    if not 0 < options.fraction <= 1:
        parser.error(f"--fraction {options.fraction}; expected more than 0, and at most 1")
    if options.fraction < 1 and (whole := [name for name in names if name not in SIZED]):
        parser.error(f"found --fraction with {', '.join(whole)}; expected it with {', '.join(SIZED)}")
    return [partial(SIZED[name], fraction=options.fraction) if name in SIZED else WORKS[name] for name in names]


def _file_system(folder: Path) -> str:
    """The kind of file system that holds the folder; one in memory is refused, for what is synced there costs nothing."""
    found = subprocess.run(["df", "--output=fstype", str(folder)], check=True, capture_output=True, text=True).stdout.split()[-1]
    if found in ("tmpfs", "ramfs"):
        sys.exit(f"{folder} is in memory ({found}), where nothing is durable: set STREAMKIT_BENCH_FOLDER to a folder on a disk")
    return found


def _session() -> SparkSession:
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--driver-memory 6g --master local[2,4] pyspark-shell")
    session = get_or_create_session("streamkit-bench")
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", 1_000)
    session.conf.set("spark.sql.shuffle.partitions", 2)
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    session.conf.set("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
    for key, value in AT_ANY_TIME.items():
        session.conf.set(key, value)  # both sides have the faster checkpoint files
    return session


def _rates(work: str, ours: list[float], against: str, theirs: list[float], wanted: str) -> Row:
    mine, spark = EPOCH_RECORDS / median(ours) / 1e6, EPOCH_RECORDS / median(theirs) / 1e6
    return Row(work, mine, "M records/s", against, spark, mine / spark, wanted, os.getloadavg()[0])


def _print(console: Console, rows: list[Row], file_system: str) -> None:
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {file_system}, Python {platform.python_version()}, Linux {platform.release()}"
    table = Table(title=f"StreamKit against Spark, median of {ROUNDS} rounds; {machine}")
    for name in ("work", "StreamKit", "against", "theirs", "ratio", "wanted", "load"):
        table.add_column(name, justify="left" if name in ("work", "against") else "right")
    for row in rows:
        values = (f"{row.value:,.2f} {row.unit}", row.against, _number(row.against_value), _number(row.ratio), row.wanted)
        table.add_row(row.work, *values, f"{row.load_average:.1f}")
    console.print(table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


if __name__ == "__main__":
    main(sys.argv[1:])
