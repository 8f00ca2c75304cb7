"""Explode: repeats a row for each element; the path of a row tells its elements apart, in their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.engine.context import Context
from streamkit.engine.kernels import Rows, kernel
from streamkit.engine.place import extended, has_place
from streamkit.engine.rows import deletions_of, of_live_rows, own_columns, record_columns, rows_of
from streamkit.expressions.arrow import evaluate
from streamkit.expressions.elements import Elements, taken
from streamkit.names import DELETED, PATH
from streamkit.plan.operators.explode import Explode


@kernel(Explode)
def explode(operator: Explode, inputs: Sequence[Rows], context: Context) -> pa.RecordBatch:
    """One row an element, with the columns of the row it stands in; it has the row's time and place. A tombstone stays one."""
    (batch,) = inputs
    assert batch is not None
    values = _values(operator, batch)
    elements = Elements.of(values)
    lengths = np.maximum(elements.lengths, 1 if operator.outer else deletions_of(batch))
    parents = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(parents)) - (np.cumsum(lengths) - lengths)[parents]
    chosen = np.where(places < elements.lengths[parents], elements.starts[parents] + places, -1)
    rows = batch.drop_columns(list(operator.drops)).take(pa.array(parents))
    parts = [elements.keys, elements.items] if pa.types.is_map(values.type) else [elements.values]
    columns = [taken(part, chosen) for part in parts]
    if operator.position:
        columns.insert(0, pa.array(places, mask=chosen < 0).cast(pa.int32()))
    record = record_columns(rows)
    if has_place(rows):
        record[PATH] = extended(rows, places)
    return rows_of({**{name: rows[name] for name in own_columns(rows)}, **dict(zip(operator.columns, columns)), **record})


def _values(operator: Explode, batch: pa.RecordBatch) -> pa.Array:
    """The array or map of each row; a tombstone has none."""
    if DELETED not in batch.schema.names:
        return evaluate(operator.expression, batch)
    return of_live_rows(batch, lambda rows: evaluate(operator.expression, rows))
