"""
The kernels: for every record of an operator, the function that runs it.

All have one signature: the operator, a batch for each of its inputs (None if nothing came), and the context. A kernel
returns a batch or None; if its operator has several outputs, a mapping from the names of its ports (empty for the main one).
One that makes far more rows than came may give them in `RowsInPieces`.
Readers, stages and global tables look kernels up here. The kernel of an operator stands in `streamkit.engine.operators`, in
the file that has the name of the record's file in `streamkit.plan.operators`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from streamkit.chunks import is_overflow, too_large
from streamkit.engine.rows.blame import with_record
from streamkit.engine.rows.rows import OptionalBatch
from streamkit.engine.stage.dead_letter_rows import original
from streamkit.engine.stage.leaving_out import notes_null_results, run_leaving_out
from streamkit.engine.stage.work import observer
from streamkit.errors import ColumnTooLargeError, EvaluationError
from streamkit.plan.naming import step_of
from streamkit.plan.on_error import DEAD_LETTER, NOTE
from streamkit.plan.operator import PORT, Operator
from streamkit.state.foreign_record import KeptStore, check_changelogs, is_of_state

if TYPE_CHECKING:
    from streamkit.engine.stage.context import Context


@dataclass(frozen=True, eq=False)
class RowsInPieces:
    """Rows that are made a piece at a time, in order, as they are taken; all are taken, once."""

    batches: Iterator[OptionalBatch]


OperatorResult: TypeAlias = OptionalBatch | RowsInPieces | Mapping[str, OptionalBatch | RowsInPieces]
OperatorFunction: TypeAlias = Callable[[Any, Sequence[OptionalBatch], Any], OperatorResult]

EVERYTHING = 2**62


@dataclass(frozen=True)
class OperatorKernel:
    """
    How an operator runs.

    `gathers` is how many rows a reader collects for one call (None: it calls for each batch). `runs_empty` says that the
    operator runs even if no rows came. `takes_pieces`: a call for each of several pieces in order is as good as one for all.
    """

    function: OperatorFunction
    gathers: int | None
    runs_empty: bool
    takes_pieces: bool


_KERNELS: dict[type[Operator], OperatorKernel] = {}


def kernel(
    record: type[Operator], *, gathers: int | None = None, runs_empty: bool = False, takes_pieces: bool = False
) -> Callable[[OperatorFunction], OperatorFunction]:
    """Register a function as the kernel of a record."""

    def register(function: OperatorFunction) -> OperatorFunction:
        _KERNELS[record] = OperatorKernel(function, gathers, runs_empty, takes_pieces)
        return function

    return register


def kernel_of(operator: Operator) -> OperatorKernel:
    """The kernel of an operator; LookupError for a record that has none."""
    if type(operator) not in _KERNELS:
        import streamkit.engine.operators  # noqa: F401  # registers every kernel; each imports this module

    found = _KERNELS.get(type(operator))
    if found is None:
        raise LookupError(f"{operator.kind} {operator.id!r} has no kernel; expected one in streamkit.engine.operators")
    return found


def present(rows: OptionalBatch) -> OptionalBatch:
    """The rows; None if there are none, as where all of them were filtered out: no kernel gets a batch without rows."""
    return rows if rows is not None and rows.num_rows else None


def run_operator(
    operator: Operator, results: Mapping[str, OptionalBatch], context: Context
) -> dict[str, OptionalBatch | RowsInPieces]:
    """
    Run an operator on those of its inputs that are there; return its outputs under the names by which others take them.

    What fails because of a record in a changelog that the application did not write is a CorruptionError that names it.
    """
    begun = time.perf_counter_ns()
    try:
        made = _run(operator, results, context)
        if context.views and context.turn(operator.id).is_looked_through and operator.id not in context.views:
            _look_through(operator, context)
        taken = sum(rows.num_rows for name in operator.inputs if (rows := results.get(name)) is not None)
        context.work.add(operator.id, taken, nanoseconds=time.perf_counter_ns() - begun)
        for name, rows in made.items():
            if isinstance(rows, pa.RecordBatch):
                context.work.gave(name, rows)
        return made
    except Exception as error:
        if (one := observer()) is not None:
            one.failed(operator.id)
        if context.state is not None and is_of_state(error):
            check_changelogs(context.storage, context.plan.changes, _kept_stores(operator, context), context.groups)
        raise


def _kept_stores(operator: Operator, context: Context) -> list[KeptStore]:
    """The stores of an operator's stage, its own first: it may look up those of others."""
    known, program = context.plan.application.stores, context.program
    names = [
        *operator.stores,
        *(one.name for one in program.stores if one.stage == operator.stage and one.name not in operator.stores),
    ]
    return [
        KeptStore(
            program.application,
            program.store(name),
            known[name].number,
            known[name].changelog_id,
            program.key_groups,
            program.changelog_partitions,
        )
        for name in names
        if name in known
    ]


