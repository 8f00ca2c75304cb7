"""
Avro's binary values as columns, read side by side: a field of all rows before the next field of any.

A reader is made of the schema once, a node for each type in it. What a row costs is a few steps of numpy a field, whatever the
field is; arrays and maps cost one pass for each element of the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from streamkit.arrays import Integers, Mask
from streamkit.data_type import to_arrow
from streamkit.formats.avro_schema import (
    UNITS,
    branches_of,
    columns_of_avro,
    decimal_type,
    kind_of,
    parsed_schema,
    resolved,
    time_type,
    type_of,
    union_common,
)
from streamkit.formats.cursor import ALL, Cursor, RowSelection
from streamkit.recast import recast

ReadNode: TypeAlias = Callable[
    [Cursor, RowSelection, bool], Any
]  # reads the rows' values; gives them as an array if they are wanted


def read_columns(text: str, values: pa.Array, wanted: Collection[str], skipped: int = 0) -> tuple[pa.RecordBatch, Mask]:
    """
    The wanted columns of binary values, none of which is null, and which values are not of the schema.

    `skipped` bytes before each value belong to its wire format. What the columns hold of a value that is not of the schema means nothing.
    """
    cursor = Cursor(values, skipped)
    columns = columns_of_avro(text)
    arrays = [node(cursor, ALL, name in wanted) for name, node in _nodes(text)]
    names = [name for name in columns.names if name in wanted]
    found = [array for name, array in zip(columns.names, arrays, strict=True) if name in wanted]
    bad = cursor.bad | (cursor.place != cursor.end)
    return pa.RecordBatch.from_arrays(found, schema=columns.select(names).arrow), bad


def values_of(schema: Any, named: Mapping[str, Any], values: pa.Array) -> pa.Array:
    """Decode binary values of one type, without nulls; ValueError if a value is not of that type."""
    cursor = Cursor(values)
    found = _node(schema, named)(cursor, ALL, True)
    if (cursor.bad | (cursor.place != cursor.end)).any():
        raise ValueError(f"found a value that is no {kind_of(resolved(schema, named))} of the schema")
    return found


@lru_cache(maxsize=256)
def _nodes(text: str) -> tuple[tuple[str, ReadNode], ...]:
    """The readers of a schema's columns."""
    parsed, named = parsed_schema(text)
    schema = resolved(parsed, named)
    if kind_of(schema) in ("record", "error"):
        return tuple((field["name"], _node(field["type"], named)) for field in schema["fields"])
    return tuple((name, _node(parsed, named)) for name in columns_of_avro(text).names)


def _node(schema: Any, named: Mapping[str, Any]) -> ReadNode:
    schema = resolved(schema, named)
    kind = kind_of(schema)
    if type := decimal_type(schema):
        return partial(_decimals, to_arrow(type), schema.get("size"))
    if type := time_type(schema):
        if type == "date":
            return _dates
        return partial(_times, UNITS[schema["logicalType"].rpartition("-")[2]], to_arrow(type))
    if kind in _ATOMIC:
        return _ATOMIC[kind]
    if kind == "union":
        return _union_node(schema, named)
    if kind == "array":
        return partial(_arrays, _node(schema["items"], named), to_arrow(type_of(schema, named)))
    if kind == "map":
        return partial(_maps, _node(schema["values"], named), to_arrow(type_of(schema, named)))
    if kind == "enum":
        return partial(_enums, pa.array(schema["symbols"], pa.string()))
    if kind == "fixed":
        return partial(_fixed, schema["size"])
    nodes = [(field["name"], _node(field["type"], named)) for field in schema["fields"]]
    return partial(_records, nodes, to_arrow(type_of(schema, named)))


