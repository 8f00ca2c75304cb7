"""
States of `sum` and `avg` as they were before totals had a carry.

    sum of integers, avg of tinyint to int    `sum` bigint, `count`
    avg of bigint                             `sum` decimal(38,0), `count`
    sum and avg of decimals                   `sum` decimal as now, `count`

The states of all other aggregates are as they were. A total that did not fit its type was an error, so every total has a way to be written.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.expressions.aggregates.folding import state_columns
from streamkit.expressions.aggregates.function import States
from streamkit.log.values.columns import fixed_values
from streamkit.plan.expression import TypedAggregate
from streamkit.schema import SchemaColumn

WIDE = "decimal(38,0)"


def earlier_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    """The columns in which the state of an aggregate was kept."""
    columns = state_columns(aggregate)
    if not _has_carry(columns):
        return columns
    total, _, count = columns
    assert aggregate.argument is not None, "a total is of an argument"
    is_wide = aggregate.function == "avg" and aggregate.argument.type == "bigint"
    return (SchemaColumn(total.name, WIDE, nullable=False) if is_wide else total, count)


def has_changed(aggregate: TypedAggregate) -> bool:
    """Whether the state of an aggregate is kept otherwise than it was."""
    return earlier_columns(aggregate) != state_columns(aggregate)


def converted(aggregates: Sequence[TypedAggregate], states: States) -> list[pa.Array]:
    """The state columns of all aggregates, one after the other, of those that there were."""
    found: list[pa.Array] = []
    start = 0
    for one in aggregates:
        end = start + len(earlier_columns(one))
        found += _converted(one, states[start:end])
        start = end
    assert start == len(states), f"{len(states)} state columns for aggregates that had {start}"
    return found


def _has_carry(columns: Sequence[SchemaColumn]) -> bool:
    return any(column.name.endswith(".carry") for column in columns)


def _converted(aggregate: TypedAggregate, states: States) -> list[pa.Array]:
    if not has_changed(aggregate):
        return list(states)
    total, count = states
    if pa.types.is_decimal(total.type) and state_columns(aggregate)[0].type == "bigint":
        words = fixed_values(total, WIDE)
        low = np.ascontiguousarray(words["low"]).view(np.int64)
        return [pa.array(low), pa.array(words["high"] + (low < 0)), count]
    return [total, pa.array(np.zeros(len(total), np.int64)), count]
