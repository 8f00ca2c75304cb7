"""Several aggregates at once: their states from rows, merged by group or row by row, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.data_type import to_arrow
from streamkit.errors import EvaluationError
from streamkit.expressions.aggregates.function import AGGREGATES, AggregateResult, Members, States
from streamkit.expressions.core.accumulation import Accumulator, accumulated, per_group, within_groups
from streamkit.expressions.core.groups import group, one_zero, row_by_row
from streamkit.log.values.columns import canonical
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.expression_text import shown_text
from streamkit.recast import recast
from streamkit.schema import SchemaColumn

Aggregates = Sequence[TypedAggregate]


def state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    """The columns in which the state of one aggregate is kept."""
    return AGGREGATES[aggregate.function].state_columns(aggregate)


def per_aggregate(aggregates: Aggregates, states: States) -> list[tuple[TypedAggregate, States]]:
    """The state columns of all aggregates, one after the other, as those of each."""
    found, start = [], 0
    for one in aggregates:
        end = start + len(state_columns(one))
        found.append((one, states[start:end]))
        start = end
    assert start == len(states), f"{len(states)} state columns for aggregates that have {start}"
    return found


def lift(aggregate: TypedAggregate, argument: pa.Array | None, rows: int) -> list[pa.Array]:
    """
    The state of each row alone, as `state_columns` has it; a null argument gives the neutral state.

    Functions that do not look at the order of rows get one zero, since which of 0.0 and -0.0 came first depends on the cut.
    """
    function = AGGREGATES[aggregate.function]
    if argument is not None:
        argument, type_name = canonical(argument)
        argument = one_zero(argument) if type_name in ("float", "double") and not function.is_ordered else argument
    return function.lift(aggregate, argument, rows)


def lift_members(aggregate: TypedAggregate, argument: pa.Array) -> pa.BinaryArray:
    """The member of each row as bytes; null of a row that has none."""
    argument, type_name = canonical(argument)
    members = members_of(aggregate)
    assert members is not None, f"{aggregate.function} has no members"
    return members.lift(aggregate, one_zero(argument) if type_name in ("float", "double") else argument)


def fold(
    keys: Sequence[pa.Array], largest: Sequence[pa.Array], aggregates: Aggregates, states: States
) -> tuple[list[pa.Array], list[pa.Array]]:
    """
    Combine the rows with equal keys: the key columns of each group, and its columns, in no certain order.

    Those are the largest value of each column of `largest`, then the states of the aggregates, one after the other.
    Keys may be dictionary-encoded, which saves hashing; the result's are plain. Null is a key, NaN one key, -0.0 is 0.0.
    """
    rows = next((len(column) for column in (*keys, *largest, *states)), 0)
    groups, values = group(keys, rows)
    if rows == 1:
        return values, [*largest, *states]
    if len(groups.rows) == rows:  # each row alone, as in most small epochs
        order = pa.array(groups.rows)
        return values, [column.take(order) for column in (*largest, *states)]
    return values, _accumulated(largest, aggregates, states, per_group(groups))


def combine(aggregates: Aggregates, left: States, right: States) -> list[pa.Array]:
    """Two states as one, row by row; null, as for a group that only one side knows, is neutral."""
    both = [pa.concat_arrays([one, recast(other, one.type)]) for one, other in zip(left, right, strict=True)]
    return _accumulated([], aggregates, both, per_group(row_by_row(len(both[0]) // 2, 2))) if both else []


def running(codes: Integers, largest: Sequence[pa.Array], aggregates: Aggregates, states: States) -> list[pa.Array]:
    """
    As the columns of `fold`, but after each row of its group, rows taken in order; `codes` number the groups.

    Adds one row after the other, so the results are the same if a run is cut and goes on from the state it had reached.
    """
    return _accumulated(largest, aggregates, states, within_groups(codes))


def subtract(aggregate: TypedAggregate, left: States, right: States) -> list[pa.Array]:
    """The first states without the second, row by row; EvaluationError if the function cannot subtract."""
    function = AGGREGATES[aggregate.function]
    if function.subtract is None:
        able = ", ".join(name for name, other in AGGREGATES.items() if other.subtract and other.is_called)
        raise EvaluationError(f"found {_text(aggregate)}, from which no row can be taken back; expected one of {able}")
    return function.subtract(left, right)


def of_table(aggregate: TypedAggregate) -> tuple[TypedAggregate, bool]:
    """
    The aggregate as it is kept for groups of a table, whose rows go again, and whether their members are kept for it.

    ValueError says why it cannot be kept so.
    """
    function = AGGREGATES[aggregate.function]
    if function.of_table is not None:
        function = AGGREGATES[function.of_table]
    kept = replace(aggregate, function=function.name, ordered=False)
    if function.subtract is None and function.members is None:
        others = (name for name, one in AGGREGATES.items() if one.is_called and (one.subtract or one.members or one.of_table))
        raise ValueError(
            function.not_of_tables
            or f"a row that leaves its group cannot be taken out of it; expected one of {', '.join(others)}"
        )
    if function.members is not None and (complaint := function.members.complaint(kept)):
        raise ValueError(f"{complaint}; expected values without arrays and maps")
    return kept, members_of(kept) is not None


def members_of(aggregate: TypedAggregate) -> Members | None:
    """How an aggregate of a table's groups follows from their members; None if it is kept by adding and subtracting."""
    function = AGGREGATES[aggregate.function]
    return None if function.subtract is not None else function.members


