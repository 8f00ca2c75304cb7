"""Arrays, maps and structs: places in arrays count from 1 where PySpark's do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streamkit.dsl.column import Column
from streamkit.functions.lambdas import recorded_lambda
from streamkit.functions.recording import constant, given, given_constant, recorded

__all__ = [
    "aggregate",
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
    "create_map",
    "element_at",
    "exists",
    "explode",
    "explode_outer",
    "filter",
    "flatten",
    "forall",
    "get",
    "map_concat",
    "map_contains_key",
    "map_entries",
    "map_filter",
    "map_from_arrays",
    "map_from_entries",
    "map_keys",
    "map_values",
    "map_zip_with",
    "named_struct",
    "posexplode",
    "posexplode_outer",
    "reduce",
    "reverse",
    "sequence",
    "size",
    "slice",
    "sort_array",
    "str_to_map",
    "struct",
    "transform",
    "transform_keys",
    "transform_values",
    "try_element_at",
    "zip_with",
]

ColumnArguments = Column | str | Sequence[Column | str]


def _listed(columns: tuple[Any, ...]) -> tuple[Column | str, ...]:
    """The columns, also if they are given as one list."""
    return tuple(columns[0]) if len(columns) == 1 and isinstance(columns[0], (list, tuple, set)) else columns


def array(*columns: ColumnArguments) -> Column:
    """An array of the values."""
    return recorded("array", *_listed(columns))


def struct(*columns: ColumnArguments) -> Column:
    """A struct of the values, with the names of the columns; others are named col1, col2 … by their places."""
    return recorded("struct", *_listed(columns))


def named_struct(*columns: Column | str) -> Column:
    """A struct of names, as constants, and values in turn."""
    return recorded("named_struct", *columns)


def create_map(*columns: ColumnArguments) -> Column:
    """A map of keys and values in turn; a null key, and one that is there twice, fail."""
    return recorded("map", *_listed(columns))


def size(column: Column | str) -> Column:
    """How many elements an array has, or entries a map."""
    return recorded("size", column)


def cardinality(column: Column | str) -> Column:
    """As `size`."""
    return recorded("cardinality", column)


def array_size(column: Column | str) -> Column:
    """How many elements an array has."""
    return recorded("array_size", column)


def array_contains(column: Column | str, value: object) -> Column:
    """True where the array has the value; null if it has not, but has a null."""
    return recorded("array_contains", column, constant(value))


def array_position(column: Column | str, value: object) -> Column:
    """The first place of the value, from 1; 0 if it is not there."""
    return recorded("array_position", column, constant(value))


def element_at(column: Column | str, extraction: object) -> Column:
    """The element at a place from 1 (from -1 at the end), or the value of a key; a place outside fails, a missing key is null."""
    return recorded("element_at", column, constant(extraction))


def try_element_at(column: Column | str, extraction: Column | str) -> Column:
    """As `element_at`, and null outside."""
    return recorded("try_element_at", column, extraction)


def get(column: Column | str, index: Column | str | int) -> Column:
    """The element at an index from 0; null outside."""
    return recorded("get", column, index)


def slice(column: Column | str, start: Column | str | int, length: Column | str | int) -> Column:  # PySpark's name
    """`length` elements from the place `start`, which counts from 1, or from -1 at the end."""
    return recorded("slice", column, start, length)


def flatten(column: Column | str) -> Column:
    """The elements of an array of arrays; null if one of these is."""
    return recorded("flatten", column)


def reverse(column: Column | str) -> Column:
    """The array or text from its end to its start."""
    return recorded("reverse", column)


def sort_array(column: Column | str, asc: bool = True) -> Column:
    """The elements in order, null first; or from the largest to the smallest, null last."""
    return recorded("sort_array", column, constant(asc))


def array_sort(column: Column | str, comparator: Callable[[Column, Column], Column] | None = None) -> Column:
    """The elements in order, null last; a comparator is refused."""
    return recorded("array_sort", column, *given(comparator and recorded_lambda(comparator, 2)))


def array_min(column: Column | str) -> Column:
    """The smallest element, nulls skipped."""
    return recorded("array_min", column)


def array_max(column: Column | str) -> Column:
    """The largest element, nulls skipped."""
    return recorded("array_max", column)


def array_distinct(column: Column | str) -> Column:
    """Each element once, in the order of their first places."""
    return recorded("array_distinct", column)


def array_union(left: Column | str, right: Column | str) -> Column:
    """The elements of both, each once."""
    return recorded("array_union", left, right)


def array_intersect(left: Column | str, right: Column | str) -> Column:
    """The elements that are in both, each once."""
    return recorded("array_intersect", left, right)


def array_except(left: Column | str, right: Column | str) -> Column:
    """The elements of the first that are not in the second, each once."""
    return recorded("array_except", left, right)


def arrays_overlap(left: Column | str, right: Column | str) -> Column:
    """True where an element that is not null is in both; null if there is none, but a null in one of them."""
    return recorded("arrays_overlap", left, right)


def arrays_zip(*columns: ColumnArguments) -> Column:
    """An array of structs of the elements at the same place, as long as the longest."""
    return recorded("arrays_zip", *_listed(columns))


def array_remove(column: Column | str, element: object) -> Column:
    """The elements that are not equal to the value."""
    return recorded("array_remove", column, constant(element))


def array_repeat(column: Column | str, count: Column | str | int) -> Column:
    """An array with the value `count` times."""
    return recorded("array_repeat", column, count)


def array_compact(column: Column | str) -> Column:
    """The elements that are not null."""
    return recorded("array_compact", column)


def array_append(column: Column | str, value: object) -> Column:
    """The array with the value behind it."""
    return recorded("array_append", column, constant(value))


def array_prepend(column: Column | str, value: object) -> Column:
    """The array with the value in front of it."""
    return recorded("array_prepend", column, constant(value))


def array_insert(column: Column | str, pos: Column | str | int, value: object) -> Column:
    """The array with the value at a place from 1, or from -1 at the end; gaps are filled with null."""
    return recorded("array_insert", column, pos, constant(value))


def array_join(column: Column | str, delimiter: str, null_replacement: str | None = None) -> Column:
    """The elements as one text; nulls are left out unless there is a text for them."""
    return recorded("array_join", column, constant(delimiter), *given_constant(null_replacement))


def sequence(start: Column | str, stop: Column | str, step: Column | str | None = None) -> Column:
    """The whole numbers from `start` to `stop`, both included."""
    return recorded("sequence", start, stop, *given(step))


def map_keys(column: Column | str) -> Column:
    """The keys of a map."""
    return recorded("map_keys", column)


def map_values(column: Column | str) -> Column:
    """The values of a map."""
    return recorded("map_values", column)


def map_entries(column: Column | str) -> Column:
    """The entries of a map, as structs of key and value."""
    return recorded("map_entries", column)


def map_from_arrays(keys: Column | str, values: Column | str) -> Column:
    """A map of keys and values that are as many."""
    return recorded("map_from_arrays", keys, values)


def map_from_entries(column: Column | str) -> Column:
    """A map of an array of structs with a key and a value; null if one of them is."""
    return recorded("map_from_entries", column)


def map_concat(*columns: ColumnArguments) -> Column:
    """The entries of all maps; a key that is there twice fails."""
    return recorded("map_concat", *_listed(columns))


def map_contains_key(column: Column | str, value: object) -> Column:
    """True where the map has the key."""
    return recorded("map_contains_key", column, constant(value))


def str_to_map(
    text: Column | str, pair_delimiter: Column | str | None = None, key_value_delimiter: Column | str | None = None
) -> Column:
    """A map of the parts of a text between separators, which are , and : if nothing else is given."""
    return recorded("str_to_map", text, *given(pair_delimiter), *given(key_value_delimiter))


def transform(column: Column | str, function: Callable[..., Column]) -> Column:
    """What the function gives for each element, and for its index from 0 if it takes two columns."""
    return recorded("transform", column, recorded_lambda(function, 1, 2))


def filter(column: Column | str, function: Callable[..., Column]) -> Column:  # PySpark's name
    """The elements for which the function is true; it may take the index from 0 as a second column."""
    return recorded("filter", column, recorded_lambda(function, 1, 2))


def exists(column: Column | str, function: Callable[[Column], Column]) -> Column:
    """True where the function is for one element at least."""
    return recorded("exists", column, recorded_lambda(function, 1))


def forall(column: Column | str, function: Callable[[Column], Column]) -> Column:
    """True where the function is for all elements."""
    return recorded("forall", column, recorded_lambda(function, 1))


def aggregate(
    column: Column | str,
    initial: Column | str,
    merge: Callable[[Column, Column], Column],
    finish: Callable[[Column], Column] | None = None,
) -> Column:
    """The result of `merge` of a value and an element after the other, from `initial` on; at last `finish` of it."""
    end = () if finish is None else (recorded_lambda(finish, 1),)
    return recorded("aggregate", column, initial, recorded_lambda(merge, 2), *end)


reduce = aggregate


def zip_with(left: Column | str, right: Column | str, function: Callable[[Column, Column], Column]) -> Column:
    """What the function gives for the elements at the same place of two arrays; the shorter one is filled with null."""
    return recorded("zip_with", left, right, recorded_lambda(function, 2))


def map_filter(column: Column | str, function: Callable[[Column, Column], Column]) -> Column:
    """The entries for whose key and value the function is true."""
    return recorded("map_filter", column, recorded_lambda(function, 2))


def transform_keys(column: Column | str, function: Callable[[Column, Column], Column]) -> Column:
    """The map with other keys, made of key and value."""
    return recorded("transform_keys", column, recorded_lambda(function, 2))


def transform_values(column: Column | str, function: Callable[[Column, Column], Column]) -> Column:
    """The map with other values, made of key and value."""
    return recorded("transform_values", column, recorded_lambda(function, 2))


def map_zip_with(left: Column | str, right: Column | str, function: Callable[[Column, Column, Column], Column]) -> Column:
    """A map of the keys of both, with what the function gives for a key and its values, of which one may be missing and so null."""
    return recorded("map_zip_with", left, right, recorded_lambda(function, 3))


def explode(column: Column | str) -> Column:
    """A row for each element of an array or entry of a map, in `Stream.flat_map`."""
    return recorded("explode", column)


def explode_outer(column: Column | str) -> Column:
    """As `explode`, and a row of null where there is no element."""
    return recorded("explode_outer", column)


def posexplode(column: Column | str) -> Column:
    """As `explode`, with the index from 0 in a column `pos`."""
    return recorded("posexplode", column)


def posexplode_outer(column: Column | str) -> Column:
    """As `posexplode`, and a row of nulls where there is no element."""
    return recorded("posexplode_outer", column)
