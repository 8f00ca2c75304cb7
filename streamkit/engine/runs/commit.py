"""
The commit of an epoch: check that all attempts agree and all bytes are there, then one catalog transaction.

What is checked: every task reported; all heard of every split and every inner kernel, with the same content; the splits
consumed exactly the records planned; the tasks took as many rows as were sent to them, and their slabs have as many as their
operators gave; every adopted slab is whole. If any of it fails, nothing becomes visible and the
epoch can run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from streamkit.clock import monotonic_us
from streamkit.engine.epoch.epoch import Application, EpochEnd
from streamkit.engine.epoch.report import EpochClaim, KernelReport, SplitReport, TaskReport
from streamkit.engine.epoch.stream_time import METRIC, as_metric
from streamkit.engine.runs.epoch_report import note_commit, report_of
from streamkit.engine.runs.moves import EXECUTORS
from streamkit.engine.stage.context import CHANGES, WRITTEN
from streamkit.errors import ConfigError, EpochFailedError, FencedError
from streamkit.expressions.python.python_functions import functions_in
from streamkit.failpoints import reach
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.epochs import EpochCommit
from streamkit.log.catalog.inline_slabs import InlineFullError
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import in_a_file, verify_slab
from streamkit.log.storage.storage import Storage
from streamkit.names import fresh_token
from streamkit.plan.program import Program
from streamkit.state.changelog import BEGUN_METRIC, begun_of
from streamkit.state.format import METRIC as STATE_METRIC
from streamkit.state.format import STATE_FORMAT
from streamkit.state.key_group import key_group_range
from streamkit.state.task_state import Share

READERS = 0  # the stage of the readers
LOST = "lost"  # the metric, by store, of the tasks in which a store without a log began empty


def commit_epoch(
    catalog: Catalog,
    storage: Storage,
    program: Program,
    reports: Sequence[TaskReport],
) -> EpochClaim | None:
    """
    Make the epoch that these reports speak of visible; None if it was committed before or there was none.

    Raises EpochFailedError if the attempts do not agree or did not arrive whole, FencedError if a newer generation started.
    """
    begun_us = monotonic_us()
    if not reports:
        return None
    claim = reports[0].claim
    application, end = claim.application, claim.end
    if catalog.applications.turn(application.name)[1] >= end.epoch:
        check_generation(catalog, application)
        return None
    _check_tasks(claim, reports)
    try:
        splits = _splits(claim, reports)
        kernels = _kernels(claim, program.stages, reports)
    except DisagreementError as error:
        raise EpochFailedError(f"{error}{_suspicion(functions_of(program, error.stage))}") from None
    check_rows(claim, splits, [attempts[0] for attempts in kernels])
    slabs = [_whole_slab(storage, attempts) for attempts in kernels]
    told = [max(attempts, key=lambda one: len(one.work)) for attempts in kernels]
    reach("commit.verified")
    before = claim.before.positions
    _commit(
        catalog,
        storage,
        EpochCommit(
            application_id=application.id,
            generation=application.generation,
            epoch=end.epoch,
            token=fresh_token(),
            before={
                topic_id: {partition: before.get(topic_id, {}).get(partition, 0) for partition in partitions}
                for topic_id, partitions in claim.end.positions.items()
            },
            after={topic_id: dict(partitions) for topic_id, partitions in end.positions.items()},
            stream_time_ms=end.order if end.times else None,
            drained=end.closing,
            slabs=tuple(slab for slab in slabs if slab is not None),
            metrics=_metrics(end, splits, [attempts[0] for attempts in kernels])
            | _begun(catalog, claim, [attempts[0] for attempts in kernels]),
            timestamp_ms=end.time_ms,
            purged_below={topic_id: dict(partitions) for topic_id, partitions in claim.purged_below.items()},
            report=report_of(catalog, program, claim, splits, told, begun_us),
        ),
    )
    note_commit(catalog, claim, begun_us)
    reach("commit.after_commit")
    return claim


def _commit(catalog: Catalog, storage: Storage, epoch: EpochCommit) -> None:
    try:
        catalog.epochs.commit(epoch)
    except InlineFullError:
        catalog.epochs.commit(replace(epoch, slabs=tuple(in_a_file(storage, slab) for slab in epoch.slabs)))


def check_generation(catalog: Catalog, application: Application) -> None:
    """FencedError if a newer generation has started, or the application was removed; the commit checks it again, in its transaction."""
    try:
        newest, _ = catalog.applications.turn(application.name)
    except ConfigError:
        raise FencedError(
            f"application {application.name}: generation {application.generation} cannot commit, since the application was removed; this run must "
            "stop, and what it staged is void"
        ) from None
    if newest != application.generation:
        raise FencedError(
            f"application {application.name}: generation {application.generation} cannot commit, generation {newest} has started "
            "since; this run must stop, and what it staged is void"
        )


class DisagreementError(EpochFailedError):
    """Attempts at a stage made different things of the same records."""

    def __init__(self, message: str, stage: int) -> None:
        super().__init__(message)
        self.stage = stage


def functions_of(program: Program, stage: int) -> tuple[str, ...]:
    """The functions and processors of users that a stage calls, each with its step and the user's line."""
    found = []
    for operator in program.operators_of(stage):
        line = f" at {program.lines[operator.id]}" if operator.id in program.lines else ""
        found += [f"{name.partition(':')[0]} in {operator.id}{line}" for name in sorted(functions_in(operator))]
    return tuple(dict.fromkeys(found))


