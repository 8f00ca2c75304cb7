"""
State of millions of keys: to count them, to restore them after a loss, to rescale them, and to touch a few of them.

Beside Kafka Streams, exactly once, where that can be had: `DistinctCount.java` counts and restores as many keys.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import streamkit as sk
from streamkit import functions as F
from streamkit.log.opening import open_log
from tests.bench.distinct_count import KafkaStreamsFigures, kafka_streams_figures
from tests.bench.row import Row, absent

KEYS = 5_000_000
MANY_KEYS, FEW_KEYS = 10_000_000, 10_000  # in the stores that small epochs touch
EPOCH_RECORDS = 1_000_000
SMALL_EPOCHS, SMALL_EPOCH_RECORDS = 100, 1_000
BATCH_ROWS = 250_000
ROUNDS = 3
TOPIC = "visits"


def large_state_rows(folder: Path, fraction: float = 1) -> Iterator[Row]:
    """Counts, restores, rescales and small epochs, all in one process."""
    keys = max(1_000, round(KEYS * fraction))
    root = folder / "log-large-state"
    _fill(root, keys)
    seconds = _run(root, tasks=4)
    load = os.getloadavg()[0]
    peer = kafka_streams_figures(folder, keys)
    work = f"count of {keys:,} distinct keys"
    rate = keys / seconds / 1e6
    if isinstance(peer, KafkaStreamsFigures):
        yield Row(
            work, rate, "M records/s", "Kafka Streams exactly once", peer.counted / 1e6, rate * 1e6 / peer.counted, ">= 4", load
        )
    else:
        yield Row(work, rate, "M records/s", "", None, None, ">= 4 x Kafka Streams", load)
    warm = median(_run_of_one(root, tasks=4) for _ in range(ROUNDS))
    lost = []
    for _ in range(ROUNDS):
        shutil.rmtree(root / "stores")
        lost.append(_run_of_one(root, tasks=4) - warm)
    beyond, load = max(0.001, median(lost)), os.getloadavg()[0]
    yield Row(f"restore of {keys:,} keys, to the first result", beyond, "s beyond a warm start", "", None, None, "<= 1", load)
    if isinstance(peer, KafkaStreamsFigures):
        restored = keys / beyond
        yield Row(
            f"restore of {keys:,} keys",
            restored / 1e6,
            "M keys/s",
            "Kafka Streams",
            peer.restored / 1e6,
            restored / peer.restored,
            ">= 3",
            load,
        )
    else:
        yield absent(f"restore of {keys:,} keys, against Kafka Streams", peer)
    rescaled = _run_of_one(root, tasks=8) - warm
    yield Row(
        "rescale from 4 to 8 tasks, to the first result",
        rescaled,
        "s beyond a warm start",
        "",
        None,
        None,
        "<= 1",
        os.getloadavg()[0],
    )
    shutil.rmtree(root)
    yield _small_epochs(folder, max(2 * FEW_KEYS, round(MANY_KEYS * fraction)), FEW_KEYS)


def _small_epochs(folder: Path, many: int, few: int) -> Row:
    """Epochs that touch a thousand keys of many, beside those of few, in turn."""
    roots = {keys: folder / f"log-small-epochs-{keys}" for keys in (many, few)}
    for keys, root in roots.items():
        _fill(root, keys)
        _run(root, tasks=2)
    found: dict[int, list[float]] = {keys: [] for keys in roots}
    for turn in range(ROUNDS + 1):
        for keys, root in roots.items():
            chosen = np.random.default_rng(turn).integers(0, keys, SMALL_EPOCHS * SMALL_EPOCH_RECORDS)
            _append(root, chosen)
            seconds = _run(root, tasks=2, epoch_records=SMALL_EPOCH_RECORDS) / SMALL_EPOCHS
            if turn:  # the first one is for the caches
                found[keys].append(seconds * 1000)
    mine, beside = (median(found[keys]) for keys in (many, few))
    for root in roots.values():
        shutil.rmtree(root)
    work = f"an epoch that touches 1,000 keys of {many:,}"
    return Row(work, mine, "ms", f"of {few:,}", beside, mine / beside, "<= 1.2", os.getloadavg()[0])


def _fill(root: Path, keys: int) -> None:
    """A record for each key, in any order."""
    with open_log(root) as log:
        log.create_topic(TOPIC, "k string", key="k", partitions=4)
    _append(root, np.random.default_rng(0).permutation(keys))


def _append(root: Path, keys: np.ndarray) -> None:
    with open_log(root) as log, log.producer() as producer:
        for first in range(0, len(keys), BATCH_ROWS):
            some = pa.array([f"key{number:09d}" for number in keys[first : first + BATCH_ROWS]])
            producer.send_batch(TOPIC, pa.record_batch({"k": some}))
            producer.flush()


def _run_of_one(root: Path, tasks: int) -> float:
    """How long a run takes that has one record to count."""
    _append(root, np.zeros(1, np.int64))
    return _run(root, tasks)


def _run(root: Path, tasks: int, epoch_records: int = EPOCH_RECORDS) -> float:
    """How long a run of what waits takes, in seconds, from its start to its last commit."""
    app = sk.Topology("count")
    app.stream(TOPIC).group_by("k").agg(n=F.count("*"), store="counts").emit("latest").to("counted")
    with open_log(root) as log:
        log.settings = replace(log.settings, maintenance_interval_ms=0)
        begun = time.perf_counter()
        sk.run(app, log=log, engine="local", trigger="available_now", tasks=tasks, max_records_per_epoch=epoch_records).wait()
        return time.perf_counter() - begun
