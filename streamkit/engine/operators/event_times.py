"""Event times: refuses rows whose column says none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamkit.engine.epoch.stream_time import UNKNOWN
from streamkit.engine.rows.rows import OptionalBatch, numbers
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.errors import EvaluationError
from streamkit.log.rows.event_time import TIME_MS_MAX
from streamkit.names import TIMESTAMP
from streamkit.plan.operators.event_times import EventTimes


@kernel(EventTimes)
def event_times(operator: EventTimes, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """The rows as they came; EvaluationError about the first without an event time."""
    (batch,) = inputs
    assert batch is not None
    missing = np.flatnonzero(numbers(batch, TIMESTAMP) == UNKNOWN)
    if len(missing):
        reach = (
            f"from 1970 on, at most {TIME_MS_MAX} ms after it"
            if operator.since_1970
            else f"at most {TIME_MS_MAX} ms before or after 1970"
        )
        raise EvaluationError(
            f"its event time, column {operator.column!r} ({operator.type}), is null or out of range; expected a time in each record, "
            f"{reach} (on_error= of the topology leaves out such records of a stream, those of a table cannot be left out)",
            batch.slice(int(missing[0]), 1),
        )
    return batch
