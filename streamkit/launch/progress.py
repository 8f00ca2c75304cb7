"""What a command shows of a run: how far it is, and what came of it."""

from __future__ import annotations

import datetime as dt
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from streamkit.engine.runs.application_run import Run
from streamkit.engine.runs.progress import progress_line
from streamkit.log.input_lag import input_partitions, lag_by_topic
from streamkit.state.restoring import restoring_text
from streamkit.stop_signals import StopSignals

POLL_SECONDS = 0.3
LINE_SECONDS = 10.0


def follow(running: Run, console: Console, stopped: StopSignals, *, is_bounded: bool) -> None:
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
        shown = progress.add_task(running.program.application, total=running.backlog() if is_bounded else None, rate="")
        while not _has_ended(running, stopped):
            _show(running, progress, shown)
        _show(running, progress, shown)


def _follow_in_lines(running: Run, console: Console, stopped: StopSignals) -> None:
    before, records, was_restoring = time.monotonic(), 0, False
    while not _has_ended(running, stopped):
        now, is_restoring = time.monotonic(), bool(running.restoring())
        if now - before >= LINE_SECONDS or (is_restoring and not was_restoring):  # a restore is told when it begins, too
            more = running.records() - records
            moment = (
                dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
            )  # for who reads it later
            line = f"{moment} {progress_line(running, more / (now - before))}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
            before, records = now, records + more
        was_restoring = is_restoring


def _has_ended(running: Run, stopped: StopSignals) -> bool:
    """Whether the run has ended, by itself or because a signal said so."""
    try:
        if not stopped.arrived:
            return running.wait(POLL_SECONDS)
        running.stop()
    except Exception:
        if not stopped.arrived:  # Ctrl-C reaches all processes of a terminal; their deaths are expected
            raise
    return True


def _show(running: Run, progress: Progress, shown: int) -> None:
    records = running.records()
    task = next(task for task in progress.tasks if task.id == shown)
    rate = f"{records / task.elapsed:,.0f} records/s" if task.elapsed and records else "starting"
    if tasks := running.restoring():
        rate = f"restores {restoring_text(tasks)}"
    progress.update(shown, completed=records, rate=rate)  # type: ignore[arg-type]


def summarise(running: Run, console: Console, *, is_bounded: bool) -> None:
    """
    Print in a line how a run ended, and how many records the application has left out so far.

    A run `is_bounded` to what was there when it began: what it has written to topics that it reads waits for the next one.
    """
    status = running.status()
    records, tasks = running.records(), status["tasks"]
    told = f"{status['application']}: {records:,} record{'s' * (records != 1)} in this run, epoch {status['epoch']}, {tasks} task{'s' * (tasks != 1)}"
    left_out = {"late": "late", "null_key": "without a key", "error": "left out by errors"}
    counts = {text: sum(running.total(name).values()) for name, text in left_out.items()}
    if any(counts.values()):  # which the catalog adds up over all runs
        told += f"; since its first start: {', '.join(f'{count:,} {text}' for text, count in counts.items() if count)}"
    written = {output.topic for output in running.program.outputs} if is_bounded else set[str]()
    lags = lag_by_topic(input_partitions(running.log, running.log.catalog.applications.get(status["application"])))
    if waiting := [f"{lag:,} of {topic}" for topic, lag in lags.items() if lag and topic in written]:
        told += (
            f"; records that wait for the next run, because the application writes and reads their topics: {', '.join(waiting)}"
        )
    console.print(told, markup=False, highlight=False, soft_wrap=True)
