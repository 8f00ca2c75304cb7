"""A query that was built beside another one takes its place, in one transaction."""

from __future__ import annotations

from streamkit.failpoints import reach
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.catalog.sql_changes import SqlMovedError
from streamkit.log.catalog.sql_queries import StoredQuery
from streamkit.log.input_lag import input_partitions
from streamkit.log.log import Log
from streamkit.sql.execution.backfill import built_beside, swapped
from streamkit.sql.execution.definitions import Definitions


def swap_when_ready(log: Log, built: StoredQuery) -> bool:
    """Put a query that was built into its place, if it has read as much as the one that has it; whether it has the place now."""
    states = {one.name: one for one in log.catalog.applications.every()}
    objects = log.catalog.sql.objects()
    query = next((one for one in objects.queries if one.id == built.id), None)
    if query is None or built_beside(query) != built or not _has_read_as_much(log, states, built.application, query.application):
        return False
    change = swapped(Definitions.of(log, objects), query).change()
    assert change is not None, "a swap changes something"
    reach("sql.swapping")
    try:
        paths = log.catalog.sql.commit(change)
    except SqlMovedError:  # a statement was first; the next look says whether there is still something to swap
        return False
    reach("sql.swapped")
    storage = log.storage_now()
    for path in paths:
        storage.delete(path)
    return True


def _has_read_as_much(log: Log, states: dict[str, ApplicationState], built: str, former: str) -> bool:
    """Whether one application has read each of its topics as far as another one, or to its end where that one does not read it."""
    if built not in states:
        return False
    read = states[former].positions if former in states else {}
    return all(
        one.next_offset >= read.get(one.topic_id, {}).get(one.partition, one.end_offset)
        for one in input_partitions(log, states[built])
    )
