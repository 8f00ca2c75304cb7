"""Conversions of arrays, maps and structs: those of the values that they hold, and texts as Spark writes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import element_of, entry_of, fields_of, inner_types, to_arrow
from streamkit.expressions.core.elements import Elements, structs_of, validity
from streamkit.recast import recast

CastValues = Callable[[pa.Array, str, str], pa.Array]


def inner_pairs(source: str, target: str) -> list[tuple[str, str]] | None:
    """The conversions of the values that a nested value holds; None if its kind cannot become the other one."""
    if target == "string":
        return [(inner, "string") for inner in inner_types(source)]
    mine, theirs = inner_types(source), inner_types(target)
    is_same_kind = source.partition("<")[0] == target.partition("<")[0]
    return list(zip(mine, theirs)) if is_same_kind and len(mine) == len(theirs) else None


def convert_nested(values: pa.Array, source: str, target: str, convert: CastValues) -> pa.Array:
    """Arrays, maps or structs as another type, by the conversion of what they hold; fields go by their place."""
    if target == "string":
        return _as_text(values, source, convert)
    if element := element_of(source):
        elements = Elements.of(values)
        return elements.with_values(convert(elements.values, element, element_of(target) or "")).as_arrays()
    if entry := entry_of(source):
        key, item = entry_of(target) or ("", "")
        elements = Elements.of(values)
        parts = [("key", convert(elements.keys, entry[0], key)), ("value", convert(elements.items, entry[1], item))]
        return elements.with_values(structs_of(parts)).as_maps()
    fields = zip(fields_of(source) or (), fields_of(target) or ())
    parts = [
        (name, convert(pc.struct_field(values, [place]), mine, theirs))
        for place, ((_, mine), (name, theirs)) in enumerate(fields)
    ]
    return structs_of(
        [(name, recast(part, field.type)) for (name, part), field in zip(parts, to_arrow(target))], validity(values)
    )


def _as_text(values: pa.Array, source: str, convert: CastValues) -> pa.Array:
    """`[1, null]`, `{key -> value}` or `{1.5, a}`."""
    if element := element_of(source):
        elements = Elements.of(values)
        return _joined(elements, _text(elements.values, element, convert), "[", "]")
    if entry := entry_of(source):
        elements = Elements.of(values)
        keys, items = _text(elements.keys, entry[0], convert), _text(elements.items, entry[1], convert)
        return _joined(elements, pc.binary_join_element_wise(keys, items, " -> "), "{", "}")
    fields = fields_of(source) or ()
    texts = [_text(pc.struct_field(values, [place]), type, convert) for place, (_, type) in enumerate(fields)]
    whole = pc.binary_join_element_wise("{", pc.binary_join_element_wise(*texts, ", "), "}", "")
    return pc.if_else(pa.array(validity(values)), whole, pa.scalar(None, pa.string()))


def _text(values: pa.Array, type: str, convert: CastValues) -> pa.Array:
    texts = pa.nulls(len(values), pa.string()) if type == "void" else convert(values, type, "string")
    return texts.cast(pa.string()).fill_null("null")


def _joined(elements: Elements, texts: pa.Array, opening: str, closing: str) -> pa.Array:
    lists = Elements(texts, elements.lengths, np.ones(len(elements.lengths), bool)).as_arrays()
    whole = pc.binary_join_element_wise(opening, pc.binary_join(lists, ", "), closing, "")
    return pc.if_else(pa.array(elements.valid), whole, pa.scalar(None, pa.string()))
