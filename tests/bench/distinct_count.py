"""Kafka Streams counts distinct keys, and restores them after a loss: `DistinctCount.java`, compiled and run against a broker of the same run."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.bench import kafka
from tests.bench.kafka_streams import APPLICATION_HEAP, PROGRAMS, RUN_SECONDS
from tests.bench.maven import compile_java

SOURCE = Path(__file__).with_name("DistinctCount.java")


@dataclass(frozen=True)
class KafkaStreamsFigures:
    """Records counted, and keys restored, a second."""

    counted: float
    restored: float


def kafka_streams_figures(folder: Path, keys: int) -> KafkaStreamsFigures | str:
    """What Kafka Streams does, exactly once with two threads; why there is no figure, where it cannot be had."""
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        return f"{' and '.join(missing)} cannot be found"
    with kafka.broker(folder) as broker:
        if broker is None:
            return f"Kafka {kafka.VERSION} cannot be had from Maven, or its broker does not start"
        classes = folder / "distinct-count"
        compile_java([SOURCE], broker.jars, classes)
        line = [
            "java",
            *APPLICATION_HEAP,
            "-cp",
            f"{classes}:{broker.jars}/*",
            SOURCE.stem,
            broker.address,
            str(classes / "state"),
            str(keys),
        ]
        done = subprocess.run(line, check=False, capture_output=True, text=True, timeout=RUN_SECONDS)
        shutil.rmtree(classes)
    assert done.returncode == 0, f"{SOURCE.name} failed: {done.stderr[-2000:]}"
    counted, restored = (
        float(re.findall(rf"^{word} ([\d.]+)$", done.stdout, re.MULTILINE)[0]) for word in ("counted", "restored")
    )
    return KafkaStreamsFigures(counted, restored)
