"""Explode: repeats a row for each element; the path of a row tells its elements apart, in their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.engine.rows.place import extended_by_turn, has_place
from streamkit.engine.rows.rows import OptionalBatch, deletions_of, of_live_rows, own_columns, record_columns, repeated, rows_of
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.expressions.core.elements import Elements, places_in, taken
from streamkit.names import DELETED, PATH
from streamkit.plan.explosion import Explosion
from streamkit.plan.operators.explode import Explode
from streamkit.plan.program import Number


@kernel(Explode)
def explode(operator: Explode, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """One row an element, with the columns of the row it stands in; it has the row's time and place. A tombstone stays one."""
    (batch,) = inputs
    assert batch is not None
    return exploded(operator.explosion, batch, context.turn(operator.id).owns if has_place(batch) else 0)


def exploded(explosion: Explosion, batch: pa.RecordBatch, turn: Number = 0) -> pa.RecordBatch:
    """The rows of the elements; `turn` is the operator's number in the paths of rows that have a place."""
    values = _values(explosion, batch)
    elements = Elements.of(values)
    lengths = np.maximum(elements.lengths, 1 if explosion.outer else deletions_of(batch))
    rows = repeated(batch.drop_columns(list(explosion.drops)), lengths)
    parts = [elements.keys, elements.items] if pa.types.is_map(values.type) else [elements.values]
    if rows.num_rows == len(elements.values):  # every row is an element
        columns, is_missing = parts, None
    else:
        chosen = _chosen(elements, lengths)
        columns, is_missing = [taken(part, chosen) for part in parts], chosen < 0
    record = record_columns(rows)
    if explosion.position or has_place(rows):
        places = places_in(lengths)
        if explosion.position:
            columns.insert(0, pa.array(places, mask=is_missing).cast(pa.int32()))
        if has_place(rows):
            record[PATH] = extended_by_turn(rows, turn, places)
    return rows_of({**{name: rows[name] for name in own_columns(rows)}, **dict(zip(explosion.columns, columns)), **record})


def _chosen(elements: Elements, lengths: Integers) -> Integers:
    """Where the element of each row stands; -1 for a row that stays without one."""
    found: Integers = np.repeat(elements.starts, lengths) + places_in(lengths)
    return np.where(np.repeat(elements.lengths, lengths) > 0, found, -1)


def _values(explosion: Explosion, batch: pa.RecordBatch) -> pa.Array:
    """The array or map of each row; a tombstone has none."""
    if DELETED not in batch.schema.names:
        return evaluate(explosion.expression, batch)
    return of_live_rows(batch, lambda rows: evaluate(explosion.expression, rows))
