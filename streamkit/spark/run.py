"""Running a topology: one generation, one Structured Streaming query, one handle."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamkit.dsl.topology import Topology
from streamkit.engine.commit import check_generation
from streamkit.engine.compile import compile as compile_topology
from streamkit.engine.epoch import Application
from streamkit.engine.start import start
from streamkit.errors import ConfigError, EpochFailedError, FencedError, StreamKitError
from streamkit.html_table import html_table
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.log import Log
from streamkit.log.opening import NOT_IN_MEMORY, open_existing_log
from streamkit.log.statistics import lag_of
from streamkit.log.upkeep import Upkeep
from streamkit.names import checkpoint_folder, checkpoint_generation, checkpoints_folder, fresh_token
from streamkit.plan.duration import duration_ms
from streamkit.plan.program import Program
from streamkit.spark.failure import SparkError, failure_of, without_jvm_frames
from streamkit.spark.job import FORMAT, PACKED_DDL, Job, pickled_functions
from streamkit.spark.kernel import inner_kernel
from streamkit.spark.session import get_or_create_session, prepare_session
from streamkit.spark.source import EpochSource

if TYPE_CHECKING:
    from streamkit.state.view import StoreView

ATTEMPTS_PER_EPOCH = 4
POLL_SECONDS = 0.05
AVAILABLE_NOW = "available_now"
Trigger = str | timedelta | None


@dataclass(frozen=True)
class Options:
    """The options of `run`, which describes them."""

    tasks: int | None = None
    trigger: Trigger = None
    max_records_per_epoch: int | None = None
    drain: bool = False


class Run:
    """A running topology. Made by `run`; usable in notebooks; several handles of one application fence each other."""

    def __init__(self, session: SparkSession, log: Log, program: Program, options: Options) -> None:
        self.session = session
        self.log = log
        self.program = program
        self._options = options
        self._failed_at: list[int] = []
        self._backlog = 0
        self._records_before: int | None = None
        self._upkeep: Upkeep | None = None
        self._query = self._start()

    def __repr__(self) -> str:
        return f"Run({self.program.application!r}, {self._situation()}, generation {self.job.application.generation})"

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {"state": self._situation()}
        with suppress(StreamKitError, Py4JError, OSError):  # the log may be closed by now
            status = self.status()
            time_ms = status.pop("stream_time_ms")
            facts |= {name: value for name, value in status.items() if name not in ("application", "active", "drained")}
            facts |= {"stream time": _utc(time_ms), "records": self.records(), "waited at the start": self._backlog}
        return html_table(f"run of {self.program.application}", facts.items())

    def _situation(self) -> str:
        try:
            return "running" if self.is_active else "ended"
        except (Py4JError, OSError):
            return "ended with Spark's JVM"

    def wait(self, timeout: float | None = None) -> bool:
        """
        Wait until the run ends by itself, at most `timeout` seconds; returns whether it did.

        Raises what ended it: FencedError if a newer run of the same application took over, EvaluationError, CorruptionError …
        An epoch whose attempts did not agree is run again, a few times. An interrupt of the wait stops the run.
        """
        while True:
            try:
                ended = self._ended(timeout)
            except StreamingQueryException as exception:
                self._clean_up()
                error = self._cause(exception)
                if not self._may_run_again(error):
                    raise error from (None if error is exception else SparkError(without_jvm_frames(str(exception))))
                self._query = self._start()
                continue
            except KeyboardInterrupt:
                self.stop()
                raise
            if ended:
                self._clean_up()
            return ended

    def stop(self) -> None:
        """Stop now: the epoch under way is finished or leaves no trace."""
        self._query.stop()
        self._clean_up()

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle of the query."""
        return self._query

    @property
    def is_active(self) -> bool:
        return bool(self._query.isActive)

    def status(self) -> dict[str, Any]:
        """Where the application stands in the catalog, and whether this run is active."""
        state = self._state()
        return {
            "application": state.name,
            "active": self.is_active,
            "generation": state.generation,
            "epoch": state.epoch,
            "stream_time_ms": state.stream_time_ms,
            "tasks": state.tasks,
            "drained": state.drained,
        }

    def progress(self) -> list[Mapping[str, Any]]:
        """The last epochs, oldest first: records, late and dropped ones, what was written, when."""
        state = self._state()
        return [
            {"epoch": epoch.epoch, "timestamp_ms": epoch.timestamp_ms, "stream_time_ms": epoch.stream_time_ms, **epoch.metrics}
            for epoch in self.log.catalog.epochs(state.id)
        ]

    def records(self) -> int:
        """How many input records this run has committed."""
        return self._records_ever() - (self._records_before or 0)

    def lag(self) -> int:
        """How many input records wait now."""
        state = self._state()
        return sum(lag_of(self.log, state, {topic.id: topic for topic in self.log.catalog.topics()}).values())

    def backlog(self) -> int:
        """How many input records waited when the run started."""
        return self._backlog

    def total(self, metric: str) -> dict[str, int]:
        """A metric of the application since its first start, by operator, topic or store: late, null_key, written, changes …"""
        return dict(self._state().metrics.get(metric, {}))

    def store(self, name: str) -> StoreView:
        """A committed, consistent view of a store, as of now."""
        return self.log.store(self.program.application, name)

    def explain(self) -> str:
        """The plan Spark made of the query."""
        execution = self._query._jsq.streamingQuery().lastExecution()
        return str(execution.executedPlan().toString()) if execution is not None else "no epoch has run yet"

    def _ended(self, timeout: float | None) -> bool:
        """Whether the query ended within `timeout` seconds; raises what it ended with."""
        end = None if timeout is None else time.monotonic() + timeout
        try:
            while self._query.isActive:
                if end is not None and time.monotonic() >= end:
                    return False
                time.sleep(POLL_SECONDS)  # not in awaitTermination: an interrupt there breaks the connection to the JVM
            self._query.awaitTermination()
        except (Py4JError, OSError) as error:
            raise EpochFailedError("Spark's JVM has gone; what was committed stands: run again to go on from there") from error
        return True

    def _cause(self, exception: StreamingQueryException) -> Exception:
        """The error that ended the query; FencedError if a newer run has fenced this one, whatever Spark raised."""
        try:
            check_generation(self.log.catalog, self.job.application)
        except FencedError as fenced:
            return fenced
        return failure_of(exception, self.log.catalog)

    def _may_run_again(self, error: Exception) -> bool:
        """Whether to try an epoch again; failures of epochs that were committed since do not count."""
        if not isinstance(error, EpochFailedError):
            return False
        epoch = self._state().epoch
        self._failed_at = [*(failed for failed in self._failed_at if failed == epoch), epoch]
        return len(self._failed_at) < ATTEMPTS_PER_EPOCH

    def _records_ever(self) -> int:
        return int(self._state().metrics.get("records", 0))

    def _state(self) -> ApplicationState:
        return self.log.catalog.application(self.program.application)

    def _start(self) -> StreamingQuery:
        options, settings = self._options, self.log.settings
        records_max = options.max_records_per_epoch
        cores = self.session.sparkContext.defaultParallelism
        planner = start(
            self.log.catalog,
            self.log.storage,
            self.program,
            tasks=options.tasks,
            default_tasks=min(cores, self.program.key_groups),
            records_max=settings.max_records_per_epoch if records_max is None else records_max,
            settings=settings,
        )
        if self._records_before is None:
            self._records_before, self._backlog = self._records_ever(), planner.backlog()
        bounded = options.trigger == AVAILABLE_NOW or options.drain
        self.job = Job(
            location=self.log.location,
            root=self.log.root,
            replication=self.log.catalog.replication(),
            functions=pickled_functions(planner.program),
            program=planner.program,
            application=planner.application,
            anchor=planner.anchor,
            records_max=planner.records_max,
            splits=cores,
            until=planner.input_ends() if bounded else None,
            drain=options.drain,
        )
        remove_dead_checkpoints(self.log.root, planner.application)
        checkpoint = checkpoint_folder(planner.application.name, planner.application.generation, fresh_token())
        self.checkpoint = Path(self.log.root) / checkpoint
        query = start_query(self.session, self.job, self.checkpoint, options.trigger, bounded=bounded)
        self._upkeep = Upkeep(self.log, planner.application.id, planner.application.generation)
        return query

    def _clean_up(self) -> None:
        """End what runs beside the query, and remove its checkpoint."""
        if self._upkeep is not None:
            self._upkeep.close()
        shutil.rmtree(self.checkpoint, ignore_errors=True)


