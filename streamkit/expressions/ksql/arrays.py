"""Functions of arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.data_type import decimal_of, element_of, has_map, is_nested, to_arrow
from streamkit.expressions.core.elements import Elements, as_numbers, on_columns, places_in, taken, validity
from streamkit.expressions.core.failing_rows import check_rows
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    RuleError,
    always,
    always_nullable,
    function,
    never_null,
    operation,
)
from streamkit.expressions.core.ordering import groups, sorted_places
from streamkit.expressions.ksql.casts import java_text
from streamkit.expressions.ksql.comparisons import without_maps
from streamkit.expressions.ksql.function import formula, kernel, of_own_types
from streamkit.expressions.ksql.operators import flags
from streamkit.expressions.ksql.signature import Signature, ksql_type, matched
from streamkit.expressions.nested.arrays import first_of_each
from streamkit.plan.expression import TypedExpression

CUBE_MAX = 16  # elements, of which there are 2**16 combinations
_ASCENDING, _DESCENDING = ("ASC", "ASCENDING"), ("DESC", "DESCENDING")
_PAIR = "array<T>, array<T> -> array<T>"


def _equal_to(elements: Elements, wanted: pa.Array) -> np.ndarray:
    """Which elements are the value that is wanted in their row; null is equal to null."""
    keys = groups(without_maps(pa.concat_arrays([elements.values, wanted])))
    return np.asarray(keys[: len(elements.values)] == keys[len(elements.values) :][elements.parents])


@kernel("array_contains", "array<T>, T -> boolean", strict=False, nullable=never_null)
@on_columns
def _array_contains(_: TypedExpression, arrays: pa.Array, wanted: pa.Array) -> pa.Array:
    """Whether the array has the value, which may be null; false of a null array."""
    elements = Elements.of(arrays)
    return pa.array(elements.any(_equal_to(elements, wanted)))


@kernel("array_remove", "array<T>, T -> array<T>", strict=False)
@on_columns
def _array_remove(_: TypedExpression, arrays: pa.Array, unwanted: pa.Array) -> pa.Array:
    """The array without the elements that are the value, which may be null."""
    elements = Elements.of(arrays)
    return elements.kept(~_equal_to(elements, unwanted)).as_arrays()


@formula("array_distinct", "array<T> -> array<T>")
def _array_distinct(call: Invocation) -> TypedExpression:
    """The array with each value once, in the order of the first ones."""
    return _set(call, "array_distinct")


@formula("array_intersect", _PAIR)
def _array_intersect(call: Invocation) -> TypedExpression:
    """The values that both arrays have, each once."""
    return _set(call, "array_intersect")


@formula("array_union", _PAIR)
def _array_union(call: Invocation) -> TypedExpression:
    """The values of both arrays, each once."""
    return _set(call, "array_union")


@formula("array_except", _PAIR)
def _array_except(call: Invocation) -> TypedExpression:
    """The values of the first array that the second has not, each once."""
    return _set(call, "array_except")


def _set(call: Invocation, name: str) -> TypedExpression:
    """The call of Spark's function, or of our own for elements that hold maps. Two maps are equal if their entries are, in any order."""
    if not has_map(call.types[0]):
        return call.of(name, *call.values)
    return call.build(TypedExpression(f"ksql_{name}_with_maps", call.types[0], call.values))


def _sets_with_maps(name: str, is_wanted: Callable[[Mask, Mask], Mask]) -> None:
    """Keep the first of equal elements that is wanted by whether it is of the first array, and whether the second one has it."""

    @operation(f"ksql_{name}_with_maps")
    @on_columns
    def _chosen(_: TypedExpression, *arrays: pa.Array) -> pa.Array:
        sides = [Elements.of(array) for array in arrays]
        values, rows = pa.concat_arrays([one.values for one in sides]), np.concatenate([one.parents for one in sides])
        is_first = np.arange(len(values)) < len(sides[0].values)
        keys = groups(without_maps(values))
        keys_of_rows = rows * (int(keys.max(initial=0)) + 1) + keys
        valid = np.logical_and.reduce([one.valid for one in sides])
        wanted = is_wanted(is_first, np.isin(keys_of_rows, keys_of_rows[~is_first]))
        kept = first_of_each(rows, keys) & wanted & valid[rows]
        order = np.argsort(rows, kind="stable")
        chosen = pa.array(order[kept[order]])
        return Elements(values.take(chosen), np.bincount(rows[kept], minlength=len(valid)), valid).as_arrays()