def _look_through(operator: Operator, context: Context) -> None:
    """Make of the values that a joined table has what an operator makes of its rows, for those who look its own up."""
    apart = replace(context, counts=Counter(), sent=[], frames=[], may_give_pieces=False)
    values = {name: context.views[name] for name in operator.inputs if name in context.views}
    made = _run(operator, values, apart) if values else {}
    context.views.update({name: rows for name, rows in made.items() if isinstance(rows, pa.RecordBatch)})


def _run(operator: Operator, results: Mapping[str, OptionalBatch], context: Context) -> dict[str, OptionalBatch | RowsInPieces]:
    inputs = [present(results.get(name)) for name in operator.inputs]
    found = kernel_of(operator)
    if not found.runs_empty and all(rows is None for rows in inputs):
        return {}
    try:
        if context.is_leaving_out and operator.id in context.program.on_error:
            result: OperatorResult = run_leaving_out(found.function, operator, inputs, context)
        elif context.program.on_error.get(operator.id) in (DEAD_LETTER, NOTE):  # of what is null because it failed, too
            result = notes_null_results(found.function)(operator, inputs, context)
        else:
            result = found.function(operator, inputs, context)
    except (ColumnTooLargeError, pa.ArrowInvalid, pa.ArrowCapacityError, OverflowError) as error:
        raise _too_large(error, operator, inputs, context) from error
    except EvaluationError as error:
        if context.program.on_error and not context.is_leaving_out:  # the stage runs again, and looks for the row then
            raise
        alone = replace(context, counts=Counter(), sent=[], frames=[], may_give_pieces=False)
        placed = with_record(
            error,
            operator,
            context.program,
            inputs,
            lambda rows: found.function(operator, (rows,), alone),
            lambda row: original(row, context),
        )
        raise placed from placed.__cause__
    if not isinstance(result, Mapping):
        result = {"": result}
    named = {f"{operator.id}{PORT}{port}" if port else operator.id: rows for port, rows in result.items()}
    return {name: _counted(name, rows, operator, context) for name, rows in named.items()}


def _counted(name: str, rows: OptionalBatch | RowsInPieces, operator: Operator, context: Context) -> OptionalBatch | RowsInPieces:
    """The rows; pieces are counted while they are made, and a batch by the caller."""
    return RowsInPieces(context.work.counted(operator.id, name, rows.batches)) if isinstance(rows, RowsInPieces) else rows


def _too_large(error: Exception, operator: Operator, inputs: Sequence[OptionalBatch], context: Context) -> Exception:
    """The error of values that are too long together, with the step and the user's line; any other as it is."""
    if not (isinstance(error, ColumnTooLargeError) or is_overflow(error)):
        return error
    rows = sum(batch.num_rows for batch in inputs if batch is not None)
    found = error if isinstance(error, ColumnTooLargeError) else too_large(error, "", rows)
    lines = context.program.lines
    line = f"\n  at {lines[operator.id]}" if operator.id in lines else ""
    return ColumnTooLargeError(f"{step_of(operator.id)}: {found}{line}")


def run_alone(operator: Operator, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Run an operator that needs only rows and no context, as between the topic of a global table and its join."""
    result = kernel_of(operator).function(operator, (rows,), cast("Context", None))
    assert isinstance(result, pa.RecordBatch), f"{operator.kind} {operator.id!r} gives no rows of its own"
    return result
