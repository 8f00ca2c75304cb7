"""Write: frames for an output topic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.conditionals import if_else
from streamkit.engine.epoch.epoch import OutputTopic
from streamkit.engine.rows.place import canonical_order, has_place
from streamkit.engine.rows.rows import OptionalBatch, is_null_key, plain, rows_of, with_columns
from streamkit.engine.stage.context import WRITTEN, Context, log_timestamps, runs
from streamkit.engine.stage.output_partitions import as_the_topic_has_them, partitions_of
from streamkit.engine.stage.registry import kernel
from streamkit.errors import EvaluationError
from streamkit.expressions.core.accumulation import stable_order
from streamkit.log.rows.event_time import milliseconds_of
from streamkit.log.slab.dictionary import kept_if_repeated
from streamkit.log.values.keys import PlacedEntries
from streamkit.names import DELETED, HEADERS, TIMESTAMP
from streamkit.plan.operators.write import Write
from streamkit.plan.program import Output


@kernel(Write, takes_pieces=True)
def write(operator: Write, inputs: Sequence[OptionalBatch], context: Context) -> None:
    """Frames for the output topic, one per partition, rows in canonical order."""
    (batch,) = inputs
    assert batch is not None
    output, topic = context.program.outputs[operator.output], context.plan.application.outputs[operator.output]
    batch = _without_keyless_deletions(operator, output, batch, context)
    if not batch.num_rows:
        return
    if changed := as_the_topic_has_them(output, batch):
        batch = with_columns(batch, changed)
    batch = with_columns(batch, {TIMESTAMP: _event_times(batch, topic, context)})
    placed = context.placed.setdefault(topic.id, PlacedEntries())
    labels = partitions_of(batch, output.key, topic.partition_by, topic.partitions, placed)
    order = canonical_order(batch) if has_place(batch) else np.arange(batch.num_rows)
    if (labels != labels[0]).any():
        order = order[stable_order(labels[order])]
    written = batch.select([name for name in (*output.schema.names, TIMESTAMP, DELETED, HEADERS) if name in batch.schema.names])
    rows = _log_rows(operator, output, written if (order[1:] > order[:-1]).all() else written.take(pa.array(order)))
    pieces = runs(rows, labels[order])
    if any(map(pa.types.is_dictionary, rows.schema.types)):
        pieces = ((partition, _with_own_dictionaries(piece)) for partition, piece in pieces)
    context.frames.extend((topic.id, partition, piece) for partition, piece in pieces)
    context.count(WRITTEN, output.topic, batch.num_rows)


def _with_own_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a frame, whose dictionaries have no entries of other frames."""
    return pa.RecordBatch.from_arrays([kept_if_repeated(column) for column in batch.columns], names=batch.schema.names)


def _without_keyless_deletions(operator: Write, output: Output, batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """
    The rows without deletions whose key is null, if the topic takes none: a key that was computed from values is null in a deletion.

    As in Kafka Streams such a record is written, though it deletes nothing; a compacted topic has no place for it.
    """
    takes_null_keys = output.cleanup_policy != "compact" and all(output.schema[name].nullable for name in output.key)
    if not output.key or takes_null_keys or not _has_deletions(batch):
        return batch
    keyless = pc.and_(batch[DELETED], is_null_key(batch, output.key))
    context.count("null_key", operator.id, keyless.true_count)
    return batch.filter(pc.invert(keyless)) if keyless.true_count else batch


def _event_times(batch: pa.RecordBatch, topic: OutputTopic, context: Context) -> pa.Array:
    """
    The event times of the rows, as the topic declares them: those of its time column, or the time of the epoch.

    A deletion without a time of its own has that of its row; EvaluationError for another row whose time is null, as for producers.
    """
    if topic.is_stamped_on_append:
        return pa.array(np.full(batch.num_rows, context.plan.end.time_ms, np.int64))
    if topic.timestamp is None:
        return batch[TIMESTAMP]
    stamps = plain(batch[topic.timestamp])
    if stamps.null_count:
        missing = stamps.is_null()
        missing = pc.and_not(missing, batch[DELETED]) if _has_deletions(batch) else missing
        if missing.true_count:
            raise EvaluationError(
                f"column {topic.timestamp!r} is null, and it is the event time of the topic {topic.name}; expected a time in each row",
                batch.slice(int(np.flatnonzero(missing.to_numpy(zero_copy_only=False))[0]), 1) if has_place(batch) else None,
            )
    return pc.coalesce(milliseconds_of(stamps), batch[TIMESTAMP])


def _has_deletions(batch: pa.RecordBatch) -> bool:
    return DELETED in batch.schema.names and bool(batch[DELETED].true_count)


def _log_rows(operator: Write, output: Output, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as the topic keeps them, with headers if one has any; a deletion keeps its key, and the values that it replaces if these were asked for."""
    columns = {name: batch[name] for name in output.schema.names}
    columns[TIMESTAMP] = log_timestamps(batch[TIMESTAMP])
    headers = {HEADERS: batch[HEADERS]} if HEADERS in batch.schema.names and batch[HEADERS].null_count < batch.num_rows else {}
    if not _has_deletions(batch):
        return rows_of({**columns, **headers})
    for name in output.schema.names:
        if name not in output.key and name not in operator.kept:
            values = plain(columns[name])
            columns[name] = if_else(batch[DELETED], pa.scalar(None, values.type), values)
    return rows_of({**columns, DELETED: batch[DELETED], **headers})
