"""Which log a command works on."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkit.config import load_settings

LogOption = Annotated[
    str | None, typer.Option("--log", metavar="DIR|URL", help="Where the log is; else STREAMKIT_LOG, else .streamkit.")
]


def wanted_location(path: str | None) -> str:
    """Where a command was pointed at, whether or not there is a log."""
    return load_settings().log if path is None else path
