"""Unified key: a table's rows with one value for keys that are equal."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.engine.rows.rows import OptionalBatch, with_one_key
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.plan.operators.unified_key import UnifiedKey


@kernel(UnifiedKey)
def unified_key(operator: UnifiedKey, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """The rows as they came, but for zeros and NaN in their keys."""
    (batch,) = inputs
    assert batch is not None
    return with_one_key(batch, operator.columns)
