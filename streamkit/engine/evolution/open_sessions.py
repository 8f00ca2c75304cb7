"""
Open sessions of an application beside those that are open when their records are read again.

Which records a session has depends on the order in which they came: one that came behind others of later times, as from a partition that was
read late, has met sessions that had closed, and began one of its own. Read again, the partitions are merged by time, so the same record may
extend a session that was given. Nothing is given twice, and nothing is lost, if those sessions that reach back to what has closed begin alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.stream_time import of_closed
from streamkit.engine.evolution.adoption import changelog_frames, newest_rows
from streamkit.engine.evolution.waits import GivenResults
from streamkit.errors import OrphanedStateError
from streamkit.log.catalog.applications import ApplicationState
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.slab.extent import Extent
from streamkit.log.storage.storage import Storage
from streamkit.plan.earlier_program import read_program
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program, ProgramStore
from streamkit.plan.windows import SESSION
from streamkit.state.layout import layout_of


def differing_sessions(
    catalog: Catalog,
    storage: Storage,
    program: Program,
    before: ApplicationState,
    replayed: ApplicationState,
    given: GivenResults,
) -> Iterator[OrphanedStateError]:
    """
    Why the sessions that a replay of the program leaves cannot go on in place of those of the application before, an error for each operator.

    Sessions of another gap, or of other keys, are others, and are not compared.
    """
    earlier = read_program(catalog.applications.program_of(before.name))
    for operator in program.operators:
        window = operator.windowing
        if window is None or window.assigner != SESSION or of_closed(window.store) not in given.closed:
            continue
        keepers = [one for one in earlier.operators if window.store in one.stores]
        if not keepers or not _are_alike(earlier, keepers[0], program, operator, window.store):
            continue
        closed_ms = given.closed[of_closed(window.store)] - window.size_ms - window.grace_ms
        made = changelog_frames(catalog, replayed.stores[window.store])
        held = changelog_frames(catalog, before.stores[window.store])
        unlike = sum(
            _unlike(storage, program.store(window.store), made.get(partition, []), held.get(partition, []), closed_ms)
            for partition in sorted(made | held)
        )
        if unlike:
            yield _refusal(program, operator, before.name, unlike)


def _are_alike(before: Program, earlier: Operator, program: Program, operator: Operator, store: str) -> bool:
    """Whether an operator has sessions of the same gap as before, and of keys of the same types."""
    types = [[column.type for column in one.store(store).key] for one in (before, program)]
    return (
        earlier.stored_kind == operator.stored_kind and earlier.declared_times == operator.declared_times and types[0] == types[1]
    )


def _unlike(storage: Storage, store: ProgramStore, made: list[Extent], held: list[Extent], closed_ms: int) -> int:
    """How many sessions of a changelog partition are open after that time on one side, and begin otherwise on the other, or have been given there."""
    both = _BoundedSessions.of(store, [newest_rows(storage, extents)["key"] for extents in (made, held)])
    ones, others = both
    is_open = [one.ends > closed_ms for one in both]
    reaching = [one.take(mask & (one.starts <= closed_ms)) for one, mask in zip(both, is_open, strict=True)]
    given = others.take(~is_open[1])
    again = ~reaching[0].begin_in(others.take(is_open[1])) | reaching[0].begin_in(given)
    lost = ~reaching[1].begin_in(ones.take(is_open[0]))
    return int(max(again.sum(), lost.sum(), given.begin_in(reaching[0]).sum()))


@dataclass(frozen=True, eq=False)
class _BoundedSessions:
    """Sessions with the numbers of their keys, and their bounds; those numbers of bounds rise with key and time."""

    starts: Integers
    ends: Integers
    first: Integers
    last: Integers

    @classmethod
    def of(cls, store: ProgramStore, found: list[pa.BinaryArray]) -> list[_BoundedSessions]:
        """The sessions that have these state keys, numbered together; lists of sessions are none."""
        layout, bounds, keys = layout_of(store), list[tuple[Integers, Integers]](), list[pa.BinaryArray]()
        for own in found:
            _, (ends, starts), columns = layout.split(own, [column.type for column in store.key])
            zeros = np.zeros(len(own), np.int64)
            bounds.append((starts, ends))
            keys.append(layout.keys(0, zeros, columns, [zeros, zeros]))
        numbers = pa.concat_arrays([pa.array([], pa.binary()), *keys]).dictionary_encode().indices.to_numpy().astype(np.int64)
        times, ranks = np.unique(np.concatenate([time for pair in bounds for time in pair]), return_inverse=True)
        sessions, at, place = [], 0, 0
        for starts, ends in bounds:
            size = len(starts)
            own_keys = numbers[at : at + size] * len(times)
            first, last = own_keys + ranks[place : place + size], own_keys + ranks[place + size : place + 2 * size]
            sessions.append(cls(starts, ends, first, last))
            at, place = at + size, place + 2 * size
        return sessions

    def take(self, kept: Mask) -> _BoundedSessions:
        return _BoundedSessions(self.starts[kept], self.ends[kept], self.first[kept], self.last[kept])

    def begin_in(self, others: _BoundedSessions) -> Mask:
        """Which ones begin within another session of their key."""
        if not len(others.first):
            return np.zeros(len(self.first), bool)
        order = np.argsort(others.first, kind="stable")
        reached = np.maximum.accumulate(others.last[order])
        before = np.searchsorted(others.first[order], self.first, "right") - 1
        within: Mask = (before >= 0) & (reached[before] >= self.first)
        return within


def _refusal(program: Program, operator: Operator, application: str, unlike: int) -> OrphanedStateError:
    line = program.lines.get(operator.id)
    return OrphanedStateError(
        f"reading the records of the store {operator.stores[0]!r} of {application!r} again would give some results twice, or not at all: {unlike:,} "
        "open sessions would begin at another record, so they would have records of sessions whose results were given already, or would miss "
        "records whose results were not given yet. Either records were read after others with later times, as happens when partitions are not "
        "read at the same pace, or the sessions are now made of other records. Start the application as it was with --drain (drain=True), so "
        "that no session is open, and make this start before new records arrive; or give the step another name, and drop its stores by "
        f"app.drop_store({', '.join(map(repr, operator.stores))})" + (f"\n  at {line}" if line else "")
    )
