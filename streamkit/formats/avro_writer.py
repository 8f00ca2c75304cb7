"""
Columns as Avro's binary values, written side by side: a field of all rows before the next field of any.

An encoder is made of a schema and a type of Arrow once, a node for each type in it. It writes what it surely writes as fastavro does.
Of all else, such as numbers out of range and unions of several types, it says that it is unsure: fastavro writes or refuses it.
A struct of the members of such a union says which of them a value is, as it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.arrays import Mask
from streamkit.formats.avro_defaults import written_default
from streamkit.formats.avro_schema import UNITS, branches_of, chosen_branches, kind_of, parsed_schema, resolved
from streamkit.formats.pieces import constant, grouped, integers, joined, of_width, ragged, replaced, spread, varints, with_length
from streamkit.repeated_keys import repeated_keys

WrittenValues: TypeAlias = "tuple[pa.Array, Mask]"  # the bytes of each value, and which of them mean nothing
WriteNode: TypeAlias = Callable[[pa.Array], WrittenValues]  # writes values; those of most nodes are never null
_EXACT = 1 << 53  # whole numbers up to here are doubles
_RANGES = {"int": (-(1 << 31), (1 << 31) - 1), "long": (-(1 << 63), (1 << 63) - 1)}


def written_rows(text: str, rows: pa.RecordBatch, write_one: Callable[[int], bytes]) -> pa.Array:
    """The rows as binary values under a schema; `write_one` gets the numbers, in ascending order, of those that need a closer look."""
    encoder = _encoder(text, tuple((field.name, field.type) for field in rows.schema))
    found, unsure = encoder(rows.to_struct_array() if rows.num_columns else rows)
    numbers = np.flatnonzero(unsure)
    return replaced(found, numbers, [write_one(number) for number in numbers.tolist()]) if len(numbers) else found


@lru_cache(maxsize=256)
def _encoder(text: str, columns: tuple[tuple[str, pa.DataType], ...]) -> WriteNode:
    """What writes rows of these columns."""
    parsed, named = parsed_schema(text)
    if not columns:
        return _unsure
    if kind_of(resolved(parsed, named)) in ("record", "error"):
        return _record_node(resolved(parsed, named), named, columns)
    inner = _node(parsed, named, columns[0][1])
    return lambda rows: inner(rows.field(0))


def _node(schema: Any, named: Mapping[str, Any], type: pa.DataType) -> WriteNode:
    """What writes values of a type, which may be null."""
    schema = resolved(schema, named)
    if kind_of(schema) != "union":
        return partial(_present, _value_node(schema, named, type), b"", True)
    branches = branches_of(schema)
    nulls = [number for number in range(len(schema)) if number not in branches]
    if len(nulls) > 1:
        return _unsure
    inner = _branch_node(schema, branches[0], named, type) if len(branches) == 1 else _members_node(schema, named, type)
    return partial(_present, inner, _varint(nulls[0]) if nulls else b"", not nulls)


def _branch_node(union: Sequence[Any], number: int, named: Mapping[str, Any], type: pa.DataType) -> WriteNode:
    """What writes values of a type as one branch of a union."""
    return partial(_behind, _varint(number), _value_node(resolved(union[number], named), named, type))


def _members_node(union: Sequence[Any], named: Mapping[str, Any], type: pa.DataType) -> WriteNode:
    """What writes structs of members: the member that is not null says the branch. Values of other types may be of any branch."""
    fields = list(type) if pa.types.is_struct(type) else []
    branches = chosen_branches(union, [field.name for field in fields])
    if not branches:
        return _unsure
    return partial(_members, [_branch_node(union, branches[field.name], named, field.type) for field in fields])


def _value_node(schema: Any, named: Mapping[str, Any], type: pa.DataType) -> WriteNode:
    """What writes values of a type, none of which is null, under a schema that is no union."""
    kind = kind_of(schema)
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    if kind in _RANGES:
        return _number_node(kind, logical, type)
    if kind in ("float", "double"):
        return partial(_floats, kind) if pa.types.is_floating(type) or pa.types.is_integer(type) else _unsure
    if kind == "boolean":
        return _booleans if pa.types.is_boolean(type) else _unsure
    if kind in ("string", "enum"):
        found = _texts if kind == "string" else partial(_enums, pa.array(schema["symbols"], pa.string()))
        return found if pa.types.is_string(type) else _unsure
    if kind in ("bytes", "fixed"):
        return _bytes_node(schema, kind, logical, type)
    if kind == "array":
        return partial(_arrays, _node(schema["items"], named, type.value_type)) if pa.types.is_list(type) else _unsure
    if kind == "map":
        is_plain = pa.types.is_map(type) and pa.types.is_string(type.key_type)
        return partial(_maps, _node(schema["values"], named, type.item_type)) if is_plain else _unsure
    if kind in ("record", "error") and pa.types.is_struct(type):
        return _record_node(schema, named, tuple((field.name, field.type) for field in type))
    return _unsure


def _number_node(kind: str, logical: str | None, type: pa.DataType) -> WriteNode:
    if pa.types.is_signed_integer(type):
        return partial(_whole_numbers, *_RANGES[kind])
    if kind == "int" and logical == "date" and type == pa.date32():
        return _dates
    is_local = logical is not None and logical.startswith("local-")
    moments = [pa.timestamp("us", "UTC"), *([pa.timestamp("us")] if is_local else [])]
    unit = UNITS.get((logical or "").rpartition("-")[2], 0) if logical and "timestamp-" in logical else 0
    return partial(_times, unit) if kind == "long" and unit and type in moments else _unsure


def _bytes_node(schema: Any, kind: str, logical: str | None, type: pa.DataType) -> WriteNode:
    size = schema["size"] if kind == "fixed" else None
    if pa.types.is_binary(type):
        return _binary if size is None else partial(_fixed, size)
    is_decimal = logical == "decimal" and pa.types.is_decimal128(type)
    if is_decimal and type.scale == schema.get("scale", 0) and type.precision <= schema.get("precision", 0):
        return partial(_decimals, size)
    return _unsure


def _record_node(schema: Any, named: Mapping[str, Any], columns: tuple[tuple[str, pa.DataType], ...]) -> WriteNode:
    """What writes a record of these columns: those that it lacks have their defaults, and it has no others."""
    names = [name for name, _ in columns]
    parts: list[tuple[int, WriteNode] | bytes] = []
    for field in schema["fields"]:
        if field["name"] in names:
            place = names.index(field["name"])
            parts.append((place, _node(field["type"], named, columns[place][1])))
        elif (default := _default(field, named)) is not None:
            parts.append(default)
        else:
            return _unsure
    is_whole = {field["name"] for field in schema["fields"]} >= set(names) and len(set(names)) == len(names)
    return partial(_records, parts) if is_whole else _unsure


def _default(field: Any, named: Mapping[str, Any]) -> bytes | None:
    """The bytes of a field's default; None if it has none that is a value of its type."""
    try:
        return written_default(field["type"], named, field["default"]) if "default" in field else None
    except ValueError:
        return None


