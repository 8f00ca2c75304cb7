"""`sk.main(topology)`: the command line of a topology file, under python and spark-submit alike."""

from __future__ import annotations

import argparse
import datetime as dt
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from streamkit.dsl.handover import hand_over
from streamkit.dsl.topology import Topology
from streamkit.errors import StreamKitError
from streamkit.log.log import Log
from streamkit.log.opening import open_existing_log
from streamkit.names import spark_log_path
from streamkit.spark.failure import without_jvm_frames
from streamkit.spark.run import AVAILABLE_NOW, Run, check_shareable, run
from streamkit.spark.session import get_or_create_session

POLL_SECONDS = 0.3
LINE_SECONDS = 10.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(topology: Topology, arguments: Sequence[str] | None = None) -> None:
    """
    Run a topology with the options of its command line, until it ends or is interrupted.

    An error of the user's prints its message and exits 1; an interrupt or SIGTERM stops cleanly and exits 130 or 143.
    In a file that `streamkit run` or `streamkit explain` loads it only says which topology is meant, and returns.
    """
    if hand_over(topology):
        return
    options = _parser(topology).parse_args(arguments)
    console = Console(stderr=True)
    spark_log = None
    try:
        with _stop_signals() as stopped, open_existing_log(options.log) as log:
            check_shareable(log)
            spark_log = None if options.verbose else Path(log.root, spark_log_path(topology.name))
            with _session(topology.name, stopped, spark_log) as session:
                if not stopped.arrived:  # while Spark started
                    running = _run(topology, session, log, options)
                    _follow(running, console, stopped, bounded=options.once or options.drain)
                    _summarise(running, console)
    except (StreamKitError, StreamingQueryException) as error:
        _show_error(error, console, spark_log)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    if stopped.arrived:
        sys.exit(128 + stopped.arrived[0])


def _show_error(error: Exception, console: Console, spark_log: Path | None) -> None:
    """Say what ended the run, last and without a frame of the JVM's, and where those are."""
    if spark_log is not None and spark_log.exists():
        console.print(f"what Spark said is in {spark_log}; --verbose shows it", markup=False, highlight=False, soft_wrap=True)
    console.print(f"[bold red]{type(error).__name__}[/]: ", end="")
    console.print(without_jvm_frames(str(error)), markup=False, highlight=False, soft_wrap=True)


def _run(topology: Topology, session: SparkSession, log: Log, options: argparse.Namespace) -> Run:
    return run(
        topology,
        session,
        log,
        tasks=options.tasks,
        trigger=AVAILABLE_NOW if options.once else None,
        max_records_per_epoch=options.max_records_per_epoch,
        drain=options.drain,
    )


def _parser(topology: Topology) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Run the topology {topology.name} as one Spark Structured Streaming query.")
    parser.add_argument("--log", metavar="DIR|URL", help="the log; STREAMKIT_LOG, else .streamkit")
    parser.add_argument("--tasks", type=int, metavar="N", help="kernel tasks; else as many as before, at first the cores")
    parser.add_argument("--max-records-per-epoch", type=int, metavar="N", help="records an epoch takes at most")
    parser.add_argument("--verbose", action="store_true", help="show what Spark says too; else a file has it")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--once", action="store_true", help="process what is available, then stop")
    end.add_argument("--drain", action="store_true", help="process everything available, close all windows, stop")
    return parser


@dataclass
class StopSignals:
    """The stop signals that arrived since it listens, instead of a traceback from wherever they hit."""

    arrived: list[int] = field(default_factory=list)

    def listen(self) -> None:
        for number in STOP_SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.arrived.append(number)


@contextmanager
def _stop_signals() -> Iterator[StopSignals]:
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    stopped = StopSignals()
    stopped.listen()
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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


def _follow(running: Run, console: Console, stopped: StopSignals, *, bounded: bool) -> None:
    """Show progress until the run ends, as a bar on a terminal, else as a line now and then; at a stop signal, end it."""
    if not console.is_terminal:
        _follow_in_lines(running, console, stopped)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=False) as progress:
        shown = progress.add_task(running.program.application, total=running.backlog() if bounded else None, rate="")
        while not _has_ended(running, stopped):
            _show(running, progress, shown)
        _show(running, progress, shown)


def _follow_in_lines(running: Run, console: Console, stopped: StopSignals) -> None:
    before, records = time.monotonic(), 0
    while not _has_ended(running, stopped):
        now = time.monotonic()
        if now - before >= LINE_SECONDS:
            more = running.records() - records
            console.print(_progress_line(running, more / (now - before)), markup=False, highlight=False, soft_wrap=True)
            before, records = now, records + more


def _progress_line(running: Run, per_second: float) -> str:
    """Where a run stands, for a file that is read later."""
    now = dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    status = running.status()
    lag = running.lag() if status["epoch"] else running.backlog()
    return (
        f"{now} {status['application']}: epoch {status['epoch']}, {running.records():,} records, {per_second:,.0f} records/s, "
        f"lag {lag:,}, late {sum(running.total('late').values()):,}"
    )


def _has_ended(running: Run, stopped: StopSignals) -> bool:
    """Whether the run has ended, by itself or because a signal said so."""
    try:
        if not stopped.arrived:
            return running.wait(POLL_SECONDS)
        running.stop()
    except Exception:
        if not stopped.arrived:  # Ctrl-C reaches all processes of a terminal; what they die of is no news
            raise
    return True


def _show(running: Run, progress: Progress, shown: int) -> None:
    records = running.records()
    task = next(task for task in progress.tasks if task.id == shown)
    rate = f"{records / task.elapsed:,.0f} records/s" if task.elapsed and records else "starting"
    progress.update(shown, completed=records, rate=rate)  # type: ignore[arg-type]


def _summarise(running: Run, console: Console) -> None:
    status = running.status()
    dropped = {name: sum(running.total(name).values()) for name in ("late", "null_key")}
    parts = [f"{running.records():,} records", f"epoch {status['epoch']}", f"{status['tasks']} tasks"]
    parts += [f"{count:,} {name.replace('_', ' ')}" for name, count in dropped.items()]
    console.print(f"{status['application']}: {', '.join(parts)}")
