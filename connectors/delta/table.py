"""A Delta table as both sides open it: the library, where the table is, and what its errors mean."""

from __future__ import annotations

import importlib
from typing import Any

from streamkit.connectors.connector import Connector, needed
from streamkit.connectors.delta.partitions import UNREADABLE
from streamkit.connectors.setting import Setting
from streamkit.errors import ConfigError

STORAGE = Setting("storage.", "options of the object store, such as storage.AWS_REGION", default=None, is_secret=True)


def library() -> Any:
    """The module deltalake."""
    try:
        return importlib.import_module("deltalake")
    except ModuleNotFoundError:
        raise needed("deltalake", "delta") from None


def errors() -> Any:
    """The module of its exceptions."""
    library()
    return importlib.import_module("deltalake.exceptions")


def open_table(connector: Connector, path: str, version: int | None = None) -> Any:
    """The table at a path; None if there is none. ConfigError if it cannot be read; DeltaError if a version is not there."""
    try:
        return library().DeltaTable(path, version=version, storage_options=connector.settings["storage."] or None)
    except errors().TableNotFoundError:
        return None
    except errors().DeltaProtocolError as error:
        raise ConfigError(f"the Delta table {path} has features that the library does not read: {error}") from error
    except errors().DeltaError as error:
        if UNREADABLE not in str(error):
            raise
        raise ConfigError(
            f"the Delta table {path} has a folder whose name the library cannot read, as it writes it for a negative decimal: {error}; expected a "
            "table that is partitioned by other columns"
        ) from error
