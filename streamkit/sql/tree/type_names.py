"""Types of columns whose parts may be named by CREATE TYPE."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from streamkit.data_type import (
    ARROW_TYPES,
    SYNONYMS,
    array_of,
    element_of,
    entry_of,
    map_of,
    normalise_type,
    split_at_commas,
    struct_of,
)
from streamkit.errors import SchemaError

_FIELD = re.compile(r"(?:`((?:[^`]|``)+)`|(\w+)):(.+)", re.DOTALL)
TIME = "time"  # a time of day, which ksqlDB has and Spark lacks
BUILT_IN = {*ARROW_TYPES, *SYNONYMS, TIME} - {"void"}
OTHER_NAMES = ("varchar", "bytes", "integer")  # of types that are built in
READ_OTHERWISE = {*BUILT_IN, "array", "map", "struct", *OTHER_NAMES}  # what a name without quotes would be read as


def named_type(name: str) -> str:
    """The name of a type that CREATE TYPE makes, as a part of another type: in backticks if it could be read as something else."""
    is_plain = name.isidentifier() and name.lower() not in READ_OTHERWISE
    return name if is_plain else "`{}`".format(name.replace("`", "``"))


def refused_name(name: str) -> str:
    """Why CREATE TYPE cannot make a type of a name: an empty text if it can."""
    return f"{name} is a type that is there without CREATE TYPE; expected another name" if name.lower() in READ_OTHERWISE else ""


def fields_in(type: str) -> tuple[tuple[str, str], ...] | None:
    """The names and types of the fields of a struct, also of types that CREATE TYPE makes; None of another type."""
    if not type.startswith("struct<"):
        return None
    matches = [_FIELD.fullmatch(part) for part in split_at_commas(type[len("struct<") : -1])]
    return tuple((match[1].replace("``", "`") if match[1] else match[2], match[3]) for match in matches if match)


def resolved_type(type: str, types: Mapping[str, str]) -> str:
    """
    The Spark type that a column's type means, given what CREATE TYPE has made by name; SchemaError names the nearest if there is none.

    A name without quotes is found in any case, if no other has it as it is written.
    """
    if (element := element_of(type)) is not None:
        return array_of(resolved_type(element, types))
    if entry := entry_of(type):
        return map_of(*(resolved_type(part, types) for part in entry))
    if fields := fields_in(type):
        return struct_of((name, resolved_type(part, types)) for name, part in fields)
    name = type[1:-1].replace("``", "`") if type.startswith("`") else type
    is_built_in = not type.startswith("`") and name.lower() in BUILT_IN
    made = None if is_built_in else name if name in types else next((one for one in types if one.lower() == name.lower()), None)
    if made is not None:
        return resolved_type(types[made], {other: one for other, one in types.items() if other != made})
    if type.lower() == TIME:
        return TIME
    if type.startswith("decimal(") or type.lower() in BUILT_IN:
        return normalise_type(type)
    close = difflib.get_close_matches(name.lower(), sorted({*(one.lower() for one in types), *BUILT_IN, *OTHER_NAMES}), 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    there = f"CREATE TYPE has made {', '.join(types)}" if types else "CREATE TYPE makes one"
    raise SchemaError(f"there is no type {name}{hint}; {there}")
