"""Maps: entries in the order in which they were put in, each key once and never null."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import array_of, element_of, entry_of, fields_of, has_map, map_of, struct_of, to_arrow
from streamkit.expressions.core.coercion import cast_to, common_type, wider_common_without_strings
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.elements import Elements, booleans, interleaved, on_columns, structs_of, validity
from streamkit.expressions.core.groups import one_of_equals
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import (
    Invocation,
    RuleError,
    always,
    always_nullable,
    counted,
    fitted,
    function,
    never_null,
    operation,
)
from streamkit.expressions.core.ordering import groups
from streamkit.expressions.core.recording import ColumnArguments, constant, given, listed, recorded
from streamkit.expressions.logic.conditions import as_common_type
from streamkit.expressions.nested.arrays import array_argument, contains_null, first_of_each, matches, ordered, picked
from streamkit.plan.expression import TypedExpression
from streamkit.recast import recast

__all__ = [
    "create_map",
    "map_concat",
    "map_contains_key",
    "map_entries",
    "map_from_arrays",
    "map_from_entries",
    "map_keys",
    "map_values",
    "str_to_map",
]

NULL_KEY = "the key of a map is null"


def map_argument(call: Invocation, place: int) -> TypedExpression:
    """An argument that is a map; a bare null is one of nulls. RuleError if it is something else."""
    value = call.typed(place)
    if value.type == "void":
        return cast_to(value, "map<void,void>")
    if entry_of(value.type) is None:
        raise RuleError(f"{call.name}() takes a map as argument {place + 1}; found {value.type}")
    return value


def entry_types(value: TypedExpression) -> tuple[str, str]:
    """The types of a map's keys and values."""
    entry = entry_of(value.type)
    assert entry is not None
    return entry


def checked_maps(elements: Elements) -> pa.Array:
    """Maps of entries; ArrowInvalid if a key is null, or twice in a map."""
    keys = elements.keys
    if keys.null_count:
        raise pa.ArrowInvalid(NULL_KEY)
    repeated = ~first_of_each(elements.parents, groups(keys))
    if repeated.any():
        raise pa.ArrowInvalid(f"the key {keys[int(np.argmax(repeated))]} is in the map twice")
    return elements.as_maps()


def _with_one_zero(elements: Elements) -> Elements:
    """Entries as Spark puts them in one by one: keys that are floats have one zero and one NaN; those that it takes as an array stay."""
    return elements.with_values(structs_of([("key", one_of_equals(elements.keys)), ("value", elements.items)]))


def _key_type(call: Invocation, type: str) -> str:
    if has_map(type):
        raise RuleError(f"{call.name}() would have keys of {type}; the keys of a map cannot be or hold maps")
    return type


def _map_rule(call: Invocation) -> TypedExpression:
    values = call.values
    if len(values) % 2:
        raise RuleError(f"map() takes keys and values in turn; found {len(values)} arguments")
    keys, items = (as_common_type(call, values[start::2]) for start in (0, 1))
    if not values:
        return TypedExpression("map", map_of("void", "void"))
    pairs = [part for pair in zip(keys, items) for part in pair]
    return TypedExpression("map", map_of(_key_type(call, keys[0].type), items[0].type), tuple(pairs))


def create_map(*columns: ColumnArguments) -> Column:
    """A map of keys and values in turn; an error for a null key, or for a key that occurs twice."""
    return recorded("map", *listed(columns))


@operation("map", rule=_map_rule, strict=False, fails=always, nullable=never_null)
@on_columns
def _map(expression: TypedExpression, *values: pa.Array) -> pa.Array:
    key, item = entry_of(expression.type) or ("void", "void")
    if not values:
        return pa.array([[]], to_arrow(expression.type))
    keys = interleaved([one_of_equals(recast(value, to_arrow(key))) for value in values[0::2]])
    items = interleaved([recast(value, to_arrow(item)) for value in values[1::2]])
    return checked_maps(keys.with_values(structs_of([("key", keys.values), ("value", items.values)])))


def _from_arrays_rule(call: Invocation) -> TypedExpression:
    counted(call, 2)
    keys, items = array_argument(call, 0), array_argument(call, 1)
    key = _key_type(call, element_of(keys.type) or "")
    return TypedExpression("map_from_arrays", map_of(key, element_of(items.type) or ""), (keys, items))


