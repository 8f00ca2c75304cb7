"""Late: the rows for which all windows have closed."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.engine.folding.window_results import bounds
from streamkit.engine.rows.rows import OptionalBatch, numbers, with_columns, without_deletions, without_null_keys
from streamkit.engine.stage.advance import stream_times
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.names import TIMESTAMP
from streamkit.plan.operators.late import Late, LateOfSessions


@kernel(Late)
def late(operator: Late, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """The late rows, each with the bounds of the window that closed last; what no window takes anyhow is not among them."""
    (batch,) = inputs
    assert batch is not None
    batch, _ = without_null_keys(batch, operator.key)
    batch, _ = without_deletions(batch)
    window = operator.window
    times = numbers(batch, TIMESTAMP)
    last, is_held = window.last_holding(times)
    is_late = is_held & window.are_closed(last, stream_times(operator, window, batch, context))
    return with_columns(batch.filter(pa.array(is_late)), bounds(*window.bounds(last[is_late])))


@kernel(LateOfSessions)
def late_of_sessions(operator: LateOfSessions, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """The rows that the aggregation found late, each with its own time as its bounds."""
    (batch,) = inputs
    if batch is None:
        return None
    times = numbers(batch, TIMESTAMP)
    return with_columns(batch, bounds(times, times))
