"""
Rows that wait in stores, those that suppress() holds back above all, beside the rows that wait when their records are read again.

Since when a row waits follows from all rows of its key before, and from when these were given. A drain gives rows ahead of stream time, a full
buffer does, and records may have come after them; or a partition was read late, behind later times of another one. A replay does not know when
that was. But if the same keys are held back since the same
moments, the one goes on as the other would, whatever has come before. If not, results would come twice, or never.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.epoch.stream_time import of_closed
from streamkit.engine.evolution.adoption import changelog_frames, newest_rows
from streamkit.engine.evolution.open_sessions import differing_sessions
from streamkit.engine.evolution.waits import GivenResults
from streamkit.errors import OrphanedStateError
from streamkit.log.catalog.applications import ApplicationState, StoreState
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.storage.storage import Storage
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program, ProgramStore
from streamkit.state.layout import layout_of


def differing_waits(
    catalog: Catalog,
    storage: Storage,
    program: Program,
    before: ApplicationState,
    replayed: ApplicationState,
    given: GivenResults,
) -> Iterator[OrphanedStateError]:
    """
    Why what waits behind a replay of the program cannot go on in place of what waits in the application before, an error for each operator.

    Rows are looked at of operators whose results may have come early, or that take in what comes while they wait if partitions may have been
    read in another order; and sessions of all. Both have read the same records; the replay may still have to close
    what the application before has closed without a record.
    """
    yield from differing_sessions(catalog, storage, program, before, replayed, given)
    for operator in program.operators:
        if operator.windowing is None or not before.stores.keys() >= operator.stored_waits_ms.keys():
            continue
        store_of_all = operator.windowing.store
        if store_of_all not in given.early and not (
            of_closed(store_of_all) in given.closed and _may_be_reordered(catalog, program, operator)
        ):
            continue
        lost = more = 0
        for name, wait_ms in operator.stored_waits_ms.items():
            store, name_of_all = program.store(name), operator.windowing.store
            held = _waiting(catalog, storage, store, before.stores[name], given.reached[name_of_all] - wait_ms)
            made = _waiting(catalog, storage, store, replayed.stores[name], given.closed[of_closed(name_of_all)] - wait_ms)
            lost, more = lost + _without(held, made), more + _without(made, held)
        if lost or more:
            yield _refusal(program, operator, before.name, lost, more)


def _may_be_reordered(catalog: Catalog, program: Program, operator: Operator) -> bool:
    """Whether since when rows wait may depend on which partition was read first."""
    if not operator.waits_for_more or operator.windowing is None:
        return False
    found = {program.inputs[number].topic for number in operator.windowing.streams}
    return sum(catalog.topics.get(name).partitions for name in found) > 1


def _without(keys: pa.BinaryArray, others: pa.BinaryArray) -> int:
    return len(keys.filter(pc.invert(pc.is_in(keys, value_set=others))))


def _refusal(program: Program, operator: Operator, application: str, lost: int, more: int) -> OrphanedStateError:
    line = program.lines.get(operator.id)
    return OrphanedStateError(
        f"reading the records of the store {operator.stores[0]!r} of {application!r} again would give some results twice, or not at all: {lost:,} "
        f"of the rows that wait in it would not wait any more, or since another moment, and {more:,} other rows would wait. Either some results "
        "were given early (after a drain, because of idle topics, because records were read again before, or because too many rows waited), and "
        "a replay cannot know when; or the partitions were not read at the same pace. Start the application as it was with --drain (drain=True), "
        "so that no row waits, and make this start before new records arrive; or give the step another name, and drop its stores by "
        f"app.drop_store({', '.join(map(repr, operator.stores))})" + (f"\n  at {line}" if line else "")
    )


def _waiting(catalog: Catalog, storage: Storage, store: ProgramStore, state: StoreState, after_ms: int) -> pa.BinaryArray:
    """The keys of the rows that wait since a moment after this one, and since when, as state keys of one application and key group."""
    found = [newest_rows(storage, extents)["key"] for _, extents in sorted(changelog_frames(catalog, state).items())]
    keys = pa.concat_arrays([pa.array([], pa.binary()), *found])
    _, (since,), columns = layout_of(store).split(keys, [column.type for column in store.key])
    keys = layout_of(store).keys(0, np.zeros(len(keys), np.int64), columns, [since])
    return keys.filter(pa.array(since > after_ms))
