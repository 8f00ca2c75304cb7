"""Topics in the catalog: the SQL behind creating, finding, altering and deleting them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache

from streamkit.errors import ConfigError, TopicExistsError, TopicNotFoundError
from streamkit.log.catalog import inline_slabs
from streamkit.log.database.database import Transaction
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.topic import Topic
from streamkit.names import is_inline, is_name, name_flaw, quoted_name

DECLARATIONS_KEPT = 1024  # each look-up of a topic reads its declaration, and it seldom changes


@dataclass(frozen=True)
class SchemaVersion:
    """A schema that a topic has or had, in SQL, and since when."""

    version: int
    schema: str
    created_ms: int


def create(transaction: Transaction, now_ms: int, topic: Topic) -> Topic:
    """
    Create a topic and its partitions; the existing one if it was declared equally, else TopicExistsError.

    An application declares its changelogs at each start, and nobody else does: their settings are those of the last start.
    """
    existing = find(transaction, topic.name)
    if existing is not None:
        return _declared_again(transaction, existing, topic)
    declaration = json.dumps(topic.to_json())
    ((topic_id,),) = transaction.execute(
        "INSERT INTO topic (name, declaration, created_ms) VALUES (?, ?, ?) RETURNING id", (topic.name, declaration, now_ms)
    )
    created = topic.with_id(topic_id)
    _add_partitions(transaction, created, 0)
    _add_schema(transaction, created, now_ms)
    return created


def _declared_again(transaction: Transaction, existing: Topic, declared: Topic) -> Topic:
    fitting = fitted(existing, declared)
    if fitting != existing:
        transaction.execute("UPDATE topic SET declaration = ? WHERE id = ?", (json.dumps(fitting.to_json()), existing.id))
    return fitting


def _add_partitions(transaction: Transaction, topic: Topic, first: int) -> None:
    rows = [(topic.id, partition) for partition in range(first, topic.partitions)]
    transaction.execute_many("INSERT INTO topic_partition (topic_id, partition, next_offset) VALUES (?, ?, 0)", rows)


def _add_schema(transaction: Transaction, topic: Topic, now_ms: int) -> None:
    transaction.execute(
        "INSERT INTO topic_schema (topic_id, version, schema, created_ms) VALUES (?, ?, ?, ?)",
        (topic.id, topic.version, topic.schema.ddl(), now_ms),
    )


def fitted(existing: Topic, topic: Topic) -> Topic:
    """The existing topic as it is once it is declared again; TopicExistsError if that is another one."""
    if existing.internal and topic.internal:
        existing = replace(existing, config=topic.config)
    if existing.declaration == topic.declaration:
        return existing
    raise TopicExistsError(f"topic {topic.name} exists and differs: found {_described(existing)}; asked for {_described(topic)}")


def _described(topic: Topic) -> str:
    kind = (f", format {topic.format.name}" if topic.format else "") + (", internal" if topic.internal else "")
    return (
        f"schema ({topic.schema}), key {list(topic.key)}, timestamp {topic.timestamp}, {topic.partitions} partitions by "
        f"{list(topic.partition_by)}, config {dict(topic.config)}{kind}"
    )


def find(transaction: Transaction, name: str) -> Topic | None:
    """The topic of that name, if there is one; None also for a name that is not allowed."""
    if not is_name(name):
        return None
    rows = transaction.execute("SELECT id, declaration FROM topic WHERE name = ?", (name,))
    return _topic(*rows[0]) if rows else None


def get(transaction: Transaction, name: str) -> Topic:
    """The topic of that name; else TopicNotFoundError, which lists those that exist."""
    found = find(transaction, name)
    if found is None:
        existing = [topic.name for topic in every(transaction) if not topic.internal]
        there = f"there {'are ' + ', '.join(existing) if existing else 'is none'}"
        if not is_name(name):
            raise TopicNotFoundError(f"topic {quoted_name(name)} does not exist, and cannot: {name_flaw(name)}; {there}")
        raise TopicNotFoundError(f"topic {name!r} does not exist; {there}: a topic must be created before it is used")
    return found


def get_by_id(transaction: Transaction, topic_id: int, name: str | None = None) -> Topic:
    """The topic of that id; TopicNotFoundError if it was deleted, which names it if the caller still knows its name."""
    rows = transaction.execute("SELECT id, declaration FROM topic WHERE id = ?", (topic_id,))
    if not rows:
        known = f"the topic with id {topic_id}" if name is None else f"topic {name!r}"
        raise TopicNotFoundError(f"{known} does not exist any more; it was deleted, or deleted and created again")
    return _topic(*rows[0])


def every(transaction: Transaction) -> list[Topic]:
    """All topics, by name."""
    return [_topic(*row) for row in transaction.execute("SELECT id, declaration FROM topic ORDER BY name")]


def schema_versions(transaction: Transaction, topic_id: int) -> list[SchemaVersion]:
    """The schemas that a topic has had, oldest first."""
    statement = "SELECT version, schema, created_ms FROM topic_schema WHERE topic_id = ? ORDER BY version"
    return [SchemaVersion(row[0], row[1], row[2]) for row in transaction.execute(statement, (topic_id,))]


def alter(transaction: Transaction, now_ms: int, name: str, alteration: Alteration) -> Topic:
    """
    Change a topic, and return it as it is then; an alteration that changes nothing leaves it alone.

    It is applied to the topic as it stands in this transaction, so of two at a time neither undoes the other. ConfigError or
    SchemaError if topic, stores or applications do not allow it.
    """
    topic = get(transaction, name)
    altered = alteration.applied_to(topic)
    if altered == topic:
        return topic
    _check_stores(transaction, topic, altered)
    if altered.partitions > topic.partitions:
        _check_keys_may_move(transaction, topic, altered)
        _add_partitions(transaction, altered, topic.partitions)
    if altered.version > topic.version:
        _add_schema(transaction, altered, now_ms)
    transaction.execute("UPDATE topic SET declaration = ? WHERE id = ?", (json.dumps(altered.to_json()), topic.id))
    return altered


def rename(transaction: Transaction, name: str, new: str) -> Topic:
    """Give a topic another name, under which its rows, its readers' positions and its writers go on; returns it. TopicNotFoundError, ConfigError."""
    topic = get(transaction, name).called(new)
    if find(transaction, new) is not None:
        raise ConfigError(f"topic {name} cannot be called {new}: there is a topic of that name")
    transaction.execute("UPDATE topic SET name = ?, declaration = ? WHERE id = ?", (new, json.dumps(topic.to_json()), topic.id))
    return topic


