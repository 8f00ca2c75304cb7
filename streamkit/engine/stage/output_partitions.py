"""
The partitions of rows that are written to topics.

Rows that arrive at a stage only to be written travel by these partitions. So one task writes a partition, and the records of an epoch lie
there in canonical order, whatever their keys are and however many tasks there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.engine.epoch.epoch import OutputTopic
from streamkit.engine.rows.exchange import groups_of
from streamkit.engine.rows.rows import plain, with_columns
from streamkit.engine.stage.context import Context
from streamkit.log.topic.evolution import is_wider, widened
from streamkit.log.values.keys import PlacedEntries, partitions_of_rows
from streamkit.plan.operator import Key, Operator
from streamkit.plan.operator_traits import IN_ORDER
from streamkit.plan.operators.encode import Encode
from streamkit.plan.operators.exchange import Send
from streamkit.plan.operators.write import Write
from streamkit.plan.program import Output, Program

# Formats that write a key as Kafka's serializers do, and of which types (None: of all). The column and its bytes then have one partition.
_AS_SERIALIZED = {"kafka": None, "string": ("string",), "bytes": ("binary",)}


def partitions_of(
    batch: pa.RecordBatch, key: Key, partition_by: Key, count: int, placed: PlacedEntries | None = None
) -> Integers:
    """The partition of each row among `count`, by its key; rows without one are spread by where they come from."""
    if not partition_by:
        return groups_of(batch, (), count).astype(np.int64)
    labels = partitions_of_rows(batch, key, partition_by, count, placed).astype(np.int64)
    missing = labels < 0
    return np.where(missing, groups_of(batch, (), count), labels) if missing.any() else labels


def as_the_topic_has_them(output: Output, batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """Columns to change for the topic: where its type is wider the values in that type, and null where only the topic has the column."""
    found = {}
    for column in output.schema:
        kind = column.arrow.type
        if column.name not in batch.schema.names:
            found[column.name] = pa.nulls(batch.num_rows, kind)
        elif is_wider(kind, (values := plain(batch[column.name])).type):
            found[column.name] = widened(values, kind)
    return found


@dataclass(frozen=True)
class WrittenRows:
    """
    Rows that go to output number `output`, where the columns they travel by are called `key`.

    `by` are the places in `key` of the columns that choose a partition. `is_worked_on`: steps compute something of the rows before.
    """

    output: int
    key: Key
    by: tuple[int, ...]
    is_worked_on: bool


def groups_to_write(operator: Send, batch: pa.RecordBatch, context: Context) -> npt.NDArray[np.int32] | None:
    """
    Key groups by which the rows of one partition travel to one task; None where somebody else receives them, who needs them by their keys.

    Where several topics have them, a task gets what is in one partition of each. Rows are spread by their keys where that left a task without
    work that could have some: a step that computes something, or a partition of its own.
    """
    program, application = context.program, context.plan.application
    written = _written_behind(program, program.receivers[operator.edge], operator.key, application.outputs)
    if len({one.by for one in written}) != 1:
        return None
    count = math.gcd(*(application.outputs[one.output].partitions for one in written))
    first = written[0]
    wanted = min(application.tasks, *(application.outputs[one.output].partitions for one in written))
    if count < (application.tasks if any(one.is_worked_on for one in written) else wanted):
        return None
    wider = as_the_topic_has_them(program.outputs[first.output], batch.select(operator.key).rename_columns(first.key))
    keys = {own: wider[name] for own, name in zip(operator.key, first.key, strict=True) if name in wider}
    by = tuple(operator.key[place] for place in first.by)
    partitions = partitions_of(with_columns(batch, keys), operator.key, by, count)
    groups: npt.NDArray[np.int32] = (partitions * application.key_groups // count).astype(np.int32)
    return groups


def _written_behind(
    program: Program, giver: str, key: Key, topics: Sequence[OutputTopic], *, is_worked_on: bool = False
) -> list[WrittenRows]:
    """
    What an operator's rows are written to; `key` are the columns by which they travel, under their names there.

    Nothing if one of those who take the rows needs them by their keys, or gives them other keys, or if other rows are written to an output,
    which may come from other tasks: those of one key must come from one.
    """
    found: list[WrittenRows] = []
    for one in program.takers.get(giver, ()):
        behind: list[WrittenRows] = []
        if isinstance(one, Write):
            by = topics[one.output].partition_by
            is_by_key = set(by) <= set(key) and bool(by) == bool(key)
            if is_by_key and program.writes[one.output] == 1:
                behind = [WrittenRows(one.output, key, tuple(map(key.index, by)), is_worked_on)]
        elif isinstance(one, Encode):
            writes = [write for write in program.takers.get(one.id, ()) if isinstance(write, Write)]
            is_alone = all(program.writes[write.output] == 1 for write in writes)
            if is_alone and one.key.names == key and _keeps_place(one):
                behind = [WrittenRows(write.output, key, (0,), is_worked_on) for write in writes]  # a key of one column
        elif _takes_each_alone(one):
            kept = one.partitioning((key,))
            behind = (
                []
                if kept is None
                else _written_behind(program, one.id, kept, topics, is_worked_on=is_worked_on or bool(one.leaves_out))
            )
        if not behind:
            return []
        found += behind
    return found


def _takes_each_alone(operator: Operator) -> bool:
    """Whether a step makes its rows of each row alone, whatever task it is in, and of those of nobody else, who may be in another task."""
    traits = operator.traits
    return len(operator.sources) == 1 and not (
        operator.stores or traits.looks_up or traits.moves_rows or traits.leaves_out == IN_ORDER
    )


def _keeps_place(encode: Encode) -> bool:
    """Whether the bytes of a key have the partition that its column has."""
    if len(encode.key.names) != 1 or encode.keys.name not in _AS_SERIALIZED:
        return False
    types = _AS_SERIALIZED[encode.keys.name]
    return types is None or encode.key.columns[0].type in types
