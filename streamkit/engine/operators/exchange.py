"""Send and receive: rows leave for the tasks that own their keys, and arrive there."""

from __future__ import annotations

from collections.abc import Sequence

from streamkit.engine.rows.exchange import for_another_process, groups_of, pack
from streamkit.engine.rows.place import as_moved
from streamkit.engine.rows.rows import OptionalBatch, with_columns, without_null_keys
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.output_partitions import groups_to_write
from streamkit.engine.stage.registry import EVERYTHING, kernel
from streamkit.log.slab.dictionary import encoded_if_repeated
from streamkit.names import HEADERS, KEY_GROUP
from streamkit.plan.operators.exchange import Receive, Send


@kernel(Send, gathers=EVERYTHING)
def send(operator: Send, inputs: Sequence[OptionalBatch], context: Context) -> None:
    """Pack the rows for the tasks that own their keys, or write their partitions."""
    (batch,) = inputs
    assert batch is not None
    application = context.plan.application
    if (turn := context.turn(operator.id)).own:  # records wait here, as they do for a topic of Kafka Streams
        batch = as_moved(batch, turn.owns)
    if not operator.keep_null_keys:
        batch, dropped = without_null_keys(batch, operator.key)
        context.count("null_key", operator.id, dropped)
    keys = {name: encoded_if_repeated(batch[name]) for name in operator.key}  # each value is hashed once from here on
    batch = with_columns(batch, keys)
    groups = groups_to_write(operator, batch, context)
    if groups is None:
        groups = groups_of(batch, operator.key, application.key_groups, operator.null_keys_by)
    unwanted = [name for name in (KEY_GROUP, *(() if operator.headers else (HEADERS,))) if name in batch.schema.names]
    if unwanted:
        batch = batch.drop_columns(unwanted)
    packed = pack(batch, operator.edge, groups, application.tasks, application.key_groups, context.origin)
    context.sent.extend(packed if context.in_process else for_another_process(packed))


@kernel(Receive, runs_empty=True)
def receive(operator: Receive, inputs: Sequence[OptionalBatch], context: Context) -> OptionalBatch:
    """All rows of an edge, by who sent them."""
    assert context.arrival is not None, "rows arrive at kernels alone"
    return context.arrival.rows(operator.edge)
