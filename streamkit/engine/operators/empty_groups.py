"""Empty groups: what a group was before its first row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.engine.rows.rows import OptionalBatch, deletions_of
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.expressions.aggregates import neutral, result
from streamkit.names import DELETED
from streamkit.plan.operators.empty_groups import EmptyGroups


@kernel(EmptyGroups)
def empty_groups(operator: EmptyGroups, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """
    The changes, in which an old row that is not there has the results of no rows.

    A list or map has the first value of its group already: ksqlDB puts it into the empty one before it looks at that.
    """
    (pairs,) = inputs
    assert pairs is not None
    turns = np.arange(pairs.num_rows)
    is_new = deletions_of(pairs) & (turns % 2 == 0)
    if not is_new.any():
        return pairs
    columns = {name: pairs[name] for name in pairs.schema.names}
    empty = {one.name: result(one, neutral(one, 1)) for one in operator.aggregates if one.name in columns}
    empty |= {name: pa.nulls(1, columns[name].type) for name in operator.key}
    for name, row in empty.items():
        is_filled = row.null_count == 0 and pa.types.is_nested(row.type)
        places = pa.array(np.where(is_new, turns + 1 if is_filled else pairs.num_rows, turns))
        columns[name] = pa.concat_arrays([columns[name], row.cast(columns[name].type)]).take(places)
    columns[DELETED] = pa.array(deletions_of(pairs) & ~is_new)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
