"""
The changes of a table within an epoch: what each replaces.

A change has a new value (none if it deletes) and an old value (none if its key had no row). The old value is that of the last
change of the same key before it in this epoch, else what the store holds.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.joining import Indices, committed_rows, with_changes
from streamkit.log.values.keys import encode_keys
from streamkit.plan.program import Store


def replaced_rows(store: Store, changes: pa.RecordBatch, context: Context) -> tuple[pa.RecordBatch, Indices]:
    """Rows of the table, and for each change the position among them of the row it replaces (-1: none); changes are in order."""
    keys = encode_keys([changes[name] for name in store.key.names])
    committed, found = committed_rows(store, changes, store.key.names, keys, context)
    return with_changes(store, committed, found, changes, previous_of_key(keys))


def previous_of_key(keys: pa.BinaryArray) -> Indices:
    """For each row the position of the row of the same key before it; -1 for the first."""
    codes = keys.dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    previous = np.full(len(codes), -1, np.int64)
    follows = np.flatnonzero(np.diff(codes[order]) == 0)
    previous[order[follows + 1]] = order[follows]
    return previous
