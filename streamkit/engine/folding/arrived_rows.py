"""The rows of an aggregation by users' functions, of all its inputs together, and what the functions are given of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.engine.folding.windows import assign_windows
from streamkit.engine.rows.place import as_they_come, canonical_order, place_columns
from streamkit.engine.rows.rows import (
    OptionalBatch,
    concatenate,
    deletions_of,
    own_columns,
    rows_of,
    without_deletions,
    without_null_keys,
)
from streamkit.engine.stage.context import Context
from streamkit.expressions.core.groups import one_of_equal_keys
from streamkit.log.values.python_values import python_values
from streamkit.names import KEY_GROUP, TIMESTAMP, WINDOW
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.plan.program import ProgramStore


@dataclass(frozen=True, eq=False)
class ArrivedRows:
    """
    The rows of all inputs in canonical order: the columns of their groups and their places.

    `inputs` and `rows` say from which input each comes, and which row of `batches` it is there.
    """

    groups: pa.RecordBatch
    batches: Sequence[pa.RecordBatch]
    inputs: Integers
    rows: Integers

    def record(self, row: int) -> pa.RecordBatch:
        """A row as it came."""
        return self.batches[self.inputs[row]].slice(self.rows[row], 1)


def arrived_rows(operator: Aggregate, inputs: Sequence[OptionalBatch], context: Context) -> ArrivedRows | None:
    """The rows that fall into groups; None if there are none."""
    batches = [
        pa.RecordBatch.from_pydict({}) if batch is None else _grouped(operator, number, batch, context)
        for number, batch in enumerate(as_they_come(inputs, context.turn(operator.id)))
    ]
    places = [place for place, batch in enumerate(batches) if batch.num_rows]
    if not places:
        return None
    groups = concatenate([_group_columns(operator, operator.keys[place], batches[place]) for place in places])
    origins = np.concatenate([np.full(batches[place].num_rows, place) for place in places])
    rows = np.concatenate([np.arange(batches[place].num_rows) for place in places])
    order = canonical_order(groups)
    return ArrivedRows(groups.take(pa.array(order)), batches, origins[order], rows[order])


def _grouped(operator: Aggregate, number: int, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows of one input that have a group and a value, in each of their windows; what is left out is counted."""
    batch, dropped = without_null_keys(batch, operator.keys[number])
    context.count("null_key", operator.id, dropped)
    if not operator.takes_tombstones:
        batch, deletions = without_deletions(batch)
        context.count("deletion", operator.id, deletions)
    return batch if operator.assigned is None else assign_windows(operator, operator.assigned, batch, context)


def _group_columns(operator: Aggregate, key: Sequence[str], batch: pa.RecordBatch) -> pa.RecordBatch:
    """What the groups of rows are, under the names of the result, and where the rows stand."""
    columns = {name: one_of_equal_keys(batch[own]) for name, own in zip(operator.key, key, strict=True)}
    record = {name: batch[name] for name in (TIMESTAMP, KEY_GROUP, WINDOW) if name in batch.schema.names}
    return rows_of({**columns, **record, **place_columns(batch)})


def values_of(operator: Aggregate, store: ProgramStore, arrived: ArrivedRows) -> Callable[[int], dict[str, Any] | None]:
    """What the functions are given of a row: a reduction its value columns or None, others all columns or, of a tombstone, those of the key."""
    columns = []
    for batch in arrived.batches:
        names = store.value.names if operator.functions.initial is None and batch.num_rows else own_columns(batch)
        columns.append({name: python_values(batch[name]) for name in names})
    is_tombstone = [deletions_of(batch).tolist() for batch in arrived.batches]
    keys = [None if operator.functions.initial is None else frozenset(key) for key in operator.keys]
    origins, rows = arrived.inputs.tolist(), arrived.rows.tolist()

    def value(number: int) -> dict[str, Any] | None:
        origin, row = origins[number], rows[number]
        if not is_tombstone[origin][row]:
            return {name: column[row] for name, column in columns[origin].items()}
        key = keys[origin]
        return None if key is None else {name: column[row] for name, column in columns[origin].items() if name in key}

    return value
