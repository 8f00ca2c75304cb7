"""
The engine without Spark: readers, kernels and commit in one process, one after another, or side by side in threads.

The same readers, kernels and commit run under Spark, which adds placement and retries and nothing else. The test driver,
the crash tests and small jobs use this one. `local_run` goes on with it beside the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from streamkit.engine.epoch.epoch import EpochEnd, EpochPlan, ReaderSplit
from streamkit.engine.epoch.report import EpochClaim, TaskReport
from streamkit.engine.rows.exchange import ArrivedMessages, Control, Packed
from streamkit.engine.rows.payload import SentRows
from streamkit.engine.runs.commit import commit_epoch
from streamkit.engine.runs.planner import EVERYTHING, Planner
from streamkit.engine.stage.kernel import run_inner_kernel, run_last_kernel
from streamkit.engine.stage.reader import read_split
from streamkit.failpoints import reach
from streamkit.log.log import Log
from streamkit.log.storage.storage import Storage
from streamkit.log.upkeep import Upkeep
from streamkit.plan.program import Program
from streamkit.state.stores import ON_DISK, HeldStores, Stores

Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]  # `map`, or that of a pool of threads


def run_available(planner: Planner, *, drain: bool = False, splits: int = 2, stores: Stores = ON_DISK) -> list[EpochClaim]:
    """Run epochs until nothing is left to take; with `drain`, then close all windows. Returns what was committed."""
    claims: list[EpochClaim] = []
    while (claim := run_next(planner, splits=splits, stores=stores, before=claims[-1].end if claims else None)) is not None:
        claims.append(claim)
        planner = planner.with_near_anchor()
    if drain and (end := planner.closing_end(before := planner.committed_end())) is not None:
        claims.append(run_epoch(planner, before, end, splits, stores))
    return claims


def run_maintained(
    log: Log, planner: Planner, *, drain: bool = False, splits: int = 2, interval_ms: int | None = None
) -> list[EpochClaim]:
    """`run_available`, with heartbeats, and a pass of maintenance every `interval_ms` (else the setting) beside the epochs."""
    with Upkeep(log, planner.application.id, planner.application.generation, interval_ms):
        return run_available(planner, drain=drain, splits=splits)


def run_next(
    planner: Planner,
    *,
    splits: int = 2,
    stores: Stores = ON_DISK,
    records_max: int = EVERYTHING,
    before: EpochEnd | None = None,
) -> EpochClaim | None:
    """
    Run the next epoch and commit it; None if there is nothing to take, and no tick is due.

    `before` is the end of the last epoch, if it is known: that is not asked of the catalog then, whose commit compares it.
    """
    before = before or planner.committed_end()
    end = planner.next_end(before, records_max=records_max)
    return None if end is None else run_epoch(planner, before, end, splits, stores)


def run_epoch(
    planner: Planner, before: EpochEnd, end: EpochEnd, splits: int, stores: Stores = ON_DISK, each: Each = map
) -> EpochClaim:
    """Run one epoch to its commit; `each` says how its tasks run."""
    return run_planned(planner, *planner.plan(before, end, splits), stores, each)


def run_planned(
    planner: Planner, plan: EpochPlan, parts: Sequence[ReaderSplit], stores: Stores = ON_DISK, each: Each = map
) -> EpochClaim:
    """Run an epoch that was planned just now to its commit."""
    reach("epoch.planned")
    reports = run_tasks(planner.program, plan, parts, planner.storage, stores, each)
    claim = commit_epoch(planner.catalog, planner.storage, planner.program, reports)
    assert claim is not None, "an epoch that was planned just now cannot have been committed before"
    reach("epoch.returned")
    return claim


def held_stores(planner: Planner, at_once: int) -> HeldStores:
    """Stores that stay open between the epochs of a generation whose tasks all run in this process, `at_once` side by side."""
    stages = {store.stage for store in planner.program.stores}
    return HeldStores(len(stages) * planner.application.tasks, at_once, flushes_first=bool(planner.program.unlogged))


def run_tasks(
    program: Program,
    plan: EpochPlan,
    parts: Sequence[ReaderSplit],
    storage: Storage,
    stores: Stores = ON_DISK,
    each: Each = map,
) -> list[TaskReport]:
    """Run the readers and every kernel of an epoch; nothing becomes visible."""
    tasks = range(plan.application.tasks)
    arrived = _exchanged(
        chain.from_iterable(each(lambda part: list(read_split(program, plan, part, storage, in_process=True)), parts)), len(tasks)
    )
    for stage in range(1, program.stages):
        arrived = _exchanged(
            chain.from_iterable(each(_inner_kernel(program, stage, arrived, storage, stores), tasks)), len(tasks)
        )
    reports = each(lambda task: run_last_kernel(program, program.stages, task, arrived[task], storage, stores), tasks)
    return [report for report in reports if report is not None]


def _inner_kernel(
    program: Program, stage: int, arrived: Sequence[ArrivedMessages], storage: Storage, stores: Stores
) -> Callable[[int], list[Packed]]:
    return lambda task: list(run_inner_kernel(program, stage, task, arrived[task], storage, stores, in_process=True))


def _exchanged(rows: Iterable[Packed], tasks: int) -> list[ArrivedMessages]:
    arrived: list[list[tuple[int, pa.Buffer | SentRows | Control]]] = [[] for _ in range(tasks)]
    for task, edge, payload in rows:
        arrived[task].append((edge, pa.py_buffer(payload) if isinstance(payload, bytes) else payload))
    return [*arrived]