_sets_with_maps("array_distinct", lambda is_first, in_second: is_first)
_sets_with_maps("array_union", lambda is_first, in_second: is_first | in_second)
_sets_with_maps("array_intersect", lambda is_first, in_second: is_first & in_second)
_sets_with_maps("array_except", lambda is_first, in_second: is_first & ~in_second)


@formula("array_max", "array<T> -> T")
def _array_max(call: Invocation) -> TypedExpression:
    """The greatest element; null if there is none but nulls."""
    return call.of("array_max", _flat(call, "array_max"))


@formula("array_min", "array<T> -> T")
def _array_min(call: Invocation) -> TypedExpression:
    """The least element; null if there is none but nulls."""
    return call.of("array_min", _flat(call, "array_min"))


def _flat(call: Invocation, name: str) -> TypedExpression:
    """An array of values that hold no others; RuleError if it is another one."""
    value = call.typed(0)
    if is_nested(element_of(value.type) or ""):
        raise RuleError(f"{name.upper()} takes an array of values that have an order; found {ksql_type(value.type)}")
    return value


@formula("array_length", "array<T> -> int")
def _array_length(call: Invocation) -> TypedExpression:
    """How many elements there are."""
    return call.of("size", *call.values)


@formula("array_sort", "array<T> -> array<T>", "array<T>, string -> array<T>")
def _array_sort(call: Invocation) -> TypedExpression:
    """The elements in ascending order, or in that of the second argument: ASC or DESC; nulls are last."""
    direction = call.typed(1) if len(call.arguments) > 1 else literal("ASC", "string")
    return call.build(TypedExpression("ksql_array_sorted", call.types[0], (_flat(call, "array_sort"), direction)))


@operation("ksql_array_sorted", nullable=always_nullable)
@on_columns
def _array_sorted(_: TypedExpression, arrays: pa.Array, direction: pa.Array) -> pa.Array:
    """Null of a direction that is none."""
    elements = Elements.of(arrays)
    word = pc.utf8_upper(direction)
    is_up, is_down = (np.asarray(pc.is_in(word, value_set=pa.array(words))) for words in (_ASCENDING, _DESCENDING))
    order = sorted_places(elements.parents, elements.values, ascending=True, nulls_first=False)
    if is_down.any():
        other = sorted_places(elements.parents, elements.values, ascending=False, nulls_first=False)
        order = np.where(is_down[elements.parents], other, order)
    valid = elements.valid & (is_up | is_down)
    kept = Elements(elements.values.take(pa.array(order)), elements.lengths, elements.valid).kept(valid[elements.parents])
    return Elements(kept.values, kept.lengths, valid).as_arrays()


_JOINED = ("boolean", "int", "bigint", "double", "string", "void")  # and decimals


def _may_not_be_joined(expression: TypedExpression) -> bool:
    inner = element_of(expression.arguments[0].type) or ""
    return inner not in _JOINED and decimal_of(inner) is None


@kernel(
    "array_join",
    "array<T> -> string",
    "array<T>, string -> string",
    gives=of_own_types("string"),
    strict=False,
    fails=_may_not_be_joined,
)
@on_columns
def _array_join(expression: TypedExpression, arrays: pa.Array, *between: pa.Array) -> pa.Array:
    """The elements as texts in one, with commas or other texts between them; null is the word null."""
    elements = Elements.of(arrays)
    inner = element_of(expression.arguments[0].type) or ""
    if _may_not_be_joined(expression):  # ksqlDB finds it in the row
        check_rows(
            elements.any(validity(elements.values)),
            f"an element is {ksql_type(inner)}, and ARRAY_JOIN puts together texts, numbers and BOOLEAN",
        )
        texts = pa.repeat(pa.scalar("null"), len(elements.values))
    else:
        texts = java_text(elements.values, inner)
    lists = Elements(texts.fill_null("null"), elements.lengths, elements.valid).as_arrays()
    return pc.binary_join(lists, pc.coalesce(between[0], pa.scalar("")) if between else ",")


@kernel("array_concat", _PAIR, strict=False)
@on_columns
def _array_concat(_: TypedExpression, left: pa.Array, right: pa.Array) -> pa.Array:
    """The elements of both arrays; of a null array there are none."""
    parts = Elements.of(left), Elements.of(right)
    parents = np.concatenate([part.parents for part in parts])
    values = pa.concat_arrays([part.values for part in parts]).take(pa.array(np.argsort(parents, kind="stable")))
    return Elements(values, parts[0].lengths + parts[1].lengths, parts[0].valid | parts[1].valid).as_arrays()


