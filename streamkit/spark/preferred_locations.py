"""
Where Spark's scheduler is asked to run the tasks behind an exchange.

Rows are united with an empty RDD that has as many partitions as the exchange, and preferred locations of ours. Where both sides
are hash partitioned alike, Spark makes one task of a partition of each, and asks both sides where it should run.
None of this is public in Spark: `TaskPlacement` looks first whether it works.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streamkit.spark.format import PACKED_DDL
from streamkit.spark.owners import Executor

DATASET = "Dataset"
HASH_SEED = 42  # of Spark's hash partitioning


class PreferredLocations:
    """The preferred locations of the tasks behind one exchange; they can be changed while a query runs, and hold from its next epoch on."""

    def __init__(self, session: SparkSession, tasks: int) -> None:
        self._session = session
        self._tasks = tasks
        jvm = self._jvm
        self._by_task = jvm.scala.collection.mutable.HashMap()
        for task in range(tasks):
            self.ask_for(task, None)
        any_class = _object_of(jvm.scala.reflect, "ClassTag").AnyRef()
        context = session.sparkContext._jsc.sc()
        self._rdd = jvm.org.apache.spark.rdd.ParallelCollectionRDD(context, self._seq([]), tasks, self._by_task, any_class)

    def ask_for(self, task: int, executor: Executor | None) -> None:
        """
        Ask for an executor, or for none.

        Spark keeps the host of a location only, and reads that as a location again: so the location of the executor is written as a
        host. It is named twice, to outvote the host that has most of the task's rows, which has one vote.
        """
        location = [] if executor is None else [f"hdfs_cache_executor_{executor.host}_{executor.id}"] * 2
        self._by_task.put(task, self._seq(location))

    def exchanged(self, rows: DataFrame, is_streaming: bool = True) -> DataFrame:
        """The rows behind an exchange by `task`, which has the numbers of `numbers_by_task`."""
        session, jvm = self._session, self._jvm
        exchange = rows.repartition(self._tasks, "task")
        columns = session.emptyDataFrame(PACKED_DDL)._jdf.queryExecution().analyzed().output()
        none = jvm.scala.Option.empty()
        partitioning = jvm.org.apache.spark.sql.catalyst.plans.physical.HashPartitioning(
            self._seq([columns.apply(0)]), self._tasks
        )
        relation = jvm.org.apache.spark.sql.execution.LogicalRDD(
            columns, self._rdd, partitioning, self._seq([]), is_streaming, none, session._jsparkSession, none, none
        )
        datasets = _object_of(jvm.org.apache.spark.sql.classic, DATASET)
        return DataFrame(datasets.ofRows(session._jsparkSession, relation), session).union(exchange)

    @property
    def _jvm(self) -> Any:
        return self._session.sparkContext._jvm

    def _seq(self, values: list[Any]) -> Any:
        return self._jvm.PythonUtils.toSeq(values)


def _object_of(package: Any, name: str) -> Any:
    """The one instance of an object of Scala's."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def numbers_by_task(session: SparkSession, tasks: int) -> tuple[int, ...]:
    """For each task the least number that Spark's hash partitioning leads there."""
    # One of its objects: the static method of that name is only found where the JVM happens to list it before the object's own.
    hashes: Any = session.sparkContext._jvm.org.apache.spark.unsafe.hash.Murmur3_x86_32(HASH_SEED)  # type: ignore[union-attr]
    found: dict[int, int] = {}
    for number in range(64 * tasks):
        found.setdefault(hashes.hashInt(number) % tasks, number)
        if len(found) == tasks:
            break
    return tuple(found[task] for task in range(tasks))
