"""
Bounded final table: final results, and an error if a key group has too many windows that have changed and not closed.

A window counts from its first change on, until stream time closes it. Stream time at a change follows from its place, so how many
windows are open at each place depends neither on the tasks nor on the cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.engine.folding.joining import Kept, kept_table
from streamkit.engine.operators.final_table import as_changes
from streamkit.engine.operators.windowed_table import Settled, first_times, keep_until_settled
from streamkit.engine.rows.place import in_canonical_order
from streamkit.engine.rows.rows import OptionalBatch, numbers, with_columns
from streamkit.engine.stage.advance import stream_times
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.errors import SuppressionFullError
from streamkit.names import DELETED, KEY_GROUP
from streamkit.plan.operators.bounded_final_table import BoundedFinalTable
from streamkit.plan.windows import Settling
from streamkit.state.layout import layout_of


@kernel(BoundedFinalTable, runs_empty=True)
def bounded_final_table(
    operator: BoundedFinalTable, inputs: Sequence[OptionalBatch], context: Context
) -> Mapping[str, OptionalBatch]:
    """The final results as changes, if no key group has too many windows open at any place."""
    results, updates = inputs
    wait_ms = operator.window.closing_wait_ms
    settled = Settled.of([Settling(operator.window, wait_ms)], context)
    table, opened = kept_table(operator.id, context), None
    if updates is not None and updates.num_rows:
        held = _held(table, context)
        opened = _first_changes(table, in_canonical_order(updates), held.keys, context)
        _check(operator, held, opened, first_times(table, opened) + wait_ms, wait_ms, context)
    keep_until_settled(table, opened, settled, context, operator.id)
    return {} if results is None else as_changes(results, operator.key)


@dataclass(frozen=True, eq=False)
class _Held:
    """The windows that were open before the epoch: their state keys, key groups and first times."""

    keys: pa.BinaryArray
    groups: Integers
    first_times: Integers


def _held(table: Kept, context: Context) -> _Held:
    layout, number = layout_of(table.store), context.store_number(table.store.name)
    keys = context.committed_state().scan_keys(layout.ranges(number, context.groups))
    groups, times, _ = layout.split(keys, [column.type for column in table.store.key])
    return _Held(keys, groups.astype(np.int64), times[0].astype(np.int64))


def _first_changes(table: Kept, updates: pa.RecordBatch, held: pa.BinaryArray, context: Context) -> pa.RecordBatch:
    """The first change of each window that was not open before, as a row: a deletion is held back, too."""
    both = pa.concat_arrays([held, table.state_keys(updates, table.key, context)])
    codes = both.dictionary_encode().indices.to_numpy()
    first = np.sort(np.unique(codes, return_index=True)[1])
    opened = updates.take(pa.array(first[first >= len(held)] - len(held)))
    return with_columns(opened, {DELETED: pa.array(np.zeros(opened.num_rows, bool))})


def _check(
    operator: BoundedFinalTable, held: _Held, opened: pa.RecordBatch, due: Integers, wait_ms: int, context: Context
) -> None:
    """SuppressionFullError if a key group has more windows open than it may, at any change."""
    groups, times = numbers(opened, KEY_GROUP).astype(np.int64), stream_times(operator, operator.window, opened, context)
    counts = np.bincount(np.concatenate([held.groups, groups]))
    for group in np.flatnonzero(counts > operator.rows_max):
        own = groups == group
        before = held.first_times[held.groups == group] + wait_ms
        if own.any() and _most_open(before, due[own], np.maximum.accumulate(times[own])) > operator.rows_max:
            line = context.program.lines.get(operator.id)
            raise SuppressionFullError(
                f"{operator.id} has more than max_rows={operator.rows_max:,} windows that have not closed in key group {group}; "
                "expected fewer: raise max_rows, or make the windows or their grace shorter" + (f"\n  at {line}" if line else "")
            )


def _most_open(before: Integers, due: Integers, times: Integers) -> int:
    """The largest number of windows open at once: some were before, and each of `times` opens one that closes at its time in `due`."""
    closed_at = np.searchsorted(times, np.concatenate([before, due]))
    closed = np.cumsum(np.bincount(closed_at, minlength=len(times) + 1))[: len(times)]
    return int((len(before) + 1 + np.arange(len(times)) - closed).max())