def _suspicion(functions: Sequence[str]) -> str:
    """What is most likely the cause where attempts differ."""
    if not functions:
        return ""
    return (
        f". Functions of the topology were called there, and one that is not deterministic is the likely cause: {', '.join(functions)}. "
        "Expected the same results for the same records: without clocks, random numbers, or values that earlier calls left behind"
    )


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
        raise DisagreementError(
            f"epoch {claim.end.epoch}: tasks heard different things from the readers; run the epoch again", READERS
        )
    records = sum(split.records for split in heard[0])
    if records != claim.end.records:
        raise EpochFailedError(
            f"epoch {claim.end.epoch}: the readers read {records} records; expected {claim.end.records}; run the epoch again"
        )
    return [max(same, key=lambda split: len(split.work)) for same in zip(*heard, strict=True)]


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
    contents = len({attempt.content for attempt in attempts})
    if len(attempts) == expected and contents == 1:
        return
    message = (
        f"epoch {claim.end.epoch}: {len(attempts)} tasks heard of kernel {stage}, task {task}, with {contents} different contents; "
        f"expected {expected} with one; run the epoch again"
    )
    raise DisagreementError(message, stage) if contents > 1 else EpochFailedError(message)


def check_rows(claim: EpochClaim, splits: Sequence[SplitReport], kernels: Sequence[KernelReport]) -> None:
    """EpochFailedError unless all rows that were sent have arrived, and all that operators gave are in the slabs."""
    sent: Counter[tuple[int, int]] = Counter()
    reports: list[SplitReport | KernelReport] = [*splits, *kernels]
    for edge, task, rows in chain.from_iterable(report.sent for report in reports):
        sent[edge, task] += rows
    received = Counter({(edge, kernel.task): rows for kernel in kernels for edge, rows in kernel.received})
    if sent != received:
        lost = {place: (sent[place], received[place]) for place in sent | received if sent[place] != received[place]}
        (edge, task), (left, arrived) = min(lost.items())
        raise EpochFailedError(
            f"epoch {claim.end.epoch}: {left} rows were sent to task {task} by edge {edge}, and it received {arrived} of them; nothing was "
            "committed; run the epoch again"
        )
    for kernel in kernels:
        given, kept = _rows_given(claim, kernel), _rows_kept(kernel)
        if given != kept:
            raise EpochFailedError(
                f"epoch {claim.end.epoch}: kernel {kernel.stage}, task {kernel.task}, gave the rows {dict(given)} by topic id, and its slab "
                f"has {dict(kept)}; nothing was committed; run the epoch again"
            )


def _rows_given(claim: EpochClaim, kernel: KernelReport) -> Counter[int]:
    """By topic id, the rows that the operators of a kernel gave: results for topics, and changes of stores."""
    topics = {output.name: output.id for output in claim.application.outputs}
    stores = {name: store.changelog_id for name, store in claim.application.stores.items()}
    rows: Counter[int] = Counter()
    for metric, name, count in kernel.counts:
        if metric == WRITTEN:
            rows[topics[name]] += count
        elif metric == CHANGES:
            rows[stores[name]] += count
    return rows


def _rows_kept(kernel: KernelReport) -> Counter[int]:
    """By topic id, the rows in the slab of a kernel."""
    rows: Counter[int] = Counter()
    for frame in kernel.slab.frames if kernel.slab is not None else ():
        rows[frame.topic_id] += frame.rows
    return rows


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


def _begun(catalog: Catalog, claim: EpochClaim, kernels: Sequence[KernelReport]) -> dict[str, Any]:
    """
    What the epoch says of tasks whose stores without a log began empty; nothing if none did.

    Copies that hold something else, as attempts have left them that are not committed, are known by that. An earlier beginning counts no
    more once all of its key groups have another.
    """
    application = claim.application
    found = {
        Share(key_group_range(one.task, application.tasks, application.key_groups), 0, 0, (), one.stage): one.began_empty
        for one in kernels
        if one.began_empty
    }
    if not found:
        return {}
    known = begun_of(catalog.applications.get(application.name).metrics)
    known = {name: epoch for name, epoch in known.items() if not any(share.covers(name) for share in found)}
    known |= {share.name: claim.end.epoch for share in found}
    lost = Counter(name for names in found.values() for name in names)
    return {LOST: dict(lost), BEGUN_METRIC: [list(pair) for pair in sorted(known.items())]}


def _metrics(end: EpochEnd, splits: Sequence[SplitReport], kernels: Sequence[KernelReport]) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "records": end.records,
        "restored": sum(kernel.restored for kernel in kernels),
        METRIC: as_metric(end.times),
        STATE_METRIC: STATE_FORMAT,
    }
    if any(kernel.executor for kernel in kernels):
        metrics[EXECUTORS] = [kernel.executor for kernel in kernels]
    reports: list[SplitReport | KernelReport] = [*splits, *kernels]
    for name, operator, rows in (count for report in reports for count in report.counts):
        by_operator = metrics.setdefault(name, {})
        by_operator[operator] = by_operator.get(operator, 0) + rows
    return metrics
