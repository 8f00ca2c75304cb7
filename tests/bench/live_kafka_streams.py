"""`live` in Kafka Streams, beside ours: `LiveCount.java`, compiled and run against a broker of the same run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from tests.bench import kafka
from tests.bench.kafka_streams import PROGRAMS
from tests.bench.maven import compile_java

SOURCE = Path(__file__).with_name("LiveCount.java")
EXACTLY_ONCE = "processing.guarantee=exactly_once_v2"
AT_ONCE = ("statestore.cache.max.bytes=0", "producer.linger.ms=0")  # each result is sent as it is made
VARIANTS = {
    "exactly once, as it comes": (EXACTLY_ONCE,),
    "exactly once, without cache and linger": (EXACTLY_ONCE, *AT_ONCE),
    "at least once, without cache and linger": AT_ONCE,
}
MORE_SECONDS = 120  # than are measured, for a start


def kafka_streams_latencies(
    folder: Path, records_per_second: int, keys: int, warm_up: float, measured: float
) -> dict[str, tuple[float, float]] | None:
    """p50 and p99 in ms of each variant; None where Kafka Streams cannot be had."""
    if any(shutil.which(program) is None for program in PROGRAMS):
        return None
    with kafka.broker(folder) as broker:
        if broker is None:
            return None
        classes, found = folder / "kafka-live", {}
        compile_java([SOURCE], broker.jars, classes)
        for number, (name, settings) in enumerate(VARIANTS.items()):
            state = classes / f"live-{number}"
            line = [
                "java", "-Xms1g", "-Xmx1g", "-cp", f"{classes}:{broker.jars}/*", SOURCE.stem, broker.address, str(state),
                str(records_per_second), str(keys), str(round(warm_up)), str(round(measured)), *settings,
            ]  # fmt: skip
            seconds = warm_up + measured + MORE_SECONDS
            done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=seconds)
            assert done.returncode == 0, f"{SOURCE.name} failed: {done.stderr[-2000:]}"
            p50, p99 = (float(re.findall(rf"^{one} ([\d.]+)$", done.stdout, re.MULTILINE)[0]) for one in ("p50", "p99"))
            found[name] = p50, p99
        shutil.rmtree(classes)
    return found
