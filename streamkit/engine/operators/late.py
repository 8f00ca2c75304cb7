"""Late: the rows for which all windows have closed."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.engine.folding.window_results import bounds
from streamkit.engine.folding.windows import ends_of_windows, last_windows
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
    starts, is_held = (times, times >= 0) if operator.is_sliding else last_windows(window, times)
    is_late = is_held & (ends_of_windows(window, starts) + window.grace_ms <= stream_times(operator, window, batch, context))
    starts = starts[is_late]
    ends = ends_of_windows(window, starts) - (1 if operator.is_sliding else 0)  # the end of a sliding window is part of it
    return with_columns(batch.filter(pa.array(is_late)), bounds(starts, ends))


@kernel(LateOfSessions)
def late_of_sessions(operator: LateOfSessions, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """The rows that the aggregation found late, each with its own time as its bounds."""
    (batch,) = inputs
    if batch is None:
        return None
    times = numbers(batch, TIMESTAMP)
    return with_columns(batch, bounds(times, times))