def _unsure(values: Any) -> WrittenValues:
    return constant(b"", len(values)), np.ones(len(values), np.bool_)


def _present(node: WriteNode, filler: bytes, is_wrong: bool, values: pa.Array) -> WrittenValues:
    """What the node writes of values that are there, the filler for the others; those may be wrong."""
    if not values.null_count:
        return node(values)
    present = values.is_valid().to_numpy(zero_copy_only=False)
    some, some_unsure = node(values.drop_null())
    unsure = ~present if is_wrong else np.zeros(len(values), np.bool_)
    unsure[present] = some_unsure
    return spread(some, present, filler), unsure


def _behind(prefix: bytes, node: WriteNode, values: pa.Array) -> WrittenValues:
    found, unsure = node(values)
    return joined(prefix, found), unsure


def _booleans(values: pa.Array) -> WrittenValues:
    return of_width(values.cast(pa.uint8()).to_numpy(), 1, len(values)), _sure(values)


def _whole_numbers(least: int, most: int, values: pa.Array) -> WrittenValues:
    numbers = values.cast(pa.int64()).to_numpy()
    return varints(numbers), (numbers < least) | (numbers > most)


def _dates(values: pa.Array) -> WrittenValues:
    return varints(values.view(pa.int32()).to_numpy().astype(np.int64)), _sure(values)


