"""Topics that the runtime keeps for itself: `streamkit topics list` leaves them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamkit.log.log import Log
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.topic import declare_topic
from streamkit.names import DELETED


def declare_internal_topic(log: Log, name: str, schema: str, key: Sequence[str] = (), partitions: int = 1) -> None:
    """Create a topic, compacted if it has a key, unless it is there; it gets more partitions if it has fewer."""
    if not has_topic(log, name):
        config = {"cleanup.policy": "compact"} if key else {}
        log.catalog.topics.create(declare_topic(name, schema, list(key) or None, None, partitions, config, internal=True))
    elif log.topic(name).partitions < partitions:
        log.catalog.topics.alter(name, Alteration(partitions, is_by_owner=True))


def newest_rows(log: Log, name: str, *key: str) -> list[dict[str, Any]]:
    """The newest row of each key that was not deleted, in the order in which the keys came; none if there is no such topic."""
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in log.read(name).to_pylist() if has_topic(log, name) else []:
        newest[tuple(row[one] for one in key)] = row
    return [row for row in newest.values() if not row.get(DELETED)]


def has_topic(log: Log, name: str) -> bool:
    """Whether the topic is there."""
    return name in log.topics(internal=True)