def map_from_arrays(keys: Column | str, values: Column | str) -> Column:
    """A map of an array of keys and an array of values of the same length."""
    return recorded("map_from_arrays", keys, values)


@operation("map_from_arrays", rule=_from_arrays_rule, fails=always)
@on_columns
def _map_from_arrays(_: TypedExpression, keys: pa.Array, items: pa.Array) -> pa.Array:
    valid = validity(keys) & validity(items)
    mask = pa.array(valid)
    left, right = Elements.of(keys.filter(mask)), Elements.of(items.filter(mask))
    if (left.lengths != right.lengths).any():
        raise pa.ArrowInvalid("the arrays of keys and of values differ in length")
    entries = structs_of([("key", left.values), ("value", right.values)])
    maps = checked_maps(left.with_values(entries))
    return maps if valid.all() else maps.take(pa.array(np.where(valid, np.cumsum(valid) - 1, 0), mask=~valid))


def _from_entries_rule(call: Invocation) -> TypedExpression:
    counted(call, 1)
    array = array_argument(call, 0)
    fields = fields_of(element_of(array.type) or "")
    if fields is None or len(fields) != 2:
        raise RuleError(f"map_from_entries() takes an array of structs with a key and a value; found {array.type}")
    return TypedExpression("map_from_entries", map_of(_key_type(call, fields[0][1]), fields[1][1]), (array,))


def map_from_entries(column: Column | str) -> Column:
    """A map of an array of structs with a key and a value; null if one of the structs is null."""
    return recorded("map_from_entries", column)


@operation("map_from_entries", rule=_from_entries_rule, fails=always, nullable=contains_null)
@on_columns
def _map_from_entries(_: TypedExpression, values: pa.Array) -> pa.Array:
    """Null if an entry is."""
    elements = Elements.of(values)
    valid = elements.valid & ~elements.any(~validity(elements.values))
    kept = elements.kept(valid[elements.parents])
    return checked_maps(_with_one_zero(Elements(kept.values, kept.lengths, valid)))


def _entries_rule(call: Invocation) -> TypedExpression:
    counted(call, 1)
    value = map_argument(call, 0)
    key, item = entry_types(value)
    type = {"map_keys": key, "map_values": item}.get(call.name.lower()) or struct_of([("key", key), ("value", item)])
    return TypedExpression(call.name.lower(), array_of(type), (value,))


def map_keys(column: Column | str) -> Column:
    """The keys of a map."""
    return recorded("map_keys", column)


