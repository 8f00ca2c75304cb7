"""The test driver: the time to be ready, and single-record steps of a windowed count. `python -m tests.bench.driver` measures it alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

from tests.bench.row import Row

ROUNDS = 3
STEPS = 1_000
KEYS = 50
STEP_MS = 700  # of event time, so that windows of ten seconds close on the way


def driver_rows() -> Iterator[Row]:
    """Each round in a process of its own, so that imports count."""
    rounds = [_round_apart() for _ in range(ROUNDS)]
    ready, made, steps = (median(values) for values in zip(*rounds, strict=True))
    load = os.getloadavg()[0]
    yield Row("test driver ready, with imports", ready, "s", "without", made, None, "< 1", load)
    yield Row("1,000 steps of a windowed count", steps, "s", "-", None, None, "< 2", load)


def _round_apart() -> list[float]:
    output = subprocess.run([sys.executable, "-m", "tests.bench.driver"], stdout=subprocess.PIPE, check=True, text=True).stdout
    seconds: list[float] = json.loads(output)
    return seconds


def measure() -> tuple[float, float, float]:
    """Seconds until a driver is ready, of these without imports, and of the steps."""
    begun = time.perf_counter()
    import streamkit as sk
    from streamkit import functions as F
    from streamkit.testing.driver import TopologyTestDriver

    imported = time.perf_counter()
    app = sk.Topology("counts")
    orders = app.stream("orders", schema="customer string, amount int", key="customer")
    counts = orders.group_by("customer").windowed_by(sk.tumbling("10 s", grace="1 s")).agg(n=F.count("*"), store="counts")
    counts.emit("latest").to("counted")
    with TopologyTestDriver(app) as driver:
        ready = time.perf_counter()
        for number in range(STEPS):
            driver.pipe("orders", {"customer": f"c{number % KEYS}", "amount": number}, timestamp=number * STEP_MS)
        done = time.perf_counter()
        assert driver.metrics()["records"] == STEPS
    return ready - begun, ready - imported, done - ready


if __name__ == "__main__":
    print(json.dumps(measure()))
