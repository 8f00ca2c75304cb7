"""
The kernels: one run of a stage for one task.

A kernel gathers what arrived, opens its state as of the committed epoch, runs its operators, writes one slab (outputs and
changes), and hands on packed rows, or, as the last one, a report for the commit. An inner kernel's stage may run again, so
it reports its slab to every task downstream, and the commit checks that all of them heard of the same content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.epoch import EpochPlan
from streamkit.engine.exchange import Arrival, Packed, collect, control, fingerprint
from streamkit.engine.operators.aggregate import aggregate, fold_rows
from streamkit.engine.operators.output import emit, send, write
from streamkit.engine.operators.table import global_join, materialize, table_join
from streamkit.engine.operators.windows import fold_windows
from streamkit.engine.reader import apply_stateless
from streamkit.engine.report import EpochClaim, KernelReport, SplitReport, TaskReport
from streamkit.failpoints import reach
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import write_slab
from streamkit.log.storage.storage import Storage
from streamkit.names import SlabName, application_writer, fresh_token, store_folder
from streamkit.plan.program import (
    Aggregate,
    Emit,
    Fold,
    GlobalJoin,
    Materialize,
    Operator,
    Program,
    Receive,
    Send,
    TableJoin,
    Windows,
    Write,
)
from streamkit.state.key_group import key_group_range
from streamkit.state.task_state import Share, TaskState, open_state


def run_inner_kernel(
    program: Program, stage: int, task: int, rows: Iterable[tuple[int, pa.Buffer]], storage: Storage
) -> Iterator[Packed]:
    """Run a kernel that feeds another: its rows, those that only pass through, and the reports."""
    arrival = collect(rows)
    if (plan := _plan_heard(arrival)) is None:
        return
    report, sent = _run(program, plan, stage, task, arrival, storage)
    yield from sent
    yield from _passing_through(program, stage, task, arrival)
    for other in range(plan.application.tasks):
        yield control(other, "kernel", report=report.to_json())
    for message in arrival.controls:
        yield control(task, **message)


def run_last_kernel(
    program: Program, stage: int, task: int, rows: Iterable[tuple[int, pa.Buffer]], storage: Storage
) -> TaskReport | None:
    """Run the kernel whose report goes to the commit; None if no plan arrived, as when Spark replays a committed epoch."""
    arrival = collect(rows)
    if (plan := _plan_heard(arrival)) is None:
        return None
    report, _ = _run(program, plan, stage, task, arrival, storage)
    heard = tuple(KernelReport.from_json(message["report"]) for message in arrival.of_kind("kernel"))
    splits = tuple(SplitReport.from_json(message["report"]) for message in arrival.of_kind("split"))
    return TaskReport(
        task, EpochClaim(plan.application, plan.before, plan.end, plan.splits, plan.purged_below), (*heard, report), splits
    )


def _plan_heard(arrival: Arrival) -> EpochPlan | None:
    plans = arrival.of_kind("plan")
    return EpochPlan.from_json(plans[0]["plan"]) if plans else None


def _run(
    program: Program, plan: EpochPlan, stage: int, task: int, arrival: Arrival, storage: Storage
) -> tuple[KernelReport, list[Packed]]:
    application = plan.application
    groups = key_group_range(task, application.tasks, application.key_groups)
    state = _open(program, plan, stage, task, storage)
    context = Context(program, plan, storage, arrival, state, groups)
    try:
        run_operators(program.operators_of(stage), context)
    finally:
        if state is not None:
            state.close()
    slab = _write(context, storage)
    restored = state.restored if state is not None else 0
    report = KernelReport(stage, task, _content(context.sent, slab), slab, context.tally(), restored)
    reach("kernel.finished")
    return report, context.sent


def _open(program: Program, plan: EpochPlan, stage: int, task: int, storage: Storage) -> TaskState | None:
    application = plan.application
    names = [store.name for store in program.stores if store.stage == stage]
    if not names:
        return None
    share = Share(
        key_group_range(task, application.tasks, application.key_groups),
        application.key_groups,
        application.changelog_partitions,
        tuple(application.stores[name].changelog_id for name in names),
    )
    reach("state.before_open")
    folder = Path(storage.root) / store_folder(application.name, stage, task, application.tasks)
    return open_state(storage, folder, share, plan.changes, application.store_memory_bytes)


def run_operators(operators: Iterable[Operator], context: Context) -> None:
    """Run a stage's operators in order; each result is an input of those below."""
    stage = tuple(operators)
    results: dict[str, pa.RecordBatch | None] = {}
    for operator in stage:
        inputs = [results.get(name) for name in operator.inputs]
        if isinstance(operator, Windows) and (fold := _only_fold(operator, stage)):
            results[fold.id] = fold_windows(operator, fold, inputs[0], context) if inputs[0] is not None else None
        elif operator.id not in results:
            results[operator.id] = _apply(operator, inputs, context)
        reach("kernel.in_operator")


def _only_fold(windows: Windows, stage: Iterable[Operator]) -> Fold | None:
    """The fold that takes the rows of these windows, if nothing else does: then they need not be there all at once."""
    takers = [operator for operator in stage if windows.id in operator.inputs]
    return takers[0] if len(takers) == 1 and isinstance(takers[0], Fold) else None


def _apply(operator: Operator, inputs: list[pa.RecordBatch | None], context: Context) -> pa.RecordBatch | None:
    match operator:
        case Receive():
            assert context.arrival is not None
            return context.arrival.rows(operator.edge)
        case Materialize():
            return materialize(operator, inputs[0], context)
        case TableJoin():
            return table_join(operator, inputs[0], inputs[1], context)
        case GlobalJoin():
            return global_join(operator, inputs[0], context)
        case Aggregate():
            aggregate(operator, inputs[0], context)
        case Emit():
            return emit(operator, context)
        case Fold():
            return fold_rows(operator, inputs[0], context) if inputs[0] is not None else None
        case Send():
            send(operator, inputs[0], context)
        case Write():
            write(operator, inputs[0], context)
        case _:
            return apply_stateless(operator, inputs[0], context) if inputs[0] is not None else None
    return None


def _passing_through(program: Program, stage: int, task: int, arrival: Arrival) -> Iterator[Packed]:
    """Rows for a later stage, which only pass through this one."""
    for edge, payloads in arrival.payloads.items():
        if program.edges[edge].to_stage > stage:
            for payload in payloads:
                yield Packed(task, edge, payload)


def _write(context: Context, storage: Storage) -> SlabReference | None:
    if not context.frames:
        return None
    application = context.plan.application
    name = SlabName(application_writer(application.id), application.generation, context.plan.epoch, fresh_token())
    compressions = {topic.id: topic.compression for topic in application.outputs}
    slab = write_slab(storage, name, context.frames, compressions)
    reach("kernel.slab_durable")
    return slab


def _content(sent: Iterable[Packed], slab: SlabReference | None) -> str:
    """A digest of all that the kernel made, which another attempt on the same rows must reproduce."""
    return f"{fingerprint(sent)}-{slab.content if slab else 'nothing'}"
