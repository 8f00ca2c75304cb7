"""Where rows leave an operator chain: to the next kernel, to a topic, or as one of an aggregate's emissions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.context import Context, log_timestamps, runs
from streamkit.engine.epoch import OutputTopic
from streamkit.engine.exchange import groups_of, pack
from streamkit.engine.rows import has_order, in_canonical_order, is_null_key, plain, rows_of, without_null_keys
from streamkit.log.values.keys import partitions_of_rows
from streamkit.names import DELETED, KEY_GROUP, TIMESTAMP
from streamkit.plan.program import Emit, Output, Send, Write


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
    if batch is None:
        return
    output, topic = context.program.outputs[operator.output], context.plan.application.outputs[operator.output]
    batch = _without_keyless_deletions(operator, output, batch, context)
    if not batch.num_rows:
        return
    if has_order(batch):
        batch = in_canonical_order(batch)
    labels = _partitions_of(batch, output.key, topic)
    order = np.argsort(labels, kind="stable")
    rows = _log_rows(output, batch).take(pa.array(order))
    context.frames.extend((topic.id, partition, piece) for partition, piece in runs(rows, labels[order]))
    context.count("written", output.topic, batch.num_rows)


def _partitions_of(batch: pa.RecordBatch, key: tuple[str, ...], topic: OutputTopic) -> npt.NDArray[np.int64]:
    """The partition of each row, by its key; rows without one are spread by where they come from."""
    if not topic.partition_by:
        return groups_of(batch, (), topic.partitions).astype(np.int64)
    labels = partitions_of_rows(batch, key, topic.partition_by, topic.partitions).astype(np.int64)
    missing = labels < 0
    return np.where(missing, groups_of(batch, (), topic.partitions), labels) if missing.any() else labels


def _without_keyless_deletions(operator: Write, output: Output, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows without deletions of no key, as they come about where a new key is made of values."""
    if not output.key or DELETED not in batch.schema.names:
        return batch
    keyless = pc.and_(batch[DELETED], is_null_key(batch, output.key))
    context.count("null_key", operator.id, keyless.true_count)
    return batch.filter(pc.invert(keyless)) if keyless.true_count else batch


def _log_rows(output: Output, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as the topic keeps them; a deletion keeps its key and nothing else."""
    columns = {name: plain(batch[name]) for name in output.schema.names}
    columns[TIMESTAMP] = log_timestamps(batch[TIMESTAMP])
    if DELETED not in batch.schema.names or not pc.any(batch[DELETED]).as_py():
        return rows_of(columns)
    for name in output.schema.names:
        if name not in output.key:
            columns[name] = pc.if_else(batch[DELETED], pa.scalar(None, columns[name].type), columns[name])
    return rows_of({**columns, DELETED: batch[DELETED]})
