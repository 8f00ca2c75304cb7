"""
Table join: a stream row meets the table as of its own place in the canonical order.

It meets the table's newest change at that place or before it in this epoch, else what the store holds. Changes of the table
give no results (Kafka Streams, stream-table join).
"""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.engine.context import Context
from streamkit.engine.joining import as_of, joined, kept_table, live_rows
from streamkit.engine.kernels import Rows, kernel
from streamkit.engine.rows import without_null_keys
from streamkit.plan.operators.table_join import TableJoin


@kernel(TableJoin)
def table_join(operator: TableJoin, inputs: Sequence[Rows], context: Context) -> Rows:
    """Each stream row with the table's row of its key."""
    left, changes = inputs
    if left is None:
        return None
    left = live_rows(operator, left, context)
    if operator.how == "inner":
        left, dropped = without_null_keys(left, operator.on)
        context.count("null_key", operator.id, dropped)
    table, found = as_of(kept_table(operator.inputs[1], context), left, operator.on, changes, context)
    return joined(operator.how, operator.columns, left, table, found)
