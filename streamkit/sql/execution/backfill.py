"""
A changed query that is built beside the one that it will take the place of, from the beginning of its topics.

WITH (BACKFILL = true) keeps the new query among the settings of the old one. It is an application of its own with a topic of its own. Once
it has read what the old one has read, one transaction ends the old one, deletes its topic, and gives name and place to the new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from streamkit.log.catalog.sql_queries import BUILT, StoredQuery
from streamkit.log.catalog.sql_sources import StoredSource
from streamkit.sql.execution.definitions import Definitions

BACKFILL = "BACKFILL"  # the property
TOPIC = "topic"  # among the settings of a query that is built beside another one: where it writes until then
BUILT_BESIDE = "what is built beside it"  # begins the failure of a query if it is not its own


def with_built(query: StoredQuery, new: StoredQuery, source: StoredSource) -> StoredQuery:
    """A query beside which another one is built; `source` is what it will fill then."""
    built = {
        "text": new.text, "dialect": new.dialect, "application": new.application, "sources": list(new.sources), "settings": dict(new.settings),
        "source": asdict(source),
    }  # fmt: skip
    return replace(query, settings={**query.settings, BUILT: built})


def built_beside(query: StoredQuery) -> StoredQuery | None:
    """The query that is built beside this one, as it will be in its place; None if there is none."""
    built = query.settings.get(BUILT)
    if built is None:
        return None
    return replace(
        query, text=built["text"], dialect=built["dialect"], application=built["application"], sources=tuple(built["sources"]),
        settings=built["settings"], failure="",
    )  # fmt: skip


def topic_of_built(query: StoredQuery) -> str | None:
    """Where a query writes that is built beside another one; None for any other."""
    found = query.settings.get(TOPIC)
    return None if found is None else str(found)


def without_built(definitions: Definitions, query: StoredQuery) -> Definitions:
    """Definitions without the query that is built beside another one: its application ends, and its topic is deleted. The other query stays as it is."""
    built = built_beside(query)
    if built is None:
        return definitions
    topic = topic_of_built(built)
    assert topic is not None, "what is built has a topic"
    settings = {name: value for name, value in query.settings.items() if name != BUILT}
    failure = "" if query.failure.startswith(BUILT_BESIDE) else query.failure
    found = definitions.with_ended(built.application).with_query(replace(query, settings=settings, failure=failure))
    return found.without_topic(topic) if definitions.find_topic(topic) is not None else found


def swapped(definitions: Definitions, query: StoredQuery) -> Definitions:
    """Definitions in which the query that was built beside another one replaces it: its stream or table, its topic's name, and the next version."""
    built = built_beside(query)
    assert built is not None, "there is something to swap"
    topic = topic_of_built(built)
    assert topic is not None, "what is built has a topic"
    source = _source_of(query.settings[BUILT]["source"])
    settings = {name: value for name, value in built.settings.items() if name != TOPIC}
    new = replace(built, settings=settings, version=query.version + 1)
    found = definitions.with_ended(query.application).with_source(source).with_changed_query(new)
    if definitions.find_topic(source.topic) is not None:
        found = found.without_topic(source.topic)
    return found.with_renamed_topic(topic, source.topic)


def _source_of(stored: Mapping[str, Any]) -> StoredSource:
    return StoredSource(**{**stored, "columns": tuple(stored["columns"]), "key": tuple(stored["key"])})
