"""A consumer group as plain values."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from streamkit.log.catalog.group_description import GroupDescription


def group_json(group: GroupDescription) -> dict[str, Any]:
    """A group with its members and partitions, its state, and its lag."""
    partitions = [asdict(row) | {"lag": row.lag} for row in group.partitions]
    return asdict(group) | {"state": group.state, "lag": group.lag, "partitions": partitions}
