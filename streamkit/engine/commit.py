"""
The commit of an epoch: check that all attempts agree and all bytes are there, then one catalog transaction.

What is checked: every task reported; all heard of every split and every inner kernel, with the same content; the splits
consumed exactly the records planned; every adopted slab is whole. If any of it fails, nothing becomes visible and the
epoch can run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamkit.engine.epoch import Application, EpochEnd
from streamkit.engine.report import EpochClaim, KernelReport, SplitReport, TaskReport
from streamkit.engine.stream_time import METRIC, as_metric
from streamkit.errors import EpochFailedError, FencedError
from streamkit.expressions.python_functions import functions_in
from streamkit.failpoints import reach
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.epochs import EpochCommit
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import verify_slab
from streamkit.log.storage.storage import Storage
from streamkit.names import fresh_token
from streamkit.plan.program import Program
from streamkit.state.format import METRIC as STATE_METRIC
from streamkit.state.format import STATE_FORMAT


def commit_epoch(
    catalog: Catalog, storage: Storage, stages: int, reports: Sequence[TaskReport], functions: Callable[[], Sequence[str]] = tuple
) -> EpochClaim | None:
    """
    Make the epoch that these reports speak of visible; None if it was committed before or there was none.

    Raises EpochFailedError if the attempts do not agree or did not arrive whole, FencedError if a newer generation started.
    `functions` gives those of users, which may be why attempts do not agree.
    """
    if not reports:
        return None
    claim = reports[0].claim
    application, end = claim.application, claim.end
    if catalog.application_turn(application.name)[1] >= end.epoch:
        check_generation(catalog, application)
        return None
    _check_tasks(claim, reports)
    try:
        splits = _splits(claim, reports)
        kernels = _kernels(claim, stages, reports)
    except DisagreementError as error:
        found = ", ".join(functions())
        suspects = f"; these functions may not be deterministic: {found}" if found else ""
        raise EpochFailedError(f"{error}{suspects}") from None
    slabs = [_whole_slab(storage, attempts) for attempts in kernels]
    reach("commit.verified")
    catalog.commit_epoch(
        EpochCommit(
            application_id=application.id,
            generation=application.generation,
            epoch=end.epoch,
            token=fresh_token(),
            before=_positions_before(claim),
            after={topic_id: dict(partitions) for topic_id, partitions in end.positions.items()},
            stream_time_ms=end.order if end.times else None,
            drained=end.closing,
            slabs=tuple(slab for slab in slabs if slab is not None),
            metrics=_metrics(end, splits, [attempts[0] for attempts in kernels]),
            timestamp_ms=end.time_ms,
            purged_below={topic_id: dict(partitions) for topic_id, partitions in claim.purged_below.items()},
        )
    )
    reach("commit.after_commit")
    return claim


def check_generation(catalog: Catalog, application: Application) -> None:
    """FencedError if a newer generation has started; the commit checks it again, in its transaction."""
    newest, _ = catalog.application_turn(application.name)
    if newest != application.generation:
        raise FencedError(
            f"application {application.name}: generation {application.generation} cannot commit, generation {newest} has started "
            "since; this run must stop, and what it staged is void"
        )


def _positions_before(claim: EpochClaim) -> dict[int, dict[int, int]]:
    """Where the epoch began, for each partition that it names; one that was never read begins at 0."""
    before = claim.before.positions
    return {
        topic_id: {partition: before.get(topic_id, {}).get(partition, 0) for partition in partitions}
        for topic_id, partitions in claim.end.positions.items()
    }


class DisagreementError(EpochFailedError):
    """Attempts on the same records made different things."""


def functions_of(program: Program) -> tuple[str, ...]:
    """The functions of users that a program calls, each with the line of its step."""
    found = (
        f"{name.partition(':')[0]} at {program.lines.get(operator.id, operator.id)}"
        for operator in program.operators
        for name in sorted(functions_in(operator))
    )
    return tuple(dict.fromkeys(found))


def _check_tasks(claim: EpochClaim, reports: Sequence[TaskReport]) -> None:
    tasks = sorted(report.task for report in reports)
    if tasks != list(range(claim.application.tasks)):
        raise EpochFailedError(
            f"epoch {claim.end.epoch}: tasks {tasks} reported; expected each of {claim.application.tasks} once; run the epoch again"
        )
    if any(report.claim != claim for report in reports):
        raise EpochFailedError(f"epoch {claim.end.epoch}: tasks ran different plans; run the epoch again")


def _splits(claim: EpochClaim, reports: Sequence[TaskReport]) -> list[SplitReport]:
    """The reports of the splits, on which all tasks must agree, and which must add up to what was planned."""
    heard = [sorted(report.splits, key=lambda split: split.number) for report in reports]
    if any(splits != heard[0] for splits in heard) or [split.number for split in heard[0]] != list(range(claim.splits)):
        raise DisagreementError(f"epoch {claim.end.epoch}: tasks heard different things from the readers; run the epoch again")
    records = sum(split.records for split in heard[0])
    if records != claim.end.records:
        raise EpochFailedError(
            f"epoch {claim.end.epoch}: the readers took {records} records; expected {claim.end.records}; run the epoch again"
        )
    return heard[0]


def _kernels(claim: EpochClaim, stages: int, reports: Sequence[TaskReport]) -> list[list[KernelReport]]:
    """For each stage and task the attempts that were heard of, all with the same content."""
    attempts: dict[tuple[int, int], list[KernelReport]] = {}
    for report in reports:
        for kernel in report.kernels:
            attempts.setdefault((kernel.stage, kernel.task), []).append(kernel)
    tasks = claim.application.tasks
    for stage in range(1, stages + 1):
        for task in range(tasks):
            _check_agreement(claim, attempts.get((stage, task), []), 1 if stage == stages else tasks, stage, task)
    return [attempts[place] for place in sorted(attempts)]


def _check_agreement(claim: EpochClaim, attempts: Sequence[KernelReport], expected: int, stage: int, task: int) -> None:
    if len(attempts) != expected or len({attempt.content for attempt in attempts}) != 1:
        raise DisagreementError(
            f"epoch {claim.end.epoch}: {len(attempts)} tasks heard of kernel {stage}, task {task}, with "
            f"{len({attempt.content for attempt in attempts})} different contents; expected {expected} with one; run the epoch again"
        )


def _whole_slab(storage: Storage, attempts: Sequence[KernelReport]) -> SlabReference | None:
    """A slab of these attempts that is there and whole; None if they had nothing to write."""
    slabs = list({attempt.slab.path: attempt.slab for attempt in attempts if attempt.slab is not None}.values())
    if not slabs:
        return None
    for slab in slabs[:-1]:
        try:
            verify_slab(storage, slab)
        except EpochFailedError:
            continue
        return slab
    verify_slab(storage, slabs[-1])
    return slabs[-1]


def _metrics(end: EpochEnd, splits: Sequence[SplitReport], kernels: Sequence[KernelReport]) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "records": end.records,
        "restored": sum(kernel.restored for kernel in kernels),
        METRIC: as_metric(end.times),
        STATE_METRIC: STATE_FORMAT,
    }
    reports: list[SplitReport | KernelReport] = [*splits, *kernels]
    for name, operator, rows in (count for report in reports for count in report.counts):
        by_operator = metrics.setdefault(name, {})
        by_operator[operator] = by_operator.get(operator, 0) + rows
    return metrics
