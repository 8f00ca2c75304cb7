"""Which types the values of a schema are read in: one in which none is, or only some are, is found before a row is left out."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from streamkit.data_type import fields_of, inner_types, to_arrow
from streamkit.formats.conform import conformed
from streamkit.formats.format import Format


def is_unreadable(format: Format, type: str, its: str) -> bool:
    """
    Whether a type has no values of a schema's type, or none of those that have digits behind the point, or a field that those lack.

    Fields have their names in the same case. Texts are what their readers make of them, and numbers may be
    small enough for a narrower type: there each value decides.
    """
    try:
        conformed(pa.array([], to_arrow(its)), to_arrow(type), (), None)
    except pa.ArrowNotImplementedError:
        return True
    return any(not other or _is_lost(format, to_arrow(one), to_arrow(other)) for one, other in _innermost(type, its))


def _innermost(type: str, its: str) -> Iterator[tuple[str, str]]:
    """The types that are not nested, of two types at the same places; an empty one where the other has no such field."""
    pairs = list(zip(inner_types(type), inner_types(its)))
    if its and (fields := fields_of(type)) is not None:
        others = dict(fields_of(its) or ())
        pairs = [(inner, others.get(name, "")) for name, inner in fields]
    if not pairs:
        yield type, its
    for pair in pairs:
        yield from _innermost(*pair)


def _kind_in_json(type: pa.DataType) -> str | None:
    """Of which kind of JSON all values of a type are; None of one that several have, or with a rule of its own. Readers take none for another."""
    if pa.types.is_boolean(type):
        return "boolean"
    if pa.types.is_integer(type) or pa.types.is_floating(type):
        return "number"
    return "text" if pa.types.is_string(type) or pa.types.is_binary(type) else None


def _is_lost(format: Format, type: pa.DataType, its: pa.DataType) -> bool:
    if format.name == "json" and len({_kind_in_json(type), _kind_in_json(its)} - {None}) > 1:
        return True
    if pa.types.is_binary(its):
        return bool(pa.types.is_decimal(type))  # whose texts they would be
    if pa.types.is_timestamp(its):  # of JSON a text
        is_number = pa.types.is_integer(type) if format.name == "json" else pa.types.is_int32(type)
        return bool(is_number or (format.name == "json" and pa.types.is_date(type)))
    has_digits = pa.types.is_floating(its) or (pa.types.is_decimal(its) and its.scale > 0)
    return bool(has_digits and pa.types.is_integer(type))
