"""The files of a log as a task sees them."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from streamkit.engine.runs.memory import keep_memory
from streamkit.errors import ConfigError
from streamkit.log.log import Log
from streamkit.log.storage.replicated_storage import open_storage
from streamkit.log.storage.replication import Replication
from streamkit.log.storage.storage import Storage
from streamkit.names import CATALOG_FILE, identity_path


@dataclass(frozen=True)
class StoragePlace:
    """Where the files of a log are, on every host: the folder, the copies, and the file by which the folder is known as this log's."""

    root: str = ""
    replication: Replication = field(default_factory=Replication)
    mark: str = ""


def place_of(log: Log) -> StoragePlace:
    """The place of an open log's files; only drivers call it."""
    token = log.catalog.storage_token()
    return StoragePlace(log.root, log.catalog.replication(), identity_path(token) if token else CATALOG_FILE)


def check_place(place: StoragePlace) -> None:
    """ConfigError on a host that does not have the files of the log."""
    if not os.path.exists(os.path.join(place.root, place.mark)):
        raise ConfigError(
            f"the host {socket.gethostname()} does not have the files of the log: {place.mark} is missing in {place.root}; "
            "mount the log's folder at that path on every host that runs tasks"
        )


@lru_cache(maxsize=4)
def task_storage(place: StoragePlace) -> Storage:
    """
    The files of the log, for tasks, which never open its catalog.

    ConfigError on a host that does not have them: a task there would write onto a disk that no other host sees.
    """
    check_place(place)
    pa.set_cpu_count(1)  # as many workers as cores run at once
    keep_memory()
    return open_storage(place.root, place.replication)
