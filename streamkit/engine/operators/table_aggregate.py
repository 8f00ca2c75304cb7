"""
Table aggregate: rows of a table are added to their groups, and taken from the groups that they leave.

A change within a group takes the old row away and adds the new one, and gives one result; a change of the group gives one of the old
group and then one of the new (Kafka Streams, KGroupedTable). A group whose rows have all left keeps its row, with a count of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.conditionals import if_else
from streamkit.engine.folding.assigned.columns import keep, latest_results
from streamkit.engine.folding.changes import ADDED, REPLACED
from streamkit.engine.folding.every_row import Before, FoundGroups, each_result, find_groups, groups_of_rows
from streamkit.engine.folding.group_state import GroupStates, lifted, state_names
from streamkit.engine.folding.members import YOUNG, ChangedMembers, GroupRows, MemberStore, keep_members, member_states
from streamkit.engine.rows.place import in_canonical_order
from streamkit.engine.rows.rows import OptionalBatch, numbers, with_one_key
from streamkit.engine.stage.context import Context
from streamkit.engine.stage.registry import kernel
from streamkit.errors import EvaluationError
from streamkit.expressions.aggregates import after_rows, has_order, lift_members, members_of, per_aggregate, without
from streamkit.expressions.aggregates.count import COUNT_ENDING
from streamkit.expressions.aggregates.function import States
from streamkit.expressions.analysis.arrow import evaluate
from streamkit.names import CHANGE, TIMESTAMP
from streamkit.plan.expression import TypedAggregate
from streamkit.plan.operators.aggregate import ColumnFold
from streamkit.plan.operators.table_aggregate import TableAggregate


@kernel(TableAggregate)
def table_aggregate(operator: TableAggregate, inputs: Sequence[OptionalBatch], context: Context) -> Mapping[str, OptionalBatch]:
    """Take rows away and add rows, in canonical order; the results that were asked for, by mode."""
    (batch,) = inputs
    assert batch is not None
    batch = with_one_key(in_canonical_order(batch), operator.key)
    rows = _signed(operator, batch)
    found = find_groups(operator, rows, context)
    from_nothing = _is_from_nothing(found, batch)
    if from_nothing.any():
        context.count("not_found", operator.id, int(from_nothing.sum()))
        batch, rows = batch.filter(pa.array(~from_nothing)), rows.take(np.flatnonzero(~from_nothing))
        found = find_groups(operator, rows, context)
        if not batch.num_rows:
            return {}
    others = _MemberStates.of(operator, batch, found, context)
    each = each_result(operator, batch, rows, found.before, found.ranks, numbers(batch, CHANGE) != REPLACED, others)
    _check_counts(operator, each.after)
    others.keep()
    updated, results = found.updated(each.newest), each.results
    if "latest" in operator.modes and updated.groups is not None:
        results["latest"] = latest_results(operator, updated.groups, context)
    keep(operator, updated, context)
    return results


def _signed(operator: TableAggregate, batch: pa.RecordBatch) -> GroupStates:
    """The state of each row alone, of one that is taken away what takes it out of a state; only of aggregates that are folded."""
    folded = _folded(operator)
    rows = groups_of_rows(replace(operator, fold=ColumnFold(folded)), batch)
    is_added = numbers(batch, CHANGE) == ADDED
    return replace(
        rows, states=[state for one, own in per_aggregate(folded, rows.states) for state in _taken_away(one, own, is_added)]
    )


def _taken_away(aggregate: TypedAggregate, states: States, is_added: Mask) -> list[pa.Array]:
    """The states of rows, of those that are not added what takes them out of another state."""
    added = pa.array(is_added)
    return [if_else(added, state, taken) for state, taken in zip(states, without(aggregate, states), strict=True)]


def _folded(operator: TableAggregate) -> tuple[TypedAggregate, ...]:
    return tuple(one for one in operator.aggregates if members_of(one) is None and not has_order(one))


@dataclass(frozen=True, eq=False)
class _MemberStates:
    """
    The states of the aggregates that follow from the members of groups, and of those that have all rows, which are made after few rows alone.

    `changes` are those of the store of members.
    """

    operator: TableAggregate
    batch: pa.RecordBatch
    rows: GroupRows
    before: Before
    store: MemberStore | None
    changes: list[ChangedMembers] = field(default_factory=list)

    @classmethod
    def of(cls, operator: TableAggregate, batch: pa.RecordBatch, found: FoundGroups, context: Context) -> _MemberStates:
        is_added = numbers(batch, CHANGE) == ADDED
        rows = GroupRows(found.ranks, is_added, numbers(batch, TIMESTAMP), found.groups.keys, found.groups.key_groups)
        store = None if operator.members is None else MemberStore(operator.members, context)
        return cls(operator, batch, rows, found.before, store)

    @property
    def folded(self) -> Sequence[TypedAggregate]:
        return _folded(self.operator)

    def completed(self, groups: GroupStates, rows: Integers) -> GroupStates:
        """With the states of all aggregates, in their order."""
        if len(self.folded) == len(self.operator.aggregates):
            return groups
        known = {one.name: list(own) for one, own in per_aggregate(self.folded, groups.states)}
        before = {one.name: own[0] for one, own in per_aggregate(self.operator.aggregates, self.before.columns())}
        for one in self.operator.aggregates:
            if has_order(one):
                known[one.name] = self._in_order(one, rows)
            if (kept := members_of(one)) is None:
                continue
            assert one.argument is not None, f"{one.function} is of something"
            assert self.store is not None, f"{one.function} has members in a store"
            members = lift_members(one, evaluate(one.argument, self.batch))
            known[one.name], changed = member_states(one, kept, members, self.rows, self.store, rows, before[one.name])
            self.changes.append(changed)
        return replace(groups, states=[column for one in self.operator.aggregates for column in known[one.name]])

    def _in_order(self, one: TypedAggregate, rows: Integers) -> list[pa.Array]:
        """The states of an aggregate after these rows: those of their groups before, then the rows up to them."""
        alone = lifted([one], self.batch)
        known = np.flatnonzero(self.before.known)
        before = next(own for other, own in per_aggregate(self.operator.aggregates, self.before.states) if other is one)
        signed = _taken_away(one, alone, self.rows.is_added)
        both = [pa.concat_arrays([old, new.cast(old.type)]) for old, new in zip(before, signed, strict=True)]
        return after_rows(np.concatenate([known, self.rows.groups]), one, both, rows + len(known))

    def keep(self) -> None:
        if self.store is not None:
            keep_members(self.store, self.changes)


def _is_from_nothing(found: FoundGroups, batch: pa.RecordBatch) -> Mask:
    """The rows taken from a group that has never had one, as when the grouping is younger than the table; there is nothing to take."""
    is_added = numbers(batch, CHANGE) == ADDED
    stored = found.before.known[found.ranks]
    order = np.argsort(found.ranks, kind="stable")
    added = np.cumsum(is_added[order])
    starts = np.searchsorted(found.ranks[order], found.ranks[order], side="left")
    before = np.empty(len(order), np.int64)
    before[order] = added - np.concatenate([[0], added])[starts]
    nothing: Mask = ~stored & (before == 0)
    return nothing


def _check_counts(operator: TableAggregate, after: GroupStates) -> None:
    """EvaluationError if more rows were taken from a group than it had: its results are wrong from there on."""
    for name, column in zip(state_names(_folded(operator)), after.states, strict=True):
        if not name.endswith(COUNT_ENDING):
            continue
        below = np.flatnonzero(column.to_numpy(zero_copy_only=False) < 0)
        if len(below):
            group = {name: keys[int(below[0])].as_py() for name, keys in zip(operator.key, after.keys, strict=True)}
            raise EvaluationError(
                f"more rows were taken from the group {group} than it had; expected only rows that were added before: {YOUNG}"
            )
