"""Regroup: what the changes of a table take from groups, and add to them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.engine.folding.changes import ADDED, REMOVED, REPLACED, new_of
from streamkit.engine.rows.place import as_moved, extended_by, place_ranks
from streamkit.engine.rows.rows import OptionalBatch, deletions_of, is_null_key, with_columns
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.log.values.keys import encode_keys
from streamkit.names import CHANGE, DELETED, PATH
from streamkit.plan.operators.regroup import Regroup
from streamkit.plan.program import Number

ENDING = np.dtype(
    [("change", ">u4"), ("is_new", "u1")]
)  # what orders rows that a record changes: it may change one twice; the old row comes first


@kernel(Regroup)
def regroup(operator: Regroup, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """The old and new rows that are there, in their order, each with what it does to its group."""
    (pairs,) = inputs
    assert pairs is not None
    has_group = ~is_null_key(pairs, operator.key).to_numpy(zero_copy_only=False)
    is_there = ~deletions_of(pairs)
    context.count("null_key", operator.id, int((is_there & ~has_group).sum()))
    is_there &= has_group
    number, change = context.turn(operator.id).owns, _change(operator, pairs, is_there)
    rows = with_columns(pairs, {CHANGE: change, PATH: _paths(pairs, number)}).drop_columns([DELETED])
    return rows.filter(pa.array(is_there))


def _change(operator: Regroup, pairs: pa.RecordBatch, is_there: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Array:
    """Whether a row is taken away or added; a row taken away is replaced if the new one is in the same group."""
    keys = encode_keys([pairs[name] for name in operator.key])
    same_group = pc.equal(keys.take(_turns(pairs, 0)), keys.take(_turns(pairs, 1))).to_numpy(zero_copy_only=False)
    change = np.full(pairs.num_rows, ADDED, np.int8)
    change[0::2] = np.where(same_group & is_there[0::2] & is_there[1::2], REPLACED, REMOVED)
    return pa.array(change)


def _paths(pairs: pa.RecordBatch, number: Number) -> pa.BinaryArray:
    ends = np.empty(pairs.num_rows, ENDING)
    ends["change"], ends["is_new"] = np.repeat(_number_at_place(new_of(pairs)), 2), np.arange(pairs.num_rows) % 2
    return extended_by(as_moved(pairs, number), number, ends)


def _number_at_place(changes: pa.RecordBatch) -> Integers:
    """The number of each change among those at its place."""
    (ranks,) = place_ranks(changes)
    order = np.argsort(ranks, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order)) - np.searchsorted(ranks[order], ranks[order], side="left")
    return number


def _turns(pairs: pa.RecordBatch, first: int) -> pa.Array:
    return pa.array(np.arange(first, pairs.num_rows, 2))
