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
OF_KSQLDB = frozenset(  # all types that its statements have without CREATE TYPE
    (
        "ARRAY",
        "BIGINT",
        "BOOLEAN",
        "BYTES",
        "DATE",
        "DECIMAL",
        "DOUBLE",
        "INT",
        "INTEGER",
        "MAP",
        "STRING",
        "STRUCT",
        "TIME",
        "TIMESTAMP",
        "VARCHAR",
    )
)
OF_OTHER_SQL = {  # names of types that neither dialect has, or not the ksql dialect, and what is meant
    "BINARY": "BYTES", "BLOB": "BYTES", "BOOL": "BOOLEAN", "BYTE": "INTEGER", "BYTEA": "BYTES", "CHAR": "STRING", "CHARACTER": "STRING",
    "DATETIME": "TIMESTAMP", "DEC": "DECIMAL", "FLOAT": "DOUBLE", "INT4": "INTEGER", "INT8": "BIGINT", "JSON": "STRING", "JSONB": "STRING",
    "LONG": "BIGINT", "NUMBER": "DECIMAL", "NUMERIC": "DECIMAL", "NVARCHAR": "STRING", "REAL": "DOUBLE", "SERIAL": "INTEGER", "SHORT": "INTEGER",
    "SMALLINT": "INTEGER", "TEXT": "STRING", "TIMESTAMP_LTZ": "TIMESTAMP", "TIMESTAMP_NTZ": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMP",
    "TINYINT": "INTEGER", "UUID": "STRING", "VARBINARY": "BYTES",
}  # fmt: skip
READ_OTHERWISE = {*BUILT_IN, "array", "map", "struct", *OTHER_NAMES}  # what a name without quotes would be read as


def named_type(name: str) -> str:
    """The name of a type that CREATE TYPE makes, as a part of another type: in backticks if it could be read as something else."""
    is_plain = name.isidentifier() and name.lower() not in READ_OTHERWISE
    return name if is_plain else "`{}`".format(name.replace("`", "``"))


def refused_name(name: str) -> str:
    """Why CREATE TYPE cannot make a type of a name: an empty text if it can."""
    return f"{name} is the name of a type of Spark or ksqlDB; expected another name" if name.lower() in READ_OTHERWISE else ""


def fields_in(type: str) -> tuple[tuple[str, str], ...] | None:
    """The names and types of the fields of a struct, also of types that CREATE TYPE makes; None of another type."""
    if not type.startswith("struct<"):
        return None
    matches = [_FIELD.fullmatch(part) for part in split_at_commas(type[len("struct<") : -1])]
    return tuple((match[1].replace("``", "`") if match[1] else match[2], match[3]) for match in matches if match)


def resolved_type(type: str, types: Mapping[str, str], *, is_ksql: bool = False) -> str:
    """
    The Spark type that a column's type means, given what CREATE TYPE has made by name; SchemaError names the nearest if there is none.

    A name without quotes is found in any case, if no other has it as it is written. `is_ksql`: the error names the types of the ksql dialect.
    """
    if (element := element_of(type)) is not None:
        return array_of(resolved_type(element, types, is_ksql=is_ksql))
    if entry := entry_of(type):
        return map_of(*(resolved_type(part, types, is_ksql=is_ksql) for part in entry))
    if fields := fields_in(type):
        return struct_of((name, resolved_type(part, types, is_ksql=is_ksql)) for name, part in fields)
    name = type[1:-1].replace("``", "`") if type.startswith("`") else type
    is_built_in = not type.startswith("`") and name.lower() in BUILT_IN
    made = None if is_built_in else name if name in types else next((one for one in types if one.lower() == name.lower()), None)
    if made is not None:
        return resolved_type(types[made], {other: one for other, one in types.items() if other != made})
    if type.lower() == TIME:
        return TIME
    if type.startswith("decimal(") or type.lower() in BUILT_IN:
        return normalise_type(type)
    raise SchemaError(missing_type(name, types, is_ksql=is_ksql))


def missing_type(name: str, types: Mapping[str, str], *, is_ksql: bool) -> str:
    """What to say of a type that is not there: the one that is meant, and what there is."""
    there = (
        {one.lower(): one for one in (*OTHER_NAMES, *sorted(BUILT_IN))}
        if not is_ksql
        else {one.lower(): one for one in OF_KSQLDB}
    )
    there |= {one.lower(): one for one in types}
    meant = OF_OTHER_SQL.get(name.upper(), "")
    if not is_ksql and name.lower() in BUILT_IN:
        meant = f"{name.lower()}, without backticks"
    elif not meant and (close := difflib.get_close_matches(name.lower(), sorted(there), 1)):
        meant = there[close[0]]
    hint = f"; did you mean {meant}?" if meant else ""
    listed = f"there are {', '.join(sorted(OF_KSQLDB))}, and " if is_ksql and not meant else ""
    made = f"CREATE TYPE has made {', '.join(types)}" if types else "CREATE TYPE makes one"
    said = f"there is no type {name}{hint}"
    return said if not types and refused_name(name) else f"{said}; {listed}{made}"