def _nulls(cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    return pa.nulls(cursor.count(rows)) if wanted else None


def _booleans(cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    found = cursor.bytes(rows)
    cursor.mark(rows, found > 1)
    return pa.array(found == 1) if wanted else None


def _ints(cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    found = cursor.longs(rows)
    small = found.astype(np.int32)
    cursor.mark(rows, small != found)
    return pa.array(small) if wanted else None


def _dates(cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    found = _ints(cursor, rows, wanted)
    return found.view(pa.date32()) if wanted else None


def _longs(cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    found = cursor.longs(rows)
    return pa.array(found) if wanted else None


def _times(unit: int, kind: pa.DataType, cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    found = cursor.longs(rows)
    if unit > 1:
        cursor.mark(rows, np.abs(found // 2) > np.iinfo(np.int64).max // (2 * unit))
    micros = found * unit if unit > 0 else found // -unit
    return pa.array(micros).view(kind) if wanted else None


def _floats(cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    found = cursor.floats(rows)
    return pa.array(found) if wanted else None


def _doubles(cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    found = cursor.doubles(rows)
    return pa.array(found) if wanted else None


def _binary(cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    starts, lengths = cursor.spans(rows)
    return cursor.binary(starts, lengths) if wanted else None


def _strings(cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    starts, lengths = cursor.spans(rows)
    return cursor.strings(rows, starts, lengths) if wanted else None


def _fixed(size: int, cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    starts, lengths = _fixed_spans(size, cursor, rows)
    return cursor.binary(starts, lengths) if wanted else None


def _fixed_spans(size: int, cursor: Cursor, rows: RowSelection) -> tuple[Integers, Integers]:
    starts = cursor.fixed(rows, size)
    return starts, np.minimum(size, cursor.place[rows] - starts)


def _decimals(kind: pa.DataType, size: int | None, cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    starts, lengths = cursor.spans(rows) if size is None else _fixed_spans(size, cursor, rows)
    return cursor.decimals(rows, starts, lengths, kind) if wanted else None


def _enums(symbols: pa.Array, cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    return symbols.take(pa.array(_choice(cursor, rows, len(symbols)))) if wanted else _choice(cursor, rows, len(symbols))


def _choice(cursor: Cursor, rows: RowSelection, count: int) -> Integers:
    """A number below `count`; 0 where what stands there is not."""
    found = cursor.longs(rows)
    wrong = (found < 0) | (found >= count)
    cursor.mark(rows, wrong)
    return np.where(wrong, 0, found)


def _records(nodes: list[tuple[str, ReadNode]], kind: pa.DataType, cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    arrays = [node(cursor, rows, wanted) for _, node in nodes]
    return pa.StructArray.from_arrays(arrays, fields=list(kind)) if wanted else None


def _union_node(union: list[Any], named: Mapping[str, Any]) -> ReadNode:
    nodes = [_node(branch, named) for branch in union]
    present = branches_of(union)
    types = [type_of(union[number], named) for number in present]
    common = union_common(types) if types else "void"
    if common is not None:
        return partial(_one_type, nodes, present, to_arrow(common))
    return partial(_members, nodes, present, to_arrow(type_of(union, named)))


def _one_type(
    nodes: list[ReadNode], present: list[int], kind: pa.DataType, cursor: Cursor, rows: RowSelection, wanted: bool
) -> Any:
    """A union whose branches become one type; of a bad choice the row is null."""
    choice = _choice(cursor, rows, len(nodes))
    if len(present) == 1 and (choice == present[0]).all():
        return nodes[present[0]](cursor, rows, wanted)
    numbers = cursor.numbers(rows)
    arrays, owners = [], []
    for number in present:
        own = np.flatnonzero(choice == number)
        found = nodes[number](cursor, numbers[own], wanted)
        if wanted:
            arrays.append(recast(found, kind))
            owners.append(own)
    if not wanted:
        return None
    if not arrays:
        return pa.nulls(len(choice), kind)
    return pa.concat_arrays(arrays).take(_back(np.concatenate(owners), len(choice)))


def _members(
    nodes: list[ReadNode], present: list[int], kind: pa.DataType, cursor: Cursor, rows: RowSelection, wanted: bool
) -> Any:
    """A union as a struct, of whose members the one that was chosen is there."""
    choice = _choice(cursor, rows, len(nodes))
    numbers = cursor.numbers(rows)
    arrays = []
    for number in present:
        own = np.flatnonzero(choice == number)
        found = nodes[number](cursor, numbers[own], wanted)
        if wanted:
            arrays.append(found.take(_back(own, len(choice))))
    if not wanted:
        return None
    is_null = pa.array(~np.isin(choice, present))
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=is_null)


def _back(owners: Integers, count: int) -> pa.Array:
    """For each of `count` rows the place of its value among those of the owners; null where it has none."""
    places = np.full(count, -1, np.int64)
    places[owners] = np.arange(len(owners))
    return pa.array(places, mask=places < 0)


def _arrays(item: ReadNode, kind: pa.DataType, cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    offsets, (values,) = _items([item], cursor, rows, wanted, [kind.value_type])
    return pa.ListArray.from_arrays(offsets, values, type=kind) if wanted else None


def _maps(item: ReadNode, kind: pa.DataType, cursor: Cursor, rows: RowSelection, wanted: bool) -> Any:
    offsets, (keys, values) = _items([_strings, item], cursor, rows, wanted, [kind.key_type, kind.item_type])
    return pa.MapArray.from_arrays(offsets, keys, values, type=kind) if wanted else None


def _items(
    nodes: list[ReadNode], cursor: Cursor, rows: RowSelection, wanted: bool, kinds: list[pa.DataType]
) -> tuple[Any, list[Any]]:
    """The items of blocks: where those of each row begin, and the items in the order of the rows."""
    active = cursor.numbers(rows)
    left = _block(cursor, active)
    owners: list[Integers] = []
    found: list[list[pa.Array]] = [[] for _ in nodes]
    count = cursor.count(rows)
    places = np.zeros(cursor.size, np.int64)
    places[active] = np.arange(count)
    active, left = active[left > 0], left[left > 0]
    while len(active):
        for node, arrays in zip(nodes, found, strict=True):
            arrays.append(node(cursor, active, wanted))
        owners.append(places[active])
        left = left - 1
        ended = left == 0
        if ended.any():
            left[ended] = _block(cursor, active[ended])
            active, left = active[left > 0], left[left > 0]
    if not wanted:
        return None, [None] * len(nodes)
    if not owners:
        return pa.array(np.zeros(count + 1, np.int32)), [pa.array([], kind) for kind in kinds]
    owner = np.concatenate(owners)
    order = pa.array(np.argsort(owner, kind="stable"))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))]).astype(np.int32)
    return pa.array(offsets), [pa.concat_arrays(arrays).take(order) for arrays in found]


def _block(cursor: Cursor, rows: Integers) -> Integers:
    """How many items the next block has; a negative number stands before the block's size in bytes."""
    counts = cursor.longs(rows)
    negative = counts < 0
    if negative.any():
        cursor.longs(rows[negative])
        counts = np.abs(counts)
    wrong = (counts > cursor.end[rows] - cursor.place[rows]) | (counts < 0) | cursor.bad[rows]
    cursor.mark(rows, wrong)
    return np.where(wrong, 0, counts)


_ATOMIC: dict[str, ReadNode] = {
    "null": _nulls,
    "boolean": _booleans,
    "int": _ints,
    "long": _longs,
    "float": _floats,
    "double": _doubles,
    "bytes": _binary,
    "string": _strings,
}
