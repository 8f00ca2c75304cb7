"""A run on Spark: one generation, one Structured Streaming query."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamkit.cell_output import is_notebook
from streamkit.dsl.topology import Topology
from streamkit.engine.epoch.epoch import Application
from streamkit.engine.runs.application_run import Run
from streamkit.engine.runs.compile import compile_with_settings
from streamkit.engine.runs.moves import moves
from streamkit.engine.runs.options import Options
from streamkit.engine.runs.planner import Planner
from streamkit.engine.runs.start import records_within
from streamkit.errors import ConfigError, EpochFailedError
from streamkit.expressions.analysis.analysis import ExpressionAnalyzer
from streamkit.expressions.analysis.catalyst import Recorder, confirm
from streamkit.log.database.sqlite import IN_MEMORY
from streamkit.log.log import Log
from streamkit.log.opening import NOT_IN_MEMORY, open_existing_log
from streamkit.log.upkeep import Upkeep
from streamkit.names import checkpoint_folder, checkpoint_generation, checkpoints_folder, fresh_token, spark_log_path
from streamkit.plan.program import Program
from streamkit.spark.captured import write_functions
from streamkit.spark.failure import SparkError, failure_of, without_jvm_frames
from streamkit.spark.format import FORMAT, PACKED_DDL
from streamkit.spark.job import Job
from streamkit.spark.kernel import inner_kernel
from streamkit.spark.registration import register_source
from streamkit.spark.session import get_or_create_session, prepare_session
from streamkit.spark.task_placement import TaskPlacement, is_cluster, placement_on
from streamkit.spark.task_storage import place_of
from streamkit.spark.warm_up import warm_up


@final
class SparkRun(Run):
    """A run as one Structured Streaming query."""

    def __init__(self, session: SparkSession, log: Log, program: Program, options: Options) -> None:
        super().__init__(log, program, options, cores=session.sparkContext.defaultParallelism)
        self.session = session
        self._upkeep: Upkeep | None = None
        self._query = self._start()

    def _situation(self) -> str:
        try:
            return "running" if self._query.isActive else "ended"
        except (Py4JError, OSError):
            return "ended with Spark's JVM"

    def _wait_for_query(self, timeout: float | None) -> bool:
        while True:
            try:
                ended = self._ended(timeout)
            except StreamingQueryException as exception:
                self._clean_up()
                error = failure_of(self._cause(exception), self.log.catalog)
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

    def _stop_query(self) -> None:
        self._query.stop()
        self._clean_up()

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle of the query."""
        return self._query

    @property
    def is_active(self) -> bool:
        with suppress(Py4JError, OSError):  # a query does not outlive its JVM
            return bool(self._query.isActive)
        return False

    def waits_for(self) -> str | None:
        """Executors, where a cluster has given the application none: it has no free cores, or no workers."""
        with suppress(Py4JError, OSError):
            context = self.session.sparkContext
            if self.is_active and is_cluster(self.session) and _executors(self.session) == 0:
                return (
                    f"executors: {context.master} has given the application none yet; it needs workers with free cores and memory"
                )
        return None

    def status(self) -> dict[str, Any]:
        """Where the application stands; on a cluster also how many tasks of the last epochs ran on another executor than before."""
        told = {"moves": moves(self.progress())} if is_cluster(self.session) else {}
        return super().status() | told

    def explain(self) -> str:
        """The plan Spark made of the query."""
        execution = self._query._jsq.streamingQuery().lastExecution()
        return str(execution.executedPlan().toString()) if execution is not None else "no epoch has run yet"

    def _ended(self, timeout: float | None) -> bool:
        """Whether the query ended within `timeout` seconds; raises what it ended with."""
        if not self._ended_within(timeout) and self.is_active:
            return False
        try:
            self._query.awaitTermination()
        except (Py4JError, OSError) as error:
            raise EpochFailedError(
                "Spark's JVM has ended; everything that was committed is safe: run again to continue from there"
            ) from error
        return True

    def _start(self) -> StreamingQuery:
        planner = self._begin()
        upkeep = Upkeep(self.log, planner.application.id, planner.application.generation)  # who stands by hears of it at once
        try:
            query = self._query_of(planner)
        except BaseException:
            upkeep.close()
            raise
        self._upkeep = upkeep
        return query

    def _query_of(self, planner: Planner) -> StreamingQuery:
        options = self._options
        for root in {self.log.root, self.log.local_root}:
            remove_dead_checkpoints(root, planner.application)
        placement = placement_on(self.session, planner.program.stages, planner.application.tasks)
        checkpoint = checkpoint_folder(planner.application.name, planner.application.generation, fresh_token())
        self.checkpoint = Path(self.log.local_root) / checkpoint  # only this process and its JVM read it
        self._shared_part = Path(self.log.root) / checkpoint  # with the functions of users, which tasks on other hosts read
        self.job = Job(
            location=self.log.location,
            place=place_of(self.log),
            functions=write_functions(planner.program, self.log.root, checkpoint),
            program=planner.program,
            application=planner.application,
            anchor=planner.anchor,
            records_max=planner.records_max,
            bytes_max=planner.bytes_max,
            splits=self._cores,
            until=planner.input_ends() if options.is_bounded else None,
            drain=options.drain,
            local_records=records_within(planner.program, self.log.settings.local_epoch_records),
            interval_ms=options.interval_ms,
            numbers=placement.numbers if placement is not None else (),
            is_on_cluster=is_cluster(self.session),
        )
        query = start_query(self.session, self.job, self.checkpoint, options, placement)
        self._has_ended = told_when_ended(query)
        if placement is not None:
            placement.follow(self._has_ended)
        return query

    def _clean_up(self) -> None:
        """End what runs beside the query, and remove its checkpoint."""
        if self._upkeep is not None:
            self._upkeep.close()
        for folder in (self.checkpoint, self._shared_part):
            shutil.rmtree(folder, ignore_errors=True)


