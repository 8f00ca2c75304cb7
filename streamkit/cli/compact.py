"""`streamkit compact`: keep only the newest record of each key of a topic."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from streamkit.cli.terminal import completion
from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, counted, show_json
from streamkit.cli.terminal.table import show_table
from streamkit.log.maintenance.compaction import CompactionReport
from streamkit.log.opening import open_existing_log

TITLES = ("partition", "end offset", "records before", "records after", "bytes before", "bytes after", "deletions gone")


def compact(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=completion.topics)],
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Keep only the newest record of each key of a topic.

    It reads all committed records; other programs can read and write in the meantime. It may be interrupted at any time,
    and goes on when it is called again.
    """
    with open_existing_log(log) as opened, _progress() as bar:
        task = bar.add_task("looking for the newest records", total=opened.describe(topic)["rows"])
        report = opened.compact(topic, progress=lambda rows: bar.update(task, advance=rows))
    if as_json:
        show_json(report.to_json())
    else:
        _show(report)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _show(report: CompactionReport) -> None:
    rows = [
        (str(one.partition), one.end_offset, one.rows_before, one.rows_after, one.bytes_before, one.bytes_after, one.deletions)
        for one in report.partitions
    ]
    kept = f"{report.rows_after:,} of {counted(report.rows_before, 'record')} of {report.topic} are left, in {report.bytes_after:,} bytes"
    show_table(TITLES, rows, caption=kept)
