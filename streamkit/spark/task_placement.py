"""On several executors, each task runs where it ran before: the driver says where, and what changes when an executor goes or comes."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from streamkit.errors import SetupError
from streamkit.spark.format import PACKED_DDL
from streamkit.spark.owners import Executor, no_owners, spread
from streamkit.spark.preferred_locations import PreferredLocations, numbers_by_task

SWITCH = "spark.streamkit.placement"
LOOK_SECONDS = 0.5  # between two looks at the executors
PORT = re.compile(r":\d+$")
# What calls of the JVM give where a class, a constructor or a method is not as in the Spark that this was written for.
UNEXPECTED = (Py4JError, PySparkException, SetupError, TypeError, AttributeError, KeyError)

_logger = logging.getLogger(__name__)


class TaskPlacement:
    """The owners of the tasks of a query, and the exchanges by which its kernels run there."""

    def __init__(self, session: SparkSession, kernels: int, tasks: int) -> None:
        self.numbers = numbers_by_task(session, tasks)
        self.owners = no_owners(kernels, tasks)
        self._session = session
        self._executors: tuple[Executor, ...] = ()
        self._locations = [PreferredLocations(session, tasks) for _ in range(kernels)]

    def exchanged(self, rows: DataFrame, kernel: int) -> DataFrame:
        """The rows on their way to a kernel, the first of which has the number 1."""
        return self._locations[kernel - 1].exchanged(rows)

    def follow(self, has_ended: threading.Event) -> None:
        """Place the tasks on the executors that are there, and again whenever one goes or comes, until the event is set."""
        self._look()
        threading.Thread(target=self._keep_looking, args=(has_ended,), name="streamkit-placement", daemon=True).start()

    def _keep_looking(self, has_ended: threading.Event) -> None:
        while not has_ended.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        """Spread the tasks if the executors have changed; those of which Spark does not tell the host yet are left to the next look."""
        with suppress(Py4JError, OSError):  # a wish that does not reach Spark, which may have ended
            context = self._session.sparkContext._jsc.sc()
            ids = set(str(context.getExecutorIds().mkString(" ")).split())
            if ids != {executor.id for executor in self._executors}:
                self._place(tuple(executor for executor in executors_of(self._session) if executor.id in ids))

    def _place(self, executors: tuple[Executor, ...]) -> None:
        owners = spread(self.owners, executors)
        for locations, before, after in zip(self._locations, self.owners, owners, strict=True):
            for task, (former, owner) in enumerate(zip(before, after, strict=True)):
                if owner != former:
                    locations.ask_for(task, owner)
        self.owners, self._executors = owners, executors

    def check(self) -> None:
        """SetupError unless Spark makes one exchange for each kernel of such a query, and as many tasks behind each as there should be."""
        tasks = len(self.numbers)
        rows = self._session.range(0, 1, 1, 2).selectExpr("cast(id as int) AS task", "0 AS edge", "cast('' AS binary) AS payload")
        locations = self._locations[:2]  # further kernels are like the second
        for one in locations:
            rows = one.exchanged(rows.mapInArrow(_as_they_are, PACKED_DDL), is_streaming=False)
            found = rows._jdf.queryExecution().sparkPlan().outputPartitioning()
            if found.getClass().getSimpleName() != "HashPartitioning" or found.numPartitions() != tasks:
                raise SetupError(
                    f"Spark makes {found.toString()} of a union of two hash partitionings by task with {tasks} partitions"
                )
        exchanges = str(rows._jdf.queryExecution().executedPlan().toString()).count("Exchange ")
        if exchanges != len(locations):
            raise SetupError(f"Spark makes {exchanges} exchanges for {len(locations)} kernels")


def placement_on(session: SparkSession, kernels: int, tasks: int) -> TaskPlacement | None:
    """
    The placement of a query of so many kernels and tasks.

    None where there is but one executor, where it is turned off, and where Spark is not as expected, of which a warning tells.
    """
    if not is_cluster(session) or session.conf.get(SWITCH, "true") == "false":
        return None
    try:
        placement = TaskPlacement(session, kernels, tasks)
        placement.check()
    except UNEXPECTED as error:
        reason = str(error).strip().partition("\n")[0]
        _logger.warning("tasks change executors from epoch to epoch, since they cannot be placed with this Spark: %s", reason)
        return None
    return placement


def is_cluster(session: SparkSession) -> bool:
    """Whether the session may have several executors, which `local` and `local[2]` never have."""
    master = session.sparkContext.master or "local"
    return master != "local" and not master.startswith("local[")


def executors_of(session: SparkSession) -> Iterator[Executor]:
    """The executors that Spark tells of, and the driver, which it counts among them."""
    found = session.sparkContext._jsc.sc().statusStore().executorList(True)
    for at in range(found.size()):
        executor = found.apply(at)
        yield Executor(executor.id(), PORT.sub("", executor.hostPort()), max(1, executor.totalCores()))


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
