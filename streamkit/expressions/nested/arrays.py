"""Arrays: their elements, searched, cut, joined, sorted and compared as sets, by Spark's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import streamkit.expressions.texts.strings  # noqa: F401  # its rules of concat and reverse come first
from streamkit.data_type import INTEGERS, array_of, element_of, entry_of, has_map, struct_of, to_arrow
from streamkit.errors import SchemaError
from streamkit.expressions.core.coercion import cast_to, common_type, implicit_type, wider_common_without_strings
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.elements import (
    Elements,
    as_numbers,
    booleans,
    integers,
    interleaved,
    on_columns,
    structs_of,
    taken,
    truth,
    validity,
)
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import (
    OPERATIONS,
    Invocation,
    NoTranslationError,
    RuleError,
    always,
    always_nullable,
    counted,
    fitted,
    function,
    never_null,
    operation,
)
from streamkit.expressions.core.ordering import groups, joint_keys, sorted_places, without_negative_zeros
from streamkit.expressions.core.recording import (
    ColumnArguments,
    constant,
    given,
    given_constant,
    listed,
    recorded,
    recorded_lambda,
)
from streamkit.expressions.core.sizes import check_copies, check_elements, check_separated, may_be_large
from streamkit.expressions.core.spark_text import spark_text, unseen
from streamkit.expressions.logic.conditions import as_common_type
from streamkit.plan.expression import Alias, Expression, TypedExpression
from streamkit.recast import recast

__all__ = [
    "array",
    "array_append",
    "array_compact",
    "array_contains",
    "array_distinct",
    "array_except",
    "array_insert",
    "array_intersect",
    "array_join",
    "array_max",
    "array_min",
    "array_position",
    "array_prepend",
    "array_remove",
    "array_repeat",
    "array_size",
    "array_sort",
    "array_union",
    "arrays_overlap",
    "arrays_zip",
    "cardinality",
    "element_at",
    "flatten",
    "get",
    "sequence",
    "size",
    "slice",
    "sort_array",
    "try_element_at",
]

TypedExpressions = Sequence[TypedExpression]


def array_argument(call: Invocation, place: int) -> TypedExpression:
    """An argument that is an array; a bare null is one of nulls. RuleError if it is something else."""
    value = call.typed(place)
    if value.type == "void":
        return cast_to(value, "array<void>")
    if element_of(value.type) is None:
        raise RuleError(f"{call.name}() takes an array as argument {place + 1}; found {value.type}")
    return value


def element_type(value: TypedExpression) -> str:
    """The type of an array's elements."""
    element = element_of(value.type)
    assert element is not None
    return element


def ordered(call: Invocation, value: TypedExpression) -> TypedExpression:
    """The value, if such values can be compared; RuleError if they hold maps."""
    if has_map(value.type):
        raise RuleError(f"{call.name}() compares values; those of {value.type} hold maps, which have no order")
    return value


def with_element(call: Invocation, array: TypedExpression, value: TypedExpression) -> tuple[TypedExpression, TypedExpression]:
    """An array and a value as the type that both have in common."""
    element = common_type((element_type(array), value.type), wider_common_without_strings)
    if element is None:
        raise RuleError(
            f"{call.name}() has an {array.type} and a value of {value.type}, which do not go together; cast one of them"
        )
    return call.cast(array, array_of(element)), call.cast(value, element)


def same_arrays(call: Invocation, *values: TypedExpression) -> list[TypedExpression]:
    """Arrays as the type that all have in common."""
    return as_common_type(call, values, wider_common_without_strings)


def with_integer(call: Invocation, place: int, type: str = "int") -> TypedExpression:
    """An argument that is a whole number; RuleError if it is something else."""
    value = call.typed(place)
    wanted = implicit_type(value.type, type)
    if wanted is None or (value.type not in INTEGERS and value.type not in ("void", "string")):
        raise RuleError(f"{call.name}() takes {type} as argument {place + 1}; found {value.type}")
    return call.cast(value, wanted)


def _array_rule(call: Invocation) -> TypedExpression:
    values = as_common_type(call, call.values)
    return TypedExpression("array", array_of(values[0].type if values else "void"), tuple(values))


