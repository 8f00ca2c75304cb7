"""Net change: one row of the two that a change is, with the old values that were asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.engine.folding.changes import new_of, old_of
from streamkit.engine.rows.rows import OptionalBatch, deletions_of, last_of_each, record_columns, rows_of
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.log.values.keys import encode_keys
from streamkit.plan.operators.net_change import OLD, NetChange


@kernel(NetChange)
def net_change(operator: NetChange, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """The new rows, with columns of the old ones; deletions of what was not there are left out if the operator says so."""
    (pairs,) = inputs
    assert pairs is not None
    old, new = old_of(pairs), new_of(pairs)
    if operator.mode == "latest":
        keys = encode_keys([new[name] for name in operator.key])
        old, new = old.take(pa.array(_first_of_each(keys))), new.take(pa.array(last_of_each(keys)))
    before = {OLD + name: old[name] for name in operator.old}
    columns = {name: new[name] for name in (*operator.key, *operator.values)}
    rows = rows_of({**columns, **before, **record_columns(new)})
    if not operator.skips:
        return rows
    is_nothing = deletions_of(old) & deletions_of(new)
    return rows.filter(pa.array(~is_nothing)) if is_nothing.any() else rows


def _first_of_each(keys: pa.BinaryArray) -> Integers:
    """For each distinct key the position of its first row, in the order of their last rows."""
    codes = keys.dictionary_encode().indices.to_numpy()
    first = np.full(int(codes.max()) + 1 if len(codes) else 0, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    found: Integers = first[codes[last_of_each(keys)]]
    return found
