"""What the results of windows have in common: their bounds, and the values of their aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers
from streamkit.engine.stage.context import Context
from streamkit.expressions.aggregates import per_aggregate, result, result_or_null
from streamkit.names import WINDOW_END, WINDOW_START
from streamkit.plan.expression import TypedAggregate
from streamkit.state.layout import MICROSECONDS, UTC_MICROSECONDS

Finish: TypeAlias = Callable[[TypedAggregate, Sequence[pa.Array]], pa.Array]

failing: Finish = result  # a value that does not fit its type is an error


def null_on_overflow(operator_id: str, context: Context) -> Finish:
    """Newest results: a value that does not fit its type is null, and counted, because which of them there are depends on the cut."""

    def finish(one: TypedAggregate, states: Sequence[pa.Array]) -> pa.Array:
        found = result_or_null(one, states)
        if found.overflowed is not None:
            context.count("overflow", operator_id, int(found.overflowed.sum()))
        return found.values

    return finish


def bounds(starts: Integers, ends: Integers) -> dict[str, pa.Array]:
    """The columns that tell a result's window, given its bounds in ms."""
    return {WINDOW_START: _moments(starts), WINDOW_END: _moments(ends)}


def finished(
    aggregates: Sequence[TypedAggregate], states: Sequence[pa.Array], places: pa.Array | None, finish: Finish
) -> dict[str, pa.Array]:
    """The value of each aggregate, from the states at these places; null where there is none."""
    if places is None:
        return {one.name: finish(one, own) for one, own in per_aggregate(aggregates, states)}
    live = places.drop_null()
    back = pa.array(
        np.cumsum(places.is_valid().to_numpy(zero_copy_only=False)) - 1, mask=places.is_null().to_numpy(zero_copy_only=False)
    )
    return {
        one.name: finish(one, [column.take(live) for column in own]).take(back) for one, own in per_aggregate(aggregates, states)
    }


def _moments(milliseconds: Integers) -> pa.Array:
    """Times in ms as a column."""
    return pa.array(milliseconds * MICROSECONDS, pa.int64()).view(UTC_MICROSECONDS)
