"""
What a run tells of an epoch when it commits it: how long it took, how much of that was waiting for the slowest task, and what each step did.

Times are measured with clocks that never go back, by reports that reached the commit. A replay of the same epoch takes another time, so
none of this is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import chain
from weakref import WeakKeyDictionary

from streamkit.clock import monotonic_us
from streamkit.engine.epoch.report import EpochClaim, KernelReport, SplitReport, TimesRead
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.epochs import EpochReport
from streamkit.plan.program import STREAM_KINDS, Program

ROWS_IN, ROWS_OUT, BUSY_US = "rows_in", "rows_out", "busy_us"  # totals of an application, by operator
TOOK_MS = "took_ms"  # an epoch's plan, tasks, and the commit of the epoch before
TASK_MS = "task_ms"  # how long the slowest task of an epoch took, and the mean of all
MICROSECONDS = 1_000  # in a millisecond

_committed: WeakKeyDictionary[Catalog, dict[int, tuple[int, int]]] = WeakKeyDictionary()


def note_commit(catalog: Catalog, claim: EpochClaim, begun_us: int) -> None:
    """Remember how long the commit of an epoch took that began then: the next epoch tells it, since a commit cannot tell its own end."""
    _committed.setdefault(catalog, {})[claim.application.id] = (claim.end.epoch, monotonic_us() - begun_us)


def report_of(
    catalog: Catalog,
    program: Program,
    claim: EpochClaim,
    splits: Sequence[SplitReport],
    kernels: Sequence[KernelReport],
    begun_us: int,
) -> EpochReport:
    """The report of an epoch whose commit began then, from those of its readers and of one attempt of each kernel."""
    named = zip(claim.application.topic_ids, program.inputs, strict=True)
    return EpochReport(
        facts={TOOK_MS: _took(catalog, claim, begun_us), TASK_MS: _by_task(claim, kernels)},
        totals=_work(splits, kernels),
        topics={topic_id: source.topic for topic_id, source in named if source.kind in STREAM_KINDS},
        event_times_ms=_event_times(splits),
        changelogs=[names.changelog_id for names in claim.application.stores.values()],
    )


def _took(catalog: Catalog, claim: EpochClaim, begun_us: int) -> dict[str, float]:
    """The parts of an epoch; the commit is that of the epoch before, where this process made it."""
    begun, planned = claim.planned_us
    took = {"plan": planned - begun, "tasks": begun_us - planned}
    epoch, commit_us = _committed.get(catalog, {}).get(claim.application.id, (0, 0))
    if epoch == claim.before.epoch > 0:
        took["commit_before"] = commit_us
    return {name: microseconds / MICROSECONDS for name, microseconds in took.items()}


def _by_task(claim: EpochClaim, kernels: Sequence[KernelReport]) -> dict[str, float]:
    """How long the slowest task was at work in all its kernels, and how long a task was on average."""
    by_task = [0] * claim.application.tasks
    for kernel in kernels:
        by_task[kernel.task] += kernel.took_us
    slowest, mean = max(by_task), sum(by_task) / len(by_task)
    return {"slowest": slowest / MICROSECONDS, "mean": round(mean / MICROSECONDS, 3)}


def _work(splits: Sequence[SplitReport], kernels: Sequence[KernelReport]) -> dict[str, dict[str, int]]:
    """Rows and busy time by operator, of all tasks together."""
    totals: dict[str, dict[str, int]] = {ROWS_IN: {}, ROWS_OUT: {}, BUSY_US: {}}
    reports: list[SplitReport | KernelReport] = [*splits, *kernels]
    for operator_id, *done in chain.from_iterable(report.work for report in reports):
        if any(done):
            for by_operator, more in zip(totals.values(), done, strict=True):
                by_operator[operator_id] = by_operator.get(operator_id, 0) + more
    return totals


def _event_times(splits: Sequence[SplitReport]) -> tuple[float, float] | None:
    """The oldest event time that was read, and the mean; None if no record has one."""
    known = [split.event_times for split in splits if split.event_times is not None]
    found = reduce(TimesRead.with_others, known) if known else None
    return None if found is None else (found.oldest_ms, found.mean_ms)