def neutral(aggregate: TypedAggregate, rows: int) -> list[pa.Array]:
    """The state of groups of which the aggregate has seen no value."""
    nothing = pa.nulls(rows, pa.int64() if aggregate.argument is None else to_arrow(aggregate.argument.type))
    return lift(aggregate, nothing, rows)


def has_order(aggregate: TypedAggregate) -> bool:
    """Whether its result has all rows in their order."""
    return AGGREGATES[aggregate.function].keeps_order


def after_rows(codes: Integers, aggregate: TypedAggregate, states: States, rows: Integers) -> list[pa.Array]:
    """As `running`, of one aggregate and after some of the rows alone: of states that have all rows of their group there would be too many."""
    return AGGREGATES[aggregate.function].merge(states, within_groups(codes, rows))


def without(aggregate: TypedAggregate, state: States) -> list[pa.Array]:
    """The states which, merged into others, take these back; EvaluationError if the function cannot subtract."""
    return subtract(aggregate, neutral(aggregate, len(state[0])), state)


def result(aggregate: TypedAggregate, states: States) -> pa.Array:
    """The aggregate's value from its state, in Spark's type; EvaluationError if one does not fit it."""
    found = result_or_null(aggregate, states)
    if found.overflowed is not None:
        raise EvaluationError(
            f"found {found.found} for {aggregate.name} = {_text(aggregate)}; "
            f"expected a value that fits its type {aggregate.type}: {found.way_out or _way_out(aggregate.type)}"
        )
    return found.values


def result_or_null(aggregate: TypedAggregate, states: States) -> AggregateResult:
    """As `result`, but null where a value does not fit its type, with a mask of those rows."""
    return AGGREGATES[aggregate.function].result(aggregate, states)


def _accumulated(largest: Sequence[pa.Array], aggregates: Aggregates, states: States, accumulate: Accumulator) -> list[pa.Array]:
    columns = [accumulated(column, "max", accumulate) for column in largest]
    for one, own in per_aggregate(aggregates, states):
        columns += AGGREGATES[one.function].merge(own, accumulate)
    return columns


def _text(aggregate: TypedAggregate) -> str:
    return f"{aggregate.function}({shown_text(aggregate.argument) if aggregate.argument else '*'})"


def _way_out(type_name: str) -> str:
    if type_name == "bigint":
        return "cast the argument to decimal(20,0), or to double"
    return "cast the argument to a decimal with fewer digits behind the point, or to double"
