"""The rows of a store as people see them, from state keys and stored values: columns with names and types, of aggregates their results."""

from __future__ import annotations

import pyarrow as pa

from streamkit.expressions.aggregates import per_aggregate, result_or_null
from streamkit.plan.program import Program, ProgramStore
from streamkit.state.format import decode_states
from streamkit.state.layout import layout_of
from streamkit.state.row import decode_rows


def shown_rows(
    program: Program, store: ProgramStore, keys: pa.BinaryArray, values: pa.BinaryArray, *, is_earlier: bool = False
) -> pa.RecordBatch:
    """
    The columns of the key, where windows start and end, and the values; lists of windows are no rows.

    `is_earlier` says that an earlier version wrote the states of aggregates. CorruptionError if bytes are not of the store.
    """
    return pa.RecordBatch.from_pydict({**shown_keys(program, store, keys), **_values(program, store, values, is_earlier)})


def shown_keys(program: Program, store: ProgramStore, keys: pa.BinaryArray) -> dict[str, pa.Array]:
    """The columns of the key, and where windows start and end, of state keys that are none of lists; CorruptionError as for rows."""
    layout, keeper = layout_of(store), program.keeper(store.name)
    _, times, columns = layout.split(keys, [column.type for column in store.key])
    shown = layout.shown(times, store.window_size_ms)
    if keeper.windowing is not None and keeper.traits.closes_windows and layout.starts_first:
        shown = layout.shown(keeper.windowing.bounds(times[0]))  # windows of a calendar have several lengths
    return {**dict(zip(store.key.names, columns, strict=True)), **shown}


def _values(program: Program, store: ProgramStore, values: pa.BinaryArray, is_earlier: bool) -> dict[str, pa.Array]:
    aggregates = program.keeper(store.name).aggregates_in(store.name)
    if not aggregates:
        _, *columns = decode_rows(values, ["bigint", *(column.type for column in store.value)])
        return dict(zip(store.value.names, columns, strict=True))
    _, states = decode_states(values, aggregates, is_earlier)
    return {one.name: result_or_null(one, own).values for one, own in per_aggregate(aggregates, states)}
