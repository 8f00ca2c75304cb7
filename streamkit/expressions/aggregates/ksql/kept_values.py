"""
Aggregates that keep values: COLLECT_LIST and COLLECT_SET, EARLIEST_BY_OFFSET and LATEST_BY_OFFSET with a number, TOPK and TOPKDISTINCT.

A state is a list of structs, whose field `value` is kept, and how many of them there are at most. COLLECT_LIST keeps all values in their
order, nulls too, and no more once it is full. The others keep the first elements in an order of their own: each element has a rank, and the
elements with the least ranks stay. Elements of equal rank are one where only distinct ones are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Integers
from streamkit.conditionals import if_else
from streamkit.data_type import array_of, fields_of, struct_of, to_arrow
from streamkit.expressions.aggregates.collection import ELEMENTS_MAX, joined
from streamkit.expressions.aggregates.function import (
    AggregateFunction,
    AggregateResult,
    Members,
    MergeStates,
    States,
    argument_type,
)
from streamkit.expressions.aggregates.ksql.signature import WITH_ORDER, constant_int, entered, typed_by
from streamkit.expressions.aggregates.leading import NOTHING, first_of_ordered
from streamkit.expressions.aggregates.ordered_bytes import decode_lists, encode_ordered, order_complaint, where_there
from streamkit.expressions.core.accumulation import (
    Accumulator,
    Runs,
    accumulated,
    chosen,
    first_rows,
    last_rows,
    stable_order,
    within_groups,
)
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation, RuleError
from streamkit.expressions.core.ordering import groups, order_keys
from streamkit.expressions.ksql.comparisons import without_maps
from streamkit.expressions.ksql.signature import ksql_name
from streamkit.expressions.nested.arrays import first_of_each
from streamkit.plan.expression import TypedAggregate, TypedExpression
from streamkit.schema import SchemaColumn

VALUE, ORDER, LIMIT = "value", "order", "limit"
COLLECTED_MAX = ELEMENTS_MAX + 1  # kept of a group without a limit: one too many says that there is no result
_COLLECTED = ("T -> array<T>",)
AS_THEY_COME = 1 << 62  # an order behind all offsets; of equal orders the arrival counts
_BY_OFFSET = ("T -> T", "T, boolean -> T", "T, int -> array<T>", "T, int, boolean -> array<T>")
_WITH_ORDER = ("T, boolean, bigint -> T", "T, int, boolean, bigint -> array<T>")


def _wrapped(
    call: Invocation, value: TypedExpression, limit: int, order: TypedExpression | None, skips_nulls: bool
) -> TypedExpression:
    """The value in a struct, with what orders it and how many are kept; null of a row that does not count."""
    parts = [literal(VALUE, "string"), value]
    if order is not None:
        parts += [literal(ORDER, "string"), order]
    parts += [literal(LIMIT, "string"), literal(limit, "int")]
    wrapped = call.of("named_struct", *parts)
    return call.of("if", call.of("isnotnull", value), wrapped, literal(None, "void")) if skips_nulls else wrapped


def _state_columns(aggregate: TypedAggregate) -> tuple[SchemaColumn, ...]:
    return SchemaColumn(f"{aggregate.name}.kept", array_of(_element(aggregate))), SchemaColumn(f"{aggregate.name}.limit", "int")


def _element(aggregate: TypedAggregate) -> str:
    """The type of a kept value: the struct without its limit."""
    fields = fields_of(argument_type(aggregate)) or ()
    return struct_of((name, type) for name, type in fields if name != LIMIT)


def _lift(aggregate: TypedAggregate, argument: pa.Array | None, _rows: int) -> list[pa.Array]:
    assert argument is not None, "values are kept of something"
    type = to_arrow(_element(aggregate))
    there = np.asarray(argument.is_valid())
    kept = argument.drop_null()
    parts = [pc.struct_field(kept, [place]) for place in range(type.num_fields)]
    lists = _lists(np.cumsum(np.concatenate([[0], there])), pa.StructArray.from_arrays(parts, fields=list(type)))
    return [lists, pc.struct_field(argument, LIMIT)]


def _lists(offsets: Integers, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


@dataclass(frozen=True)
class _ElementsOfRows:
    """The elements of the lists of all rows that are merged, end to end: their values, and in which row each stands."""

    values: pa.Array
    rows: Integers

    @classmethod
    def of(cls, lists: pa.Array) -> _ElementsOfRows:
        sizes = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
        return cls(lists.flatten(), np.repeat(np.arange(len(lists)), sizes))


Rank = Callable[
    [_ElementsOfRows, Integers], Integers
]  # of elements, and the places of their rows in the order in which they are merged


def _by_rank(rank: Rank, is_distinct: bool = False, is_reversed: bool = False) -> MergeStates:
    """The merge that keeps the elements of the least ranks, in their order, or the other way round."""

    def merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
        lists, numbers = states
        runs, limits = accumulate.runs, accumulated(numbers, "max", accumulate)
        most = limits.fill_null(0).to_numpy().astype(np.int64)
        elements = _ElementsOfRows.of(lists)
        places = np.empty(len(lists), np.int64)
        places[runs.order] = np.arange(len(lists))
        ranks = rank(elements, places)
        if runs.owners is None:
            owners, kept = _row_by_row(elements, ranks, most, runs, is_distinct)
        else:
            owners, kept = _of_groups(runs.owners[elements.rows], ranks, most, is_distinct)
        if is_reversed:
            kept = kept[np.lexsort((-np.arange(len(kept)), owners))]
        offsets = np.searchsorted(owners, np.arange(len(most) + 1))
        return [_lists(offsets, elements.values.take(pa.array(kept))).cast(lists.type), limits]

    return merge


def _of_groups(owners: Integers, ranks: Integers, limits: Integers, is_distinct: bool) -> tuple[Integers, Integers]:
    """Owners and places of what is kept where each row goes into one result."""
    order = np.lexsort((ranks, owners))
    if is_distinct and len(order):
        repeated = (np.diff(ranks[order], prepend=-1) == 0) & (np.diff(owners[order], prepend=-1) == 0)
        order = order[~repeated]
    kept = first_of_ordered(owners, order, limits)
    return owners[kept], kept


def _row_by_row(
    elements: _ElementsOfRows, ranks: Integers, limits: Integers, runs: Runs, is_distinct: bool
) -> tuple[Integers, Integers]:
    """Owners and places of what is kept of the rows up to each."""
    by_rank = np.argsort(ranks, kind="stable")  # the first of equal ones stands for all
    place_of = by_rank[np.searchsorted(ranks[by_rank], ranks)] if is_distinct else np.arange(len(ranks))
    turns = np.empty(len(ranks), np.int64)
    turns[by_rank] = np.arange(len(ranks))
    width = int(min(limits.max(initial=0), len(ranks)))
    table = _table(turns[place_of], elements.rows, len(limits), width)[runs.order]
    starts = runs.starts[runs.order]
    merged = _running(table, starts, is_distinct)
    back = np.empty(len(limits), np.int64)
    back[runs.order] = np.arange(len(limits))
    owners, columns = np.nonzero(merged[back] != NOTHING)
    return owners, by_rank[merged[back][owners, columns]]


def _table(turns: Integers, rows: Integers, count: int, width: int) -> Integers:
    """The turns of the elements of each row in a row, the least first."""
    table = np.full((count, width), NOTHING)
    order = np.lexsort((turns, rows))
    columns = np.arange(len(order)) - np.searchsorted(rows[order], rows[order])
    inside = columns < width
    table[rows[order][inside], columns[inside]] = turns[order][inside]
    return table


def _running(table: Integers, starts: Integers, is_distinct: bool) -> Integers:
    """The least turns of all rows from the start of its run up to each row."""
    before, step = np.arange(len(table)) - starts, 1
    while len(table) and table.shape[1] and step <= before.max():
        reached = np.flatnonzero(before >= step)
        joined = np.sort(np.concatenate([table[reached], table[reached - step]], axis=1), axis=1)
        if is_distinct:
            joined[:, 1:][joined[:, 1:] == joined[:, :-1]] = NOTHING
            joined = np.sort(joined, axis=1)
        table = table.copy()
        table[reached] = joined[:, : table.shape[1]]
        step *= 2
    return table


def _arrival(elements: _ElementsOfRows, places: Integers) -> Integers:
    """The number of each element in the order in which they came, or in that which a field of theirs says."""
    came = places[elements.rows]
    within = np.arange(len(came))
    keys = [within, came]
    if ORDER in elements.values.type.names:
        keys.append(order_keys(pc.struct_field(elements.values, ORDER)))
    ranks = np.empty(len(came), np.int64)
    ranks[np.lexsort(keys)] = np.arange(len(came))
    return ranks


def _last_arrival(elements: _ElementsOfRows, places: Integers) -> Integers:
    return len(places) + len(elements.rows) - _arrival(elements, places)


def _largest(elements: _ElementsOfRows, places: Integers) -> Integers:
    """The largest value first, of equal ones that which came first."""
    values = pc.struct_field(elements.values, [0])
    ranks = np.empty(len(values), np.int64)
    ranks[np.lexsort((_arrival(elements, places), ~order_keys(values)))] = np.arange(len(values))
    return ranks


def _largest_distinct(elements: _ElementsOfRows, _places: Integers) -> Integers:
    keys = order_keys(pc.struct_field(elements.values, [0]))
    return np.asarray(np.unique(~keys, return_inverse=True)[1], np.int64)


def _result(aggregate: TypedAggregate, states: States) -> AggregateResult:
    """The kept values as arrays; of nothing an empty one."""
    lists = states[0]
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    kept = lists.flatten()
    if not aggregate.type.startswith("array<struct<sort_col:"):
        kept = pc.struct_field(kept, [0])
    return AggregateResult(_lists(np.cumsum(np.concatenate([[0], sizes])), kept).cast(to_arrow(aggregate.type)))


def _ranked(
    name: str,
    effect: str,
    signatures: tuple[str, ...],
    typed: Callable[[Invocation], tuple[TypedExpression, str]],
    merge: MergeStates,
) -> AggregateFunction:
    return entered(
        name,
        effect,
        signatures,
        typed,
        _state_columns,
        _lift,
        merge,
        _result,
        is_nullable=False,
        is_ordered=True,
        not_of_tables=f"the rows of a table have no order, and a row that leaves its group cannot be taken out of {name.upper()}",
    )


def _typed_top(call: Invocation, gives: str) -> tuple[TypedExpression, str]:
    """TOPK(x, k), or TOPK(x, a, b, k), whose results are structs."""
    value, *others, _ = call.values
    limit = constant_int(call, len(call.arguments) - 1)
    if complaint := order_complaint(value.type):
        raise RuleError(f"{ksql_name(call.name)}: {complaint}")
    wrapped = _wrapped(call, value, limit, None, skips_nulls=True)
    if not others:
        return wrapped, array_of(value.type)
    fields = [("sort_col", value), *((f"col{place}", other) for place, other in enumerate(others))]
    parts = [part for name, one in fields for part in (literal(name, "string"), one)]
    struct = call.of("named_struct", *parts, literal(LIMIT, "string"), literal(limit, "int"))
    there = call.of("if", call.of("isnotnull", value), struct, literal(None, "void"))
    return there, array_of(struct_of((name, one.type) for name, one in fields))


_ranked(
    "topk",
    "The greatest values, the greatest first; with further columns, structs of these rows.",
    tuple(f"{type}, int -> array<{type}>" for type in ("int", "bigint", "double", "string")),
    typed_by(
        "T, int -> array<T>",
        "A, B, int -> array<A>",
        "A, B, C, int -> array<A>",
        "A, B, C, D, int -> array<A>",
        "A, B, C, D, E, int -> array<A>",
        arguments=_typed_top,
    ),
    _by_rank(_largest),
)
_ranked(
    "topkdistinct",
    "The greatest distinct values, the greatest first.",
    tuple(f"{type}, int -> array<{type}>" for type in WITH_ORDER),
    typed_by("T, int -> array<T>", arguments=_typed_top),
    _by_rank(_largest_distinct, is_distinct=True),
)


def _typed_by_offset(call: Invocation, gives: str) -> tuple[TypedExpression, str]:
    """One value, or a number of them; nulls do not count unless the call says so."""
    value, *rest = call.values
    order = rest.pop() if rest and rest[-1].type == "bigint" else None
    limit = constant_int(call, 1) if rest and rest[0].type == "int" else 0
    told = next((one for one in rest if one.type == "boolean"), None)
    if told is not None and (told.name != "literal" or told.value is None):
        raise RuleError(f"{ksql_name(call.name)} is told by a constant whether it ignores nulls")
    skips_nulls = told is None or bool(told.value)
    return _wrapped(call, value, limit, order, skips_nulls), gives


def _choosing(is_last: bool) -> MergeStates:
    """The merge that keeps the first or last elements; one alone where no number is wanted."""
    by_rank = _by_rank(_last_arrival if is_last else _arrival, is_reversed=is_last)
    choose = last_rows if is_last else first_rows

    def merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
        lists, numbers = states
        limits = accumulated(numbers, "max", accumulate)
        if pc.max(limits).as_py() or ORDER in lists.type.value_type.names:
            lifted = pc.max_element_wise(numbers, pa.scalar(1, pa.int32()))
            kept, _ = by_rank([lists, lifted], accumulate)
            return [kept, limits]
        there = np.asarray(pc.greater(pc.list_value_length(lists).fill_null(0), 0))
        return [chosen(lists, choose(there, accumulate)), limits]

    return merge


def _result_by_offset(aggregate: TypedAggregate, states: States) -> AggregateResult:
    if _number_of(aggregate):
        return _result(aggregate, states)
    lists = states[0]
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    values = pc.struct_field(lists.flatten(), [0])
    found = chosen(values, np.where(sizes > 0, starts, -1)) if len(values) else pa.nulls(len(lists), values.type)
    return AggregateResult(found.cast(to_arrow(aggregate.type)))


def _number_of(aggregate: TypedAggregate) -> int:
    """How many values an aggregate keeps; the struct of its argument says it."""
    argument = aggregate.argument
    assert argument is not None, "values are kept of something"
    struct = argument if argument.name == "struct" else argument.arguments[1]
    return int(struct.arguments[-1].value)


for _name, _effect, _is_last in (
    ("earliest_by_offset", "The first value, or an array of the first ones.", False),
    ("latest_by_offset", "The last value, or an array of the last ones.", True),
):
    entered(
        _name,
        _effect,
        _BY_OFFSET,
        typed_by(*_BY_OFFSET, hidden=_WITH_ORDER, arguments=_typed_by_offset),
        _state_columns,
        _lift,
        _choosing(_is_last),
        _result_by_offset,
        is_ordered=True,
        not_of_tables="the rows of a table have no order, so none of them is the first or the last",
    )


def _typed_collected(call: Invocation, gives: str) -> tuple[TypedExpression, str]:
    """The value, and how many are collected at most: a second argument, which a setting gives; without it all are."""
    limit = constant_int(call, 1, least=0) if len(call.arguments) > 1 else COLLECTED_MAX
    return _wrapped(call, call.typed(0), min(limit, COLLECTED_MAX), None, skips_nulls=False), gives


def _collecting(is_set: bool) -> MergeStates:
    """The merge that keeps the earliest values; in a set each value once."""

    def merge(states: States, accumulate: Accumulator) -> list[pa.Array]:
        lists, numbers = states
        limits = accumulated(numbers, "max", accumulate)
        if not is_set and (pc.min(numbers).as_py() or 0) < 0:
            return [_one_by_one(lists, numbers, accumulate.runs), limits]
        most = limits.fill_null(0).to_numpy().astype(np.int64)

        def keep(owners: Integers, values: pa.Array) -> Integers:
            order = stable_order(owners)
            if is_set and len(order):
                order = order[_is_first(owners[order], values.take(pa.array(order)))]
            within = np.arange(len(order)) - np.searchsorted(owners[order], owners[order])
            kept: Integers = order[within < most[owners[order]]]
            return kept

        return [joined(lists, accumulate, keep, ELEMENTS_MAX), limits]

    return merge


def _one_by_one(lists: pa.Array, numbers: pa.Array, runs: Runs) -> pa.Array:
    """
    What is kept where rows of a table come and go: one that comes is put behind, one that goes takes the last equal value out.

    As in ksqlDB a value that was beyond the limit is not there to be taken out. Nothing is left out beyond ELEMENTS_MAX here, since the rows
    behind may take out what is too much.
    """
    elements = _ElementsOfRows.of(lists)
    ends = np.cumsum(np.bincount(elements.rows, minlength=len(lists))).tolist()
    codes = groups(without_maps(elements.values)).tolist() if len(elements.values) else []
    limits = numbers.fill_null(0).to_pylist()
    order, starts, run_ends = (part.tolist() for part in (runs.order, runs.starts, runs.ends))
    kept: list[int] = []  # the places of values among all elements
    found: list[Integers] = [np.empty(0, np.int64)] * len(starts)
    start = reached = -1
    for result in np.lexsort((runs.ends, runs.starts)).tolist():
        if starts[result] != start:
            kept, start = [], starts[result]
            reached = start
        for row in order[reached : run_ends[result]]:
            places = range(ends[row - 1] if row else 0, ends[row])
            if limits[row] >= 0:
                room = len(places) if limits[row] >= COLLECTED_MAX else limits[row] - len(kept)
                kept.extend(places[: max(room, 0)])
                continue
            for place in places:
                last = next((turn for turn in reversed(range(len(kept))) if codes[kept[turn]] == codes[place]), None)
                if last is not None:
                    del kept[last]
        reached = run_ends[result]
        found[result] = np.array(kept, np.int64)
    sizes = np.cumsum([0, *map(len, found)])
    return _lists(sizes, elements.values.take(pa.array(np.concatenate(found)))).cast(lists.type)


def _taking_out(left: States, right: States) -> list[pa.Array]:
    """
    The first lists without the values of the second, row by row.

    A limit turned over, which is negative, says that values are to be taken out: as long as nothing is there, they wait for the list behind which
    they are merged. In groups of tables that is the list of the group, to which rows are added and taken out one after the other.
    """
    lists, numbers = right
    taken = [lists, pc.bit_wise_not(numbers)]
    both = [pa.concat_arrays([one, other.cast(one.type)]) for one, other in zip(left, taken, strict=True)]
    rows = len(lists)
    after = [column.slice(rows) for column in _collecting(is_set=False)(both, within_groups(np.tile(np.arange(rows), 2)))]
    is_nothing = left[1].is_null()
    return [if_else(is_nothing, waiting, found.cast(waiting.type)) for waiting, found in zip(taken, after, strict=True)]


def _collected(aggregate: TypedAggregate, states: States) -> AggregateResult:
    """The kept values, unless a group has more than a state may hold."""
    values = _result(aggregate, states).values
    too_many = pc.list_value_length(values).to_numpy() > ELEMENTS_MAX
    if not too_many.any():
        return AggregateResult(values)
    values = pc.if_else(pa.array(too_many), pa.scalar(None, values.type), values)
    way_out = (
        f"a group has at most {ELEMENTS_MAX:,} elements; group by more columns, or by shorter windows, or set "
        f"ksql.functions.{aggregate.function.removeprefix('ksql_')}.limit"
    )
    return AggregateResult(values, too_many, f"more than {ELEMENTS_MAX:,} elements", way_out)


def _is_first(owners: Integers, values: pa.Array) -> Integers:
    """Which values are the first of their kind of their owner, which are in order."""
    codes = groups(without_maps(values))
    return first_of_each(owners, codes)


def _without_limit(argument: pa.Array) -> pa.Array:
    """The structs without their last field."""
    fields = list(argument.type)[:-1]
    parts = [pc.struct_field(argument, [place]) for place in range(len(fields))]
    return pa.StructArray.from_arrays(parts, fields=fields)


entered(
    "collect_list",
    "All values as an array, nulls too, in the order in which they came.",
    _COLLECTED,
    typed_by(*_COLLECTED, hidden=("T, int -> array<T>",), arguments=_typed_collected),
    _state_columns,
    _lift,
    _collecting(is_set=False),
    _collected,
    subtract=_taking_out,
    is_nullable=False,
    is_ordered=True,
    keeps_order=True,
)
entered(
    "collect_set",
    "All distinct values as an array, null too, in the order in which they came first.",
    _COLLECTED,
    typed_by(*_COLLECTED, hidden=("T, int -> array<T>",), arguments=_typed_collected),
    _state_columns,
    _lift,
    _collecting(is_set=True),
    _collected,
    is_nullable=False,
    is_ordered=True,
    members=Members(
        lambda _, argument: where_there(encode_ordered(_without_limit(argument)), argument),
        lambda aggregate, lists: [
            decode_lists(lists, _element(aggregate)),
            pa.array(np.full(len(lists), _number_of(aggregate)), pa.int32()),
        ],
        _number_of,
        is_set=True,
        complaint=lambda aggregate: order_complaint(_element(aggregate)),
    ),
)
