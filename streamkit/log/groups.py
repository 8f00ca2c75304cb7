"""Consumer groups in the catalog: what a commit of offsets is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamkit.errors import ConfigError
from streamkit.log.database import Transaction


@dataclass(frozen=True)
class GroupCommit:
    """Positions of a consumer group: {topic id: {partition: next offset}}; `member_id` None is a consumer without membership."""

    group: str
    member_id: str | None
    offsets: Mapping[int, Mapping[int, int]]


def commit_offsets(transaction: Transaction, commit: GroupCommit, now_ms: int) -> None:
    """Move the positions of a group; until groups exist, ConfigError."""
    raise ConfigError(f"the group {commit.group} cannot commit: this log keeps no consumer groups yet")
