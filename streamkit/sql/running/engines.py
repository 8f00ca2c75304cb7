"""The engines on which persistent queries run."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, final

from streamkit.dsl.topology import Topology
from streamkit.engine.runs.application_run import Run
from streamkit.engine.runs.local_run import run_locally
from streamkit.engine.runs.options import Options
from streamkit.errors import ConfigError
from streamkit.log.catalog.sql_queries import QueriesSeen
from streamkit.log.log import Log
from streamkit.names import spark_log_path
from streamkit.sql.execution.registered_functions import UserFunctions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_LOG = spark_log_path("sql")  # of the one session of all queries: Spark tells each try of a failing one in hundreds of lines
Engine = Literal["local", "spark"]


def checked_engine(engine: str) -> Engine:
    """The engine of a name; ConfigError if there is none."""
    match engine:
        case "local" | "spark":
            return engine
    raise ConfigError(f"engine={engine!r}; expected 'local' or 'spark'")


@final
class Engines:
    """
    Starts topologies in threads of this process, or as queries of one Spark session, the given one or a new one. For any number of threads.

    `functions` are those in Python that queries may call here, `options` those of each run.
    """

    def __init__(
        self, log: Log, spark: SparkSession | None = None, functions: UserFunctions | None = None, options: Options | None = None
    ) -> None:
        self._options = Options() if options is None else options
        self.functions = {} if functions is None else functions
        self._log = log
        self._spark = spark
        self._starts_spark = threading.Lock()  # one session is made, and what is registered with it is so once

    def start(self, topology: Topology, engine: Engine, seen: QueriesSeen) -> Run:
        """Start a topology; FencedError if what was seen of its queries is so no more."""
        options = replace(self._options, seen=seen)
        if engine == "local":
            return run_locally(topology, self._log, options)
        from streamkit.spark.spark_run import run_on_spark  # it loads pyspark

        with self._starts_spark:
            return run_on_spark(topology, self._spark, self._log, options, SPARK_LOG)
