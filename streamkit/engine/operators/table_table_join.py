"""
Table-table join: a change of either side is joined with the other side's row as of the change's place.

The rules are Kafka Streams' (table-table join on the same key): an inner join gives nothing while the other side has no row;
a left join gives nothing for a change of the right side without a left row; an outer join deletes only when both are gone. A
key that never had a result is not deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.conditionals import if_else
from streamkit.engine.folding.changes import old_values_of, without_nothing
from streamkit.engine.folding.joining import Kept, as_of, kept_table, seen_changes, times_found
from streamkit.engine.rows.place import as_they_come, at_input, in_canonical_order
from streamkit.engine.rows.rows import (
    OptionalBatch,
    concatenate,
    deletions_of,
    last_of_each,
    numbers,
    record_columns,
    row_times,
    rows_of,
    without_row_times,
)
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED, ROW_TIME, TIMESTAMP
from streamkit.plan.operator import PORT
from streamkit.plan.operators.table_table_join import TableTableJoinRows


@dataclass(frozen=True)
class TableSide:
    """
    One side of the join: `own` is its place among the inputs, `other` that of the other side; then the keys of both.

    `came` are its changes as they come, `others` those of the other side, and `others_seen` these from when on they are seen.
    """

    name: str
    own: int
    other: int
    key: tuple[str, ...]
    other_key: tuple[str, ...]
    came: OptionalBatch
    others: OptionalBatch
    others_seen: OptionalBatch


@kernel(TableTableJoinRows)
def table_table_join(
    operator: TableTableJoinRows, inputs: Sequence[OptionalBatch], context: Context
) -> Mapping[str, OptionalBatch]:
    """The changes of the joined table, in canonical order, and the newest of each key."""
    turn = context.turn(operator.id)
    seen = [seen_changes(operator, place, inputs, context) for place in range(2)]
    changes = _changes(operator, as_they_come(inputs, turn), seen, context)
    newest = changes.take(pa.array(last_of_each(encode_keys([changes[name] for name in operator.left_key]))))
    if turn.is_looked_through:
        came = [
            None
            if rows is None
            else at_input(in_canonical_order(rows), (turn.comes if turn.shares_records else turn.sees)(place))
            for place, rows in enumerate(seen)
        ]
        context.views |= dict.fromkeys((operator.id, f"{operator.id}{PORT}every"), _changes(operator, came, came, context))
    return {"": changes, "every": changes, "latest": newest}


def _changes(
    operator: TableTableJoinRows, came: Sequence[OptionalBatch], seen: Sequence[OptionalBatch], context: Context
) -> pa.RecordBatch:
    """The changes of the joined table: each change of a side meets the other side as it is at that moment."""
    sides = [
        TableSide("left", 0, 1, operator.left_key, operator.right_key, came[0], came[1], seen[1]),
        TableSide("right", 1, 0, operator.right_key, operator.left_key, came[1], came[0], seen[0]),
    ]
    return in_canonical_order(concatenate([_joined(operator, side, context) for side in sides if side.came is not None]))


def _joined(operator: TableTableJoinRows, side: TableSide, context: Context) -> pa.RecordBatch:
    """The results of one side's changes."""
    changes = side.came
    assert changes is not None
    if side.name in operator.skips:
        changes = without_nothing(kept_table(operator.inputs[side.own], context), changes, context)
    other_table = kept_table(operator.inputs[side.other], context)
    in_order = [side.key[side.other_key.index(name)] for name in other_table.key]
    other, found = as_of(other_table, changes, in_order, side.others_seen, context)
    has_value, has_other = ~deletions_of(changes), found >= 0
    if operator.how == "inner" and not (has_value | has_other).all():
        _, replaced = old_values_of(kept_table(operator.inputs[side.own], context), changes, context)
        has_other |= ~has_value & still_there(other_table, changes, in_order, side.others, context) & (replaced >= 0)
    is_given, is_deleted = _decided(operator, side, changes, has_value, has_other, context)
    if not is_given.all():  # most changes of a table may have no partner
        changes, found = changes.filter(pa.array(is_given)), found[is_given]
        has_value, has_other, is_deleted = (mask[is_given] for mask in (has_value, has_other, is_deleted))
    result = _columns(operator, side, changes, has_value & ~is_deleted, other, np.where(is_deleted, -1, found))
    other_times = times_found(other, found)
    times = np.maximum(numbers(changes, TIMESTAMP), other_times)
    record = {**record_columns(without_row_times(changes)), TIMESTAMP: pa.array(times), DELETED: pa.array(is_deleted)}
    if operator.has_row_times:
        own_times = row_times(changes).to_numpy()
        left_times = np.where(has_value, np.maximum(own_times, other_times), np.where(has_other, other_times, times))
        record |= {ROW_TIME: pa.array(left_times)} if (left_times != times).any() else {}
    return rows_of({**result, **record})


def still_there(table: Kept, rows: pa.RecordBatch, on: Sequence[str], others: OptionalBatch, context: Context) -> Mask:
    """Which rows come before a deletion of the row that they name, which they may have seen."""
    _, found = as_of(table, rows, on, others, context)
    is_there: Mask = found >= 0
    return is_there


def _decided(
    operator: TableTableJoinRows, side: TableSide, changes: pa.RecordBatch, has_value: Mask, has_other: Mask, context: Context
) -> tuple[Mask, Mask]:
    """Which changes give a result, and which of these delete it."""
    if operator.how == "inner":
        return has_other, ~has_value
    if operator.how == "left" and side.name == "right":
        return has_other, np.zeros(len(has_value), bool)
    _, replaced = old_values_of(kept_table(operator.inputs[side.own], context), changes, context)
    is_given = has_value | has_other | (replaced >= 0)
    return is_given, ~has_value if operator.how == "left" else ~has_value & ~has_other


def _columns(
    operator: TableTableJoinRows,
    side: TableSide,
    changes: pa.RecordBatch,
    has_value: Mask,
    other: pa.RecordBatch,
    found: Integers,
) -> dict[str, pa.Array]:
    """The columns of the results: the key from the change, values from either side, null where a side has no row."""
    own_key = dict(zip(operator.left_key, side.key, strict=True))
    indices, valid = pa.array(found, mask=found < 0), pa.array(has_value)
    result: dict[str, pa.Array] = {}
    for name, source in operator.columns:
        origin, _, column = source.partition(".")
        if origin == "left" and column in own_key:
            result[name] = changes[own_key[column]]
        elif origin == side.name:
            result[name] = if_else(valid, changes[column], pa.scalar(None, changes[column].type))
        else:
            result[name] = other[column].take(indices)
    return result
