"""A run on Spark as a command starts it: with a session of its own, unless there is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from streamkit.dsl.topology import Topology
from streamkit.engine.runs.options import Options
from streamkit.log.log import Log
from streamkit.spark.session import get_or_create_session
from streamkit.spark.spark_run import SparkRun, check_shareable, run_on_spark
from streamkit.spark.warm_up import warm_up
from streamkit.stop_signals import StopSignals


@contextmanager
def run_with_session(
    topology: Topology, log: Log, options: Options, stopped: StopSignals, spark_log: Path | None
) -> Iterator[SparkRun | None]:
    """A run in the active session, or in one that ends with the block; None if a stop signal came while Spark started."""
    check_shareable(log)
    with _session(topology.name, stopped, spark_log) as session:
        yield None if stopped.arrived else run_on_spark(topology, session, log, options)


@contextmanager
def warm_session(name: str, stopped: StopSignals, spark_log: Path | None) -> Iterator[None]:
    """A session for a run that is to begin without delay, with its workers started; the run finds it active."""
    with _session(name, stopped, spark_log) as session:
        warm_up(session)
        yield


@contextmanager
def _session(name: str, stopped: StopSignals, spark_log: Path | None) -> Iterator[SparkSession]:
    """The session of the run; a new one ends with it, unless a signal is ending its JVM anyway."""
    is_new = SparkSession.getActiveSession() is None
    session = get_or_create_session(name, spark_log)
    stopped.listen()  # the session has a handler of its own, which raises wherever it hits
    _silence_accumulators(session)
    try:
        yield session
    finally:
        if is_new and not stopped.arrived:
            with suppress(Py4JError, OSError):
                session.stop()


def _silence_accumulators(session: SparkSession) -> None:
    """PySpark prints a traceback when the JVM closes the socket of its accumulators first; StreamKit uses none."""
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None
