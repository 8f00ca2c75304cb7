"""`streamkit storage`: the folders that hold copies of the log's files."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from streamkit.cli.terminal.location import LogOption
from streamkit.cli.terminal.rendering import JsonOption, show_facts, show_json, show_line
from streamkit.cli.terminal.table import show_table
from streamkit.description.storage import storage_described
from streamkit.log.opening import open_existing_log

program = typer.Typer(help="Keep copies of the log's files in several folders.", no_args_is_help=True, rich_markup_mode=None)


@program.command("list")
def list_roots(as_json: JsonOption = False, log: LogOption = None) -> None:
    """Show the storage roots, and whether they can be used now."""
    with open_existing_log(log) as opened:
        found = storage_described(opened)
    if as_json:
        show_json(found)
        return
    show_facts((name, found[name]) for name in ("replication.factor", "min.insync.replicas"))
    show_table(("storage root", "state"), [(root["path"], root["state"]) for root in found["roots"]])


@program.command("set")
def set_roots(
    roots: Annotated[
        list[str] | None,
        typer.Argument(metavar="FOLDER", help="All folders with copies of the log's files, besides the log's own folder."),
    ] = None,
    factor: Annotated[
        int | None,
        typer.Option("--factor", metavar="N", help="Copies of each file; as before unless given, at first one for each folder."),
    ] = None,
    min_insync: Annotated[
        int | None,
        typer.Option(
            "--min-insync",
            metavar="N",
            help="Copies that must be durable before a write counts; as before unless given, at first 1.",
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Keep copies in no other folder any more.")] = False,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="The log has moved here, or a folder with slabs has lost its marker; it belongs to this log."
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Leave out a root even if slabs have no whole copy elsewhere.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Keep copies of the log's files in these folders from now on.

    `streamkit storage repair` copies what is there already. After a disk was replaced, name the same folders again: an empty
    one counts as the new disk. Restart all programs that write: they keep the former folders and numbers, except folders that are left out.
    """
    with open_existing_log(log) as opened:
        _check_roots(roots, [root.path for root in opened.catalog.replication().roots], none=none)
        opened.set_storage(roots or [], factor, min_insync, adopt=adopt, force=force)
        replication = opened.catalog.replication()
        found = storage_described(opened)
    if as_json:
        show_json(found)
        return
    if replication.roots:
        print(f"{_copies(replication.factor)}, of which {replication.min_insync} must be durable; next: streamkit storage repair")
    else:
        print(f"{_copies(replication.factor)}, in the log's own folder")


def _check_roots(wanted: list[str] | None, known: list[str], *, none: bool) -> None:
    """typer.BadParameter unless folders or --none are given: to leave all out must not end replication by accident."""
    if wanted and none:
        raise typer.BadParameter(f"found the folders {', '.join(wanted)} too; expected one of the two", param_hint="--none")
    if known and not wanted and not none:
        raise typer.BadParameter(
            f"found no folder, and copies are kept in {', '.join(known)}; name all that are wanted, or --none to end that",
            param_hint="FOLDER",
        )


def _copies(factor: int) -> str:
    return f"{factor} {'copy' if factor == 1 else 'copies'} of each file"


@program.command("repair")
def repair_copies(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look.")] = False,
    as_json: JsonOption = False,
    log: LogOption = None,
) -> None:
    """
    Check every copy of every file, and replace bad ones.

    Ends with 1 if copies are still missing.
    """
    console = Console(stderr=True)
    with open_existing_log(log) as opened, Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("checking", total=None)
        report = opened.repair(is_dry=dry_run, progress=lambda done, total: bar.update(task, completed=done, total=total))
    if as_json:
        show_json(asdict(report))
    else:
        set_aside = [path for slab in report.slabs for path in slab.set_aside]
        show_facts(
            (
                ("files checked", len(report.slabs)),
                ("copies made", report.restored),
                ("damaged, set aside", len(set_aside)),
                ("with too few copies", len(report.lacking)),
                ("without a whole copy", len(report.lost)),
            )
        )
        for line in (*set_aside, *report.lost, *(f"{root} cannot be used: {reason}" for root, reason in report.unusable.items())):
            show_line(line)
    if report.lost or report.lacking:
        raise typer.Exit(1)
