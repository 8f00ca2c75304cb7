"""`sk.main(topology)`: the command line of a topology file, under python and spark-submit alike."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from streamkit.dsl.handover import hand_over
from streamkit.dsl.topology import Topology
from streamkit.errors import ConfigError, FencedError, StreamKitError, TopologyError
from streamkit.names import spark_log_path
from streamkit.plan.location import TextLocation

if TYPE_CHECKING:
    from rich.console import Console

    from streamkit.engine.runs.application_run import Run
    from streamkit.engine.runs.options import Options
    from streamkit.engine.runs.standby import Standby
    from streamkit.launch.arguments import Arguments
    from streamkit.log.log import Log
    from streamkit.stop_signals import StopSignals

LINE_SECONDS = 5.0  # between two lines that say how far a rebuild is
BRIDGE_SECONDS = 5.0  # for which Spark waits at most for first results beside it


def main(topology: Topology, arguments: Sequence[str] | None = None) -> None:
    """
    Run a topology with the options of its command line, until it ends or is interrupted.

    On Spark, or with `--local` in this process. A StreamKitError prints its message and exits with 1. An interrupt or SIGTERM stops
    cleanly and exits with 130 or 143; a second one does not wait for a local epoch. In a file that `streamkit run` or
    `streamkit explain` loads it only hands the topology over, and returns.
    """
    if hand_over(topology):
        return
    from streamkit.launch.arguments import parse_arguments  # a file that is only loaded pays for none

    run_command(topology, parse_arguments(topology, arguments))


def run_command(topology: Topology, arguments: Arguments) -> None:
    """Run a topology as a command line asks, until it ends or is interrupted; exits as `main` says."""
    if code := _exit_code(topology, arguments):
        sys.exit(code)


def _exit_code(topology: Topology, arguments: Arguments) -> int:
    from rich.console import Console

    from streamkit.launch.log_of_run import open_log_of
    from streamkit.launch.progress import follow, summarise
    from streamkit.stop_signals import stop_signals

    console = Console(stderr=True)
    spark_log: Path | None = None
    try:
        topology = topology if arguments.name is None else _named(topology, arguments.name)
        with stop_signals() as stopped, open_log_of(topology, arguments.log) as log, ExitStack() as shown:
            if not (arguments.is_verbose or arguments.is_local):
                spark_log = Path(log.root, spark_log_path(topology.name))
            is_next = not arguments.rebuild or _rebuild(topology, arguments, log, stopped, console)
            standby = _standby(topology, arguments, log)
            if is_next and arguments.ui_port is not None:
                shown.enter_context(_pages(log, arguments.ui_port, console))
            while is_next:
                running: Run | None = None
                try:
                    with (
                        _turn(topology, arguments, standby, log, stopped, spark_log, console),
                        _started(topology, arguments, log, stopped, spark_log) as running,
                    ):
                        if running is not None:
                            follow(running, console, stopped, is_bounded=arguments.options.is_bounded)
                            summarise(running, console, is_bounded=arguments.options.is_bounded)
                    is_next = False
                except FencedError as error:
                    if standby is None:
                        raise
                    standby.fenced()  # by the run for which it stands by next
                    console.print(str(error), markup=False, highlight=False, soft_wrap=True)
                except StreamKitError as error:
                    if standby is None or running is not None or not standby.is_taking_over:
                        raise
                    standby.failed(error)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Exception as error:
        # The message of these says all; of other errors a developer wants the traceback. Spark's own class is in a module of Spark.
        if not (isinstance(error, StreamKitError) or type(error).__name__ == "StreamingQueryException"):
            raise
        _show_error(error, console, spark_log, topology)
        return 1
    return 128 + stopped.arrived[0] if stopped.arrived else 0


@contextmanager
def _pages(log: Log, port: int, console: Console) -> Iterator[None]:
    """The pages of the log beside whatever runs."""
    from streamkit.serve.server import Server

    with Server(log, port=port) as server:
        console.print(f"pages at {server.address}", markup=False, highlight=False, soft_wrap=True)
        yield


def _named(topology: Topology, name: str) -> Topology:
    """The topology under the name of `--as`; ConfigError without a line, which is none of the user's, if it cannot have it."""
    try:
        return topology.with_name(name)
    except (TopologyError, ConfigError) as error:
        reason = str(error).removesuffix(f"\n  at {error.at}")
        raise ConfigError(f"--as {name}: {reason}") from None


def _rebuild(topology: Topology, arguments: Arguments, log: Log, stopped: StopSignals, console: Console) -> bool:
    """Fill stores again from their topics, and show how far that is; returns whether it came to its end before a signal."""
    from streamkit.engine.runs.rebuild import RebuildStoppedError
    from streamkit.launch.rebuilding import rebuild_with

    told = -math.inf

    def tell(done: int, total: int) -> None:
        nonlocal told
        if done == total or time.monotonic() - told >= LINE_SECONDS:
            told = time.monotonic()
            line = f"rebuilding {', '.join(arguments.rebuild)}: {done:,} of {total:,} records"
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    stores, is_stopped = arguments.rebuild, lambda: bool(stopped.arrived)
    try:
        rebuild_with(topology, log, arguments.options, stores, arguments.accepts_loss, is_stopped, tell)
    except RebuildStoppedError as error:
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        return False
    return True