@operation("map_keys", rule=_entries_rule, holds_null=False)
@on_columns
def _map_keys(_: TypedExpression, values: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    return elements.with_values(elements.keys).as_arrays()


def map_values(column: Column | str) -> Column:
    """The values of a map."""
    return recorded("map_values", column)


@operation("map_values", rule=_entries_rule)
@on_columns
def _map_values(_: TypedExpression, values: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    return elements.with_values(elements.items).as_arrays()


def map_entries(column: Column | str) -> Column:
    """The entries of a map, as structs of key and value."""
    return recorded("map_entries", column)


@operation("map_entries", rule=_entries_rule)
@on_columns
def _map_entries(_: TypedExpression, values: pa.Array) -> pa.Array:
    return Elements.of(values).as_arrays()


def _with_key(call: Invocation) -> tuple[TypedExpression, TypedExpression]:
    """A map and a key as the type that both have in common."""
    value, key = map_argument(call, 0), call.typed(1)
    mine, item = entry_types(value)
    common = common_type((mine, key.type), wider_common_without_strings)
    if common is None:
        raise RuleError(f"{call.name}() has a {value.type} and a key of {key.type}, which do not go together; cast one of them")
    return ordered(call, call.cast(value, map_of(common, item))) if has_map(common) else call.cast(
        value, map_of(common, item)
    ), call.cast(key, common)


def _item_rule(call: Invocation) -> TypedExpression | None:
    counted(call, 2)
    if entry_of(call.typed(0).type) is None:
        return None
    value, key = _with_key(call)
    return TypedExpression("map_item", entry_types(value)[1], (value, key))


function("element_at", "try_element_at")(_item_rule)


@operation("map_item", rule=_item_rule, nullable=always_nullable)
@on_columns
def _map_item(_: TypedExpression, values: pa.Array, key: pa.Array) -> pa.Array:
    """The value of a key; null if the map has no such key."""
    elements = Elements.of(values)
    first = elements.first(matches(elements.with_values(elements.keys), key))
    return picked(elements.with_values(elements.items), first - elements.starts, first >= 0)


def _contains_rule(call: Invocation) -> TypedExpression:
    counted(call, 2)
    if call.typed(1).type == "void":
        raise RuleError("map_contains_key() takes a key to look for; found a bare null")
    return TypedExpression("map_contains_key", "boolean", _with_key(call))


def map_contains_key(column: Column | str, value: object) -> Column:
    """True where the map has the key."""
    return recorded("map_contains_key", column, constant(value))


@operation("map_contains_key", rule=_contains_rule)
@on_columns
def _map_contains_key(_: TypedExpression, values: pa.Array, key: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    found = elements.any(matches(elements.with_values(elements.keys), key))
    return booleans(found, elements.valid & validity(key))


def _concat_rule(call: Invocation) -> TypedExpression:
    if not call.arguments:
        return TypedExpression("map", map_of("string", "string"))
    for place in range(len(call.arguments)):
        map_argument(call, place)
    values = as_common_type(call, call.values, wider_common_without_strings)
    if values[0].type == "void":
        return values[0]
    return TypedExpression("map_concat", values[0].type, tuple(values))


def map_concat(*columns: ColumnArguments) -> Column:
    """The entries of all maps; an error if a key occurs twice."""
    return recorded("map_concat", *listed(columns))


@operation("map_concat", rule=_concat_rule, fails=always)
@on_columns
def _map_concat(_: TypedExpression, *values: pa.Array) -> pa.Array:
    valid = np.logical_and.reduce([validity(value) for value in values])
    parts = [Elements.of(value) for value in values]
    parents = np.concatenate([part.parents for part in parts])
    order = np.argsort(parents, kind="stable")
    order = order[valid[parents[order]]]
    entries = pa.concat_arrays([part.values for part in parts]).take(pa.array(order))
    lengths = np.where(valid, np.sum([part.lengths for part in parts], axis=0), 0)
    return checked_maps(_with_one_zero(Elements(entries, lengths, valid)))


def _text_rule(call: Invocation) -> TypedExpression:
    text, *separators = fitted(call, "=string, [=string], [=string]")
    given = [*separators, *(literal(default, "string") for default in (",", ":")[len(separators) :])]
    for place, separator in enumerate(given):
        if separator.name != "literal":
            raise RuleError(f"str_to_map() takes a constant as argument {place + 2}")
    return TypedExpression("str_to_map", map_of("string", "string"), (text, *given))


def _refuse_patterns(expression: TypedExpression) -> str | None:
    found = [str(one.value) for one in expression.arguments[1:] if one.value is not None and _plain_text(str(one.value)) is None]
    return f"the separator {found[0]!r} is a regular expression or empty; expected plain text" if found else None


def _plain_text(pattern: str) -> str | None:
    """The text that a regular expression means if it is plain text, some of it after a backslash; None if it is more than that."""
    plain = re.sub(r"\\([^\w\s])", "", pattern)
    if not pattern or re.search(r"[\\^$.|?*+()\[\]{}]", plain):
        return None
    return re.sub(r"\\([^\w\s])", r"\1", pattern)


def str_to_map(
    text: Column | str, pair_delimiter: Column | str | None = None, key_value_delimiter: Column | str | None = None
) -> Column:
    """A map from a text of keys and values; pairs are separated by a comma and key from value by a colon, unless told otherwise."""
    return recorded("str_to_map", text, *given(pair_delimiter), *given(key_value_delimiter))


@operation("str_to_map", rule=_text_rule, fails=always, refuse=_refuse_patterns)
@on_columns
def _str_to_map(_: TypedExpression, texts: pa.Array, pairs: pa.Array, halves: pa.Array) -> pa.Array:
    if not len(texts):
        return pa.array([], pa.map_(pa.string(), pa.string()))
    between = [_plain_text(separator[0].as_py()) for separator in (pairs, halves)]
    elements = Elements.of(pc.split_pattern(texts, between[0]))
    halved = Elements.of(pc.split_pattern(elements.values, between[1], max_splits=1))
    keys = picked(halved, np.zeros(len(halved.lengths), np.int64), halved.lengths > 0)
    items = picked(halved, np.ones(len(halved.lengths), np.int64), halved.lengths > 1)
    return checked_maps(elements.with_values(structs_of([("key", keys), ("value", items)])))
