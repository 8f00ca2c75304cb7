"""
The readers: stage 0, from frames of the log to packed rows, on Arrow throughout.

A reader computes the order key of each record (law 11), runs the stateless operators batch by batch, folds where the
program says so, and packs. Its output depends on its split alone, so it may run again at any time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.engine.epoch.epoch import EpochPlan, ReaderSplit, Slice
from streamkit.engine.epoch.event_time import columns_for_time, event_times
from streamkit.engine.epoch.order import partition_times
from streamkit.engine.epoch.report import SplitReport, TimesRead
from streamkit.engine.epoch.stream_time import UNKNOWN
from streamkit.engine.rows.exchange import Packed, control, fingerprint, rows_sent
from streamkit.engine.rows.rows import OptionalBatch, concatenate, constant, rows_of
from streamkit.engine.stage.advance import Advances
from streamkit.engine.stage.context import READ, Context
from streamkit.engine.stage.registry import kernel_of, run_operator
from streamkit.engine.stage.work import observer
from streamkit.errors import EvaluationError
from streamkit.log.slab.extent import Extent
from streamkit.log.slab.kept_frames import KEPT_FRAMES
from streamkit.log.slab.slab import read_rows, read_together
from streamkit.log.storage.inline_storage import storage_with
from streamkit.log.storage.storage import Storage
from streamkit.names import DELETED, HEADERS, INPUT, OFFSET, ORDER, PARTITION, TIMESTAMP
from streamkit.plan.operator import Operator
from streamkit.plan.program import Input, Program


def read_split(
    program: Program, plan: EpochPlan, split: ReaderSplit, storage: Storage, in_process: bool = False
) -> Iterator[Packed]:
    """
    Everything a reader sends: packed rows, then its report to every task, and from split 0 the plan.

    `in_process`: every task runs in this process, so rows are handed on as they are.

    EvaluationError says which record it is about; rows that are folded carry no place, so they are read again with theirs. If the
    program says so, rows that fail are then left out.
    """
    storage = storage_with(storage, split.inline)
    begin = partial(Context, program, plan, storage, origin=split.number, slices=split.slices, in_process=in_process)
    context, advances = begin(), Advances(program)
    try:
        _run(program, split, context, advances, program.placed_inputs)
    except EvaluationError as error:
        if error.is_placed:
            raise
        context, advances = begin(is_leaving_out=True), Advances(program)
        _run(program, split, context, advances, range(len(program.inputs)))
        if not program.on_error:
            raise
    yield from context.sent
    yield from _reports(program, plan, split, context, advances)


def _run(program: Program, split: ReaderSplit, context: Context, advances: Advances, placed: Collection[int]) -> None:
    """Run the readers' operators on the rows of a split; those of the inputs `placed` carry their place."""
    if (one := observer()) is not None:
        one.begins(context.plan, 0, split.number)
    stage = _ReaderStage(program.operators_of(0), context)
    for piece in split.slices:
        batches = slice_batches(program, piece, context, advances, piece.input in placed)
        source = stage.source_of(piece.input)
        for batch in context.work.counted(source, source, batches):
            stage.take(piece.input, batch)
    stage.finish()


def _reports(program: Program, plan: EpochPlan, split: ReaderSplit, context: Context, advances: Advances) -> Iterator[Packed]:
    content = fingerprint(context.sent, context.in_process)
    report = SplitReport(
        split.number,
        context.records,
        content,
        context.tally(),
        advances.reached(),
        rows_sent(context.sent),
        context.event_times,
        context.work.tally(),
    )
    for task in range(plan.application.tasks):
        is_told_all = task == split.number % plan.application.tasks
        yield control(task, "split", report if is_told_all else replace(report, work=()))
        if split.number == 0:
            yield control(task, "plan", plan)
        if has_dead_letters_of_kernels(program):
            for piece in split.slices:
                yield control(task, "slice", piece)


