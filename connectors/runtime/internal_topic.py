"""Topics that the runtime keeps for itself: `streamkit topics list` leaves them out."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.log.log import Log
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.topic import declare_topic


def declare_internal_topic(log: Log, name: str, schema: str, key: Sequence[str] = (), partitions: int = 1) -> None:
    """Create a topic, compacted if it has a key, unless it is there; it gets more partitions if it has fewer."""
    if not has_topic(log, name):
        config = {"cleanup.policy": "compact"} if key else {}
        log.catalog.topics.create(declare_topic(name, schema, list(key) or None, None, partitions, config, internal=True))
    elif log.topic(name).partitions < partitions:
        log.catalog.topics.alter(name, Alteration(partitions, is_by_owner=True))


def has_topic(log: Log, name: str) -> bool:
    """Whether the topic is there."""
    return name in log.topics(internal=True)
