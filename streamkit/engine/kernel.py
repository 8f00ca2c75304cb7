"""
The kernels: one run of a stage for one task.

A kernel gathers what arrived, opens its state as of the committed epoch, runs its operators, and writes one slab (outputs and
changes). An inner kernel hands on packed rows; the last one a report for the commit. Spark may run an inner kernel's stage
again, so it reports its slab to every task downstream, and the commit checks that all of them heard of the same content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

import pyarrow as pa

from streamkit.engine.context import Context, Frame
from streamkit.engine.epoch import EpochPlan
from streamkit.engine.exchange import Arrival, Arrived, Packed, collect, control, fingerprint
from streamkit.engine.kernels import Pieces, Rows, kernel_of, run_operator
from streamkit.engine.report import EpochClaim, KernelReport, SplitReport, TaskReport
from streamkit.engine.rows import concatenate
from streamkit.errors import EvaluationError
from streamkit.failpoints import reach
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import write_slab
from streamkit.log.storage.storage import Storage
from streamkit.names import SlabName, application_writer, fresh_token, store_folder
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program
from streamkit.state.key_group import key_group_range
from streamkit.state.stores import ON_DISK, Stores
from streamkit.state.task_state import Share, TaskState, open_state

FOLDERS_KEPT = 256
NEVER = -1  # the place of an operator that takes a result which nobody takes


def run_inner_kernel(
    program: Program, stage: int, task: int, rows: Arrived, storage: Storage, stores: Stores = ON_DISK
) -> Iterator[Packed]:
    """Run a kernel that feeds another: its rows, those that only pass through, and the reports."""
    arrival = collect(rows)
    if (plan := _plan_heard(arrival)) is None:
        return
    report, sent = _run(program, plan, stage, task, arrival, storage, stores)
    yield from sent
    yield from _passing_through(program, stage, task, arrival)
    for other in range(plan.application.tasks):
        yield control(other, "kernel", report)
    for message in arrival.controls:
        yield control(task, message.kind, message.value)


def run_last_kernel(
    program: Program, stage: int, task: int, rows: Arrived, storage: Storage, stores: Stores = ON_DISK
) -> TaskReport | None:
    """Run the kernel whose report goes to the commit; None if no plan arrived, as when Spark replays a committed epoch."""
    arrival = collect(rows)
    if (plan := _plan_heard(arrival)) is None:
        return None
    report, _ = _run(program, plan, stage, task, arrival, storage, stores)
    heard = tuple(arrival.of_kind("kernel", KernelReport))
    splits = tuple(arrival.of_kind("split", SplitReport))
    return TaskReport(
        task, EpochClaim(plan.application, plan.before, plan.end, plan.splits, plan.purged_below), (*heard, report), splits
    )


def _plan_heard(arrival: Arrival) -> EpochPlan | None:
    plans = arrival.of_kind("plan", EpochPlan)
    return plans[0] if plans else None


def _run(
    program: Program, plan: EpochPlan, stage: int, task: int, arrival: Arrival, storage: Storage, stores: Stores
) -> tuple[KernelReport, list[Packed]]:
    application = plan.application
    groups = key_group_range(task, application.tasks, application.key_groups)
    folder = _folder(storage.root, application.name, stage, task, application.tasks)
    state = _open(program, plan, stage, task, storage, folder, stores)
    context = Context(program, plan, storage, arrival, state, groups, origin=task, may_give_pieces=True)
    try:
        try:
            run_operators(program.operators_of(stage), context)
        except EvaluationError as error:
            if error.is_placed:
                raise
            context = Context(program, plan, storage, arrival, state, groups, origin=task, is_leaving_out=True)
            run_operators(program.operators_of(stage), context)
            if not program.on_error:
                raise
    finally:
        if state is not None:
            state.close()
    slab = _write(context, storage)
    if slab is not None and state is not None:
        changelog_ids = {store.changelog_id for store in application.stores.values()}
        stores.remember(folder, slab, context.frames, changelog_ids)
    restored = state.restored if state is not None else 0
    report = KernelReport(stage, task, _content(context.sent, slab), slab, context.tally(), restored)
    reach("kernel.finished")
    return report, context.sent


def _open(
    program: Program, plan: EpochPlan, stage: int, task: int, storage: Storage, folder: Path, stores: Stores
) -> TaskState | None:
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
    return open_state(storage, folder, share, plan.changes, application.store_memory_bytes, stores)


@lru_cache(maxsize=FOLDERS_KEPT)
def _folder(root: str, application: str, stage: int, task: int, tasks: int) -> Path:
    """Where the store of a task is kept."""
    return Path(root) / store_folder(application, stage, task, tasks)


def run_operators(operators: Iterable[Operator], context: Context) -> None:
    """
    Run a stage's operators in order; each result is an input of those below, and is let go behind the last of them.

    The frames stand in the order of the operators that wrote them, however rows came.
    """
    results: dict[str, Rows] = {}
    operators = tuple(operators)
    last_use = {name: place for place, operator in enumerate(operators) for name in operator.inputs}
    frames: dict[str, list[Frame]] = {operator.id: [] for operator in operators}
    done: set[str] = set()
    for place, operator in enumerate(operators):
        if operator.id in done:
            continue
        for name, made in run_operator(operator, results, context).items():
            if isinstance(made, Pieces):
                taking = _taking_pieces(name, operators[place + 1 :])
                results |= _run_in_pieces(name, made, taking, operators[place + 1 :], frames, context)
                done |= {one.id for one in taking}
            else:
                results[name] = made
        _move(context, frames[operator.id])
        results = {name: rows for name, rows in results.items() if last_use.get(name, NEVER) > place}
        reach("kernel.in_operator")
    context.frames.extend(chain.from_iterable(frames.values()))


def _move(context: Context, frames: list[Frame]) -> None:
    """Put what the context has got of frames behind others."""
    frames += context.frames
    context.frames.clear()


def _taking_pieces(name: str, operators: Sequence[Operator]) -> list[Operator]:
    """Those of the operators below a result that take it, or what is made of it, in pieces."""
    taking, made = [], {name}
    for operator in operators:
        if operator.inputs and kernel_of(operator).takes_pieces and made.issuperset(operator.inputs):
            taking.append(operator)
            made.add(operator.id)
    return taking


def _run_in_pieces(
    name: str,
    pieces: Pieces,
    taking: Sequence[Operator],
    operators: Sequence[Operator],
    frames: Mapping[str, list[Frame]],
    context: Context,
) -> dict[str, Rows]:
    """Run the operators that take pieces on one after the other; what the other operators take of it is gathered."""
    own = {operator.id for operator in taking}
    wanted = {one for operator in operators if operator.id not in own for one in operator.inputs}
    gathered: dict[str, list[pa.RecordBatch]] = {}
    for piece in pieces.batches:
        results: dict[str, Rows] = {name: piece}
        for operator in taking:
            results |= run_operator(operator, results, context)
            _move(context, frames[operator.id])
        for made in wanted & results.keys():
            if (rows := results[made]) is not None:
                gathered.setdefault(made, []).append(rows)
    return {made: concatenate(batches) for made, batches in gathered.items()}


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
