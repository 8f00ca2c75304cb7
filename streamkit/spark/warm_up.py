"""
What the first epoch would wait for, done beside the start of the query.

Spark asks a Python process for the data sources that are installed, once. It starts its Python workers with the first task, and
each then loads Arrow, RocksDB and the engine. Both take seconds, and nothing of the query is needed for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamkit.spark.registration import register_source

_warmed: set[str | None] = set()  # ids of Spark applications
# What is wrong with Spark, the query will say; of a session that is stopped meanwhile, pyspark looks for parts that are None.
GOING = (PySparkException, Py4JError, OSError, AttributeError)


def warm_up(session: SparkSession) -> None:
    """Begin in the background, once for a session; workers only where they run here, for elsewhere nobody knows which get tasks."""
    context = session.sparkContext
    if context.applicationId in _warmed:
        return
    _warmed.add(context.applicationId)
    _begin(_look_up, session)
    if (context.master or "").startswith("local"):
        _begin(_start_workers, session)


def _begin(work: Callable[[SparkSession], None], session: SparkSession) -> None:
    threading.Thread(target=work, args=(session,), name=f"streamkit-warm-up{work.__name__}", daemon=True).start()


def _look_up(session: SparkSession) -> None:
    with suppress(*GOING):
        register_source(session)


def _start_workers(session: SparkSession) -> None:
    """One small job, planned and exchanged as those of an epoch are."""
    cores = session.sparkContext.defaultParallelism
    with suppress(*GOING):
        rows = session.range(0, cores, 1, cores).selectExpr("cast(id as int) as task")
        rows.repartitionById(cores, rows["task"]).mapInArrow(_load, "task int").collect()


def _load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Load what readers and kernels need."""
    import rocksdict  # noqa: F401

    import streamkit.spark.kernel
    import streamkit.spark.reader

    streamkit.spark.job.freeze_garbage_collector("warm-up")
    for _ in batches:
        pass
    return iter(())
