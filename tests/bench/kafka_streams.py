"""The table join in Kafka Streams, exactly once, beside ours: `TableJoin.java`, compiled and run against a broker of the same run."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.bench import kafka
from tests.bench.maven import compile_java
from tests.bench.rates import EPOCHS, Side, medians, rate_row
from tests.bench.row import Row, absent
from tests.bench.rows import Rows

SOURCE = Path(__file__).with_name("TableJoin.java")
PROGRAMS = ("java", "javac", "mvn")
PAYMENT = np.dtype([("user", ">i4"), ("amount", ">f8"), ("ts", ">i8")])  # as Java's DataInputStream reads them
APPLICATION_HEAP = ("-Xms2g", "-Xmx2g")
LOADER_HEAP = ("-Xmx1g",)
RUN_SECONDS = 900
TUNED = (  # larger batches and fewer commits, as ours has
    "commit.interval.ms=1000",
    "producer.batch.size=262144",
    "producer.compression.type=lz4",
    "consumer.max.poll.records=10000",
    "buffered.records.per.partition=10000",
    "consumer.max.partition.fetch.bytes=4194304",
)


@dataclass(frozen=True)
class Variant:
    """How the application reads and writes, what it sets, and what is wanted of us beside it."""

    title: str
    form: str
    settings: tuple[str, ...]
    wanted: str


VARIANTS = (Variant("JSON", "json", (), ">= 4"), Variant("binary, tuned", "binary", TUNED, "-"))


@dataclass(frozen=True)
class Application:
    """The compiled program; loads its topics, and runs once for each name."""

    broker: kafka.Kafka
    folder: Path

    def load(self, form: str, payments: Path, users: int) -> None:
        """Fill the topics of payments and users."""
        self._run(LOADER_HEAP, "load", form, str(payments), str(users))

    def rate(self, variant: Variant, records: int, name: str) -> float:
        """Records a second without the first fifth, as ours are counted; AssertionError unless every record was joined and committed."""
        state = self.folder / f"{variant.form}-{name}"
        try:
            told = self._run(
                APPLICATION_HEAP, "join", variant.form, str(state), str(records), str(records // EPOCHS), *variant.settings
            )
        finally:
            shutil.rmtree(state, ignore_errors=True)
        rate, rows = (re.findall(rf"^{word} ([\d.]+)$", told, re.MULTILINE)[0] for word in ("rate", "rows"))
        assert int(rows) == records, f"{rows} of {records} records were joined by Kafka Streams"
        return float(rate)

    def _run(self, heap: tuple[str, ...], command: str, *arguments: str) -> str:
        classes = f"{self.folder}:{self.broker.jars}/*"
        line = ["java", *heap, "-cp", classes, SOURCE.stem, command, self.broker.address, *arguments]
        done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=RUN_SECONDS)
        assert done.returncode == 0, f"{SOURCE.name} {command} failed: {done.stderr[-2000:]}"
        return done.stdout


def kafka_streams_rows(rows: Rows, folder: Path, ours: Side) -> Iterator[Row]:
    """Ours beside Kafka Streams' in turn; where that cannot be had, a row says why."""
    work = f"stream-table join, {rows.count:,} records"
    beside = f"{work}, against Kafka Streams exactly once"
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        yield absent(beside, f"{' and '.join(missing)} cannot be found")
        return
    with kafka.broker(folder) as broker:
        if broker is None:
            yield absent(beside, f"Kafka {kafka.VERSION} cannot be had from Maven, or its broker does not start")
            return
        application = compiled(broker, folder / "kafka-streams")
        payments = application.folder / "payments"
        write_payments(rows, payments)
        for variant in VARIANTS:
            application.load(variant.form, payments, rows.keys)
            sides = medians(
                lambda name, form=variant.form: ours(f"{form}-{name}"),  # type: ignore[misc]
                lambda name, variant=variant: application.rate(variant, rows.count, name),  # type: ignore[misc]
                warm_up=0,
            )
            yield rate_row(work, sides, f"Kafka Streams exactly once, {variant.title}", variant.wanted)
        shutil.rmtree(application.folder)


def compiled(broker: kafka.Kafka, folder: Path) -> Application:
    """The application, its classes in a new folder."""
    compile_java([SOURCE], broker.jars, folder)
    return Application(broker, folder)


def write_payments(rows: Rows, file: Path) -> None:
    """The rows in a file of PAYMENT, so that both sides have the same."""
    with file.open("wb") as output:
        for batch in rows.batches():
            payments = np.empty(batch.num_rows, PAYMENT)
            payments["user"] = pc.utf8_slice_codeunits(batch["user"], len("user")).cast(pa.int32()).to_numpy()
            payments["amount"] = batch["amount"].to_numpy()
            payments["ts"] = batch["ts"].cast(pa.int64()).to_numpy()
            output.write(payments.tobytes())
