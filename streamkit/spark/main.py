"""`sk.main(topology)`: the command line of a topology file, under python and spark-submit alike."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from streamkit.dsl.topology import Topology
from streamkit.errors import StreamKitError
from streamkit.log.log import open_log
from streamkit.spark.run import AVAILABLE_NOW, Run, run

POLL_SECONDS = 0.3


def main(topology: Topology, arguments: Sequence[str] | None = None) -> None:
    """
    Run a topology with the options of its command line, until it ends or is interrupted.

    An error of the user's prints its message and exits 1; an interrupt or SIGTERM stops cleanly and exits 130 or 143.
    """
    options = _parser(topology).parse_args(arguments)
    console = Console(stderr=True)
    try:
        with _stop_signals() as stopped, open_log(options.log) as log:
            running = run(
                topology,
                log=log,
                tasks=options.tasks,
                trigger=AVAILABLE_NOW if options.once else None,
                max_records_per_epoch=options.max_records_per_epoch,
                drain=options.drain,
            )
            _follow(running, console, stopped, bounded=options.once or options.drain)
            _summarise(running, console)
    except StreamKitError as error:
        console.print(f"[bold red]{type(error).__name__}[/]: ", end="")
        console.print(str(error), markup=False, highlight=False)
        sys.exit(1)
    if stopped:
        sys.exit(128 + stopped[0])


def _parser(topology: Topology) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Run the topology {topology.name} as one Spark Structured Streaming query.")
    parser.add_argument("--log", metavar="DIR", help="the log; STREAMKIT_LOG, else .streamkit")
    parser.add_argument("--tasks", type=int, metavar="N", help="kernel tasks; else as many as before, at first the cores")
    parser.add_argument("--max-records-per-epoch", type=int, metavar="N", help="records an epoch takes at most")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--once", action="store_true", help="process what is available, then stop")
    end.add_argument("--drain", action="store_true", help="process everything available, close all windows, stop")
    return parser


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """The stop signals that arrived meanwhile, instead of a traceback from wherever they hit."""
    arrived: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        arrived.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(running: Run, console: Console, stopped: list[int], *, bounded: bool) -> None:
    """Show progress until the run ends; at a stop signal, end it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=False) as progress:
        shown = progress.add_task(running.program.application, total=running.backlog() if bounded else None, rate="")
        while not running.wait(POLL_SECONDS):
            if stopped:
                running.stop()
                break
            _show(running, progress, shown)
        _show(running, progress, shown)


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
