"""
What the first epoch would wait for, done beside the start of the query: Python workers that have loaded the engine.

Spark starts its Python workers with the first task, and each then loads Arrow, RocksDB and the engine, for seconds in all. A
session that runs here keeps its workers, so they can be started while the driver compiles and Spark plans.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_warmed: set[str] = set()  # ids of Spark applications


def warm_up(session: SparkSession) -> threading.Thread | None:
    """Start workers in the background, once for a session on this machine; elsewhere nobody knows which executors get tasks."""
    context = session.sparkContext
    if not str(context.master).startswith("local") or context.applicationId in _warmed:
        return None
    _warmed.add(context.applicationId)
    thread = threading.Thread(target=_run, args=(session,), name="streamkit-warm-up", daemon=True)
    thread.start()
    return thread


def _run(session: SparkSession) -> None:
    """One small job, planned and exchanged as those of an epoch are."""
    cores = session.sparkContext.defaultParallelism
    with suppress(PySparkException, Py4JError, OSError):  # what is wrong with Spark, the query will say
        rows = session.range(0, cores, 1, cores).selectExpr("cast(id as int) as task")
        rows.repartitionById(cores, rows["task"]).mapInArrow(_load, "task int").collect()


def _load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Load what readers and kernels need."""
    import rocksdict  # noqa: F401

    import streamkit.spark.kernel
    import streamkit.spark.reader

    streamkit.spark.job.freeze_garbage_collector()
    for _ in batches:
        pass
    return iter(())
