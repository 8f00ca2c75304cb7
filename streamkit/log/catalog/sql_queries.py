"""Persistent queries of SQL in the catalog: their text, the application that each runs as, and whether it is wanted to run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamkit.errors import FencedError
from streamkit.log.database.database import Transaction

RUNNING, PAUSED = "running", "paused"  # the state that a statement has asked for; a terminated query is forgotten
WANTED = (RUNNING, PAUSED)
BUILT = "built"  # among the settings of a query: what is built beside it, with the application of that
_COLUMNS = "id, number, version, sink, sources, application, settings, wanted, failure, dialect, text"


@dataclass(frozen=True)
class StoredQuery:
    """
    A persistent query: it fills the stream or table `sink` from `sources`, by their names, as the application of that name.

    `version` grows with each change of its text and of what is wanted, which runners watch. `failure` is what ended its last run, empty
    if nothing did. `settings` are those of the session that made it.
    """

    id: str
    number: int
    text: str
    sink: str
    sources: tuple[str, ...]
    application: str
    dialect: str = "spark"
    settings: Mapping[str, Any] = field(default_factory=dict)
    wanted: str = RUNNING
    version: int = 1
    failure: str = ""


@dataclass(frozen=True)
class QueriesSeen:
    """
    What a runner has seen when it decided to start an application: its newest generation, 0 before its first start, and its queries.

    `versions` are pairs of an id and a version. Each transaction of the start compares them, so a statement that was committed meanwhile counts:
    neither a generation nor a topic is made for queries that are so no more.
    """

    generation: int
    versions: tuple[tuple[str, int], ...]

    def check(self, transaction: Transaction, application: str) -> None:
        """
        FencedError if another run of the application has begun since, or one of its queries was changed, paused or terminated.

        What is built beside a query has the id and the version of that one, so it counts as changed once the query has another beside it, or none.
        """
        found = transaction.execute("SELECT generation FROM application WHERE name = ?", (application,))
        generation = found[0][0] if found else 0
        if generation != self.generation:
            raise FencedError(
                f"application {application}: generation {generation} has begun since the start looked at generation {self.generation}"
            )
        marks = ", ".join("?" * len(self.versions))
        rows = transaction.execute(
            f"SELECT id, version, wanted FROM sql_query WHERE application = ? OR id IN ({marks}) ORDER BY number",
            (application, *(id for id, _ in self.versions)),
        )
        is_of_it = all(_has_application(transaction, id, application) for id, _ in self.versions)
        if (
            not is_of_it
            or tuple((id, version) for id, version, _ in rows) != self.versions
            or any(wanted != RUNNING for _, _, wanted in rows)
        ):
            raise FencedError(f"application {application}: its queries have changed since the start looked at them")


def _has_application(transaction: Transaction, id: str, application: str) -> bool:
    """Whether there is a query of that id which runs as the application, or beside which the application is built."""
    return any(
        application in (own, json.loads(settings).get(BUILT, {}).get("application"))
        for own, settings in transaction.execute("SELECT application, settings FROM sql_query WHERE id = ?", (id,))
    )


def every(transaction: Transaction) -> tuple[StoredQuery, ...]:
    """All persistent queries, in the order in which they were made."""
    return tuple(
        StoredQuery(
            id,
            number,
            text,
            sink,
            tuple(json.loads(sources)),
            application,
            dialect,
            json.loads(settings),
            wanted,
            version,
            failure,
        )
        for id, number, version, sink, sources, application, settings, wanted, failure, dialect, text in transaction.execute(
            f"SELECT {_COLUMNS} FROM sql_query ORDER BY number"
        )
    )


def put(transaction: Transaction, now_ms: int, queries: Iterable[StoredQuery]) -> None:
    """Keep queries; one of the same id is replaced."""
    rows = [
        (
            one.id, one.number, one.version, one.sink, json.dumps(list(one.sources)), one.application, json.dumps(dict(one.settings)),
            one.wanted, one.failure, one.dialect, one.text, now_ms,
        )
        for one in queries
    ]  # fmt: skip
    drop(transaction, [row[0] for row in rows])
    places = ", ".join("?" * 12)
    transaction.execute_many(f"INSERT INTO sql_query ({_COLUMNS}, changed_ms) VALUES ({places})", rows)


def drop(transaction: Transaction, ids: Iterable[str]) -> None:
    """Forget queries by id; what they wrote stays."""
    transaction.execute_many("DELETE FROM sql_query WHERE id = ?", [(id,) for id in ids])


def note_failure(transaction: Transaction, application: str, id: str, version: int, failure: str) -> None:
    """
    Note what ended the last run of a query as an application, empty if it runs.

    Nothing is noted if the query has changed since, or is gone, or if the application was built beside it and is so no more.
    """
    if _has_application(transaction, id, application):
        transaction.execute("UPDATE sql_query SET failure = ? WHERE id = ? AND version = ?", (failure, id, version))
