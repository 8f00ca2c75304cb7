"""Project: computes the columns of a row by expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from streamkit.conditionals import if_else
from streamkit.engine.rows.rows import OptionalBatch, columns_of_live_rows, plain, record_columns, rows_of
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.expressions.analysis.arrow import evaluate_all
from streamkit.names import DELETED
from streamkit.plan.operators.project import Project


@kernel(Project, takes_pieces=True)
def project(operator: Project, inputs: Sequence[OptionalBatch], context: Context) -> pa.RecordBatch:
    """The row's own columns replaced by the operator's; record columns stay. A deletion keeps what it has, and computes its key only."""
    (batch,) = inputs
    assert batch is not None
    is_kept = {name: name in operator.key or expression.name == "column" for name, expression in operator.columns}
    always = [column for column in operator.columns if is_kept[column[0]]]
    values = [column for column in operator.columns if not is_kept[column[0]]]
    of_rows = columns_of_live_rows if DELETED in batch.schema.names else _of_all_rows
    columns = {**evaluate_all(always, batch), **of_rows(batch, lambda rows: evaluate_all(values, rows))}
    for name in operator.former_key if DELETED in batch.schema.names else ():
        if name in columns:
            columns[name] = if_else(batch[DELETED], pa.scalar(None), plain(columns[name]))
    return rows_of({**{name: columns[name] for name, _ in operator.columns}, **record_columns(batch)})


def _of_all_rows(batch: pa.RecordBatch, compute: Callable[[pa.RecordBatch], dict[str, pa.Array]]) -> dict[str, pa.Array]:
    return compute(batch)