def run(
    topology: Topology | Program,
    spark: SparkSession | None = None,
    log: Log | str | None = None,
    tasks: int | None = None,
    trigger: Trigger = None,
    max_records_per_epoch: int | None = None,
    *,
    drain: bool = False,
) -> Run:
    """
    Start a topology as one Spark Structured Streaming query and return its handle.

    Args:
        topology: what to run, or a program compiled before.
        spark: the session; the active one, or a new one, if None.
        log: an open log or its location; `STREAMKIT_LOG`, else `.streamkit`, if None.
        tasks: kernel tasks per stage; at the first start the cores, later what it was.
        trigger: None for as fast as possible, an interval, or "available_now".
        max_records_per_epoch: admission bound of an epoch; the setting of that name if None.
        drain: process what is there, then close all windows and stop.

    Raises:
        StreamKitError: a subclass whose message says what to fix.
    """
    opened = log if isinstance(log, Log) else open_existing_log(log)
    check_shareable(opened)
    session = spark or get_or_create_session(topology.application if isinstance(topology, Program) else topology.name)
    prepare_session(session)
    program = topology if isinstance(topology, Program) else _compiled(topology, opened)
    return Run(session, opened, program, Options(tasks, _checked(trigger), max_records_per_epoch, drain))


def check_shareable(log: Log) -> None:
    """ConfigError if the processes of a query could not open the log."""
    if log.location == IN_MEMORY:
        raise ConfigError(f"{NOT_IN_MEMORY}: Spark's tasks are other processes")
    if log.has_password:
        raise ConfigError(
            "the password in the URL of the catalog cannot travel to the processes of the query, whose plans are shown and logged: "
            "leave it out, and put it into ~/.pgpass, or into PGPASSWORD before Spark starts"
        )