def _check_stores(transaction: Transaction, topic: Topic, altered: Topic) -> None:
    stores = stores_behind(transaction, topic)
    kept = (topic.partitions, topic.schema, topic.is_compacted)
    if stores and (altered.partitions, altered.schema, altered.is_compacted) != kept:
        raise ConfigError(
            f"topic {topic.name} backs the store {stores}, which is made of its partitions, keys and rows as they are; "
            "expected no other partitions, schema or cleanup.policy: reset the application first"
        )


def _check_keys_may_move(transaction: Transaction, topic: Topic, altered: Topic) -> None:
    """ConfigError if something depends on all rows of a key being in one partition."""
    if not topic.key:
        return
    advice = "create a topic with more partitions and write the rows there"
    reason = f"topic {topic.name} cannot get more partitions, because new rows of a key would go to another partition than the old ones"
    readers = transaction.execute(
        "SELECT a.name FROM application a WHERE EXISTS (SELECT 1 FROM application_position p WHERE p.application_id = a.id AND p.topic_id = ?) "
        "AND EXISTS (SELECT 1 FROM application_store s WHERE s.application_id = a.id) ORDER BY a.name",
        (topic.id,),
    )
    if readers:
        names = ", ".join(application for (application,) in readers)
        raise ConfigError(f"{reason}, and the state of {names} depends on their order; reset the application first, or {advice}")
    rows = "SELECT 1 FROM topic_partition WHERE topic_id = ? AND next_offset > 0"
    if (topic.is_compacted or altered.is_compacted) and transaction.execute(rows, (topic.id,)):
        raise ConfigError(f"{reason}, and compaction would keep both; {advice}")


def stores_behind(transaction: Transaction, topic: Topic) -> str:
    """The stores that a topic backs, in words; empty if there is none."""
    owners = transaction.execute(
        "SELECT a.name, s.name FROM application_store s JOIN application a ON a.id = s.application_id WHERE s.changelog_topic_id = ?",
        (topic.id,),
    )
    return ", ".join(f"{store} of {application}" for application, store in owners)


def delete(transaction: Transaction, name: str) -> tuple[str, ...]:
    """
    Delete a topic with its rows; returns the slabs that nothing refers to any more. ConfigError while a store needs it.

    Where applications stand in it is forgotten: a topic created again is another one, and is read from its beginning.
    """
    topic = get(transaction, name)
    stores = stores_behind(transaction, topic)
    if stores:
        raise ConfigError(f"topic {name} backs the store {stores}; reset the application first")
    slabs = transaction.execute("SELECT DISTINCT slab_id FROM extent WHERE topic_id = ?", (topic.id,))
    transaction.execute("DELETE FROM application_position WHERE topic_id = ?", (topic.id,))
    transaction.execute("DELETE FROM topic WHERE id = ?", (topic.id,))
    return drop_unreferenced(transaction, [slab_id for (slab_id,) in slabs])


def drop_unreferenced(transaction: Transaction, slab_ids: list[int]) -> tuple[str, ...]:
    """Forget those of the slabs that no extent refers to, and return the paths of their files."""
    dropped = []
    for slab_id in slab_ids:
        statement = "DELETE FROM slab WHERE id = ? AND NOT EXISTS (SELECT 1 FROM extent WHERE slab_id = slab.id) RETURNING path"
        dropped += [path for (path,) in transaction.execute(statement, (slab_id,))]
    inline_slabs.forget(transaction, dropped)
    return tuple(path for path in dropped if not is_inline(path))


@lru_cache(maxsize=DECLARATIONS_KEPT)
def _topic(topic_id: int, declaration: str) -> Topic:
    return Topic.from_json(json.loads(declaration)).with_id(topic_id)