def array(*columns: ColumnArguments) -> Column:
    """An array of the values."""
    return recorded("array", *listed(columns))


@operation("array", rule=_array_rule, strict=False, nullable=never_null)
@on_columns
def _array(expression: TypedExpression, *values: pa.Array) -> pa.Array:
    type = to_arrow(element_of(expression.type) or "void")
    if not values:
        return pa.array([[]], pa.list_(type))
    return interleaved([recast(value, type) for value in values]).as_arrays()


def _size_rule(call: Invocation) -> TypedExpression:
    (value,) = counted(call, 1)
    if element_of(value.type) is None and (entry_of(value.type) is None or call.name == "array_size") and value.type != "void":
        raise RuleError(f"{call.name}() takes an array{'' if call.name == 'array_size' else ' or a map'}; found {value.type}")
    return TypedExpression("size", "int", (cast_to(value, "array<void>") if value.type == "void" else value,))


def size(column: Column | str) -> Column:
    """How many elements an array has, or entries a map."""
    return recorded("size", column)


def cardinality(column: Column | str) -> Column:
    """As `size`."""
    return recorded("cardinality", column)


def array_size(column: Column | str) -> Column:
    """How many elements an array has."""
    return recorded("array_size", column)


@operation("size", rule=_size_rule, functions=("cardinality", "array_size"))
@on_columns
def _size(_: TypedExpression, values: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    return integers(elements.lengths, elements.valid, pa.int32())


def matches(elements: Elements, wanted: pa.Array) -> np.ndarray:
    """Which elements are equal to their row's wanted value; null is equal to nothing."""
    spread = wanted.take(pa.array(elements.parents))
    if pa.types.is_nested(spread.type) or pa.types.is_floating(spread.type) or pa.types.is_null(spread.type):
        found, needed = joint_keys(elements.values, spread)
        return np.asarray((found == needed) & validity(elements.values) & validity(spread))
    return truth(pc.equal(elements.values, spread))


def _contained_rule(call: Invocation) -> TypedExpression:
    counted(call, 2)
    array = array_argument(call, 0)
    if call.typed(1).type == "void":
        raise RuleError(f"{call.name}() takes a value to look for; found a bare null")
    pair = with_element(call, array, call.typed(1))
    return TypedExpression(
        call.name, "boolean" if call.name == "array_contains" else "bigint", tuple(ordered(call, value) for value in pair)
    )


def contains_null(expression: TypedExpression, nullable: Sequence[bool]) -> bool:
    """Also null if it is not there, but a null is."""
    return any(nullable) or may_hold_null(expression.arguments[0])


def may_hold_null(array: TypedExpression) -> bool:
    """Whether an array may have null elements: constants that have none do not."""
    if array.name == "array":
        return not all(map(_is_never_null, array.arguments))
    return array.name not in OPERATIONS or OPERATIONS[array.name].holds_null


def _is_never_null(value: TypedExpression) -> bool:
    if value.name == "cast":
        return _is_never_null(value.arguments[0])
    return value.value is not None if value.name == "literal" else value.name in ("array", "map", "struct")


def array_contains(column: Column | str, value: object) -> Column:
    """True where the array has the value; null if it does not have it, but has a null."""
    return recorded("array_contains", column, constant(value))


@operation("array_contains", rule=_contained_rule, nullable=contains_null)
@on_columns
def _array_contains(_: TypedExpression, values: pa.Array, wanted: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    found = elements.any(matches(elements, wanted))
    unknown = elements.any(~validity(elements.values)) & ~found
    return booleans(found, elements.valid & validity(wanted) & ~unknown)


def array_position(column: Column | str, value: object) -> Column:
    """The first position of the value, from 1; 0 if it is not there."""
    return recorded("array_position", column, constant(value))


@operation("array_position", rule=_contained_rule)
@on_columns
def _array_position(_: TypedExpression, values: pa.Array, wanted: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    first = elements.first(matches(elements, wanted))
    return integers(np.where(first < 0, 0, first - elements.starts + 1), elements.valid & validity(wanted), pa.int64())


def _at_rule(call: Invocation) -> TypedExpression | None:
    counted(call, 2)
    if element_of(call.typed(0).type) is None:
        return None
    return TypedExpression(call.name, element_type(call.typed(0)), (call.typed(0), with_integer(call, 1)))


def picked(elements: Elements, places: np.ndarray, inside: np.ndarray) -> pa.Array:
    """The element at a place of each row; null where the place is not inside."""
    if not len(elements.values):
        return pa.nulls(len(places), elements.values.type)
    return taken(elements.values, np.where(inside, elements.starts + places, -1))


def _outside(elements: Elements, places: np.ndarray, inside: np.ndarray, valid: np.ndarray) -> None:
    wrong = elements.valid & valid & ~inside
    if wrong.any():
        row = int(np.argmax(wrong))
        raise pa.ArrowInvalid(f"the array has {elements.lengths[row]} elements; found the index {places[row]}")


@operation("array_item", fails=always, nullable=always_nullable)
@on_columns
def _array_item(_: TypedExpression, values: pa.Array, index: pa.Array) -> pa.Array:
    """By an index from 0."""
    elements, places, valid = Elements.of(values), as_numbers(index), validity(index)
    inside = (places >= 0) & (places < elements.lengths) & valid
    _outside(elements, places, inside, valid)
    return picked(elements, places, inside)


def get(column: Column | str, index: Column | str | int) -> Column:
    """The element at an index from 0; null outside."""
    return recorded("get", column, index)


@operation("get", rule=_at_rule, nullable=always_nullable)
@on_columns
def _get(_: TypedExpression, values: pa.Array, index: pa.Array) -> pa.Array:
    """By an index from 0; null outside."""
    elements, places = Elements.of(values), as_numbers(index)
    return picked(elements, places, (places >= 0) & (places < elements.lengths) & validity(index))


def _element_at(values: pa.Array, index: pa.Array, is_strict: bool) -> pa.Array:
    """By an index from 1, or from the end if negative."""
    elements, places, valid = Elements.of(values), as_numbers(index), validity(index)
    if (elements.valid & valid & (places == 0)).any():
        raise pa.ArrowInvalid("the index is 0; elements are counted from 1, or from -1 at the end")
    inside = (np.abs(places) <= elements.lengths) & valid & (places != 0)
    if is_strict:
        _outside(elements, places, inside, valid)
    return picked(elements, np.where(places > 0, places - 1, places + elements.lengths), inside)


def element_at(column: Column | str, extraction: object) -> Column:
    """The element at a position from 1 (from -1 at the end), or the value of a key; an error for a position outside, null for a missing key."""
    return recorded("element_at", column, constant(extraction))


@operation("element_at", rule=_at_rule, fails=always, nullable=always_nullable)
@on_columns
def _strict_element_at(_: TypedExpression, values: pa.Array, index: pa.Array) -> pa.Array:
    return _element_at(values, index, is_strict=True)


def try_element_at(column: Column | str, extraction: Column | str) -> Column:
    """As `element_at`; null for a position outside."""
    return recorded("try_element_at", column, extraction)


@operation("try_element_at", rule=_at_rule, fails=always, nullable=always_nullable)
@on_columns
def _try_element_at(_: TypedExpression, values: pa.Array, index: pa.Array) -> pa.Array:
    return _element_at(values, index, is_strict=False)


def _slice_rule(call: Invocation) -> TypedExpression:
    counted(call, 3)
    array = array_argument(call, 0)
    return TypedExpression("slice", array.type, (array, with_integer(call, 1), with_integer(call, 2)))


def slice(column: Column | str, start: Column | str | int, length: Column | str | int) -> Column:  # PySpark's name
    """`length` elements from the position `start`, counted from 1, or from -1 at the end."""
    return recorded("slice", column, start, length)


@operation("slice", rule=_slice_rule, fails=always)
@on_columns
def _slice(_: TypedExpression, values: pa.Array, start: pa.Array, length: pa.Array) -> pa.Array:
    elements, first, count = Elements.of(values), as_numbers(start), as_numbers(length)
    valid = elements.valid & validity(start) & validity(length)
    if (valid & (first == 0)).any():
        raise pa.ArrowInvalid("the start of a slice is 0; elements are counted from 1, or from -1 at the end")
    if (valid & (count < 0)).any():
        raise pa.ArrowInvalid(f"the length of a slice is {count[valid & (count < 0)][0]}; expected 0 or more")
    begin = np.where(first > 0, first - 1, first + elements.lengths)
    begin = np.where(valid & (begin >= 0), begin, np.iinfo(np.int32).max)
    places, parents = elements.places, elements.parents
    kept = elements.kept((places >= begin[parents]) & (places < (begin + count)[parents]))
    return Elements(kept.values, kept.lengths, valid).as_arrays()


@function("concat")
def _concat_rule(call: Invocation) -> TypedExpression | None:
    if not any(element_of(value.type) for value in call.values):
        return None
    values = same_arrays(call, *call.values)
    return TypedExpression("concat_arrays", values[0].type, tuple(values))


@operation("concat_arrays")
@on_columns
def _concat(_: TypedExpression, *values: pa.Array) -> pa.Array:
    return _joined([Elements.of(value) for value in values]).as_arrays()


def _joined(parts: list[Elements]) -> Elements:
    """The elements of several arrays in each row, one array after the other; null if one is."""
    valid = np.logical_and.reduce([part.valid for part in parts])
    lengths = sum(part.lengths for part in parts)
    order = np.argsort(np.concatenate([part.parents for part in parts]), kind="stable")
    values = pa.concat_arrays([part.values for part in parts]).take(pa.array(order))
    whole = Elements(values, np.asarray(lengths), valid)
    return (
        whole
        if valid.all()
        else Elements(whole.values.filter(pa.array(valid[whole.parents])), np.where(valid, lengths, 0), valid)
    )


def _flatten_rule(call: Invocation) -> TypedExpression:
    counted(call, 1)
    array = array_argument(call, 0)
    inner = element_type(array)
    if element_of(inner) is None:
        raise RuleError(f"flatten() takes an array of arrays; found {array.type}")
    return TypedExpression("flatten", inner, (array,))


def flatten(column: Column | str) -> Column:
    """The elements of all arrays in an array; null if one of these arrays is null."""
    return recorded("flatten", column)


@operation("flatten", rule=_flatten_rule, nullable=contains_null)
@on_columns
def _flatten(_: TypedExpression, values: pa.Array) -> pa.Array:
    outer = Elements.of(values)
    inner = Elements.of(outer.values)
    valid = outer.valid & ~outer.any(~inner.valid)
    lengths = np.bincount(outer.parents, inner.lengths, len(outer.lengths)).astype(np.int64)
    kept = inner.values.filter(pa.array(np.repeat(valid[outer.parents], inner.lengths)))
    return Elements(kept, np.where(valid, lengths, 0), valid).as_arrays()


def _sort_rule(call: Invocation) -> TypedExpression:
    if len(call.arguments) == 2 and call.name == "array_sort":
        raise NoTranslationError("its comparator has no translation; sort structs that start with what to sort by")
    counted(call, 1, 2)
    array = ordered(call, array_argument(call, 0))
    ascending = literal(True, "boolean") if len(call.arguments) == 1 else call.typed(1)
    if ascending.type != "boolean" or ascending.name != "literal":
        raise RuleError("sort_array() takes true or false as argument 2, as a constant")
    return TypedExpression(call.name, array.type, (array, ascending) if call.name == "sort_array" else (array,))


def sort_array(column: Column | str, asc: bool = True) -> Column:
    """The elements in order, null first; or from the largest to the smallest, null last."""
    return recorded("sort_array", column, constant(asc))


@operation("sort_array", rule=_sort_rule)
@on_columns
def _sort_array(_: TypedExpression, values: pa.Array, ascending: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    is_ascending = bool(truth(ascending).all())
    order = sorted_places(elements.parents, elements.values, is_ascending, nulls_first=is_ascending)
    return elements.with_values(elements.values.take(pa.array(order))).as_arrays()


def array_sort(column: Column | str, comparator: Callable[[Column, Column], Column] | None = None) -> Column:
    """The elements in order, null last; a comparator is refused."""
    return recorded("array_sort", column, *given(comparator and recorded_lambda(comparator, 2)))


@operation("array_sort", rule=_sort_rule)
@on_columns
def _array_sort(_: TypedExpression, values: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    order = sorted_places(elements.parents, elements.values, ascending=True, nulls_first=False)
    return elements.with_values(elements.values.take(pa.array(order))).as_arrays()


def _extreme_rule(call: Invocation) -> TypedExpression:
    counted(call, 1)
    array = ordered(call, array_argument(call, 0))
    return TypedExpression(call.name, element_type(array), (array,))


def _extreme(values: pa.Array, ascending: bool) -> pa.Array:
    """The first of each row's elements as sorted, nulls last."""
    elements = Elements.of(values)
    order = sorted_places(elements.parents, elements.values, ascending, nulls_first=False)
    return picked(
        elements.with_values(elements.values.take(pa.array(order))), np.zeros(len(values), np.int64), elements.lengths > 0
    )


def array_min(column: Column | str) -> Column:
    """The smallest element; nulls are skipped."""
    return recorded("array_min", column)


@operation("array_min", rule=_extreme_rule, nullable=always_nullable)
@on_columns
def _array_min(_: TypedExpression, values: pa.Array) -> pa.Array:
    return _extreme(values, ascending=True)


def array_max(column: Column | str) -> Column:
    """The largest element; nulls are skipped."""
    return recorded("array_max", column)


@operation("array_max", rule=_extreme_rule, nullable=always_nullable)
@on_columns
def _array_max(_: TypedExpression, values: pa.Array) -> pa.Array:
    return _extreme(values, ascending=False)


def _distinct_rule(call: Invocation) -> TypedExpression:
    counted(call, 1)
    array = ordered(call, array_argument(call, 0))
    return TypedExpression("array_distinct", array.type, (array,))


def first_of_each(parents: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Which elements have a key that none before them in their row has."""
    order = np.lexsort((keys, parents))
    repeated = np.zeros(len(order), bool)
    repeated[1:] = (keys[order][1:] == keys[order][:-1]) & (parents[order][1:] == parents[order][:-1])
    first = np.empty(len(order), bool)
    first[order] = ~repeated
    return first


def _distinct(elements: Elements) -> pa.Array:
    elements = elements.with_values(without_negative_zeros(elements.values))
    return elements.kept(first_of_each(elements.parents, groups(elements.values))).as_arrays()


def array_distinct(column: Column | str) -> Column:
    """Each element once, in the order in which they first occur."""
    return recorded("array_distinct", column)


@operation("array_distinct", rule=_distinct_rule)
@on_columns
def _array_distinct(_: TypedExpression, values: pa.Array) -> pa.Array:
    return _distinct(Elements.of(values))


def _sets_rule(call: Invocation) -> TypedExpression:
    counted(call, 2)
    left, right = same_arrays(call, array_argument(call, 0), array_argument(call, 1))
    type = "boolean" if call.name == "arrays_overlap" else left.type
    return TypedExpression(call.name, type, (ordered(call, left), right))


def array_union(left: Column | str, right: Column | str) -> Column:
    """The elements of both arrays, each once."""
    return recorded("array_union", left, right)


@operation("array_union", rule=_sets_rule)
@on_columns
def _array_union(_: TypedExpression, left: pa.Array, right: pa.Array) -> pa.Array:
    return _distinct(_joined([Elements.of(left), Elements.of(right)]))


def _found_in(left: Elements, right: Elements) -> tuple[np.ndarray, np.ndarray]:
    """Groups of the left elements, and which of these the same row of the right has."""
    keys = groups(pa.concat_arrays([left.values, right.values]))
    mine, theirs = np.split(keys, [len(left.values)])
    width = int(keys.max(initial=0)) + 1
    return mine, np.isin(left.parents * width + mine, right.parents * width + theirs)


def _selected(left: pa.Array, right: pa.Array, is_wanted: bool) -> pa.Array:
    """The distinct elements of the left that the right has, or those that it has not."""
    one, other = Elements.of(left), Elements.of(right)
    one = one.with_values(without_negative_zeros(one.values))
    keys, found = _found_in(one, other)
    valid = one.valid & other.valid
    kept = one.kept(first_of_each(one.parents, keys) & (found == is_wanted) & valid[one.parents])
    return Elements(kept.values, kept.lengths, valid).as_arrays()


def array_intersect(left: Column | str, right: Column | str) -> Column:
    """The elements that are in both arrays, each once."""
    return recorded("array_intersect", left, right)


@operation("array_intersect", rule=_sets_rule)
@on_columns
def _array_intersect(_: TypedExpression, left: pa.Array, right: pa.Array) -> pa.Array:
    return _selected(left, right, is_wanted=True)


def array_except(left: Column | str, right: Column | str) -> Column:
    """The elements of the first array that are not in the second, each once."""
    return recorded("array_except", left, right)


@operation("array_except", rule=_sets_rule)
@on_columns
def _array_except(_: TypedExpression, left: pa.Array, right: pa.Array) -> pa.Array:
    return _selected(left, right, is_wanted=False)


def arrays_overlap(left: Column | str, right: Column | str) -> Column:
    """True where an element that is not null is in both arrays; null if there is no such element, and one of them has a null."""
    return recorded("arrays_overlap", left, right)


@operation("arrays_overlap", rule=_sets_rule, nullable=lambda e, n: any(n) or any(map(may_hold_null, e.arguments)))
@on_columns
def _arrays_overlap(_: TypedExpression, left: pa.Array, right: pa.Array) -> pa.Array:
    """Null if no element but null is in both, one of them has null, and none is empty."""
    one, other = Elements.of(left), Elements.of(right)
    found = _found_in(one, other)[1]
    overlap = one.any(found & validity(one.values))
    has_null = one.any(~validity(one.values)) | other.any(~validity(other.values))
    unknown = ~overlap & has_null & (one.lengths > 0) & (other.lengths > 0)
    return booleans(overlap, one.valid & other.valid & ~unknown)


def _remove_rule(call: Invocation) -> TypedExpression:
    counted(call, 2)
    array, value = with_element(call, array_argument(call, 0), call.typed(1))
    return TypedExpression("array_remove", array.type, (ordered(call, array), value))


def array_remove(column: Column | str, element: object) -> Column:
    """The elements that are not equal to the value."""
    return recorded("array_remove", column, constant(element))


@operation("array_remove", rule=_remove_rule)
@on_columns
def _array_remove(_: TypedExpression, values: pa.Array, unwanted: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    valid = elements.valid & validity(unwanted)
    kept = elements.kept(~matches(elements, unwanted) & valid[elements.parents])
    return Elements(kept.values, kept.lengths, valid).as_arrays()


def _repeat_rule(call: Invocation) -> TypedExpression:
    value, _ = counted(call, 2)
    return TypedExpression("array_repeat", array_of(value.type), (value, with_integer(call, 1)))


def _repeat_fails(expression: TypedExpression) -> bool:
    return may_be_large(expression, 1)


def array_repeat(column: Column | str, count: Column | str | int) -> Column:
    """An array with the value `count` times."""
    return recorded("array_repeat", column, count)


@operation(
    "array_repeat",
    rule=_repeat_rule,
    strict=False,
    looks_in_order=(1, 0),
    fails=_repeat_fails,
    nullable=lambda _, nullable: nullable[1],
)
@on_columns
def _array_repeat(_: TypedExpression, values: pa.Array, times: pa.Array) -> pa.Array:
    lengths = np.maximum(as_numbers(times), 0)
    check_elements(lengths, validity(times))
    check_copies(values, lengths)
    return Elements(values.take(pa.array(np.repeat(np.arange(len(values)), lengths))), lengths, validity(times)).as_arrays()


def _compact_rule(call: Invocation) -> TypedExpression:
    counted(call, 1)
    array = array_argument(call, 0)
    return TypedExpression("array_compact", array.type, (array,))


def array_compact(column: Column | str) -> Column:
    """The elements that are not null."""
    return recorded("array_compact", column)


@operation("array_compact", rule=_compact_rule)
@on_columns
def _array_compact(_: TypedExpression, values: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    return elements.kept(validity(elements.values)).as_arrays()


def array_append(column: Column | str, value: object) -> Column:
    """The array with the value added at its end."""
    return recorded("array_append", column, constant(value))


@function("array_append")
def _append_rule(call: Invocation) -> TypedExpression:
    array, value = counted(call, 2)
    return call.of("array_insert", array, literal(-1, "int"), value)


def array_prepend(column: Column | str, value: object) -> Column:
    """The array with the value added at its start."""
    return recorded("array_prepend", column, constant(value))


@function("array_prepend")
def _prepend_rule(call: Invocation) -> TypedExpression:
    array, value = counted(call, 2)
    return call.of("array_insert", array, literal(1, "int"), value)


def _insert_rule(call: Invocation) -> TypedExpression:
    counted(call, 3)
    array, value = with_element(call, array_argument(call, 0), call.typed(2))
    return TypedExpression("array_insert", array.type, (array, with_integer(call, 1), value))


def _insert_fails(expression: TypedExpression) -> bool:
    place = expression.arguments[1]
    return place.value == 0 or may_be_large(expression, 1)


def array_insert(column: Column | str, pos: Column | str | int, value: object) -> Column:
    """The array with the value inserted at a position, from 1, or from -1 at the end; gaps are filled with null."""
    return recorded("array_insert", column, pos, constant(value))


@operation(
    "array_insert",
    rule=_insert_rule,
    strict=False,
    looks_in_order=(0, 1, 2),
    fails=_insert_fails,
    nullable=lambda _, nullable: nullable[0] or nullable[1],
)
@on_columns
def _array_insert(_: TypedExpression, values: pa.Array, index: pa.Array, inserted: pa.Array) -> pa.Array:
    """At a place from 1, or from the end if negative; what lies between the array and the place is null."""
    elements, places = Elements.of(values), as_numbers(index)
    valid = elements.valid & validity(index)
    if (valid & (places == 0)).any():
        raise pa.ArrowInvalid("the index is 0; elements are counted from 1, or from -1 at the end")
    size = elements.lengths
    at = np.where(places > 0, places - 1, np.maximum(places + size + 1, 0))
    before = np.where(places < 0, np.maximum(-places - 1 - size, 0), 0)  # nulls between the value and the array
    lengths = np.where(valid, np.maximum(size, at) + 1 + before, 0)
    check_elements(lengths)
    shape = Elements(pa.nulls(int(lengths.sum())), lengths, valid)
    place, row = shape.places, shape.parents
    source = place - (place > at[row]) - np.where(place > at[row], before[row], 0)
    is_old = (source >= 0) & (source < size[row]) & (place != at[row])
    chosen = np.where(is_old, elements.starts[row] + source, -1)
    chosen = np.where(place == at[row], len(elements.values) + row, chosen)
    return shape.with_values(taken(pa.concat_arrays([elements.values, inserted]), chosen)).as_arrays()


def _join_rule(call: Invocation) -> TypedExpression:
    return TypedExpression("array_join", "string", fitted(call, "array<string>, =string, [=string]"))


def array_join(column: Column | str, delimiter: str, null_replacement: str | None = None) -> Column:
    """The elements as one text; nulls are left out unless there is a text for them."""
    return recorded("array_join", column, constant(delimiter), *given_constant(null_replacement))


@operation("array_join", rule=_join_rule, grows=lambda values, count: check_separated(values[:1], values[1:], count))
@on_columns
def _array_join(_: TypedExpression, values: pa.Array, separator: pa.Array, null: pa.Array | None = None) -> pa.Array:
    """Nulls are left out, or written as `null`."""
    elements = Elements.of(values)
    if null is not None:
        elements = elements.with_values(pc.coalesce(elements.values, null.take(pa.array(elements.parents))))
    kept = elements.kept(validity(elements.values)).as_arrays()
    joined = pc.binary_join(kept, separator)
    valid = validity(separator) & (True if null is None else validity(null))
    return joined if np.all(valid) else pc.if_else(pa.array(valid), joined, pa.scalar(None, pa.string()))


@function("reverse")
def _reverse_rule(call: Invocation) -> TypedExpression | None:
    if len(call.arguments) != 1 or element_of(call.typed(0).type) is None:
        return None
    return TypedExpression("reverse_array", call.typed(0).type, call.values)


@operation("reverse_array")
@on_columns
def _reverse(_: TypedExpression, values: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    ends = elements.starts + elements.lengths - 1
    return elements.with_values(elements.values.take(pa.array(ends[elements.parents] - elements.places))).as_arrays()


def _sequence_rule(call: Invocation) -> TypedExpression | None:
    values = counted(call, 2, 3)
    if not all(value.type in (*INTEGERS, "void") for value in values):
        return None
    values = tuple(as_common_type(call, values))
    return TypedExpression("sequence", array_of(values[0].type), values)


def sequence(start: Column | str, stop: Column | str, step: Column | str | None = None) -> Column:
    """The whole numbers from `start` to `stop`, both included."""
    return recorded("sequence", start, stop, *given(step))


@operation("sequence", rule=_sequence_rule, fails=always, holds_null=False)
@on_columns
def _sequence(expression: TypedExpression, start: pa.Array, stop: pa.Array, step: pa.Array | None = None) -> pa.Array:
    first, last = as_numbers(start), as_numbers(stop)
    by = np.where(first <= last, 1, -1) if step is None else as_numbers(step)
    valid = validity(start) & validity(stop) & (True if step is None else validity(step))
    wrong = valid & np.where(by == 0, first != last, (by > 0) & (first > last) | (by < 0) & (first < last))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise pa.ArrowInvalid(f"a sequence from {first[row]} to {last[row]} has the step {by[row]}, which never gets there")
    return _steps(first, last, by, valid, to_arrow(element_type(expression)))


def _steps(first: np.ndarray, last: np.ndarray, by: np.ndarray, valid: np.ndarray, type: pa.DataType) -> pa.Array:
    distance = last.astype(object) - first.astype(object)  # it may not fit into 64 bits
    lengths = np.array([abs(far) // abs(step) + 1 if step else 1 for far, step in zip(distance, by.tolist())], object)
    check_elements(lengths, np.asarray(valid))
    lengths = np.where(valid, lengths, 0)
    shape = Elements(pa.nulls(0), lengths.astype(np.int64), np.asarray(valid))
    places = np.arange(shape.lengths.sum()) - shape.starts[shape.parents]
    return shape.with_values(pa.array(first[shape.parents] + places * by[shape.parents]).cast(type)).as_arrays()


def _zip_rule(call: Invocation) -> TypedExpression:
    """Names and arrays in turn, as the analyzer gives them."""
    names = [str(value.value) for value in call.values[0::2]]
    arrays = [array_argument(call, place) for place in range(1, len(call.arguments), 2)]
    if not arrays:
        raise NoTranslationError("arrays_zip() takes 1 or more arrays; found none")
    try:
        struct = struct_of(zip(names, map(element_type, arrays)))
    except SchemaError as error:
        raise RuleError(str(error)) from None
    return TypedExpression("arrays_zip", array_of(struct), tuple(arrays))


def arrays_zip(*columns: ColumnArguments) -> Column:
    """An array of structs of the elements at the same position, as long as the longest array."""
    return recorded("arrays_zip", *listed(columns))


@operation("arrays_zip", rule=_zip_rule, looks_at_all=always)
@on_columns
def _arrays_zip(expression: TypedExpression, *values: pa.Array) -> pa.Array:
    """As long as the longest; null where one has no more elements."""
    parts = [Elements.of(value) for value in values]
    valid = np.logical_and.reduce([part.valid for part in parts])
    shape = padded(parts, valid)
    struct = to_arrow(element_type(expression))
    fields = [(field.name, recast(beside(part, shape), field.type)) for field, part in zip(struct, parts)]
    return shape.with_values(structs_of(fields)).as_arrays()


@spark_text("arrays_zip")
def _zip_text(arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return unseen(arguments, texts) if any(isinstance(argument, Alias) for argument in arguments) else None


def padded(parts: Sequence[Elements], valid: np.ndarray) -> Elements:
    """Rows as long as the longest of several arrays, without values yet."""
    lengths = np.where(valid, np.maximum.reduce([part.lengths for part in parts]), 0)
    return Elements(pa.nulls(int(lengths.sum())), lengths, valid)


def beside(part: Elements, shape: Elements) -> pa.Array:
    """The elements of an array at the places of longer rows; null where it has none."""
    inside = shape.places < part.lengths[shape.parents]
    return taken(part.values, np.where(inside, part.starts[shape.parents] + shape.places, -1))
