"""
Table aggregate: rows of a table are added to their groups, and taken from the groups that they leave.

A change within a group takes the old row away and adds the new one, and gives one result; a change of the group gives one of the old
group and then one of the new (Kafka Streams, KGroupedTable). A group whose rows have all left keeps its row, with a count of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.engine.changes import ADDED, REPLACED
from streamkit.engine.context import Context
from streamkit.engine.kernels import Rows, kernel
from streamkit.engine.operators.aggregate import (
    FoundGroups,
    Groups,
    each_result,
    find_groups,
    groups_of_rows,
    keep,
    latest_results,
)
from streamkit.engine.operators.fold import state_names
from streamkit.engine.place import in_canonical_order
from streamkit.engine.rows import numbers
from streamkit.errors import EvaluationError
from streamkit.expressions.aggregates import per_aggregate, without
from streamkit.expressions.aggregates.count import COUNT_ENDING
from streamkit.names import CHANGE
from streamkit.plan.operators.table_aggregate import TableAggregate

Mask = npt.NDArray[np.bool_]


@kernel(TableAggregate)
def table_aggregate(operator: TableAggregate, inputs: Sequence[Rows], context: Context) -> Mapping[str, Rows]:
    """Take rows away and add rows, in canonical order; the results that were asked for, by mode."""
    (batch,) = inputs
    assert batch is not None
    batch = in_canonical_order(batch)
    rows = _signed(operator, batch)
    found = find_groups(operator, rows, context)
    from_nothing = _is_from_nothing(found, batch)
    if from_nothing.any():
        context.count("not_found", operator.id, int(from_nothing.sum()))
        batch, rows = batch.filter(pa.array(~from_nothing)), rows.take(np.flatnonzero(~from_nothing))
        found = find_groups(operator, rows, context)
        if not batch.num_rows:
            return {}
    updated, results = each_result(operator, batch, rows, found, numbers(batch, CHANGE) != REPLACED)
    assert updated.after is not None
    assert updated.groups is not None
    _check_counts(operator, updated.after)
    if "latest" in operator.modes:
        results["latest"] = latest_results(operator, updated.groups, context)
    keep(operator, updated, context)
    return results


def _signed(operator: TableAggregate, batch: pa.RecordBatch) -> Groups:
    """The state of each row alone, of one that is taken away what takes it out of a state."""
    rows, is_added = groups_of_rows(operator, batch), pa.array(numbers(batch, CHANGE) == ADDED)
    states: list[pa.Array] = []
    for one, own in per_aggregate(operator.aggregates, rows.states):
        states += [pc.if_else(is_added, state, taken) for state, taken in zip(own, without(one, own), strict=True)]
    return replace(rows, states=states)


def _is_from_nothing(found: FoundGroups, batch: pa.RecordBatch) -> Mask:
    """The rows taken from a group that has never had one, as when the grouping is younger than the table; there is nothing to take."""
    is_added = numbers(batch, CHANGE) == ADDED
    stored = found.stored.is_valid().to_numpy(zero_copy_only=False)[found.ranks]
    order = np.argsort(found.ranks, kind="stable")
    added = np.cumsum(is_added[order])
    starts = np.searchsorted(found.ranks[order], found.ranks[order], side="left")
    before = np.empty(len(order), np.int64)
    before[order] = added - np.concatenate([[0], added])[starts]
    nothing: Mask = ~stored & (before == 0)
    return nothing


def _check_counts(operator: TableAggregate, after: Groups) -> None:
    """EvaluationError if more rows were taken from a group than it had: its results are wrong from there on."""
    for name, column in zip(state_names(operator.aggregates), after.states, strict=True):
        if not name.endswith(COUNT_ENDING):
            continue
        below = np.flatnonzero(column.to_numpy(zero_copy_only=False) < 0)
        if len(below):
            group = {name: keys[int(below[0])].as_py() for name, keys in zip(operator.key, after.keys, strict=True)}
            raise EvaluationError(
                f"more rows were taken from the group {group} than it had; expected only rows that were added before: was the grouping "
                "added to a table that had rows already? Give it another store and reset the application, or read its topics from the start"
            )
