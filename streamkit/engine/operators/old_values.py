"""Old values: each change of a kept table as its old value, then the new one."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from streamkit.engine.folding.changes import old_values_of, rows_before, with_old_values
from streamkit.engine.folding.joining import kept_table
from streamkit.engine.rows.rows import OptionalBatch
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.plan.operators.old_values import OldValues


@kernel(OldValues)
def old_values(operator: OldValues, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """Two rows for each change, in the order of the changes."""
    changes, *newer = inputs
    assert changes is not None
    kept = kept_table(operator.inputs[0], context)
    table, replaced = rows_before(kept, changes, newer[0], context) if newer else old_values_of(kept, changes, context)
    return with_old_values(changes, {name: table[name] for name in kept.values if name in changes.schema.names}, replaced)
