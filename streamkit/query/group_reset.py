"""Letting a consumer group read on from elsewhere: at the same kind of place in all its topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.errors import ConfigError, FencedError
from streamkit.log.log import Log
from streamkit.query.position import offsets_at, parse_position


def reset_offsets(log: Log, group: str, to: str, topics: Sequence[str] = (), *, is_dry: bool = False) -> list[dict[str, Any]]:
    """
    Commit for a group the offsets at `to` of some topics, or of all that it has committed; each partition before and after.

    A dry run commits nothing, and refuses what would be refused: FencedError while a member is alive, ConfigError if there is no topic.
    """
    position = parse_position(to)
    before = _committed(log, group)
    chosen = topics or sorted(before)
    if not chosen:
        raise ConfigError(f"consumer group {group} has committed nothing; name the topics to commit for")
    after = {topic: offsets_at(log, topic, position) for topic in chosen}
    if not is_dry:
        log.groups.reset(group, after)
    elif group in log.groups.names() and (members := log.groups.describe(group).members):
        raise FencedError(f"consumer group {group} has {len(members)} members; expected none: stop them, and reset it then")
    return [
        {"topic": topic, "partition": partition, "before": before.get(topic, {}).get(partition), "after": offset}
        for topic, offsets in after.items()
        for partition, offset in offsets.items()
    ]


def _committed(log: Log, group: str) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for row in log.groups.describe(group).partitions if group in log.groups.names() else ():
        if row.committed is not None:
            found.setdefault(row.topic, {})[row.partition] = row.committed
    return found
