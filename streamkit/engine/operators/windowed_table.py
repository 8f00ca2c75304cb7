"""
Windowed table: keep the newest row of each key and window, until nobody changes the window any more.

A window is deleted once all settlings say so: then neither this table nor one that is joined with it has a change of it any more. So no
row is deleted that could still be looked up, and it does not matter in which epoch that happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.folding.joining import Kept, kept_table, milliseconds
from streamkit.engine.operators.materialize import changes_to_keep, row_values
from streamkit.engine.rows.rows import OptionalBatch, numbers, without_nulls
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.log.values.byte_order import byte_order
from streamkit.names import TIMESTAMP
from streamkit.plan.operators.windowed_table import WindowedTable
from streamkit.plan.windows import Settling
from streamkit.state.layout import layout_of


@kernel(WindowedTable, runs_empty=True)
def windowed_table(operator: WindowedTable, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """Keep the newest row per key and window, and forget those that are settled; the rows pass on in canonical order."""
    (batch,) = inputs
    table, settled = kept_table(operator.id, context), Settled.of(operator.settlings, context)
    if batch is None:
        keep_until_settled(table, None, settled, context, operator.id)
        return {}
    batch, dropped = without_nulls(batch, operator.bounds)
    context.count("null_key", operator.id, dropped)
    batch, newest = changes_to_keep(operator, batch, table.key, context)
    keep_until_settled(table, newest, settled, context, operator.id)
    return {"": batch, "every": batch, "latest": newest}


@dataclass(frozen=True)
class Settled:
    """Up to which of their first times windows are settled, before the epoch and at its end; `now` is its stream time."""

    before: int
    end: int
    now: int

    @classmethod
    def of(cls, settlings: Sequence[Settling], context: Context) -> Settled:
        """As all settlings say, at the stream times of the epoch; nothing is settled if there are none."""
        times = [(context.reached(one.window), one.wait_ms) for one in settlings]
        before, end = (
            [reached[place] - wait if reached[place] != NO_TIME else NO_TIME for reached, wait in times] for place in (0, 1)
        )
        return cls(min(before, default=NO_TIME), min(end, default=NO_TIME), max((time[1] for time, _ in times), default=NO_TIME))


def keep_until_settled(table: Kept, newest: pa.RecordBatch | None, settled: Settled, context: Context, operator_id: str) -> None:
    """Write the newest rows of keys and windows that are not settled, and delete the stored ones that are by now."""
    name = table.store.name
    keys = _settled_keys(table, settled, context)
    context.count("expired", operator_id, len(keys))
    values, times = pa.nulls(len(keys), pa.binary()), np.full(len(keys), settled.now)
    if newest is not None:
        kept = newest.filter(pa.array(first_times(table, newest) > settled.end))
        keys = pa.concat_arrays([table.state_keys(kept, table.key, context), keys])
        values = pa.concat_arrays([row_values(table.store, kept), values])
        times = np.concatenate([numbers(kept, TIMESTAMP), times])
    order = byte_order(keys)
    context.change(name, keys.take(order), values.take(order), times[order.to_numpy()])


def first_times(table: Kept, rows: pa.RecordBatch) -> Integers:
    """The times by which windows are settled: those that stand first in the keys of the store."""
    start, end = (milliseconds(rows[name]) for name in table.bounds)
    return layout_of(table.store).window_times(start, end)[0]


def _settled_keys(table: Kept, settled: Settled, context: Context) -> pa.BinaryArray:
    """The state keys of the stored windows that are settled in this epoch."""
    if settled.end == settled.before:
        return pa.array([], pa.binary())
    first = NO_TIME if settled.before == NO_TIME else settled.before + 1
    number = context.store_number(table.store.name)
    return context.committed_state().scan_keys(layout_of(table.store).ranges(number, context.groups, first, settled.end + 1))
