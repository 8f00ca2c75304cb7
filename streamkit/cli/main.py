"""The program `streamkit`: what it says of itself, and how its errors look."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

import streamkit
from streamkit.cli.commands import Commands
from streamkit.cli.terminal.standard_streams import check_standard_streams
from streamkit.errors import StreamKitError

program = typer.Typer(
    name="streamkit",
    cls=Commands,
    help="Topics, consumer groups, applications, stores and connectors of a StreamKit log. The log is that of --log, else of STREAMKIT_LOG, else .streamkit.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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
        from streamkit.cli.terminal.rendering import show_error

        show_error(error)
        sys.exit(1)
    except KeyboardInterrupt:  # before typer takes care of them, or after
        sys.exit(128 + signal.SIGINT)
