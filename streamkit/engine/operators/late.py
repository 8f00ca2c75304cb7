"""Late: the rows for which all windows have closed."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.kernels import Rows, kernel
from streamkit.engine.rows import numbers, with_columns, without_deletions, without_null_keys
from streamkit.engine.window_results import bounds
from streamkit.engine.windows import last_windows, stream_times
from streamkit.names import TIMESTAMP
from streamkit.plan.operators.late import Late


@kernel(Late)
def late(operator: Late, inputs: Sequence[Rows], context: Context) -> pa.RecordBatch:
    """The late rows, each with the bounds of the window that closed last; what no window takes anyhow is not among them."""
    (batch,) = inputs
    assert batch is not None
    batch, _ = without_null_keys(batch, operator.key)
    batch, _ = without_deletions(batch)
    window = operator.window
    starts, is_held = last_windows(window, numbers(batch, TIMESTAMP))
    is_late = is_held & (starts + (window.size_ms + window.grace_ms) <= stream_times(window, batch, context))
    rows, starts = batch.filter(pa.array(is_late)), starts[is_late]
    return with_columns(rows, bounds(starts, starts + window.size_ms))
