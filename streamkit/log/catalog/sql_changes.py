"""
What scripts of SQL change in the catalog: all of a script in one transaction, with its topics and rows.

A script is checked against a copy of what the catalog has, and says which change that copy was as of. If another one was made since, it
is checked again, so that nothing is written that was not checked against what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from streamkit.errors import StreamKitError
from streamkit.failpoints import reach
from streamkit.log.catalog import applications, producers, sql_queries, sql_sources, sql_types, topics
from streamkit.log.catalog.producers import ProducerCommit
from streamkit.log.catalog.sql_queries import StoredQuery
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.log.catalog.sql_types import StoredType
from streamkit.log.database.database import Transaction
from streamkit.log.topic.alteration import Alteration
from streamkit.log.topic.topic import Topic

CHANGES_KEPT = 1_000  # a session that asks whether its change was made asks at once


class SqlMovedError(StreamKitError):
    """Another script has changed the catalog since this one was checked: check it again."""

    is_retryable = True


@dataclass(frozen=True)
class SqlObjects:
    """
    All that SQL has in the catalog, as one snapshot.

    `change` is the number of the last change, `queries` how many numbers the ids of queries have used up.
    """

    sources: tuple[StoredSource, ...] = ()
    queries: tuple[StoredQuery, ...] = ()
    types: tuple[StoredType, ...] = ()
    change: int = 0
    numbers: int = 0


@dataclass(frozen=True)
class SqlChange:
    """
    What a script changes: names that go, and values that come or take the place of those of their names.

    `before` is the change that the script was checked against, `numbers` how many numbers of queries are used up after it. `ended` are
    applications that go with their stores; the run of a `stopped` one ends, and its state stays. `appended` says, in the transaction and by
    the topics that it created or altered, which rows the script inserts. Topics get other names once those to be deleted are gone. `seen` are
    applications whose state the script was compared with, each with its newest generation then, 0 before its first start.
    """

    token: str
    before: int
    numbers: int
    sources: tuple[StoredSource, ...] = ()
    queries: tuple[StoredQuery, ...] = ()
    types: tuple[StoredType, ...] = ()
    dropped_sources: tuple[str, ...] = ()
    dropped_queries: tuple[str, ...] = ()
    dropped_types: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    stopped: tuple[str, ...] = ()
    deleted_topics: tuple[str, ...] = ()
    created_topics: tuple[Topic, ...] = ()
    altered_topics: tuple[tuple[str, Alteration], ...] = ()
    renamed_topics: tuple[tuple[str, str], ...] = ()
    seen: tuple[tuple[str, int], ...] = ()
    appended: Callable[[Mapping[str, Topic]], ProducerCommit] | None = field(default=None, compare=False)


def objects(transaction: Transaction) -> SqlObjects:
    """All that SQL has in the catalog; nothing, in a catalog of an older format that may only be read."""
    if not transaction.has_table("sql_change"):
        return SqlObjects()
    number, numbers = _last(transaction)
    found = (sql_sources.every(transaction), sql_queries.every(transaction), sql_types.every(transaction))
    return SqlObjects(*found, number, numbers)


def last_number(transaction: Transaction) -> int:
    """The number of the last change, by which who has read the objects sees whether there is anything new; 0 before the first."""
    return _last(transaction)[0]


def _last(transaction: Transaction) -> tuple[int, int]:
    for number, numbers in transaction.execute("SELECT number, queries FROM sql_change ORDER BY number DESC LIMIT 1"):
        return number, numbers
    return 0, 0


def commit(transaction: Transaction, now_ms: int, change: SqlChange) -> tuple[str, ...]:
    """
    Make a script's changes, all of them; returns the slabs that nothing refers to any more.

    SqlMovedError if another change was made since the script was checked, or an application has started whose state counts;
    TopicExistsError, TopicNotFoundError, SchemaError and ConfigError as they come of its topics.
    A change that was made already, under the same token, does nothing twice.
    """
    if is_committed(transaction, change):
        return ()
    if (last := last_number(transaction)) != change.before:
        raise SqlMovedError(
            f"the script was checked against change {change.before} of the catalog, and {last} has been made since"
        )
    for name, generation in change.seen:
        found = transaction.execute("SELECT generation FROM application WHERE name = ?", (name,))
        if (found[0][0] if found else 0) != generation:
            raise SqlMovedError(f"the application {name} has started since the script was compared with its state")
    paths = [path for name in change.ended for path in applications.remove(transaction, name)]
    paths += [path for name in change.deleted_topics for path in topics.delete(transaction, name)]
    for name in change.stopped:
        applications.end_run(transaction, name)
    sql_sources.drop(transaction, change.dropped_sources)
    sql_queries.drop(transaction, change.dropped_queries)
    sql_types.drop(transaction, change.dropped_types)
    reach("sql.dropped")
    changed = {topic.name: topics.create(transaction, now_ms, topic) for topic in change.created_topics}
    changed |= {name: topics.alter(transaction, now_ms, name, alteration) for name, alteration in change.altered_topics}
    for name, new in change.renamed_topics:
        topics.rename(transaction, name, new)
    sql_sources.put(transaction, now_ms, change.sources)
    sql_queries.put(transaction, now_ms, change.queries)
    sql_types.put(transaction, now_ms, change.types)
    transaction.execute(
        "INSERT INTO sql_change (number, token, queries) VALUES (?, ?, ?)", (last + 1, change.token, change.numbers)
    )
    transaction.execute("DELETE FROM sql_change WHERE number <= ?", (last + 1 - CHANGES_KEPT,))
    if change.appended is not None:
        producers.commit(transaction, now_ms, change.appended(changed))
    reach("sql.written")
    return tuple(paths)


def is_committed(transaction: Transaction, change: SqlChange) -> bool:
    """Whether this very change was made."""
    return bool(transaction.execute("SELECT 1 FROM sql_change WHERE token = ?", (change.token,)))
