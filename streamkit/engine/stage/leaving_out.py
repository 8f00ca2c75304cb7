"""
Leaving out rows that make an operator fail, where the program says so.

A stage first runs as if nothing could fail. If something does, it runs again from the start, and operators that may leave rows out
look for those that fail. So a run in which nothing fails pays nothing.

    each alone   a row fails on its own or not at all: the batch is halved until the rows that fail stand alone
    null         an expression of the ksql dialect is null where it fails: the row stays, and has a dead letter beside
    each once    the function has effects: it is called once with each row
    in order     state depends on the rows before: the first row that fails is left out, and its key group starts again without it;
                 so is a call that a processor has scheduled
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.rows.place import has_place, in_canonical_order
from streamkit.engine.rows.rows import OptionalBatch, numbers
from streamkit.engine.stage.dead_letter_rows import OperatorFailure, dead_letters
from streamkit.engine.stage.scheduled_call import ScheduledCall
from streamkit.errors import EvaluationError, NullResultError, UnfitFunctionError
from streamkit.expressions.core.failing_rows import noted_failures
from streamkit.names import DUE, INPUT, KEY_GROUP, OFFSET, PARTITION, PATH
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.naming import step_of
from streamkit.plan.on_error import DEAD_LETTER, DEAD_LETTERS, NOTE
from streamkit.plan.operator import Operator, port_of, source_of
from streamkit.plan.operator_traits import EACH_ALONE, EACH_ONCE
from streamkit.plan.operators.empty_groups import EmptyGroups
from streamkit.plan.operators.old_values import OldValues
from streamkit.plan.operators.regroup import Regroup

if TYPE_CHECKING:
    from streamkit.engine.stage.context import Context

# What an operator gives at once: one batch, or one for each port
WholeResult: TypeAlias = OptionalBatch | Mapping[str, OptionalBatch]
WholeFunction: TypeAlias = Callable[[Operator, Sequence[OptionalBatch], "Context"], WholeResult]
METRIC = "error"


@dataclass(frozen=True)
class Remaining:
    """The rows with which an operator does not fail, the failures of the others, and the scheduled calls to leave out."""

    inputs: Sequence[OptionalBatch]
    failures: Sequence[OperatorFailure]
    calls: frozenset[ScheduledCall] = frozenset()


def run_leaving_out(
    function: WholeFunction, operator: Operator, inputs: Sequence[OptionalBatch], context: Context
) -> Mapping[str, OptionalBatch]:
    """What the operator gives without the rows that make it fail, by port; these are counted, and a port has their dead letters."""
    policy = context.program.on_error[operator.id]
    remaining = Remaining(inputs, ()) if policy == NOTE else _SEARCHES[operator.leaves_out](function, operator, inputs, context)
    if operator.leaves_out == EACH_ONCE:  # it has been called with them
        result: WholeResult = remaining.inputs[0]
    else:
        result = function(operator, remaining.inputs, replace(context, left_out_calls=remaining.calls))
    results = dict(result) if isinstance(result, Mapping) else {"": result}
    context.count(METRIC, step_of(operator.id), len(remaining.failures))
    if policy in (DEAD_LETTER, NOTE):
        failures = [*remaining.failures, *_null_results(function, operator, remaining.inputs, context)]
        if failures:
            results[DEAD_LETTERS] = dead_letters(operator, failures, context)
    return results


def notes_null_results(function: WholeFunction) -> WholeFunction:
    """The function of an operator that raises NullResultError if it gave null for an expression that failed."""

    def noting(operator: Operator, inputs: Sequence[OptionalBatch], context: Context) -> WholeResult:
        with noted_failures() as notes:
            result = function(operator, inputs, context)
        if notes:
            told = dict.fromkeys(f"{one.shown} is null: {one.reason}" for one in notes)
            raise NullResultError("; ".join(told), expression=notes[0].expression)
        return result

    return noting


def _null_results(
    function: WholeFunction, operator: Operator, inputs: Sequence[OptionalBatch], context: Context
) -> list[OperatorFailure]:
    """
    The rows in which an expression is null because it failed.

    The old row of a change is none of them: it is computed once more to be taken back, and the record of the change did not bring it.
    """
    if operator.leaves_out != EACH_ALONE or inputs[0] is None:
        return []
    rows = inputs[0]
    if _reads_pairs(operator, context):
        rows = rows.filter(pa.array(np.arange(rows.num_rows) % 2 == 1))
    alone, noting = _alone(context), notes_null_results(function)
    return [failure for _, failure in _halved(rows, lambda part: noting(operator, (part,), alone))]


def _reads_pairs(operator: Operator, context: Context) -> bool:
    """Whether its rows are the changes of a table with their old values: pairs of an old row and a new one, which stateless steps keep."""
    while operator.leaves_out == EACH_ALONE and operator.inputs:
        operator = context.program.operator(source_of(operator.inputs[0]))
    if isinstance(operator, Regroup):  # behind which the rows say themselves what they are
        return False
    return isinstance(operator, OldValues | EmptyGroups) or any(port_of(one) == WITH_OLD_VALUES for one in operator.inputs)


def _each_alone(function: WholeFunction, operator: Operator, inputs: Sequence[OptionalBatch], context: Context) -> Remaining:
    (batch,) = inputs
    assert batch is not None
    batch = in_canonical_order(batch) if has_place(batch) else batch
    alone = _alone(context)
    failures = _halved(batch, lambda rows: function(operator, (rows,), alone))
    return Remaining((_without(batch, [number for number, _ in failures]),), [failure for _, failure in failures])


def _halved(batch: pa.RecordBatch, run: Callable[[pa.RecordBatch], object], first: int = 0) -> list[tuple[int, OperatorFailure]]:
    """The rows that fail, by their numbers from `first` on."""
    if not batch.num_rows:
        return []
    try:
        run(batch)
        return []
    except UnfitFunctionError:
        raise
    except EvaluationError as error:
        if batch.num_rows == 1:
            return [(first, OperatorFailure(batch, error))]
    middle = batch.num_rows // 2
    return [*_halved(batch.slice(0, middle), run, first), *_halved(batch.slice(middle), run, first + middle)]


def _each_once(function: WholeFunction, operator: Operator, inputs: Sequence[OptionalBatch], context: Context) -> Remaining:
    (batch,) = inputs
    assert batch is not None
    batch = in_canonical_order(batch) if has_place(batch) else batch
    failures: list[tuple[int, OperatorFailure]] = []
    for number in range(batch.num_rows):
        row = batch.slice(number, 1)
        failures += _halved(row, lambda rows: function(operator, (rows,), context), number)
    return Remaining((_without(batch, [number for number, _ in failures]),), [failure for _, failure in failures])


def _in_order(function: WholeFunction, operator: Operator, inputs: Sequence[OptionalBatch], context: Context) -> Remaining:
    kept: list[OptionalBatch] = list(inputs)
    failures: list[OperatorFailure] = []
    calls: set[ScheduledCall] = set()
    without_rows = set(context.groups) if operator.calls_by_schedule else set()
    with_rows = {group for batch in inputs if batch is not None for group in np.unique(numbers(batch, KEY_GROUP)).tolist()}
    for group in sorted(with_rows | without_rows):
        alone = replace(_alone(context), groups=range(group, group + 1))
        rows = [_of_group(batch, group) for batch in kept]
        while (failure := _first(function, operator, rows, alone)) is not None:
            failures.append(failure)
            if failure.error.call is None:
                rows, kept = _without_record(rows, failure), _without_record(kept, failure)
            else:
                calls.add(failure.error.call)
                alone = replace(alone, left_out_calls=frozenset(calls))
    return Remaining(kept, failures, frozenset(calls))


def _first(
    function: WholeFunction, operator: Operator, inputs: Sequence[OptionalBatch], context: Context
) -> OperatorFailure | None:
    """The first row, or call by schedule, that fails; None if none does. An error that is about neither is raised."""
    try:
        function(operator, inputs, context)
    except UnfitFunctionError:
        raise
    except EvaluationError as error:
        if error.call is not None:
            return OperatorFailure(error.call.place, error)
        if error.row is None or not error.row.num_rows or not any(_is_record(batch, error.row).any() for batch in inputs):
            raise
        return OperatorFailure(error.row, error)
    return None


def _without_record(inputs: Sequence[OptionalBatch], failure: OperatorFailure) -> list[OptionalBatch]:
    """The rows without those of the record that failed; an input that has none left is None."""
    left = [batch if batch is None else batch.filter(pa.array(~_is_record(batch, failure.row))) for batch in inputs]
    return [batch if batch is not None and batch.num_rows else None for batch in left]


def _is_record(batch: OptionalBatch, row: pa.RecordBatch) -> Mask:
    """Which rows are the record that `row` was made of: its path may go on where it was put into a window."""
    if batch is None:
        return np.zeros(0, bool)
    same = np.ones(batch.num_rows, bool)
    for name in (INPUT, PARTITION, OFFSET):
        if name in batch.schema.names and name in row.schema.names:
            same &= numbers(batch, name) == row[name][0].as_py()
    same &= _due(batch) == _due(row)[0]
    if PATH in batch.schema.names and same.any():
        path = row[PATH][0].as_py() if PATH in row.schema.names else b""
        for number in np.flatnonzero(same).tolist():
            same[number] = path.startswith(batch[PATH][number].as_py())
    return same


def _due(batch: pa.RecordBatch) -> Integers:
    """When each row was due; of a record, which was not, a time before all times."""
    none = np.full(batch.num_rows, NO_TIME, np.int64)
    return none if DUE not in batch.schema.names else batch[DUE].fill_null(NO_TIME).to_numpy(zero_copy_only=False)


def _of_group(batch: OptionalBatch, group: int) -> OptionalBatch:
    if batch is None:
        return None
    rows = batch.filter(pa.array(numbers(batch, KEY_GROUP) == group))
    return rows if rows.num_rows else None


def _without(batch: pa.RecordBatch, numbers: Sequence[int]) -> pa.RecordBatch:
    if not numbers:
        return batch
    kept = np.ones(batch.num_rows, bool)
    kept[list(numbers)] = False
    return batch.filter(pa.array(kept))


def _alone(context: Context) -> Context:
    """The context of a call that only looks."""
    return replace(context, counts=Counter(), sent=[], frames=[])


_SEARCHES = {EACH_ALONE: _each_alone, EACH_ONCE: _each_once, "in_order": _in_order}
