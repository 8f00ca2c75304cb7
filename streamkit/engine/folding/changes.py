"""
The changes of a table within an epoch: their old values.

A change has a new value (none if it deletes) and an old value (none if its key had no row). The old value is that of the last
change of the same key before it in this epoch, else what the store holds.

A change that goes through stateless steps, or to other groups, is two rows at one place: the old row, then the new one; one that is
not there is a deletion. On their way to a group, those that are there carry `_change`: what they do to it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.engine.folding.joining import Kept, committed_rows, newest_at, with_changes
from streamkit.engine.rows.place import place_ranks
from streamkit.engine.rows.rows import deletions_of
from streamkit.engine.stage.context import Context
from streamkit.names import DELETED

REMOVED, REPLACED, ADDED = 0, 1, 2  # what a row does; that of a replaced row is half a change: the row that is added follows


def old_values_of(table: Kept, changes: pa.RecordBatch, context: Context) -> tuple[pa.RecordBatch, Integers]:
    """Rows of the table, and for each change the position among them of its old value (-1: none); changes are in order."""
    keys = table.keys_of(changes, table.key)
    committed, found = committed_rows(table, changes, table.key, keys, context)
    return with_changes(table.store, committed, found, changes, previous_of_code(keys.codes))


def without_nothing(table: Kept, changes: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The changes without deletions of what was not there."""
    is_deleted = deletions_of(changes)
    if not is_deleted.any():
        return changes
    _, replaced = old_values_of(table, changes, context)
    return changes.filter(pa.array((replaced >= 0) | ~is_deleted))


def rows_before(
    table: Kept, rows: pa.RecordBatch, changes: pa.RecordBatch | None, context: Context
) -> tuple[pa.RecordBatch, Integers]:
    """As `old_values_of`, of rows of which only some, `changes`, become the newest of their key: what is the newest before each."""
    keys = table.keys_of(rows, table.key)
    committed, found = committed_rows(table, rows, table.key, keys, context)
    if changes is None or not changes.num_rows:
        return committed, found
    changed_keys = table.keys_of(changes, table.key)
    newest = newest_at(rows, keys, changes, changed_keys)
    own, others = place_ranks(rows, changes)
    is_itself = (newest >= 0) & (others[newest] == own)
    return with_changes(
        table.store, committed, found, changes, np.where(is_itself, previous_of_code(changed_keys.codes)[newest], newest)
    )


def previous_of_code(codes: Integers) -> Integers:
    """For each row the position of the row before it whose key has the same code; -1 for the first."""
    order = np.argsort(
        codes, kind="stable"
    )  # rows of a key stand side by side, in their order: each follows the one in front of it
    previous = np.full(len(codes), -1, np.int64)
    follows = np.flatnonzero(np.diff(codes[order]) == 0)
    previous[order[follows + 1]] = order[follows]
    return previous


def with_old_values(changes: pa.RecordBatch, values: Mapping[str, pa.Array], replaced: Integers) -> pa.RecordBatch:
    """
    Each change as two rows, the one it replaces and the new one; `replaced` is the position of the old row in `values`, or -1.

    Columns that are not in `values` are those of the change: its key, its time, its place.
    """
    old = {name: changes[name] for name in changes.schema.names} | {DELETED: pa.array(replaced < 0)}
    indices = pa.array(replaced, mask=replaced < 0)
    old |= {name: column.take(indices).cast(changes[name].type) for name, column in values.items()}
    new = old | {DELETED: pa.array(deletions_of(changes))} | {name: changes[name] for name in values}
    both = [pa.concat_arrays([before, new[name]]) for name, before in old.items()]
    turns = (
        np.arange(2 * changes.num_rows).reshape(2, -1).T.ravel()
    )  # 0, n, 1, n + 1, …: the first old row, its new one, the second old row
    return pa.RecordBatch.from_arrays(both, names=list(old)).take(pa.array(turns))


def windows_with_old_values(changes: pa.RecordBatch, stored: Mapping[str, pa.Array], windows: Integers) -> pa.RecordBatch:
    """
    Changes of windows as `with_old_values`: each replaces the one of its window before it, else what was stored.

    `stored` has the values of stored windows; `windows` numbers the windows, those of the stored values first, then those of the changes.
    """
    replaced = previous_of_code(windows)[len(windows) - changes.num_rows :]
    is_gone = np.concatenate([np.zeros(len(windows) - changes.num_rows, bool), deletions_of(changes)])
    values = {name: pa.concat_arrays([column, changes[name].cast(column.type)]) for name, column in stored.items()}
    return with_old_values(changes, values, np.where(is_gone[replaced], -1, replaced))


def old_of(pairs: pa.RecordBatch) -> pa.RecordBatch:
    """The old rows of changes that are two rows each."""
    return pairs.take(pa.array(np.arange(0, pairs.num_rows, 2)))


def new_of(pairs: pa.RecordBatch) -> pa.RecordBatch:
    """The new rows of changes that are two rows each."""
    return pairs.take(pa.array(np.arange(1, pairs.num_rows, 2)))
