"""Functions of maps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from streamkit.data_type import array_of, entry_of, struct_of
from streamkit.expressions.core.elements import Elements, on_columns, structs_of, taken, truth, validity
from streamkit.expressions.core.failing_rows import check_rows
from streamkit.expressions.core.operation import Invocation, always
from streamkit.expressions.core.ordering import sorted_places
from streamkit.expressions.ksql.function import formula, kernel
from streamkit.expressions.ksql.java_maps import buckets_of, in_buckets, latest_entries
from streamkit.plan.expression import TypedExpression


@formula("map_keys", "map<string,V> -> array<string>")
def _map_keys(call: Invocation) -> TypedExpression:
    """The keys of a map, in the order of their hashes in Java."""
    return call.of("map_keys", *call.values)


@formula("map_values", "map<string,V> -> array<V>")
def _map_values(call: Invocation) -> TypedExpression:
    """The values of a map, in the order of the hashes of their keys in Java."""
    return call.of("map_values", *call.values)


@kernel("map_union", "map<string,V>, map<string,V> -> map<string,V>", strict=False, fails=always)
@on_columns
def _map_union(_: TypedExpression, left: pa.Array, right: pa.Array) -> pa.Array:
    """The entries of both maps; of a key in both the value of the second. Of a null map there are none."""
    parts = Elements.of(left), Elements.of(right)
    parents = np.concatenate([part.parents for part in parts])
    values = pa.concat_arrays([part.values for part in parts]).take(pa.array(np.argsort(parents, kind="stable")))
    found = latest_entries(Elements(values, parts[0].lengths + parts[1].lengths, parts[0].valid | parts[1].valid))
    # Java makes room for the first map that has entries, for one more than fits, and then for the other one.
    first = np.where(parts[0].lengths > 0, parts[0].lengths, parts[1].lengths)
    buckets = buckets_of(np.maximum(found.lengths, parts[1].lengths), first * 4 // 3 + 1)
    return in_buckets(found, buckets).as_maps()


@kernel("as_map", "array<string>, array<V> -> map<string,V>", fails=always)
@on_columns
def _as_map(_: TypedExpression, keys: pa.Array, values: pa.Array) -> pa.Array:
    """A map of keys and of the values at their places; a key without a value has null."""
    names, items = Elements.of(keys), Elements.of(values)
    valid = names.valid & items.valid
    kept = names.kept(valid[names.parents])
    places = np.where(kept.places < items.lengths[kept.parents], items.starts[kept.parents] + kept.places, -1)
    found = taken(items.values, places) if len(items.values) else pa.nulls(len(places), items.values.type)
    entries = structs_of([("key", kept.values), ("value", found)])
    made = latest_entries(Elements(entries, kept.lengths, valid))
    return in_buckets(made, buckets_of(made.lengths, kept.lengths)).as_maps()


def _entries_type(arguments: tuple[TypedExpression, ...]) -> str:
    key, item = entry_of(arguments[0].type) or ("void", "void")
    return array_of(struct_of([("K", key), ("V", item)]))


@kernel(
    "entries",
    *(f"map<string,{type}>, boolean -> array<string>" for type in ("int", "bigint", "double", "boolean", "string")),
    gives=_entries_type,  # type: ignore[arg-type]
    fails=always,
    strict=False,
)
@on_columns
def _entries(_: TypedExpression, maps: pa.Array, is_sorted: pa.Array) -> pa.Array:
    """The entries of a map as structs of K and V, in the order of the keys if the second argument is true, else of their hashes in Java."""
    check_rows(~validity(is_sorted), "whether the entries are in order is NULL")
    elements = Elements.of(maps)
    order = np.arange(len(elements.values))
    if (wanted := truth(is_sorted)).any():
        ordered = sorted_places(elements.parents, elements.keys, ascending=True, nulls_first=True)
        order = np.where(wanted[elements.parents], ordered, order)
    places = pa.array(order)
    return elements.with_values(structs_of([("K", elements.keys.take(places)), ("V", elements.items.take(places))])).as_arrays()
