"""`sk.run(topology)`: start a topology on Spark, or in this process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, overload

from streamkit.dsl.topology import Topology
from streamkit.engine.runs.options import Options, Trigger
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.plan.on_error import OnError
from streamkit.plan.program import Program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamkit.engine.runs.local_run import LocalRun
    from streamkit.spark.spark_run import SparkRun

PORT_MAX = 65_535
ENGINES = ("spark", "local")


@overload
def run(
    topology: Topology | Program,
    spark: SparkSession | None = None,
    log: Log | str | None = None,
    tasks: int | None = None,
    trigger: Trigger = None,
    max_records_per_epoch: int | None = None,
    *,
    drain: bool = False,
    rebuild: Sequence[str] = (),
    accept_loss: bool = False,
    on_error: OnError | None = None,
    connectors: Literal["here", "external"] = "here",
    engine: Literal["spark"] = "spark",
    ui: int | bool = False,
) -> SparkRun: ...


@overload
def run(
    topology: Topology | Program,
    spark: None = None,
    log: Log | str | None = None,
    tasks: int | None = None,
    trigger: Trigger = None,
    max_records_per_epoch: int | None = None,
    *,
    drain: bool = False,
    rebuild: Sequence[str] = (),
    accept_loss: bool = False,
    on_error: OnError | None = None,
    connectors: Literal["here", "external"] = "here",
    engine: Literal["local"],
    ui: int | bool = False,
) -> LocalRun: ...


def run(
    topology: Topology | Program,
    spark: SparkSession | None = None,
    log: Log | str | None = None,
    tasks: int | None = None,
    trigger: Trigger = None,
    max_records_per_epoch: int | None = None,
    *,
    drain: bool = False,
    rebuild: Sequence[str] = (),
    accept_loss: bool = False,
    on_error: OnError | None = None,
    connectors: Literal["here", "external"] = "here",
    engine: Literal["spark", "local"] = "spark",
    ui: int | bool = False,
) -> SparkRun | LocalRun:
    """
    Start a topology and return its handle.

    Args:
        topology: what to run, or a program compiled before.
        spark: the session; the active one, or a new one, if None.
        log: an open log or its location; `STREAMKIT_LOG`, else `.streamkit`, if None.
        tasks: kernel tasks per stage; at the first start the cores, later what it was.
        trigger: None for as fast as possible, an interval, or "available_now".
        max_records_per_epoch: admission bound of an epoch; the setting of that name if None.
        drain: process what is there, then close all windows and stop.
        rebuild: stores that are filled again from their topics, by the topology as it is now, before it runs (see docs/evolution.md).
        accept_loss: whether these may lack what their topics have lost.
        on_error: what becomes of records that make a step fail which does not say so itself: "fail", "skip" or
            `sk.dead_letter("topic")`; what the topology says if None.
        connectors: where those run that the topology asks for (`stream(sk.kafka(…))`): "here" in processes of their own, or in threads of
            this one, which end with the run; "external" elsewhere, by `streamkit connect run` of what `streamkit connect export` writes. Sources
            of a bounded run come to their end before its query begins, and its sinks take what it made before `wait` returns.
        engine: "spark" for one Structured Streaming query; "local" for threads of this process, without Spark.
        ui: a port of this host at which this process shows the pages and the API of `streamkit serve`, until the run is stopped; 0 takes one that is
            free, True is 8180. `run.ui` is their address. They change nothing.

    Raises:
        StreamKitError: a subclass whose message says what to fix.
    """
    if not isinstance(topology, Topology | Program):
        raise ConfigError(f"found {topology!r} as what to run; expected a Topology, as in: from app import app; sk.run(app)")
    if on_error is not None:
        if isinstance(topology, Program):
            raise ConfigError(
                "on_error= goes with a topology: a program that was compiled before has its own; expected to compile it with one"
            )
        topology = topology.with_on_error(on_error)
    options = Options(tasks, trigger, max_records_per_epoch, drain)
    if engine not in ENGINES:
        raise ConfigError(f"engine={engine!r}; expected one of {', '.join(map(repr, ENGINES))}")
    if engine == "local" and spark is not None:
        raise ConfigError("engine='local' runs without Spark, and a session was given: leave one of the two out")
    if accept_loss and not rebuild:
        raise ConfigError("accept_loss=True says how stores are rebuilt; expected rebuild=['STORE'] beside it")
    if rebuild:
        log = _rebuilt(topology, log, options, rebuild, accept_loss)
    if not isinstance(ui, int) or not 0 <= ui <= PORT_MAX:
        raise ConfigError(f"ui={ui!r}; expected a port, from 0 to {PORT_MAX:,}, or True")
    if not isinstance(topology, Program) and topology.connections:
        running = _run_connected(topology, spark, log, options, connectors, engine)
    else:
        running = _started(topology, spark, log, options, engine)
    if ui is not False:
        _show_pages(running, ui)
    return running


def _show_pages(running: SparkRun | LocalRun, port: int | bool) -> None:
    """Show the pages of the run's log beside it; a run whose pages cannot be shown is stopped."""
    from streamkit.serve.server import PORT, Server

    try:
        running.show(Server(running.log, port=PORT if port is True else port))
    except BaseException:
        running.stop()
        raise


def _rebuilt(
    topology: Topology | Program, log: Log | str | None, options: Options, stores: Sequence[str], accept_loss: bool
) -> Log:
    """The log, on which stores have been filled again."""
    from streamkit.launch.log_of_run import open_log_of
    from streamkit.launch.rebuilding import rebuild_with

    if isinstance(stores, str) or not isinstance(stores, Iterable):
        example = [stores] if isinstance(stores, str) else ["totals"]
        raise ConfigError(f"rebuild={stores!r}; expected a list of names of stores, as in rebuild={example!r}")
    stores = list(stores)
    if wrong := [one for one in stores if not isinstance(one, str)]:
        raise ConfigError(f"rebuild={stores!r}: found {wrong[0]!r}; expected names of stores")
    opened = log if isinstance(log, Log) else open_log_of(topology, log)
    rebuild_with(topology, opened, options, stores, accept_loss)
    return opened


def _run_connected(
    topology: Topology,
    spark: SparkSession | None,
    log: Log | str | None,
    options: Options,
    connectors: Literal["here", "external"],
    engine: Literal["spark", "local"],
) -> SparkRun | LocalRun:
    """Start a topology and the connectors that it asks for."""
    from streamkit.launch.connections import begin_connections
    from streamkit.launch.log_of_run import open_log_of

    opened = log if isinstance(log, Log) else open_log_of(topology, log)
    begun = begin_connections(topology, opened, options, connectors)
    try:
        running = _started(topology, spark, opened, options, engine)
        if begun is not None:
            running.accompany(begun)
    except BaseException:
        if begun is not None:
            begun.stop()
        raise
    return running


def _started(
    topology: Topology | Program,
    spark: SparkSession | None,
    log: Log | str | None,
    options: Options,
    engine: Literal["spark", "local"],
) -> SparkRun | LocalRun:
    if engine == "spark":
        from streamkit.spark.spark_run import run_on_spark  # it loads pyspark

        return run_on_spark(topology, spark, log, options)
    from streamkit.engine.runs.local_run import run_locally

    return run_locally(topology, log, options)
