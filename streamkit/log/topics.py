"""Topics in the catalog: the SQL behind creating, finding and deleting them."""

from __future__ import annotations

import json

from streamkit.errors import ConfigError, TopicExistsError, TopicNotFoundError
from streamkit.log.database import Transaction
from streamkit.log.topic import UNCREATED, Topic


def create(transaction: Transaction, topic: Topic, now_ms: int) -> Topic:
    """Create a topic and its partitions; the existing one if it was declared equally, else TopicExistsError."""
    existing = find(transaction, topic.name)
    if existing is not None:
        return _same(existing, topic)
    declaration = json.dumps(topic.with_id(UNCREATED).to_json())
    ((topic_id,),) = transaction.execute(
        "INSERT INTO topic (name, declaration, created_ms) VALUES (?, ?, ?) RETURNING id", (topic.name, declaration, now_ms)
    )
    rows = [(topic_id, partition) for partition in range(topic.partitions)]
    transaction.execute_many("INSERT INTO topic_partition (topic_id, partition, next_offset) VALUES (?, ?, 0)", rows)
    return topic.with_id(topic_id)


def _same(existing: Topic, topic: Topic) -> Topic:
    if existing.with_id(UNCREATED) == topic.with_id(UNCREATED):
        return existing
    raise TopicExistsError(f"topic {topic.name} exists and differs: found {_described(existing)}; asked for {_described(topic)}")


def _described(topic: Topic) -> str:
    return (
        f"schema ({topic.schema}), key {list(topic.key)}, timestamp {topic.timestamp}, {topic.partitions} partitions by "
        f"{list(topic.partition_by)}, config {dict(topic.config)}{', internal' if topic.internal else ''}"
    )


def find(transaction: Transaction, name: str) -> Topic | None:
    """The topic of that name, if there is one."""
    rows = transaction.execute("SELECT id, declaration FROM topic WHERE name = ?", (name,))
    return _topic(*rows[0]) if rows else None


def get(transaction: Transaction, name: str) -> Topic:
    """The topic of that name; else TopicNotFoundError, which lists those that exist."""
    found = find(transaction, name)
    if found is None:
        existing = [topic.name for topic in every(transaction) if not topic.internal]
        raise TopicNotFoundError(
            f"topic {name!r} does not exist; there {'are ' + ', '.join(existing) if existing else 'is none'}: create it first"
        )
    return found


def get_by_id(transaction: Transaction, topic_id: int) -> Topic:
    """The topic of that id; TopicNotFoundError if it was deleted."""
    rows = transaction.execute("SELECT id, declaration FROM topic WHERE id = ?", (topic_id,))
    if not rows:
        raise TopicNotFoundError(
            f"the topic with id {topic_id} does not exist any more; it was deleted, or deleted and created anew"
        )
    return _topic(*rows[0])


def every(transaction: Transaction) -> list[Topic]:
    """All topics, by name."""
    return [_topic(*row) for row in transaction.execute("SELECT id, declaration FROM topic ORDER BY name")]


def delete(transaction: Transaction, name: str) -> tuple[str, ...]:
    """Delete a topic with its rows; returns the slabs that nothing refers to any more. ConfigError while a store needs it."""
    topic = get(transaction, name)
    owners = transaction.execute(
        "SELECT a.name, s.name FROM application_store s JOIN application a ON a.id = s.application_id WHERE s.changelog_topic_id = ?",
        (topic.id,),
    )
    if owners:
        uses = ", ".join(f"{store} of {application}" for application, store in owners)
        raise ConfigError(f"topic {name} backs the store {uses}; reset the application first")
    slabs = transaction.execute("SELECT DISTINCT slab_id FROM extent WHERE topic_id = ?", (topic.id,))
    transaction.execute("DELETE FROM topic WHERE id = ?", (topic.id,))
    return drop_unreferenced(transaction, [slab_id for (slab_id,) in slabs])


def drop_unreferenced(transaction: Transaction, slab_ids: list[int]) -> tuple[str, ...]:
    """Forget those of the slabs that no extent refers to, and return their paths."""
    dropped = []
    for slab_id in slab_ids:
        statement = "DELETE FROM slab WHERE id = ? AND NOT EXISTS (SELECT 1 FROM extent WHERE slab_id = slab.id) RETURNING path"
        dropped += [path for (path,) in transaction.execute(statement, (slab_id,))]
    return tuple(dropped)


def _topic(topic_id: int, declaration: str) -> Topic:
    return Topic.from_json(json.loads(declaration)).with_id(topic_id)
