"""
The readers: stage 0, from frames of the log to packed rows, on Arrow throughout.

A reader computes the order key of each record (law 11), runs the stateless operators batch by batch, folds where the
program says so, and packs. What it does follows from its split alone, so it may run again at any time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.epoch import EpochPlan, Slice, Split
from streamkit.engine.exchange import Packed, control, fingerprint
from streamkit.engine.operators.aggregate import fold_rows
from streamkit.engine.operators.columnwise import filter_rows, project
from streamkit.engine.operators.output import send
from streamkit.engine.operators.table import global_join
from streamkit.engine.operators.windows import FOLD_ROWS, WINDOW_ROWS, assign_windows
from streamkit.engine.order import order_keys
from streamkit.engine.report import SplitReport
from streamkit.engine.rows import concatenate, constant, rows_of, without_deletions
from streamkit.log.slab.slab import read_rows
from streamkit.log.storage.storage import Storage
from streamkit.names import DELETED, INPUT, OFFSET, ORDER, PARTITION, SUBINDEX, TIMESTAMP
from streamkit.plan.program import Filter, Fold, GlobalJoin, Operator, Program, Project, Send, Source, Windows

Batches = dict[str, list[pa.RecordBatch]]


def read_split(program: Program, plan: EpochPlan, split: Split, storage: Storage) -> Iterator[Packed]:
    """Everything a reader sends: packed rows, then its report to every task, and from split 0 the plan."""
    context = Context(program, plan, storage)
    arrived: Batches = {}
    folded: Batches = {}
    rows_max = _rows_at_once(program)
    for piece in split.slices:
        for batch in _slice_batches(program, piece, context):
            for first in range(0, batch.num_rows, rows_max):
                _run_stateless(program, piece.input, batch.slice(first, rows_max), arrived, context)
                _fold(program, arrived, folded, context, rows_min=FOLD_ROWS)
    _fold(program, arrived, folded, context, rows_min=1)
    _send(program, arrived | folded, context)
    yield from context.sent
    yield from _reports(plan, split, context)


def _reports(plan: EpochPlan, split: Split, context: Context) -> Iterator[Packed]:
    report = SplitReport(split.number, context.records, fingerprint(context.sent), context.tally()).to_json()
    for task in range(plan.application.tasks):
        yield control(task, "split", report=report)
        if split.number == 0:
            yield control(task, "plan", plan=plan.to_json())


def _run_stateless(program: Program, number: int, batch: pa.RecordBatch, arrived: Batches, context: Context) -> None:
    """Push one batch of an input down to the collectors (folds and sends), where it waits for the others."""
    results: dict[str, pa.RecordBatch] = {}
    for operator in program.operators_of(0):
        if isinstance(operator, Source):
            if operator.input == number:
                results[operator.id] = batch
        elif (rows := results.get(operator.inputs[0])) is not None and rows.num_rows:
            if isinstance(operator, (Fold, Send)):
                arrived.setdefault(operator.id, []).append(rows)
            else:
                results[operator.id] = apply_stateless(operator, rows, context)


def apply_stateless(operator: Operator, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """Run an operator that needs one batch at a time and no store."""
    match operator:
        case Filter():
            return filter_rows(operator, batch)
        case Project():
            return project(operator, batch)
        case Windows():
            return assign_windows(operator, batch, context)
        case GlobalJoin():
            joined = global_join(operator, batch, context)
            assert joined is not None
            return joined
    raise AssertionError(f"{operator.kind} {operator.id!r} cannot run outside a kernel")


def _rows_at_once(program: Program) -> int:
    """How many rows go through the operators together: with hopping windows each of them becomes many."""
    windows = [operator.per_record for operator in program.operators_of(0) if isinstance(operator, Windows)]
    return max(1, WINDOW_ROWS // max(windows, default=1))


def _fold(program: Program, arrived: Batches, folded: Batches, context: Context, *, rows_min: int) -> None:
    """Fold what waits for that, where it is so many rows or more; what is folded in parts, the kernel puts together."""
    for operator in program.operators_of(0):
        if isinstance(operator, Fold) and sum(batch.num_rows for batch in arrived.get(operator.id, [])) >= rows_min:
            folded.setdefault(operator.id, []).append(fold_rows(operator, concatenate(arrived.pop(operator.id)), context))


def _send(program: Program, results: Batches, context: Context) -> None:
    for operator in program.operators_of(0):
        if isinstance(operator, Send):
            batches = results.get(operator.id) or results.get(operator.inputs[0])
            send(operator, concatenate(batches) if batches else None, context)


def _slice_batches(program: Program, piece: Slice, context: Context) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, frame by frame, with their record columns."""
    columns = _columns_read(program, piece.input)
    is_table = program.inputs[piece.input].kind == "table"
    ordered = needs_order(program, piece.input)
    floor = piece.floor_ms
    for extent in piece.extents:
        batch, offsets = read_rows(
            context.storage, extent, piece.start, piece.end, [*columns, TIMESTAMP, DELETED], program.inputs[piece.input]
        )
        if not batch.num_rows:
            continue
        context.records += batch.num_rows
        timestamps = batch[TIMESTAMP].cast(pa.int64())
        keys = order_keys(timestamps.to_numpy(), floor)
        floor = int(keys[-1])
        record: dict[str, pa.Array] = {TIMESTAMP: timestamps, ORDER: pa.array(keys)}
        if ordered:
            record |= _origin(piece, offsets)
        rows = rows_of({**{name: batch[name] for name in columns}, **record, DELETED: batch[DELETED]})
        if not is_table:
            rows, deletions = without_deletions(rows)
            context.count("deletion", program.inputs[piece.input].topic, deletions)
        yield rows


def _origin(piece: Slice, offsets: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
    rows = len(offsets)
    return {
        INPUT: constant(piece.input, rows, pa.int16()),
        PARTITION: constant(piece.partition, rows, pa.int32()),
        OFFSET: pa.array(offsets),
        SUBINDEX: constant(0, rows, pa.int32()),
    }


def _columns_read(program: Program, number: int) -> tuple[str, ...]:
    return next(operator.columns for operator in program.operators if isinstance(operator, Source) and operator.input == number)


def needs_order(program: Program, number: int) -> bool:
    """Whether rows of an input leave the readers as rows; what is folded needs no place of its own."""
    reach = {operator.id for operator in program.operators if isinstance(operator, Source) and operator.input == number}
    for operator in program.operators_of(0):
        if reach & set(operator.inputs) and not isinstance(operator, Fold):
            reach.add(operator.id)
    return any(isinstance(operator, Send) and operator.id in reach for operator in program.operators_of(0))
