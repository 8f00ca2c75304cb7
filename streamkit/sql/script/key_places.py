"""Whether two declarations of a topic find the columns of its keys at the same places, where keys have no names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streamkit.data_type import fields_of, inner_types
from streamkit.expressions.ksql.signature import ksql_type
from streamkit.sql.printer.names import quoted_name

NamedTypes = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class PlacedKey:
    """The key of a stream or table in a format whose keys have no names."""

    source: str
    format: str
    columns: NamedTypes


def placed_key(source: str, format: str | None, columns: NamedTypes) -> PlacedKey | None:
    """The key of a stream or table whose topic has no registry; None in a format whose keys have names."""
    return PlacedKey(source, format, columns) if format in ("avro", "protobuf") else None


def misplaced_key(own: PlacedKey, others: Iterable[PlacedKey]) -> str | None:
    """
    Why a declaration would read one column of the topic's keys as another, as one of the `others` writes them; None if it would not.

    Columns, and fields of a STRUCT, are found by their places. Their names are compared in any case.
    """
    for other in others:
        if other.format == own.format and _are_exchanged(own.columns, other.columns):
            shown = ", ".join(f"{quoted_name(name)} {ksql_type(type)}" for name, type in other.columns)
            return (
                f"the key of {other.source} is {shown}, and in {own.format} without a registry columns of keys, and fields of a STRUCT in them, are found by "
                f"their places; expected those of {own.source} in that order, or another topic"
            )
    return None


def _are_exchanged(fields: NamedTypes, others: NamedTypes) -> bool:
    """Whether a name, in any case, is at another place among the others, at any depth."""
    names = [name for name, _ in others]
    folded = [name.lower() for name in names]
    for place, (name, type) in enumerate(fields):
        among, wanted = (names, name) if name in names else (folded, name.lower())
        if wanted in among and (among.index(wanted) != place or _have_exchanged(type, others[place][1])):
            return True
    return False


def _have_exchanged(type: str, other: str) -> bool:
    """Whether structs within two types have fields at other places."""
    if (fields := fields_of(type)) and (others := fields_of(other)):
        return _are_exchanged(fields, others)
    return any(map(_have_exchanged, inner_types(type), inner_types(other)))