def _times(unit: int, values: pa.Array) -> WrittenValues:
    micros = values.view(pa.int64()).to_numpy()
    if unit > 0:
        return varints(micros // unit if unit > 1 else micros), _sure(values)
    is_far = np.abs(micros) > _RANGES["long"][1] // -unit
    return varints(np.where(is_far, 0, micros) * -unit), is_far


def _floats(kind: str, values: pa.Array) -> WrittenValues:
    numbers = values.to_numpy()
    unsure = _sure(values)
    if pa.types.is_integer(values.type):
        numbers = numbers.astype(np.int64)
        unsure = (numbers < -_EXACT) | (numbers > _EXACT)
    with np.errstate(over="ignore"):
        found = numbers.astype(np.float64).astype("<f8" if kind == "double" else "<f4")
    unsure = unsure | (np.isinf(found) & ~np.isinf(numbers)) if kind == "float" else unsure
    return of_width(found.view(np.uint8), found.itemsize, len(values)), unsure


def _texts(values: pa.Array) -> WrittenValues:
    return _binary(values.cast(pa.binary()))


def _binary(values: pa.Array) -> WrittenValues:
    return with_length(values), _sure(values)


def _fixed(size: int, values: pa.Array) -> WrittenValues:
    return values, pc.binary_length(values).to_numpy() != size


def _enums(symbols: pa.Array, values: pa.Array) -> WrittenValues:
    places = pc.index_in(values, symbols).fill_null(-1).to_numpy().astype(np.int64)
    return varints(places), places < 0


def _decimals(size: int | None, values: pa.Array) -> WrittenValues:
    """Big-endian numbers with their lengths, or of one size."""
    numbers, lengths = integers(values)
    if size is None:
        shifted = np.arange(16) + (16 - lengths)[:, None]
        moved = np.take_along_axis(numbers, np.minimum(shifted, 15), axis=1)
        return with_length(ragged(moved, lengths)), _sure(values)
    fillers = np.where(numbers[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    wide = np.concatenate([np.repeat(fillers, max(0, size - 16), axis=1), numbers[:, max(0, 16 - size) :]], axis=1)
    return of_width(wide.reshape(-1), size, len(values)), lengths > size


def _arrays(node: WriteNode, values: pa.Array) -> WrittenValues:
    return _blocks(values, *node(values.flatten()))


def _maps(node: WriteNode, values: pa.MapArray) -> WrittenValues:
    # not by a cast: Arrow's gives wrong lengths to nulls without a type
    entries, buffers = values.values, values.buffers()[:2]
    lists = pa.Array.from_buffers(pa.list_(entries.type), len(values), buffers, offset=values.offset, children=[entries])
    keys, items = lists.flatten().flatten()
    texts, _ = _texts(keys)
    found, unsure = node(items)
    blocks, wrong = _blocks(lists, joined(texts, found), unsure)
    owners = np.repeat(np.arange(len(lists)), _lengths(lists))
    wrong[owners[repeated_keys(owners, keys)]] = True
    return blocks, wrong


def _blocks(values: pa.Array, elements: pa.Array, unsure: Mask) -> WrittenValues:
    """Elements behind their number, with the end behind them; of what is empty the end alone."""
    lengths = _lengths(values)
    counts, _ = _present(lambda some: (varints(some.to_numpy()), _sure(some)), b"", False, pa.array(lengths, mask=lengths == 0))
    wrong = _sure(values)
    wrong[np.repeat(np.arange(len(values)), lengths)[unsure]] = True
    return joined(counts, grouped(elements, lengths), b"\0"), wrong


def _lengths(values: pa.Array) -> Any:
    return pc.list_value_length(values).to_numpy().astype(np.int64)


def _records(parts: Sequence[tuple[int, WriteNode] | bytes], values: pa.StructArray) -> WrittenValues:
    columns = values.flatten()
    pieces: list[pa.Array | bytes] = [constant(b"", len(values))]
    unsure = _sure(values)
    for part in parts:
        if isinstance(part, bytes):
            pieces.append(part)
            continue
        found, wrong = part[1](columns[part[0]])
        pieces.append(found)
        unsure |= wrong
    return joined(*pieces), unsure


def _members(nodes: Sequence[WriteNode], values: pa.StructArray) -> WrittenValues:
    """The one member that is there; a value that has none, or several, is no value of the union."""
    pieces: list[pa.Array | bytes] = [constant(b"", len(values))]
    unsure, count = _sure(values), np.zeros(len(values), np.int64)
    for node, column in zip(nodes, values.flatten(), strict=True):
        found, wrong = _present(node, b"", False, column)
        pieces.append(found)
        unsure |= wrong
        count += column.is_valid().to_numpy(zero_copy_only=False)
    return joined(*pieces), unsure | (count != 1)


def _sure(values: Any) -> Mask:
    return np.zeros(len(values), np.bool_)


def _varint(number: int) -> bytes:
    found: bytes = varints(np.array([number], np.int64))[0].as_py()
    return found
