"""
Replication as the log has it on record: over which storage roots files are spread, and in how many copies.

The names are Kafka's: `replication.factor` copies of each file are aimed at, and a write is acknowledged when
`min.insync.replicas` of them are durable. Both hold for the whole log, since one slab has rows of many topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from streamkit.errors import ConfigError
from streamkit.log.database.database import Transaction


@dataclass(frozen=True)
class StorageRoot:
    """A folder, best on a disk of its own; its marker file has `token`, so that an empty mount point is not taken for it (`storage_root.py`)."""

    path: str
    token: str


@dataclass(frozen=True)
class Replication:
    """Copies of each file: `factor` of them over the log's own folder and the further `roots`; `min_insync` must be durable."""

    factor: int = 1
    min_insync: int = 1
    roots: tuple[StorageRoot, ...] = ()

    def __post_init__(self) -> None:
        folders = 1 + len(self.roots)
        if type(self.factor) is not int or not 1 <= self.factor <= folders:
            raise ConfigError(
                f"replication.factor={self.factor!r} with {folders} storage roots, the log's own included; expected 1 to {folders}"
            )
        if type(self.min_insync) is not int or not 1 <= self.min_insync <= self.factor:
            raise ConfigError(
                f"min.insync.replicas={self.min_insync!r} with replication.factor={self.factor}; expected 1 to {self.factor}"
            )
        if len({root.path for root in self.roots}) < len(self.roots):
            raise ConfigError(f"a storage root is named twice: {', '.join(root.path for root in self.roots)}")

    def to_json(self) -> dict[str, Any]:
        """The value as plain dicts, lists and scalars."""
        return {"factor": self.factor, "min_insync": self.min_insync, "roots": [[root.path, root.token] for root in self.roots]}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Replication:
        """The inverse of `to_json`."""
        return cls(value["factor"], value["min_insync"], tuple(StorageRoot(*root) for root in value["roots"]))


def get(transaction: Transaction) -> Replication:
    """The replication of the log."""
    ((factor, min_insync),) = transaction.execute("SELECT replication_factor, min_insync_replicas FROM log")
    roots = transaction.execute("SELECT path, token FROM storage_root ORDER BY number")
    return Replication(factor, min_insync, tuple(StorageRoot(path, token) for path, token in roots))


def change(transaction: Transaction, replication: Replication) -> None:
    """Set the replication of the log."""
    transaction.execute(
        "UPDATE log SET replication_factor = ?, min_insync_replicas = ?", (replication.factor, replication.min_insync)
    )
    transaction.execute("DELETE FROM storage_root")
    rows: Sequence[tuple[int, str, str]] = [(number, root.path, root.token) for number, root in enumerate(replication.roots)]
    transaction.execute_many("INSERT INTO storage_root (number, path, token) VALUES (?, ?, ?)", rows)
