"""
The plan of an epoch with the bytes of small commits, for tasks in other processes: they have no catalog, where these are.

Few bytes travel in the plan. Where there are many, as after a start far behind, they are moved into a file first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from streamkit.engine.epoch.epoch import EpochEnd, EpochPlan, ReaderSplit
from streamkit.engine.runs.planner import Planner
from streamkit.engine.stage.reader import has_dead_letters_of_kernels
from streamkit.errors import EpochFailedError
from streamkit.log.maintenance.flush import flush_inline
from streamkit.log.maintenance.segment import SegmentWriter
from streamkit.log.slab.extent import Extent
from streamkit.log.storage.inline_storage import InlineStorage
from streamkit.names import is_inline
from streamkit.plan.program import Program

PLAN_BYTES_MAX = 4 << 20
ATTEMPTS = 5


def plan_with_inline(
    planner: Planner, storage: InlineStorage, before: EpochEnd, end: EpochEnd, splits: int
) -> tuple[EpochPlan, tuple[ReaderSplit, ...]]:
    """
    The plan of the epoch between two ends, and its input in at most `splits` parts, with the inline slabs that they name.

    EpochFailedError if maintenance keeps moving them while they are looked up.
    """
    for _ in range(ATTEMPTS):
        plan, parts = planner.plan(before, end, splits)
        named = [*_extents_of(plan), *(extent for part in parts for extent in _extents_of_split(part))]
        waiting = {extent.topic_id for extent in named if is_inline(extent.path)}
        if sum(extent.length for extent in named if is_inline(extent.path)) > PLAN_BYTES_MAX:
            flush_inline(planner.catalog, SegmentWriter(storage, planner.catalog), waiting)
            continue
        try:
            return _filled(planner.program, storage, plan, parts)
        except FileNotFoundError:  # moved since the plan was made
            continue
    raise EpochFailedError(
        f"epoch {end.epoch}: the rows of small commits were moved while it was planned, {ATTEMPTS} times; run it again"
    )


def _filled(
    program: Program, storage: InlineStorage, plan: EpochPlan, parts: Sequence[ReaderSplit]
) -> tuple[EpochPlan, tuple[ReaderSplit, ...]]:
    read_again = [extent for part in parts for extent in _extents_of_split(part)] if has_dead_letters_of_kernels(program) else []
    inline = storage.bytes_of(extent.path for extent in (*_extents_of(plan), *read_again))
    tables = [extent for extents in plan.globals.values() for extent in extents]  # which readers join with too
    filled = [
        replace(part, inline=storage.bytes_of(extent.path for extent in (*_extents_of_split(part), *tables))) for part in parts
    ]
    return replace(plan, inline=inline), tuple(filled)


def _extents_of(plan: EpochPlan) -> Iterator[Extent]:
    yield from plan.changes.extents
    for extents in plan.globals.values():
        yield from extents


def _extents_of_split(split: ReaderSplit) -> Iterator[Extent]:
    for piece in split.slices:
        yield from piece.extents
