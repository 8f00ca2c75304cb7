"""
State of groups: what aggregations read from their store, fold rows into, and make results of.

State of a group is one row: the largest event time seen, then the columns of each aggregate's state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.engine.folding.window_results import Finish, bounds, failing, finished
from streamkit.engine.rows.rows import rows_of, with_one_key, without_deletions, without_null_keys
from streamkit.engine.stage.context import Context
from streamkit.expressions.aggregates import lift, state_columns
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.log.values.byte_order import byte_order
from streamkit.names import KEY_GROUP, TIMESTAMP
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.operators.aggregate import Aggregate
from streamkit.state.layout import layout_of
from streamkit.state.row import decode_rows


@dataclass(frozen=True, eq=False)
class GroupStates:
    """State of some groups: key columns, windows by their times (None without any), largest event times, state columns."""

    keys: list[pa.Array]
    windows: Integers | None
    timestamps: Integers
    states: list[pa.Array]
    key_groups: Integers

    def take(self, indices: Integers) -> GroupStates:
        wanted = pa.array(indices)
        return GroupStates(
            [column.take(wanted) for column in self.keys],
            None if self.windows is None else self.windows[indices],
            self.timestamps[indices],
            [column.take(wanted) for column in self.states],
            self.key_groups[indices],
        )

    def states_at(self, indices: Integers) -> GroupStates:
        """The times and states of some, without what names the groups."""
        return GroupStates([], None, self.timestamps, self.states, self.key_groups).take(indices)

    def with_states(self, timestamps: Integers, states: list[pa.Array]) -> GroupStates:
        """These groups with other times and states."""
        return replace(self, timestamps=timestamps, states=states)


@dataclass(frozen=True, eq=False)
class Updated:
    """The groups an epoch touched, sorted by state key; `was_stored` says which of them have a stored state."""

    keys: pa.BinaryArray
    groups: GroupStates | None
    was_stored: Mask

    @classmethod
    def none(cls) -> Updated:
        return cls(pa.array([], pa.binary()), None, np.empty(0, bool))


def state_keys(operator: Aggregate, groups: GroupStates, context: Context) -> pa.BinaryArray:
    """The state key of each group."""
    layout = layout_of(context.store(operator.store))
    times = (
        () if groups.windows is None or operator.window is None else layout.window_times(*operator.window.bounds(groups.windows))
    )
    return layout.keys(context.store_number(operator.store), groups.key_groups, groups.keys, times)


def sorted_groups(operator: Aggregate, groups: GroupStates, context: Context) -> tuple[pa.BinaryArray, GroupStates, Integers]:
    """State keys and groups, sorted by key, and the position that each group has then."""
    keys = state_keys(operator, groups, context)
    if len(keys) == 1:
        return keys, groups, np.zeros(1, np.int64)
    order = byte_order(keys)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return keys.take(order), groups.take(order.to_numpy().astype(np.int64)), ranks


def stored_states(operator: Aggregate, keys: pa.BinaryArray, groups: GroupStates, context: Context) -> pa.BinaryArray:
    """
    The stored state of these groups.

    Windows that begin after the committed stream time have none, and are not looked up, unless rows may be newer than stream time.
    """
    state, known = context.committed_state(), np.ones(len(keys), bool)
    if operator.window is not None and groups.windows is not None and not operator.window.may_lead:
        known = operator.window.bounds(groups.windows)[0] <= context.stream_time(operator.window)[0]
    if known.all():
        return state.get(keys)
    if not known.any():
        return pa.nulls(len(keys), pa.binary())
    places = np.cumsum(known) - 1
    return state.get(keys.filter(pa.array(known))).take(pa.array(places, mask=~known))


def state_types(operator: Aggregate) -> list[str]:
    """The types of the columns of a stored state."""
    return ["bigint", *(column.type for one in operator.aggregates for column in state_columns(one))]


def decoded(operator: Aggregate, values: pa.BinaryArray) -> tuple[Integers, list[pa.Array]]:
    """The largest event times and the state columns of stored states."""
    timestamps, *states = decode_rows(values, state_types(operator))
    return as_numbers(timestamps), states


def rows_of_results(
    operator: Aggregate,
    groups: GroupStates,
    order: Mapping[str, pa.Array],
    finish: Finish = failing,
) -> pa.RecordBatch:
    """Result rows: key columns, window bounds, aggregates (which `finish` makes of their states), and record columns."""
    columns: dict[str, pa.Array] = dict(zip(operator.key, groups.keys, strict=True))
    if groups.windows is not None:
        assert operator.window is not None
        columns |= bounds(*operator.window.bounds(groups.windows))
    columns |= finished(operator.aggregates, groups.states, None, finish)
    columns[TIMESTAMP] = pa.array(groups.timestamps, pa.int64())
    return rows_of({**columns, **order, KEY_GROUP: pa.array(groups.key_groups, pa.int32())})


def keyed_values(operator_id: str, key: tuple[str, ...], batch: pa.RecordBatch, context: Context) -> pa.RecordBatch:
    """The rows to aggregate: a null key has no group, a deletion has no value; both are counted."""
    batch, dropped = without_null_keys(batch, key)
    context.count("null_key", operator_id, dropped)
    batch = with_one_key(batch, key)
    batch, deletions = without_deletions(batch)
    context.count("deletion", operator_id, deletions)
    return batch


def lifted(aggregates: Sequence[TypedAggregate], batch: pa.RecordBatch) -> list[pa.Array]:
    """The state columns of each row alone."""
    states: list[pa.Array] = []
    for one in aggregates:
        argument = evaluate(one.argument, batch) if one.argument is not None else None
        states += lift(one, argument, batch.num_rows)
    return states


def state_names(aggregates: Sequence[TypedAggregate]) -> list[str]:
    """The names of the state columns."""
    return [column.name for one in aggregates for column in state_columns(one)]


def as_numbers(array: pa.Array) -> Integers:
    """An integer column as numpy."""
    numbers: Integers = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers
