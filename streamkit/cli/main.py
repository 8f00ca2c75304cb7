"""The program `streamkit`: its nouns, and how its errors look."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

import streamkit
from streamkit.cli import (
    applications,
    backup,
    compact,
    connect,
    consume,
    dlq,
    fsck,
    groups,
    init,
    offsets,
    plan,
    produce,
    run,
    stats,
    storage,
    stores,
    topics,
)
from streamkit.cli.terminal.rendering import show_error
from streamkit.cli.terminal.standard_streams import check_standard_streams
from streamkit.errors import StreamKitError

program = typer.Typer(
    name="streamkit",
    help="Topics, consumer groups, applications, stores and connectors of a StreamKit log. The log is that of --log, else of STREAMKIT_LOG, else .streamkit.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
program.command("init")(init.init)
program.add_typer(topics.program, name="topics")
program.command("produce")(produce.produce)
program.command("consume")(consume.consume)
program.command("compact")(compact.compact)
program.command("offsets")(offsets.offsets)
program.add_typer(groups.program, name="groups")
program.command("run")(run.run)
program.command("explain")(run.explain)
program.command("plan")(plan.plan)
program.command("stats")(stats.stats)
program.command("maintain")(stats.maintain)
program.add_typer(connect.program, name="connect")
program.add_typer(applications.program, name="apps")
program.add_typer(stores.program, name="store")
program.add_typer(dlq.program, name="dlq")
program.add_typer(storage.program, name="storage")
program.command("fsck")(fsck.fsck)
program.command("backup")(backup.backup)
program.command("rebuild")(backup.rebuild)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"streamkit {streamkit.__version__}")
        raise typer.Exit


@program.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Nothing beside the commands."""


def main() -> None:
    """
    Run the command line; an error on purpose, or of the operating system, is printed without a traceback and ends the program with 1.

    An interrupt ends it with 130.
    """
    try:
        check_standard_streams()
        program()
    except (StreamKitError, OSError) as error:
        show_error(error)
        sys.exit(1)
    except KeyboardInterrupt:  # before typer takes care of them, or after
        sys.exit(128 + signal.SIGINT)
