"""Computes the rows of a query from the rows of its sources by a plan: joins, conditions, groups, columns, order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.chunks import one_array, one_batch
from streamkit.data_type import to_arrow
from streamkit.engine.operators.explode import exploded
from streamkit.errors import ConfigError, EvaluationError, Location
from streamkit.expressions.aggregates import fold, lift, neutral, result, state_columns
from streamkit.expressions.analysis.arrow import evaluate_all, mask
from streamkit.expressions.core.failing_rows import first_failure
from streamkit.expressions.core.operation import columns_of
from streamkit.names import ORDER
from streamkit.plan.explosion import Explosion
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_places import ExpressionPlaces, part_place
from streamkit.sql.lowering.joining import FULL, LEFT, RIGHT
from streamkit.sql.pull.abandonment import check_waited_for
from streamkit.sql.pull.matching import NO_ROW, PAIRS_MAX, Matching, OrderKey
from streamkit.sql.pull.one_row import one_row
from streamkit.sql.pull.plan import ANY_NULL, NONE, PlannedGroups, PlannedJoin, PlannedSide, PullPlan, TypedColumns

BATCH_ROWS = 1 << 17  # that are computed at once
PARTIAL_GROUPS = 1 << 18  # of groups of parts of the rows, before these are folded together


@dataclass(frozen=True)
class PullExecution:
    """Makes the rows of a plan from those of its inputs, which come in the order of the plan's."""

    matching: Matching

    def rows(self, plan: PullPlan, inputs: Iterator[pa.Table]) -> pa.Table:
        """The rows of a query. EvaluationError as in a topology, for the first row that makes an expression fail."""
        rows = self._joined(plan, inputs)
        if plan.where is not None:
            with failing_at(plan.where_at, plan.parts):
                rows = _where(plan.where, rows)
        if plan.explosion is not None:
            rows = _exploded(plan.explosion, rows, plan)
        if plan.groups is not None:
            rows = self._grouped(plan, plan.groups, _in_canonical_order(rows) if plan.is_in_order else rows)
        found = _computed((*plan.columns, *plan.order_columns), rows, plan)
        if plan.is_distinct:
            found = self._distinct(found)
        if plan.order:
            keys = [OrderKey(_column(found, one.column), one.is_descending, one.nulls_first) for one in plan.order]
            found = found.take(pa.array(self.matching.order(keys, plan.limit)))
        chosen = found.select([name for name, _ in plan.columns])
        return chosen if plan.limit is None else chosen.slice(0, plan.limit)

    def _joined(self, plan: PullPlan, inputs: Iterator[pa.Table]) -> pa.Table:
        if plan.side is None:
            return pa.Table.from_batches([one_row()])
        rows = self._side(plan.side, inputs)
        for join in plan.joins:
            rows = pa.Table.from_batches([self._join(join, one_batch(rows), one_batch(self._side(join.side, inputs)))])
        return rows

    def _side(self, side: PlannedSide, inputs: Iterator[pa.Table]) -> pa.Table:
        rows = self.rows(side.read, inputs) if isinstance(side.read, PullPlan) else next(inputs)
        return pa.table([rows.column(own) for own, _ in side.names], names=[name for _, name in side.names])

    def _join(self, join: PlannedJoin, left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
        if join.left:
            pairs = self.matching.pairs(_values(join.left, left), _values(join.right, right))
        else:
            pairs = _every_pair(left.num_rows, right.num_rows)
        if join.rest is not None:
            pairs = _kept(join.rest, left, right, pairs)
        rows = _side_by_side(left, right, _with_the_lonely(join, pairs, left, right))
        if not join.coalesced:
            return rows
        both = evaluate_all(join.coalesced, rows)
        return pa.RecordBatch.from_arrays([*rows.columns, *both.values()], names=[*rows.schema.names, *both])

    def _distinct(self, rows: pa.Table) -> pa.Table:
        return rows.take(pa.array(self.matching.distinct([_column(rows, name) for name in rows.column_names])))

    def _grouped(self, plan: PullPlan, groups: PlannedGroups, rows: pa.Table) -> pa.Table:
        """A row for each group, by StreamKit's own aggregates."""
        names = [name for name, _ in groups.columns]
        parts: list[list[pa.Array]] = []
        for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
            check_waited_for()
            keys, states = _states(groups, batch, plan)
            parts.append(_folded(groups, keys, states))
            if sum(len(part[0]) for part in parts) > PARTIAL_GROUPS and len(parts) > 1:
                parts = [_together(groups, parts)]
        found = _together(groups, parts) if any(len(part[0]) for part in parts) else _no_groups(groups)
        keys, states = found[: len(names)], found[len(names) or 1 :]
        table = pa.table([*keys, *_results(groups, states)], names=[*names, *(one.name for one in groups.aggregates)])
        return table if groups.having is None else _where(groups.having, table)


def _in_canonical_order(rows: pa.Table) -> pa.Table:
    """The records of a stream by their order keys; they come by partition and offset, which is the order of those with equal keys."""
    keys = _column(rows, ORDER).to_numpy()
    if (keys[1:] >= keys[:-1]).all():  # as in one partition
        return rows
    return rows.take(pa.array(np.argsort(keys, kind="stable")))


def _kept(
    condition: TypedExpression, left: pa.RecordBatch, right: pa.RecordBatch, pairs: tuple[Integers, Integers]
) -> tuple[Integers, Integers]:
    """The pairs for which a condition is true; they may be many, so their rows are put side by side piece by piece."""
    names, found = columns_of(condition), []
    for start in range(0, len(pairs[0]), BATCH_ROWS):
        check_waited_for()
        one, other = (side[start : start + BATCH_ROWS] for side in pairs)
        kept = mask(condition, _side_by_side(left, right, (one, other), names)).to_numpy(zero_copy_only=False)
        found.append((one[kept], other[kept]))
    if not found:
        return pairs
    ones, others = zip(*found, strict=True)
    return np.concatenate(ones), np.concatenate(others)


@contextmanager
def failing_at(clause: Location | None, parts: ExpressionPlaces) -> Iterator[None]:
    """An EvaluationError inside the block gets the place of the part that failed, or of the clause, unless it has one, or none is known."""
    try:
        yield
    except EvaluationError as error:
        at = part_place(parts, clause, error.expression)
        if at is None or "\n  at " in str(error):
            raise
        placed = type(error)(f"{error}\n  at {at.shown}", expression=error.expression)
        placed.row, placed.call, placed.is_placed = error.row, error.call, error.is_placed
        raise placed from error


def computed(
    columns: Sequence[tuple[str, TypedExpression]], rows: pa.RecordBatch, places: Mapping[str, Location], parts: ExpressionPlaces
) -> dict[str, pa.Array]:
    """Columns of rows; EvaluationError is of the first row that fails, and names the place of the first column that fails there."""
    try:
        return evaluate_all(columns, rows)
    except EvaluationError as error:
        first = first_failure(rows, lambda some: evaluate_all(columns, some))
        if first is None:
            raise
        row, failure = first
        for name, one in columns:  # each alone, to know which of them fails
            with failing_at(places.get(name), parts):
                evaluate_all([(name, one)], row)
        raise failure from error


def _states(groups: PlannedGroups, batch: pa.RecordBatch, plan: PullPlan) -> tuple[list[pa.Array], list[pa.Array]]:
    """The group of each row that has one, and the states of the aggregates after it alone."""
    found = computed(groups.columns, batch, plan.places, plan.parts)
    has_group = _has_group(groups, list(found.values()))
    if has_group is not None:
        batch, found = batch.filter(has_group), {name: column.filter(has_group) for name, column in found.items()}
    arguments = [(f"argument{number}", one.argument) for number, one in enumerate(groups.aggregates) if one.argument is not None]
    places = plan.places
    own = {f"argument{number}": places[one.name] for number, one in enumerate(groups.aggregates) if one.name in places}
    values = computed(arguments, batch, own, plan.parts)
    states: list[pa.Array] = []
    for number, one in enumerate(groups.aggregates):
        states += lift(one, values.get(f"argument{number}"), batch.num_rows)
    return [*found.values()] or [pa.repeat(0, batch.num_rows)], states


def _has_group(groups: PlannedGroups, keys: Sequence[pa.Array]) -> pa.Array | None:
    """Which rows are in a group; None if all are."""
    if groups.left_out == NONE or not any(key.null_count for key in keys):
        return None
    return reduce(pc.and_ if groups.left_out == ANY_NULL else pc.or_, [key.is_valid() for key in keys])


def _folded(groups: PlannedGroups, keys: Sequence[pa.Array], states: Sequence[pa.Array]) -> list[pa.Array]:
    found, folded = fold(keys, [], groups.aggregates, states)
    return [*found, *folded]


def _together(groups: PlannedGroups, parts: Sequence[Sequence[pa.Array]]) -> list[pa.Array]:
    """The groups of several parts as one, in the order of the parts."""
    if len(parts) == 1:
        return [*parts[0]]
    columns = [pa.concat_arrays(column) for column in zip(*parts, strict=True)]
    keys = max(len(groups.columns), 1)
    return _folded(groups, columns[:keys], columns[keys:])


def _no_groups(groups: PlannedGroups) -> list[pa.Array]:
    """What there is of no rows: no group, or without expressions one."""
    rows = 0 if groups.columns else 1
    keys = [pa.nulls(rows, to_arrow(one.type)) for _, one in groups.columns] or [pa.repeat(0, rows)]
    return [*keys, *(state for one in groups.aggregates for state in neutral(one, rows))]


def _results(groups: PlannedGroups, states: Sequence[pa.Array]) -> list[pa.Array]:
    found, start = [], 0
    for one in groups.aggregates:
        end = start + len(state_columns(one))
        found.append(result(one, states[start:end]))
        start = end
    return found


def _where(condition: TypedExpression, rows: pa.Table) -> pa.Table:
    batches = []
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        check_waited_for()
        batches.append(batch.filter(mask(condition, batch)))
    return pa.Table.from_batches(batches, rows.schema)


def _exploded(explosion: Explosion, rows: pa.Table, plan: PullPlan) -> pa.Table:
    batches = []
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS) or [one_batch(rows)]:
        check_waited_for()
        with failing_at(plan.places.get(explosion.columns[0]), plan.parts):
            batches.append(exploded(explosion, batch))
    return pa.Table.from_batches(batches)


