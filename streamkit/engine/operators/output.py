"""Where rows leave an operator chain: to the next kernel, to a topic, or as one of an aggregate's emissions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.context import Context, log_timestamps, runs
from streamkit.engine.exchange import groups_of, pack
from streamkit.engine.rows import has_order, in_canonical_order, rows_of, without_null_keys
from streamkit.log.keys import partitions
from streamkit.names import DELETED, KEY_GROUP, TIMESTAMP
from streamkit.plan.program import Emit, Send, Write


def send(operator: Send, batch: pa.RecordBatch | None, context: Context) -> None:
    """Pack the rows for the tasks that own their keys."""
    if batch is None:
        return
    application = context.plan.application
    edge = context.program.edges[operator.edge]
    if not operator.keep_null_keys:
        batch, dropped = without_null_keys(batch, edge.key)
        context.count("null_key", operator.id, dropped)
    groups = groups_of(batch, edge.key, application.key_groups)
    if KEY_GROUP in batch.schema.names:
        batch = batch.drop_columns([KEY_GROUP])
    context.sent.extend(pack(batch, operator.edge, groups, application.tasks, application.key_groups))


def emit(operator: Emit, context: Context) -> pa.RecordBatch | None:
    """The results that the aggregate or table above has kept for this mode."""
    return context.emissions.get(operator.inputs[0], {}).get(operator.mode)


def write(operator: Write, batch: pa.RecordBatch | None, context: Context) -> None:
    """Frames for the output topic, one per partition, rows in canonical order."""
    if batch is None or not batch.num_rows:
        return
    output, topic = context.program.outputs[operator.output], context.plan.application.outputs[operator.output]
    if has_order(batch):
        batch = in_canonical_order(batch)
    labels = partitions([batch[name] for name in topic.partition_by], topic.partitions)
    labels = np.where(labels < 0, groups_of(batch, topic.partition_by, topic.partitions), labels)
    order = np.argsort(labels, kind="stable")
    columns = {name: batch[name] for name in output.schema.names}
    columns[TIMESTAMP] = log_timestamps(batch[TIMESTAMP])
    if DELETED in batch.schema.names and pc.any(batch[DELETED]).as_py():
        columns[DELETED] = batch[DELETED]
    rows = rows_of(columns).take(pa.array(order))
    context.frames.extend((topic.id, partition, piece) for partition, piece in runs(rows, labels[order]))
    context.count("written", output.topic, batch.num_rows)
