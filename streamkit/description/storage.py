"""The folders with the log's files as plain values."""

from __future__ import annotations

import os
from typing import Any

from streamkit.log.log import Log
from streamkit.log.storage.replicated_storage import ReplicatedStorage


def storage_described(log: Log) -> dict[str, Any]:
    """How many copies there are of each file, and the storage roots, each with how it is with it: its free room, or why it cannot be used."""
    replication, files = log.catalog.replication(), log.storage.files
    unusable = files.unusable() if isinstance(files, ReplicatedStorage) else {}
    roots = [{"path": log.root, "state": "the log's own"}]
    roots += [{"path": root.path, "state": _state(root.path, unusable.get(root.path))} for root in replication.roots]
    return {"replication.factor": replication.factor, "min.insync.replicas": replication.min_insync, "roots": roots}


def _state(folder: str, failure: str | None) -> str:
    if failure is not None:
        return f"cannot be used: {failure}"
    found = os.statvfs(folder)
    return f"{found.f_bavail * found.f_frsize / 1e9:.1f} GB free"
