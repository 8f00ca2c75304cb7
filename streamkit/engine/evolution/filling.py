"""
The first rows of new stores: the operators that lead to them run on the rows that the application has read, as if all had come at once.

They run in the process that starts the application, without exchanges, and what they make is in its memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from streamkit.engine.epoch.epoch import Slice
from streamkit.engine.epoch.report import SplitReport
from streamkit.engine.epoch.stream_time import NO_TIME
from streamkit.engine.evolution.every_change import tables_of_changes
from streamkit.engine.evolution.young_stores import Filling
from streamkit.engine.folding.changes import with_old_values
from streamkit.engine.folding.joining import decoded_rows
from streamkit.engine.rows.exchange import Arrival, Control, groups_of
from streamkit.engine.rows.rows import (
    RECORD_FIELDS,
    OptionalBatch,
    concatenate,
    last_of_each,
    own_columns,
    rows_of,
    with_columns,
    without_null_keys,
)
from streamkit.engine.stage.advance import Advances
from streamkit.engine.stage.context import Context, key_groups_of
from streamkit.engine.stage.reader import slice_batches
from streamkit.engine.stage.registry import RowsInPieces, run_operator
from streamkit.errors import EvaluationError
from streamkit.expressions.aggregates import per_aggregate, result, state_columns
from streamkit.log.catalog.catalog import Catalog
from streamkit.log.catalog.manifest import OffsetsByTopicId
from streamkit.log.slab.slab import FrameInput
from streamkit.log.values.keys import encode_keys
from streamkit.names import DELETED, INPUT, KEY_GROUP, OFFSET, ORDER, PARTITION, TIMESTAMP
from streamkit.plan.demands import WITH_OLD_VALUES
from streamkit.plan.operator import PORT, Operator
from streamkit.plan.operators.exchange import Send
from streamkit.plan.program import Program, ProgramStore
from streamkit.state.layout import layout_of
from streamkit.state.row import decode_rows

ROWS_MAX = 1 << 20  # so many records of a table wait before only the newest of each key is kept
PORTS = ("", "every", "latest")
_SILENT: dict[str, Any] = {"modes": ()}  # nobody takes results of an epoch without records


@dataclass
class Refill:
    """A run of the operators of a filling: `rows` are what the keepers of stores gave, by the names under which others take it."""

    filling: Filling
    context: Context
    slices: Sequence[Slice]
    rows: dict[str, OptionalBatch] = field(default_factory=dict)

    def frames(self) -> list[FrameInput]:
        """The changes of the filled stores; rows that fail are left out if the program says so."""
        try:
            return self._frames(self.context)
        except EvaluationError:
            if not self.context.program.on_error or self.context.is_leaving_out:
                raise
            return self._frames(replace(self.context, frames=[], is_leaving_out=True))

    def _frames(self, context: Context) -> list[FrameInput]:
        program, results = context.program, dict(self.rows)
        advances = Advances(program)
        for reader in self.filling.readers:
            results[reader.id] = _records(reader, self.filling, self.slices, advances, context)
        reached = Control("split", SplitReport(0, 0, "", (), advances.reached()))
        context = replace(context, arrival=Arrival(controls=[reached]))
        taken = {name for operator in self.filling.operators for name in operator.inputs}
        for operator in self.filling.operators:
            results |= _run(operator, results, taken, context)
        wanted = {context.plan.application.stores[name].changelog_id for name in self.filling.stores}
        return [frame for frame in context.frames if frame[0] in wanted]


def slices_read(
    catalog: Catalog, program: Program, filling: Filling, topic_ids: Sequence[int], positions: OffsetsByTopicId
) -> list[Slice]:
    """What the application has read of the topics of a filling, as far as it is still there; a slice for each partition."""
    found = []
    for number in sorted({one.input_read for one in filling.readers if one.input_read is not None}):
        topic_id, topic = topic_ids[number], program.inputs[number].topic
        manifest = catalog.manifest.cut([topic_id], {})
        for partition, end in sorted(positions.get(topic_id, {}).items()):
            start = manifest.start_offsets[topic_id].get(partition, end)
            extents = tuple(one for one in manifest.of(topic_id, partition) if one.base_offset < end)
            if start < end and extents:
                found.append(Slice(number, topic, partition, start, end, NO_TIME, extents))
    return found


def kept_rows(
    operator: Operator, store: ProgramStore, keys: pa.BinaryArray, values: pa.BinaryArray, first: int
) -> pa.RecordBatch:
    """What a store has as rows that its operator gave, in the order of their keys; `first` is the number of the first."""
    _, _, key = layout_of(store).split(keys, [column.type for column in store.key])
    columns = dict(zip(store.key.names, key, strict=True))
    if aggregates := operator.aggregates_in(store.name):
        types = [column.type for one in aggregates for column in state_columns(one)]
        times, *states = decode_rows(values, ["bigint", *types])
        columns |= {TIMESTAMP: times, **{one.name: result(one, own) for one, own in per_aggregate(aggregates, states)}}
    else:
        rows = decoded_rows(store, values)
        columns |= {name: rows[name] for name in rows.schema.names}
    zeros = pa.array(np.zeros(len(keys), np.int64))
    place = {name: zeros.cast(RECORD_FIELDS[name]) for name in (ORDER, INPUT, PARTITION)}
    offsets = pa.array(np.arange(first, first + len(keys)))
    groups = pa.array(key_groups_of(keys), pa.int32())
    return rows_of({**columns, **place, OFFSET: offsets, DELETED: pa.array(np.zeros(len(keys), bool)), KEY_GROUP: groups})


def given_by(operator: Operator, batches: Iterable[pa.RecordBatch]) -> dict[str, OptionalBatch]:
    """The rows that an operator gave, under the names by which others take them."""
    if not (found := list(batches)):
        return {}
    rows = concatenate(found)
    names = () if operator.traits.is_looked_up else own_columns(rows)  # a table is asked for the rows that are replaced
    pairs = with_old_values(rows, {name: rows[name].slice(0, 0) for name in names}, np.full(rows.num_rows, -1)) if names else rows
    return {_port(operator, port): rows for port in PORTS} | {_port(operator, WITH_OLD_VALUES): pairs}


def _port(operator: Operator, port: str) -> str:
    return f"{operator.id}{PORT}{port}" if port else operator.id


def _records(reader: Operator, filling: Filling, slices: Sequence[Slice], advances: Advances, context: Context) -> OptionalBatch:
    """The records of a topic, with their place; of a table without history the newest of each key will do."""
    source = context.program.inputs[reader.input_read or 0]
    is_newest = source.kind == "table" and all(
        one.windowing is None for one in context.program.operators if one.traits.follows_rows
    )
    kept = frozenset(store.name for store in context.program.stores) - set(filling.stores)
    tables = [one for one in filling.operators if one.traits.follows_rows]
    is_newest = is_newest and not any(tables_of_changes(one, context.program, kept | set(one.stores)) for one in tables)
    found: list[pa.RecordBatch] = []
    for piece in slices:
        if piece.input == reader.input_read:
            for batch in slice_batches(context.program, piece, context, advances, placed=True):
                found.append(batch)
                if is_newest and sum(one.num_rows for one in found) > ROWS_MAX:
                    found = [_newest(concatenate(found), source.key)]
    return concatenate(found) if found else None


def _newest(rows: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
    """The last record of each key: a key lies in one partition, whose records stand in order."""
    if not key or not set(key) <= set(rows.schema.names):
        return rows
    return rows.take(pa.array(np.sort(last_of_each(encode_keys([rows[name] for name in key])))))


def _run(operator: Operator, results: Mapping[str, OptionalBatch], taken: set[str], context: Context) -> dict[str, OptionalBatch]:
    """What an operator makes of its inputs, without moving them."""
    if operator.traits.moves_rows:
        rows = results.get(operator.inputs[0])
        moved = _placed(operator, rows, context) if isinstance(operator, Send) and rows is not None else rows
        return {operator.id: moved if moved is not None and moved.num_rows else None}  # nothing arrives where there are no rows
    if operator.traits.takes_rows_away and not any(name.partition(PORT)[0] == operator.id for name in taken):
        operator = replace(operator, **_SILENT)
    if all(results.get(name) is None for name in operator.inputs):
        return {}
    return dict(_whole(run_operator(operator, results, context)))


def _whole(made: Mapping[str, OptionalBatch | RowsInPieces]) -> Iterator[tuple[str, OptionalBatch]]:
    for name, rows in made.items():
        if isinstance(rows, RowsInPieces):
            batches = [piece for piece in rows.batches if piece is not None]
            yield name, concatenate(batches) if batches else None
        else:
            yield name, rows


def _placed(operator: Send, rows: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows with the key groups in which they would arrive."""
    if not operator.keep_null_keys:
        rows, _ = without_null_keys(rows, operator.key)
    groups = groups_of(rows, operator.key, context.plan.application.key_groups, operator.null_keys_by)
    return with_columns(rows, {KEY_GROUP: pa.array(groups, pa.int32())})
