"""Which log a command works on."""

from __future__ import annotations

from typing import Annotated

import typer

from streamkit.config import load_settings
from streamkit.errors import ConfigError
from streamkit.log.database.address import is_address
from streamkit.log.database.location import log_directory
from streamkit.log.log import Log
from streamkit.log.opening import has_log, open_log

LogOption = Annotated[
    str | None, typer.Option("--log", metavar="DIR|URL", help="Where the log is; else STREAMKIT_LOG, else .streamkit.")
]


def open_existing_log(path: str | None) -> Log:
    """Open the log that a command was pointed at; ConfigError if there is none, because looking must not make one."""
    return open_log(location_of(path))


def wanted_location(path: str | None) -> str:
    """Where a command was pointed at, whether or not there is a log."""
    return load_settings().log if path is None else path


def location_of(path: str | None) -> str:
    """Where the log is that a command was pointed at; ConfigError if there is none."""
    location = wanted_location(path)
    if has_log(location):
        return location
    if is_address(location):
        raise ConfigError(
            "the storage directory of the catalog's URL holds no log; mend it, mount it, or create a topic first: streamkit topics create"
        )
    raise ConfigError(
        f"there is no log at {log_directory(location)}; name one with --log or STREAMKIT_LOG, or create a topic first: streamkit topics create"
    )
