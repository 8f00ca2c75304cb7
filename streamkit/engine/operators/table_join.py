"""
Table join: a stream row meets the table as of its own place in the canonical order.

It meets the table's newest change at that place or before it in this epoch, else what the store holds. Changes of the table
give no results (Kafka Streams, stream-table join). Windows are rows as others; where the store forgets them, they are found up to a
moment of the stream's time, so that it does not matter when the store does so.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.engine.folding.joining import Kept, as_of, joined, kept_table, live_rows, milliseconds, seen_changes
from streamkit.engine.rows.place import as_they_come
from streamkit.engine.rows.rows import OptionalBatch, without_null_keys
from streamkit.engine.stage.advance import stream_times
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.plan.closing import are_over
from streamkit.plan.operators.table_join import TableJoin
from streamkit.plan.windows import Settling
from streamkit.state.layout import layout_of

SOME_MOMENT = dt.datetime.fromtimestamp(0, dt.timezone.utc)


@kernel(TableJoin)
def table_join(operator: TableJoin, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """Each stream row with the table's row of its key."""
    turn = context.turn(operator.id)
    left, changes = as_they_come(inputs, turn)[0], seen_changes(operator, 1, inputs, context)
    if left is None:
        return None
    left = live_rows(operator, left, context)
    if operator.how == "inner":
        left, dropped = without_null_keys(left, operator.on)
        context.count("null_key", operator.id, dropped)
    kept = kept_table(operator.inputs[1], context)
    table, found = as_of(kept, left, operator.on, changes, context)
    if operator.settled is not None:
        found = np.where(_are_kept(kept, left, operator, operator.settled, context), found, -1)
    return joined(operator.how, operator.columns, left, table, found)


def _are_kept(table: Kept, left: pa.RecordBatch, operator: TableJoin, settled: Settling, context: Context) -> Mask:
    """Whether the window of each row may be found at the row's place: later the table forgets it, in whatever epoch."""
    bounds = (milliseconds(pc.fill_null(left[name], SOME_MOMENT)) for name in operator.bounds)
    first_times = layout_of(table.store).window_times(*bounds)[0]
    times = stream_times(operator, settled.window, left, context, by_records=True)
    return ~are_over(first_times + settled.wait_ms, times)