def _follow(topology: Topology, arguments: Arguments, leader: str, log: Log, stopped: StopSignals, console: Console) -> bool:
    """Run beside another application, and show how far that is; returns whether it was taken over before a signal."""
    from streamkit.engine.runs.compile import compile_with_settings
    from streamkit.engine.runs.following import Succession, follow
    from streamkit.engine.runs.local_epochs import available_cores

    told, was_level = -math.inf, False

    def tell() -> None:
        nonlocal told, was_level
        if time.monotonic() - told < LINE_SECONDS:
            return
        told = time.monotonic()
        behind = log.catalog.applications.get(topology.name).behind(log.catalog.applications.get(leader))
        if behind or not was_level:  # one that keeps up says so once
            was_level = not behind
            line = f"{topology.name} follows {leader}, and is {behind:,} records behind it"
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    options, program = arguments.options, compile_with_settings(topology, log)
    wanted = Succession(
        leader,
        arguments.accepts_loss,
        options.tasks,
        available_cores(),
        options.max_records_per_epoch,
        lambda: bool(stopped.arrived),
        tell,
    )
    console.print(f"{topology.name} follows {leader}", markup=False, highlight=False)
    return follow(log, program, wanted)


def _standby(topology: Topology, arguments: Arguments, log: Log) -> Standby | None:
    """What stands by, if that is asked for; what could not take over says so now."""
    if not arguments.stands_by:
        return None
    from streamkit.engine.runs.standby import Standby

    found = Standby(topology, log, arguments.options)
    found.check()
    return found


@contextmanager
def _turn(
    topology: Topology,
    arguments: Arguments,
    standby: Standby | None,
    log: Log,
    stopped: StopSignals,
    spark_log: Path | None,
    console: Console,
) -> Iterator[None]:
    """Stand by or follow, if that is asked for, until it is this process's turn to run, or a signal comes; Spark is started before."""
    if standby is None and arguments.leader is None:
        yield
        return
    if arguments.leader is not None:
        from streamkit.engine.runs.compile import compile_with_settings

        compile_with_settings(topology, log)  # what cannot run should say so now
    with ExitStack() as stack:
        if not arguments.is_local:
            from streamkit.spark.command import warm_session

            stack.enter_context(warm_session(topology.name, stopped, spark_log))
        if standby is not None:
            if not standby.has_failed:
                console.print(f"standing by for {topology.name}", markup=False, highlight=False)
            is_turn = standby.wait(lambda: bool(stopped.arrived))
        else:
            assert arguments.leader is not None
            is_turn = _follow(topology, arguments, arguments.leader, log, stopped, console)
        if is_turn:
            if standby is None or not standby.has_failed:
                console.print(f"taking over {arguments.leader or topology.name}", markup=False, highlight=False)
            if not arguments.is_local:
                stack.callback(_bridge(topology, log, arguments.options).stop)
        yield


def _bridge(topology: Topology, log: Log, options: Options) -> Run:
    """A run in this process that has given its first results, and gives more until Spark's query begins and fences it; its epochs are small."""
    from streamkit.engine.runs.local_run import run_locally

    most = max(1, log.settings.local_epoch_records)
    records = most if options.max_records_per_epoch is None else min(most, options.max_records_per_epoch)
    bridge = run_locally(topology, log, replace(options, max_records_per_epoch=records))
    first = bridge.status()["epoch"]
    end = time.monotonic() + BRIDGE_SECONDS
    while bridge.is_active and bridge.status()["epoch"] == first and time.monotonic() < end:
        time.sleep(0.02)
    return bridge


@contextmanager
def _started(
    topology: Topology, arguments: Arguments, log: Log, stopped: StopSignals, spark_log: Path | None
) -> Iterator[Run | None]:
    """The run with its connectors; None if a signal came before it."""
    if stopped.arrived:
        yield None
        return
    if not topology.connections:
        with _query(topology, arguments, log, stopped, spark_log) as running:
            yield running
        return
    from streamkit.launch.connections import begin_connections

    begun = begin_connections(topology, log, arguments.options, arguments.connectors, lambda: bool(stopped.arrived))
    with ExitStack() as stack:
        if begun is not None:
            stack.callback(begun.stop)
        running = None if stopped.arrived else stack.enter_context(_query(topology, arguments, log, stopped, spark_log))
        if running is not None and begun is not None:
            running.accompany(begun)
        yield running


@contextmanager
def _query(
    topology: Topology, arguments: Arguments, log: Log, stopped: StopSignals, spark_log: Path | None
) -> Iterator[Run | None]:
    """The run; None if a signal came before it."""
    if arguments.is_local:
        from streamkit.engine.runs.local_run import run_locally

        stopped.is_impatient = True  # an epoch that does not come to its end can be left: it was not committed
        yield run_locally(topology, log, arguments.options)
    else:
        from streamkit.spark.command import run_with_session

        with run_with_session(topology, log, arguments.options, stopped, spark_log) as running:
            yield running


def _show_error(error: Exception, console: Console, spark_log: Path | None, topology: Topology) -> None:
    """Print what ended the run, without the JVM's frames, and where to find those; of a file in SQL with what SQL can do."""
    from streamkit.spark.failure import without_jvm_frames
    from streamkit.sql.script.advice import ways_of_file

    if spark_log is not None and spark_log.exists():
        console.print(f"what Spark said is in {spark_log}; --verbose shows it", markup=False, highlight=False, soft_wrap=True)
    console.print(f"[bold red]{type(error).__name__}[/]: ", end="")
    message = without_jvm_frames(str(error))
    # A text in SQL that Python gives is in no such file.
    is_sql_file = any(isinstance(node.at, TextLocation) and node.at.file.endswith(".sql") for node in topology.roots)
    message += ways_of_file(message) if is_sql_file else ""
    console.print(message, markup=False, highlight=False, soft_wrap=True)