def start_query(session: SparkSession, job: Job, checkpoint: Path, trigger: Trigger, *, bounded: bool) -> StreamingQuery:
    """The query itself: source, an exchange and kernel per inner stage, an exchange, the sink with the last kernel."""
    encoded = job.encode()
    rows = rows_for_sink(session, job)
    writer = rows.writeStream.format(FORMAT).option("job", encoded).option("checkpointLocation", checkpoint.as_uri())
    if bounded:
        writer = writer.trigger(availableNow=True)
    elif trigger is not None:
        writer = writer.trigger(processingTime=f"{duration_ms(trigger, 'trigger')} milliseconds")
    return writer.queryName(f"{job.application.name}-{checkpoint.name}").start()


def remove_dead_checkpoints(root: str, application: Application) -> None:
    """Remove what older generations left of their checkpoints, which nobody reads again (law 4)."""
    for folder in Path(root, checkpoints_folder(application.name)).glob("*"):
        generation = checkpoint_generation(str(folder.relative_to(root)))
        if generation is not None and generation < application.generation:
            shutil.rmtree(folder, ignore_errors=True)


def rows_for_sink(session: SparkSession, job: Job) -> DataFrame:
    """The query up to its sink: the source, an exchange and kernel per inner stage, and the last exchange."""
    session.dataSource.register(EpochSource)
    encoded = job.encode()
    rows = session.readStream.format(FORMAT).option("job", encoded).load()
    for stage in range(1, job.program.stages):
        rows = exchanged(rows, job.application.tasks).mapInArrow(inner_kernel(encoded, stage), PACKED_DDL)
    return exchanged(rows, job.application.tasks)


def exchanged(rows: DataFrame, tasks: int) -> DataFrame:
    """The one place that decides how rows reach their task."""
    return rows.repartitionById(tasks, rows["task"])


def _compiled(topology: Topology, log: Log) -> Program:
    program = compile_topology(topology, log)
    return replace(program, key_groups=log.settings.key_groups, changelog_partitions=log.settings.changelog_partitions)


def _utc(time_ms: int | None) -> str | None:
    """An event time as text; numpy can write every year."""
    return None if time_ms is None else f"{np.datetime64(time_ms, 'ms')}Z"


def _checked(trigger: Trigger) -> Trigger:
    if isinstance(trigger, str) and trigger != AVAILABLE_NOW:
        try:
            duration_ms(trigger, "trigger")
        except StreamKitError as error:
            raise ConfigError(
                f"trigger={trigger!r}; expected None, an interval such as '10 seconds', or {AVAILABLE_NOW!r}"
            ) from error
    return trigger