@kernel("slice", "array<T>, int, int -> array<T>", strict=False, fails=always)
@on_columns
def _slice(_: TypedExpression, arrays: pa.Array, start: pa.Array, end: pa.Array) -> pa.Array:
    """
    The elements from a place to another one, counted from 1; null where a place is outside. A null place is that of the end.

    A start that is more than one behind the end fails.
    """
    elements = Elements.of(arrays)
    first = np.where(validity(start), as_numbers(start) - 1, 0)
    last = np.where(validity(end), as_numbers(end), elements.lengths)
    valid = elements.valid & (first >= 0) & (last <= elements.lengths)
    check_rows(valid & (first > last), "the first element of a slice is behind its last one")
    inside = valid[elements.parents] & (elements.places >= first[elements.parents]) & (elements.places < last[elements.parents])
    kept = elements.kept(inside)
    return Elements(kept.values, kept.lengths, valid).as_arrays()


@formula("generate_series", "int, int -> array<int>", "bigint, bigint -> array<bigint>", needed=2)
def _generate_series(call: Invocation) -> TypedExpression:
    """The whole numbers from one to another, one by one or in steps; a step away from the end fails, and so does a null."""
    return call.of("sequence", *call.values)


@formula("generate_series", "int, int, int -> array<int>", "bigint, bigint, int -> array<bigint>", needed=3)
def _generate_series_in_steps(call: Invocation) -> TypedExpression:
    start, stop, step = call.values
    if step.name != "literal" or not step.value:  # Spark has a step of 0 from a number to itself
        step = call.build(TypedExpression("ksql_nonzero_step", step.type, (step,)))
    return call.of("sequence", start, stop, call.cast(step, start.type))


@operation("ksql_nonzero_step", fails=always)
def _step(_: TypedExpression, step: Datum) -> Datum:
    check_rows(flags(pc.fill_null(pc.equal(step, pa.scalar(0, step.type)), False)), "the step is zero")
    return step


@operation("ksql_sum_of_list", nullable=always_nullable)
@on_columns
def _sum_of_list(expression: TypedExpression, arrays: pa.Array) -> pa.Array:
    """The sum of the elements that are not null; whole numbers wrap."""
    elements = Elements.of(arrays)
    type = to_arrow(expression.type)
    totals = np.zeros(len(arrays), type.to_pandas_dtype())
    values = elements.values.fill_null(0).to_numpy(zero_copy_only=False)
    np.add.at(totals, elements.parents, values)
    return pa.array(totals, mask=None if elements.valid.all() else ~elements.valid)


@function("ksql_cube")
def _cube_rule(call: Invocation) -> TypedExpression:
    _, gives, fitting = matched(call, [Signature.of("array<T> -> array<array<T>>")])
    return TypedExpression("ksql_cube", gives, fitting.values)


@operation("ksql_cube", fails=always, nullable=always_nullable)
@on_columns
def _cube(expression: TypedExpression, arrays: pa.Array) -> pa.Array:
    """All combinations of the elements and of null in their places, null first; a null element makes no two; of none there is one."""
    elements = Elements.of(arrays)
    varies = validity(elements.values)
    widths = np.bincount(elements.parents, weights=varies, minlength=len(arrays)).astype(np.int64)
    check_rows(widths > CUBE_MAX, f"there are more than {CUBE_MAX} elements, and twice as many combinations for each")
    counts = np.where(elements.valid, 1 << widths, 0)
    rows = np.repeat(np.arange(len(arrays)), counts)
    numbers = places_in(counts)
    lengths = elements.lengths[rows]
    at = np.repeat(elements.starts[rows], lengths) + places_in(lengths)
    behind = np.concatenate([[0], np.cumsum(varies)])  # how many elements that vary are before each, and before the end
    first = behind[elements.starts[rows]]
    bit = np.repeat(widths[rows] + first, lengths) - behind[at] - 1
    is_shown = varies[at] & (np.repeat(numbers, lengths) >> np.maximum(bit, 0) & 1 == 1)
    values = taken(elements.values, np.where(is_shown, at, -1)) if len(at) else elements.values.slice(0, 0)
    inner = Elements(values, lengths, np.ones(len(rows), bool)).as_arrays()
    return Elements(inner, counts, elements.valid).as_arrays().cast(to_arrow(expression.type))
