"""`streamkit fsck`: whether a log is whole."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from streamkit.cli.terminal.location import LogOption, wanted_location
from streamkit.cli.terminal.rendering import JsonOption, show_error, show_json, show_line
from streamkit.cli.terminal.table import show_table
from streamkit.errors import StreamKitError
from streamkit.log.database.address import is_address
from streamkit.log.database.system_error import error_text
from streamkit.log.opening import open_existing_log
from streamkit.log.rescue.findings import CheckReport
from streamkit.log.rescue.fsck import check_folder

CLEAN, FOUND, UNCHECKED = 0, 1, 2


def fsck(
    deep: Annotated[bool, typer.Option("--deep", help="Read every byte, and compare stores with their changelogs.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Check a log without changing it, also while it is used.

    Ends with 0 if all is well, 1 if something was found, 2 if the log could not be checked; then --json prints an object with `error`.
    """
    try:
        report = _checked(wanted_location(log), deep)
    except (StreamKitError, OSError) as error:
        show_error(error)
        if as_json:
            show_json({"error": error_text(error)})
        raise typer.Exit(UNCHECKED) from error
    if as_json:
        show_json(report.to_json())
    else:
        _show(report)
    raise typer.Exit(CLEAN if report.is_clean else FOUND)


def _checked(location: str, deep: bool) -> CheckReport:
    if is_address(location):  # of a catalog in PostgreSQL, which no look can harm
        with open_existing_log(location) as opened:
            return opened.fsck(deep)
    if not deep:
        return check_folder(location)
    with ExitStack() as stack:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        progress = stack.enter_context(Progress(*columns, console=Console(stderr=True), transient=True))
        task = progress.add_task("frames", total=None)
        return check_folder(location, True, lambda done, total: progress.update(task, completed=done, total=total))


def _show(report: CheckReport) -> None:
    if report.findings:
        rows = [(one.severity, one.kind, one.where, one.message, one.action) for one in report.findings]
        show_table(("severity", "kind", "where", "what", "to do"), rows)
    show_table(("checked", "count"), [(name.replace("_", " "), count) for name, count in report.counts.items()])
    show_line(
        f"{report.root} is {'whole' if report.is_clean else 'not whole'}{'' if report.is_deep else '; --deep reads every byte too'}"
    )
