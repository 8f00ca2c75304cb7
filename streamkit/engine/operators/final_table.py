"""Final table: final results as the changes of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.kernels import Rows, kernel
from streamkit.engine.rows import with_columns
from streamkit.names import DELETED
from streamkit.plan.operators.final_table import FinalTable


@kernel(FinalTable)
def final_table(operator: FinalTable, inputs: Sequence[Rows], context: Context) -> Mapping[str, Rows]:
    """The results, none of which deletes, under the names of all emissions."""
    (batch,) = inputs
    assert batch is not None
    rows = with_columns(batch, {DELETED: pa.array(np.zeros(batch.num_rows, bool))})
    return {"": rows, "every": rows, "latest": rows, "final": rows}