def run_on_spark(
    topology: Topology | Program,
    session: SparkSession | None,
    log: Log | str | None,
    options: Options,
    spark_log: str | None = None,
) -> SparkRun:
    """
    Start a topology as one Structured Streaming query of a session, the active one or a new one if None; returns its handle.

    Messages of a new session go into the file `spark_log` of the log, if one is given.
    """
    opened = log if isinstance(log, Log) else open_existing_log(log)
    check_shareable(opened)
    chosen = session or _own_session(topology.application if isinstance(topology, Program) else topology.name, opened, spark_log)
    prepare_session(chosen)
    warm_up(chosen)
    program = topology if isinstance(topology, Program) else _compiled(topology, opened, chosen)
    return SparkRun(chosen, opened, program, options)


def _own_session(name: str, log: Log, spark_log: str | None) -> SparkSession:
    """The active session, else a new one, whose messages go into a file also where a notebook would show them as errors."""
    file = spark_log_path(name) if spark_log is None and is_notebook() else spark_log
    return get_or_create_session(name, None if file is None else Path(log.root, file))


def told_when_ended(query: StreamingQuery) -> threading.Event:
    """An event that is set when the query has ended; a thread waits for that, since an interrupt in it would break the connection to the JVM."""
    has_ended = threading.Event()

    def wait() -> None:
        try:
            query.awaitTermination()
        except Exception:  # noqa: BLE001, S110  (whoever sees the event asks the query again)
            pass
        finally:
            has_ended.set()

    threading.Thread(target=wait, name="streamkit-end-of-query", daemon=True).start()
    return has_ended


def _executors(session: SparkSession) -> int:
    """How many executors the application has now; Spark counts the driver among them."""
    return int(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def check_shareable(log: Log) -> None:
    """ConfigError if the processes of a query could not open the log."""
    if log.location == IN_MEMORY:
        raise ConfigError(f"{NOT_IN_MEMORY}: Spark's tasks are other processes")
    if log.has_password:
        raise ConfigError(
            "the password in the URL of the catalog cannot be sent to the processes of the query, whose plans are shown and logged: "
            "leave it out, and put it into ~/.pgpass, or into PGPASSWORD before Spark starts"
        )


def start_query(
    session: SparkSession, job: Job, checkpoint: Path, options: Options, placement: TaskPlacement | None = None
) -> StreamingQuery:
    """The query itself: source, an exchange and kernel per inner stage, an exchange, the sink with the last kernel."""
    encoded = job.encode()
    rows = rows_for_sink(session, job, placement)
    writer = rows.writeStream.format(FORMAT).option("job", encoded).option("checkpointLocation", checkpoint.as_uri())
    if options.is_bounded:
        writer = writer.trigger(availableNow=True)
    elif options.trigger is not None:
        writer = writer.trigger(processingTime=f"{options.interval_ms} milliseconds")
    return writer.queryName(f"{job.application.name}-{checkpoint.name}").start()


def remove_dead_checkpoints(root: str, application: Application) -> None:
    """Remove what older generations left of their checkpoints, which nobody reads again (law 4)."""
    for folder in Path(root, checkpoints_folder(application.name)).glob("*"):
        generation = checkpoint_generation(str(folder.relative_to(root)))
        if generation is not None and generation < application.generation:
            shutil.rmtree(folder, ignore_errors=True)


def rows_for_sink(session: SparkSession, job: Job, placement: TaskPlacement | None = None) -> DataFrame:
    """The query up to its sink: the source, an exchange and kernel per inner stage, and the last exchange; the job has the placement's numbers."""
    register_source(session)
    encoded = job.encode()
    rows = session.readStream.format(FORMAT).option("job", encoded).load()
    for stage in range(1, job.program.stages):
        rows = exchanged(rows, job, stage, placement).mapInArrow(inner_kernel(encoded, stage), PACKED_DDL)
    return exchanged(rows, job, job.program.stages, placement)


def exchanged(rows: DataFrame, job: Job, stage: int, placement: TaskPlacement | None) -> DataFrame:
    """The one place that decides how rows reach their task."""
    return rows.repartitionById(job.application.tasks, rows["task"]) if placement is None else placement.exchanged(rows, stage)


def _compiled(topology: Topology, log: Log, session: SparkSession) -> Program:
    """The program of a topology, once Spark has confirmed its types; one that the catalog knows was confirmed when it first started."""
    recorder = Recorder(ExpressionAnalyzer())
    program = compile_with_settings(topology, log, recorder)
    if _known_hash(log, program.application) != program.fingerprint:
        confirm(recorder.analysed, session)
    return program


def _known_hash(log: Log, application: str) -> str | None:
    """The hash of the program that the application started with last; None if it never did."""
    try:
        return log.catalog.applications.get(application).program_hash
    except ConfigError:
        return None
