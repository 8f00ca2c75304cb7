"""
The kernels: one run of a stage for one task.

A kernel gathers what arrived, opens its state as of the committed epoch, runs its operators, and writes what they make (outputs
and changes) into one slab, as they make it. An inner kernel hands on packed rows; the last one a report for the commit. Spark may run an inner kernel's stage
again, so it reports its slab to every task downstream, and the commit checks that all of them heard of the same content.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path

import pyarrow as pa

from streamkit.config import local_dir_here
from streamkit.engine.epoch.epoch import Application, EpochPlan
from streamkit.engine.epoch.report import EpochClaim, KernelReport, SplitReport, TaskReport
from streamkit.engine.rows.exchange import Arrival, ArrivedMessages, Packed, collect, control, fingerprint, rows_sent
from streamkit.engine.rows.rows import OptionalBatch, concatenate
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import RowsInPieces, kernel_of, run_operator
from streamkit.engine.stage.row_counts import count_begun
from streamkit.engine.stage.work import NANOSECONDS, observer
from streamkit.errors import EvaluationError
from streamkit.failpoints import reach
from streamkit.log.slab.frame import TopicColumns
from streamkit.log.slab.reference import SlabReference
from streamkit.log.slab.slab import FrameInput, payloads_of, stage_slab
from streamkit.log.storage.inline_storage import storage_with
from streamkit.log.storage.storage import Storage
from streamkit.names import SlabName, application_writer, changelog_topic, fresh_token, local_root, store_folder
from streamkit.plan.operator import Operator
from streamkit.plan.program import Program
from streamkit.state.changelog import COLUMNS
from streamkit.state.key_group import key_group_range
from streamkit.state.stores import ON_DISK, Stores
from streamkit.state.task_state import Share, TaskState, open_state

FOLDERS_KEPT = 256
FRAME_ROWS_MIN = 1 << 14  # where rows come in pieces, frames wait until they have so many on average
NEVER = -1  # the place of an operator that takes a result which nobody takes


def run_inner_kernel(
    program: Program,
    stage: int,
    task: int,
    rows: ArrivedMessages,
    storage: Storage,
    stores: Stores = ON_DISK,
    in_process: bool = False,
    executor: str = "",
) -> Iterator[Packed]:
    """
    Run a kernel that feeds another: its rows, those that only pass through, and the reports, which name the `executor`.

    `in_process`: every task runs in this process, so rows are handed on as they are.
    """
    arrival = collect(rows)
    if (plan := _plan_heard(arrival)) is None:
        return
    report, sent = _run(program, plan, stage, task, arrival, storage, stores, in_process, executor)
    yield from sent
    yield from _passing_through(program, stage, task, arrival)
    for other in range(plan.application.tasks):
        yield control(other, "kernel", report if other == task else replace(report, work=()))
    for message in arrival.controls:
        yield control(task, message.kind, message.value)


def run_last_kernel(
    program: Program,
    stage: int,
    task: int,
    rows: ArrivedMessages,
    storage: Storage,
    stores: Stores = ON_DISK,
    executor: str = "",
) -> TaskReport | None:
    """Run the kernel whose report goes to the commit; None if no plan arrived, as when Spark replays a committed epoch."""
    arrival = collect(rows)
    if (plan := _plan_heard(arrival)) is None:
        return None
    report, _ = _run(program, plan, stage, task, arrival, storage, stores, executor=executor)
    heard = tuple(arrival.of_kind("kernel", KernelReport))
    splits = tuple(arrival.of_kind("split", SplitReport))
    claim = EpochClaim(plan.application, plan.before, plan.end, plan.splits, plan.purged_below, plan.planned_us)
    return TaskReport(task, claim, (*heard, report), splits)


def _plan_heard(arrival: Arrival) -> EpochPlan | None:
    plans = arrival.of_kind("plan", EpochPlan)
    return plans[0] if plans else None


def _run(
    program: Program,
    plan: EpochPlan,
    stage: int,
    task: int,
    arrival: Arrival,
    storage: Storage,
    stores: Stores,
    in_process: bool = False,
    executor: str = "",
) -> tuple[KernelReport, list[Packed]]:
    begun = time.perf_counter_ns()
    application, storage = plan.application, storage_with(storage, plan.inline)
    groups = key_group_range(task, application.tasks, application.key_groups)
    local_dir = local_dir_here(application.local_dir)
    folder = _folder(storage.root, local_dir, application.name, stage, task, application.tasks)
    state = _open(program, plan, stage, task, storage, folder, stores)
    changelog_ids = {store.changelog_id for store in application.stores.values()}
    begin = partial(Context, program, plan, storage, arrival, state, groups, origin=task, in_process=in_process)
    run = _StageRun(program.operators_of(stage), partial(begin, may_give_pieces=True), stage, changelog_ids)
    try:
        try:
            slab = _write(run, program, plan, storage)
        except EvaluationError as error:
            if error.is_placed:
                raise
            run = _StageRun(run.operators, partial(begin, is_leaving_out=True), stage, changelog_ids)
            if not program.on_error:
                deque(run.frames(), maxlen=0)  # which names the record
                raise
            slab = _write(run, program, plan, storage)
    finally:
        if state is not None:
            state.close()
    if slab is not None and state is not None:
        stores.remember(folder, slab, run.changes, changelog_ids)
    restored = state.restored if state is not None else 0
    sent, received = run.context.sent, tuple(sorted(arrival.received.items()))
    content = f"{fingerprint(sent, in_process)}-{slab.content if slab else 'nothing'}"  # another attempt on the same rows must make the same
    began_empty = tuple(one.name for one in program.stores if one.stage == stage and one.name in program.unlogged)
    began_empty = began_empty if state is not None and state.began_empty else ()
    counts = run.context.tally()
    took_us, work = (time.perf_counter_ns() - begun) // NANOSECONDS, run.context.work.tally()
    report = KernelReport(
        stage, task, content, slab, counts, restored, rows_sent(sent), received, executor, began_empty, took_us, work
    )
    reach("kernel.finished")
    return report, sent


@dataclass
class _StageRun:
    """
    A run of a stage's operators, which begins again in a new context when its frames are asked for again.

    `context` and `changes`, the frames for changelogs, are those of the last time.
    """

    operators: Sequence[Operator]
    begin: Callable[[], Context]
    stage: int
    changelog_ids: Collection[int]
    context: Context = field(init=False)
    changes: list[FrameInput] = field(default_factory=list)

    def frames(self) -> Iterator[FrameInput]:
        """The frames with rows that the operators make, as they make them."""
        self.context = self.begin()
        if (one := observer()) is not None:
            one.begins(self.context.plan, self.stage, self.context.origin)
        count_begun(self.context, self.stage)
        self.changes.clear()
        for frame in run_operators(self.operators, self.context):
            if frame[2].num_rows:
                if frame[0] in self.changelog_ids:
                    self.changes.append(frame)
                yield frame


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
        stage,
        tuple(
            (application.stores[name].changelog_id, application.stores[name].number) for name in names if name in program.unlogged
        ),
        numbers=tuple(application.stores[name].number for name in names),
    )
    reach("state.before_open")
    return open_state(storage, folder, share, plan.changes, application.store_memory_bytes, stores)


@lru_cache(maxsize=FOLDERS_KEPT)
def _folder(root: str, local_dir: str, application: str, stage: int, task: int, tasks: int) -> Path:
    """Where the store of a task is kept."""
    return Path(local_root(root, local_dir)) / store_folder(application, stage, task, tasks)


def run_operators(operators: Iterable[Operator], context: Context) -> Iterator[FrameInput]:
    """
    Run a stage's operators in order, and give the frames they make; each result is an input of those below, and is let go behind the last.

    The frames of a topic stand in the order of the operators that write to it, however rows come.
    """
    results: dict[str, OptionalBatch] = {}
    operators = tuple(operators)
    last_use = {name: place for place, operator in enumerate(operators) for name in operator.inputs}
    waiting: dict[str, list[FrameInput]] = {}  # of the operators that have run
    for place, operator in enumerate(operators):
        if operator.id in waiting:
            yield from waiting.pop(operator.id)
            continue
        for name, made in run_operator(operator, results, context).items():
            if isinstance(made, RowsInPieces):
                results |= yield from _run_in_pieces(name, made, operators[place + 1 :], waiting, context)
            else:
                results[name] = made
        yield from _taken_frames(context)
        results = {name: rows for name, rows in results.items() if last_use.get(name, NEVER) > place}
        reach("kernel.in_operator")


def _taken_frames(context: Context) -> list[FrameInput]:
    """The frames that the context has got; it has none then."""
    frames, context.frames = context.frames, []
    return frames


def _taking_pieces(name: str, operators: Sequence[Operator]) -> list[Operator]:
    """Those of the operators below a result that take it, or what is made of it, in pieces."""
    taking, made = [], {name}
    for operator in operators:
        if operator.inputs and kernel_of(operator).takes_pieces and made.issuperset(operator.inputs):
            taking.append(operator)
            made.add(operator.id)
    return taking


def _run_in_pieces(
    name: str, pieces: RowsInPieces, operators: Sequence[Operator], waiting: dict[str, list[FrameInput]], context: Context
) -> Generator[FrameInput, None, dict[str, OptionalBatch]]:
    """
    Run those of the operators that take pieces on one piece after the other; what the other operators take of it is gathered.

    Frames wait, by operator, while they are small, and to the end if one of the operators before writes to their topic too.
    """
    taking = _taking_pieces(name, operators)
    waiting |= {operator.id: [] for operator in taking}
    first = {operator.output_written: operator.id for operator in reversed(operators)}
    at_once = {operator.id for operator in taking if first[operator.output_written] == operator.id}
    wanted = {one for operator in operators if operator.id not in waiting for one in operator.inputs}
    gathered: dict[str, list[pa.RecordBatch]] = {}
    for piece in pieces.batches:
        results: dict[str, OptionalBatch] = {name: piece}
        for operator in taking:
            results |= run_operator(operator, results, context)
            waiting[operator.id] += _taken_frames(context)
            if operator.id in at_once:
                frames = waiting[operator.id]
                places = {(topic_id, partition) for topic_id, partition, _ in frames}
                if frames and sum(rows.num_rows for _, _, rows in frames) >= FRAME_ROWS_MIN * len(places):  # on average
                    yield from _together(frames)
                    waiting[operator.id] = []
        for made in wanted & results.keys():
            if (rows := results[made]) is not None:
                gathered.setdefault(made, []).append(rows)
    waiting |= {name: _together(waiting[name]) for name in at_once}
    return {made: concatenate(batches) for made, batches in gathered.items()}


def _together(frames: Sequence[FrameInput]) -> list[FrameInput]:
    """The frames, with one for each topic partition."""
    by_place: dict[tuple[int, int], list[pa.RecordBatch]] = {}
    for topic_id, partition, rows in frames:
        by_place.setdefault((topic_id, partition), []).append(rows)
    return [(*place, concatenate(batches)) for place, batches in by_place.items()]


def _passing_through(program: Program, stage: int, task: int, arrival: Arrival) -> Iterator[Packed]:
    """Rows for a later stage, which only pass through this one."""
    for edge, payloads in arrival.payloads.items():
        if program.edges[edge].to_stage > stage:
            for payload in payloads:
                yield Packed(task, edge, payload)


def _topics(program: Program, application: Application) -> dict[int, TopicColumns]:
    """What the columns are of all topics that a kernel writes."""
    schemas = {output.topic: output.schema for output in program.outputs}
    outputs = {topic.id: TopicColumns(topic.name, schemas[topic.name]) for topic in application.outputs}
    return {
        **outputs,
        **{
            store.changelog_id: TopicColumns(changelog_topic(program.application, name), COLUMNS)
            for name, store in application.stores.items()
        },
    }


def _write(run: _StageRun, program: Program, plan: EpochPlan, storage: Storage) -> SlabReference | None:
    """Write the frames of a run as they are made; None if there are none."""
    begun = run.frames()
    if (first := next(begun, None)) is None:
        return None
    application = plan.application
    name = SlabName(application_writer(application.id), application.generation, plan.epoch, fresh_token())
    compressions = {topic.id: topic.compression for topic in application.outputs}
    topics = _topics(program, application)
    runs = chain([chain([first], begun)], iter(run.frames, None))  # another one for each time that writing fails
    inline_bytes_max = application.inline_slab_bytes
    payloads = partial(payloads_of, compressions=compressions, topics=topics, shares=inline_bytes_max > 0)
    slab = stage_slab(storage, name, lambda: payloads(next(runs)), inline_bytes_max)
    reach("kernel.slab_durable")
    return slab