@dataclass
class _ReaderStage:
    """The operators of the readers, fed batch by batch; `waiting` has, by operator, the rows gathered for its next call."""

    operators: tuple[Operator, ...]
    context: Context
    waiting: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    def source_of(self, number: int) -> str:
        """The id of the operator that gives the rows of an input."""
        return next(operator.id for operator in self.operators if operator.input_read == number)

    def take(self, number: int, batch: pa.RecordBatch) -> None:
        """Run a batch of an input through the operators, up to those that gather rows."""
        sources = {operator.id: batch for operator in self.operators if operator.input_read == number}
        self._push(sources, 0)

    def finish(self) -> None:
        """Run the operators that gather rows on the rows that still wait, from the sources on."""
        for place, operator in enumerate(self.operators):
            if batches := self.waiting.pop(operator.id, None):
                self._push(self._run(operator, batches), place + 1)

    def _push(self, results: Mapping[str, OptionalBatch], first: int) -> None:
        results = dict(results)
        for place, operator in enumerate(self.operators[first:], first):
            rows = [results[name] for name in operator.inputs if name in results]
            if not any(batch is not None and batch.num_rows for batch in rows):
                continue
            gathers = kernel_of(operator).gathers
            if gathers is None:
                results |= run_operator(operator, results, self.context)
                continue
            waiting = self.waiting.setdefault(operator.id, [])
            waiting += [batch for batch in rows if batch is not None]
            if sum(batch.num_rows for batch in waiting) >= gathers:
                self._push(self._run(operator, self.waiting.pop(operator.id)), place + 1)

    def _run(self, operator: Operator, batches: list[pa.RecordBatch]) -> Mapping[str, OptionalBatch]:
        return run_operator(operator, {operator.inputs[0]: concatenate(batches)}, self.context)


def slice_batches(program: Program, piece: Slice, context: Context, advances: Advances, placed: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, in batches of small frames or of one large one, with their record columns; with their place if it is asked for."""
    columns = program.columns_read[piece.input]
    source = program.inputs[piece.input]
    is_table, time = source.kind == "table", piece.time_ms
    wanted = list(dict.fromkeys([*columns, *columns_for_time(source), TIMESTAMP, DELETED]))
    for batch, offsets in _rows(context.storage, piece, wanted, source):
        if not batch.num_rows:
            continue
        context.records += batch.num_rows
        context.count(READ, source.topic, batch.num_rows)
        own = event_times(source, batch)
        context.event_times = _with_times(context.event_times, own)
        times = partition_times(own, time, source.jump_ms)
        time, keys = int(times[-1]), np.maximum(times, piece.floor_ms)
        if source.jump_ms is not None:
            context.count("ahead", source.topic, int(np.count_nonzero(own > times)))
        advances.take(piece, keys, offsets, context)
        record: dict[str, pa.Array] = {TIMESTAMP: pa.array(own)}
        if placed or piece.input in program.ordered_inputs:
            record[ORDER] = pa.array(keys)
        if placed:
            record[INPUT] = constant(piece.input, len(offsets), pa.int16())
            record[PARTITION] = constant(piece.partition, len(offsets), pa.int32())
            record[OFFSET] = pa.array(offsets)
        if is_table or batch[DELETED].true_count:
            record[DELETED] = batch[DELETED]
        if HEADERS in columns and batch[HEADERS].null_count < batch.num_rows:
            record[HEADERS] = batch[HEADERS]
        yield rows_of({**{name: batch[name] for name in columns if name != HEADERS}, **record})


def _with_times(known: TimesRead | None, own: Integers) -> TimesRead | None:
    """The event times of records, with those of one more batch; a record that says none has no part in them."""
    if int(own.min()) <= UNKNOWN:
        own = own[own > UNKNOWN]
    return TimesRead(len(own), int(own.min()), float(own.mean())).with_others(known) if len(own) else known


def _rows(storage: Storage, piece: Slice, columns: Sequence[str], source: Input) -> Iterator[tuple[pa.RecordBatch, Integers]]:
    """The rows of a slice, and the offset of each; the small frames that small commits leave come together."""

    def is_whole(extent: Extent) -> bool:
        return extent.is_dense and piece.start <= extent.base_offset and extent.next_offset <= piece.end

    for are_whole, extents in groupby(piece.extents, is_whole):
        if are_whole:
            yield from read_together(storage, extents, columns, source, rows_of=partial(KEPT_FRAMES.rows, is_last=True))
        else:
            for extent in extents:
                rows_of = partial(KEPT_FRAMES.rows, is_last=extent.next_offset <= piece.end)
                yield read_rows(storage, extent, piece.start, piece.end, columns, source, rows_of)


def has_dead_letters_of_kernels(program: Program) -> bool:
    """Whether kernels must know the slices, from which they read records that failed."""
    return any(operator.kind == "dead_letters" and operator.stage > 0 for operator in program.operators)