def _computed(columns: TypedColumns, rows: pa.Table, plan: PullPlan) -> pa.Table:
    schema = pa.schema([(name, to_arrow(one.type)) for name, one in columns])
    batches = []
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        check_waited_for()
        found = computed(columns, batch, plan.places, plan.parts)
        batches.append(pa.RecordBatch.from_arrays(list(found.values()), schema=schema))
    return pa.Table.from_batches(batches, schema)


def _column(rows: pa.Table, name: str) -> pa.Array:
    return one_array(rows.column(name), name)


def _values(expressions: Sequence[TypedExpression], rows: pa.RecordBatch) -> list[pa.Array]:
    return list(evaluate_all([(str(number), one) for number, one in enumerate(expressions)], rows).values())


def _every_pair(left: int, right: int) -> tuple[Integers, Integers]:
    """Each row of one side with each of the other; ConfigError if these are too many."""
    if left * right > PAIRS_MAX:
        raise ConfigError(
            f"the join compares no columns for equality, so each of {left:,} rows would meet each of {right:,}; expected at most {PAIRS_MAX:,} "
            "pairs, or a condition such as a.id = b.id"
        )
    return np.repeat(np.arange(left), right), np.tile(np.arange(right), left)


def _with_the_lonely(
    join: PlannedJoin, pairs: tuple[Integers, Integers], left: pa.RecordBatch, right: pa.RecordBatch
) -> tuple[Integers, Integers]:
    """The pairs with the rows that have none, of the sides that a join keeps; those of the left side where they stand among the others."""
    one, other = pairs
    of_left, of_right = join.lonely
    if join.kind in (LEFT, FULL):
        lonely = _lonely(left, one, of_left)
        one, other = np.concatenate([one, lonely]), np.concatenate([other, np.full(len(lonely), NO_ROW, np.int64)])
        order = np.argsort(one, kind="stable")
        one, other = one[order], other[order]
    if join.kind in (RIGHT, FULL):
        lonely = _lonely(right, other, of_right)
        one, other = np.concatenate([one, np.full(len(lonely), NO_ROW, np.int64)]), np.concatenate([other, lonely])
    return one, other


def _lonely(rows: pa.RecordBatch, paired: Integers, condition: TypedExpression | None) -> Integers:
    """The rows without a partner for which a condition is true."""
    lonely = np.setdiff1d(np.arange(rows.num_rows), paired)
    if condition is None or not len(lonely):
        return lonely
    kept: Integers = lonely[mask(condition, rows.take(pa.array(lonely))).to_numpy(zero_copy_only=False)]
    return kept


def _side_by_side(
    left: pa.RecordBatch, right: pa.RecordBatch, pairs: tuple[Integers, Integers], names: Iterable[str] | None = None
) -> pa.RecordBatch:
    """The rows of both sides that belong together, nulls where there is none; some of the columns, or all."""
    wanted = None if names is None else set(names)
    found: dict[str, pa.Array] = {}
    for rows, places in zip((left, right), pairs, strict=True):
        taken = pa.array(places, pa.int64(), mask=places == NO_ROW)
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            if wanted is None or name in wanted:
                found[name] = column.take(taken)
    if not found:  # a condition without columns
        return pa.record_batch([pa.repeat(0, len(pairs[0]))], names=[""])
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))
