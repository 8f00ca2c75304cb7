"""Row function: gives the columns, or the rows of columns, that a user's function makes of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers, Mask
from streamkit.conditionals import if_else
from streamkit.data_type import to_arrow
from streamkit.engine.rows.place import extended_by_turn, has_place
from streamkit.engine.rows.rows import OptionalBatch, deletions_of, plain, record_columns, rows_of
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.errors import EvaluationError
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.core.elements import Elements, taken, validity
from streamkit.names import DELETED, PATH
from streamkit.plan.expression import TypedExpression
from streamkit.plan.operators.row_function import RowFunction


@dataclass(frozen=True, eq=False)
class Made:
    """
    The rows that a function made: of each the row it comes from, its place among those, the columns as a struct.

    The rest is by row: whether the function was called for it, and whether it gave None.
    """

    parents: Integers
    places: Integers
    structs: pa.Array
    is_called: Mask
    is_none: Mask


@kernel(RowFunction)
def row_function(operator: RowFunction, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """The rows that the function makes; each has the time and place of the row it comes from. A tombstone passes, or is given too."""
    (batch,) = inputs
    assert batch is not None
    made = _made(operator, batch)
    rows = batch.take(pa.array(made.parents)) if operator.is_many else batch
    deleted = _deletions(operator, rows, made)
    _check_required(operator, made, deleted)
    given = {name: pc.struct_field(made.structs, [name]) for name in operator.given}
    columns = {name: given[name] if name in given else rows[name] for name in operator.columns}
    record = record_columns(rows)
    if operator.is_many and has_place(rows):
        record[PATH] = extended_by_turn(rows, context.turn(operator.id).owns, made.places)
    if DELETED in record or deleted.any():
        record[DELETED] = pa.array(deleted)
    return rows_of({**_without_values(operator, columns, deleted), **record})


def _made(operator: RowFunction, batch: pa.RecordBatch) -> Made:
    """What the function makes of the rows."""
    tombstones = deletions_of(batch)
    is_called = ~tombstones if operator.tombstone_call is None else np.ones(batch.num_rows, bool)
    results = _results(operator, batch, tombstones)
    if not operator.is_many:
        parents = np.arange(batch.num_rows)
        return Made(parents, np.zeros(batch.num_rows, np.int64), results, is_called, _nulls(results) & is_called)
    elements = Elements.of(results)
    lengths = np.where(is_called, elements.lengths, 1)
    parents = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(parents)) - (np.cumsum(lengths) - lengths)[parents]
    chosen = np.where(is_called[parents], elements.starts[parents] + places, -1)
    structs = taken(elements.values, chosen)
    return Made(parents, places, structs, is_called[parents], _nulls(structs) & is_called[parents])


def _results(operator: RowFunction, batch: pa.RecordBatch, tombstones: Mask) -> pa.Array:
    """What the function gives of each row; null of tombstones that it is not called for."""
    if not tombstones.any():
        return _evaluated(operator.call, batch)
    results = _evaluated(operator.call, batch.filter(pa.array(~tombstones)))
    others = batch.filter(pa.array(tombstones))
    given = pa.nulls(others.num_rows, results.type)
    if operator.tombstone_call is not None:
        given = _of_tombstones(operator, operator.tombstone_call, others)
    order = np.argsort(np.concatenate([np.flatnonzero(~tombstones), np.flatnonzero(tombstones)]))
    return pa.concat_arrays([results, given]).take(pa.array(order))


def _of_tombstones(operator: RowFunction, call: TypedExpression, rows: pa.RecordBatch) -> pa.Array:
    """What the function gives of tombstones; if it fails where it is asked for their keys, the error says how it need not be."""
    try:
        return _evaluated(call, rows)
    except EvaluationError as error:
        if not operator.keeps_values or error.is_placed:
            raise
        raise EvaluationError(
            f"{error}; the record is a tombstone, and the function was asked for its key: expected a function that accepts None for values, or "
            "tombstones=False, which passes it on with null for the new key"
        ) from error


def _evaluated(call: TypedExpression, rows: pa.RecordBatch) -> pa.Array:
    """What the function gives of each row; it is not called for none."""
    return evaluate(call, rows) if rows.num_rows else pa.array([], to_arrow(call.type))


def _deletions(operator: RowFunction, rows: pa.RecordBatch, made: Made) -> Mask:
    """Which of the rows made are tombstones."""
    if made.is_none.any() and not operator.none_deletes:
        raise _wrong(operator, "gave None; expected a dict of columns")
    marked = made.is_none
    if DELETED in made.structs.type.names:
        marked = marked | pc.struct_field(made.structs, DELETED).fill_null(False).to_numpy(zero_copy_only=False)
    if marked.any() and not operator.key:
        raise _wrong(operator, "gave a tombstone, and the stream has no key to delete by; expected a row")
    passed = deletions_of(rows)
    return marked | (passed if operator.keeps_values else passed & ~made.is_called)


def _without_values(operator: RowFunction, columns: Mapping[str, pa.Array], deleted: Mask) -> dict[str, pa.Array]:
    """The columns, null for tombstones unless they are part of the key."""
    if not deleted.any():
        return dict(columns)
    live = pa.array(~deleted)
    return {
        name: column if name in operator.key else if_else(live, plain(column), pa.scalar(None, plain(column).type))
        for name, column in columns.items()
    }


def _check_required(operator: RowFunction, made: Made, deleted: Mask) -> None:
    """EvaluationError if the function gave None for a column that is NOT NULL."""
    for name in operator.required:
        if (_nulls(pc.struct_field(made.structs, [name])) & ~deleted).any():
            raise _wrong(operator, f"gave None for {name}, which is declared NOT NULL")


def _wrong(operator: RowFunction, what: str) -> EvaluationError:
    return EvaluationError(f"the function {str(operator.call.value).partition(':')[0]} {what}")


def _nulls(array: pa.Array) -> Mask:
    return ~validity(array)
