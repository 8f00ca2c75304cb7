"""
Data types: Spark's, as text in one canonical spelling.

Atomic types are Spark's simple names: boolean, tinyint, smallint, int, bigint, float, double, string, binary, date, timestamp, timestamp_ntz,
decimal(p,s), void. Nested ones are `array<int>`, `map<string,int>` and `struct<a:int,b:string>`; a field whose name is not made of letters,
digits and _ stands in backticks. Names of types are lower case, names of fields keep theirs. Values inside may always be null, but
keys of maps never are: a NOT NULL inside is read and not kept. Types nest at most NESTING_MAX levels deep, as Arrow reads no more.
`to_arrow` is the only place that knows how each is laid out in Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

import pyarrow as pa

from streamkit.errors import SchemaError

ARROW_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
PASSING_TYPES: dict[str, pa.DataType] = {  # of parts of expressions; no column holds them
    "interval day": pa.int64(),
    "interval day to second": pa.int64(),
    "interval year to month": pa.int32(),
    "interval": pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())]),
    "time": pa.int32(),  # milliseconds of the day, in ksqlDB's expressions
}
FieldPath: TypeAlias = tuple[str, ...]  # the names from a column down to a field
SYNONYMS = {
    "bool": "boolean", "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint",
    "real": "float", "timestamp_ltz": "timestamp", "decimal": "decimal(10,0)", "numeric": "decimal(10,0)", "dec": "decimal(10,0)",
}  # fmt: skip
INTEGERS = ("tinyint", "smallint", "int", "bigint")  # from narrow to wide
FLOATS = ("float", "double")
_DECIMAL = re.compile(r"(?:decimal|numeric|dec)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.DOTALL | re.IGNORECASE)
_FIELD = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_][\w$]*))\s*(?::|\s)\s*(.+?)\s*", re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
_NOT_NULL = re.compile(r"\s+not\s+null\s*$", re.IGNORECASE)
NESTING_MAX = 24  # levels; a map is two of Arrow's, which reads 64
TYPES_TEXT = f"{', '.join(ARROW_TYPES)}, decimal(p,s) with p from 1 to 38 and s from 0 to p, array<…>, map<…,…> or struct<name:…>"


@lru_cache(maxsize=4096)
def normalise_type(text: str) -> str:
    """The canonical spelling of a type, from any of its spellings; SchemaError if there is no such type."""
    if not isinstance(text, str):
        raise _unknown_type(text)
    if match := _NESTED.fullmatch(text.strip()):
        return _nested(match[1].lower(), match[2], text)
    name = " ".join(text.lower().split())
    name = SYNONYMS.get(name, name)
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return f"decimal({precision},{scale})"
    elif name in ARROW_TYPES:
        return name
    raise _unknown_type(text)


def _nested(kind: str, inside: str, text: str) -> str:
    if text.count("<") > NESTING_MAX and _levels(text) > NESTING_MAX:
        raise SchemaError(f"the type {_shortened(text)} nests {_levels(text)} levels deep; expected at most {NESTING_MAX}")
    parts = split_at_commas(inside)
    if kind == "struct":
        fields = [_field(part, text) for part in parts if len(parts) > 1 or part.strip()]
        return struct_of((name, _inner(type, text)) for name, type in fields)
    if len(parts) != (1 if kind == "array" else 2):
        expected = (
            "the types of its keys and its values, as in map<string,int>" if kind == "map" else "one type, as in array<int>"
        )
        raise SchemaError(f"the {kind} {_shortened(text)} names {len(parts)}; expected {expected}")
    inner = [_inner(part, text) for part in parts]
    if kind == "array":
        return array_of(inner[0])
    if has_map(inner[0]) or inner[0] == "void":
        raise SchemaError(f"the type {text!r} has keys of type {inner[0]}, which a map cannot have; expected keys without maps")
    return map_of(*inner)


def _field(part: str, text: str) -> tuple[str, str]:
    match = _FIELD.fullmatch(part)
    if not match:
        raise SchemaError(
            f"cannot read the field {part.strip()!r} of the type {_shortened(text)}; expected NAME:TYPE, as in struct<a:int,b:string>, "
            "a name of other than letters, digits and _ in backticks"
        )
    name = match[1].replace("``", "`") if match[1] else match[2]
    return name, match[3]


def _inner(part: str, text: str) -> str:
    """The canonical spelling of a type inside of the nested type `text`, which errors name too."""
    try:
        return normalise_type(_NOT_NULL.sub("", part))
    except SchemaError as error:
        inside = f"in the type {_shortened(text)}: "
        raise SchemaError(str(error) if str(error).startswith("in the type ") else f"{inside}{error}") from None


def _levels(text: str) -> int:
    depth = deepest = 0
    is_quoted = False
    for character in text:
        is_quoted ^= character == "`"
        depth += 0 if is_quoted else (character == "<") - (character == ">")
        deepest = max(deepest, depth)
    return deepest


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 120 else f"{text[:117]}...")


def split_at_commas(text: str) -> list[str]:
    """The parts of a text between commas that stand outside parentheses, angle brackets and backticks."""
    parts, depth, start, is_quoted = [], 0, 0, False
    for place, character in enumerate(text):
        is_quoted ^= character == "`"
        if is_quoted:
            continue
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _unknown_type(text: object) -> SchemaError:
    return SchemaError(f"the type {text!r} cannot be a column's; expected one of {TYPES_TEXT}")


def array_of(element: str) -> str:
    """The type of arrays of these elements."""
    return f"array<{element}>"


def map_of(key: str, value: str) -> str:
    """The type of maps from these keys to these values."""
    return f"map<{key},{value}>"


def struct_of(fields: Iterable[tuple[str, str]]) -> str:
    """The type of structs of these (name, type) pairs, whose names may differ in case only; SchemaError if there is none, or two have one name."""
    listed = list(fields)
    names = [name for name, _ in listed]
    if not listed or len(set(names)) < len(names):
        raise SchemaError(f"the fields of a struct are {names}; expected at least one, each with its own name")
    return f"struct<{','.join(f'{field_name(name)}:{type}' for name, type in listed)}>"


def apart_in_any_case(type: str) -> str:
    """The type; SchemaError if two fields of a struct in it have names that differ in case only, which Spark cannot tell apart."""
    seen: dict[str, str] = {}
    for name, _ in fields_of(type) or ():
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise SchemaError(
                f"the fields {other!r} and {name!r} of {type} have the same name, since case does not count; expected distinct names"
            )
    for inner in inner_types(type):
        apart_in_any_case(inner)
    return type


def field_name(name: str) -> str:
    """The name of a field as a type spells it."""
    return name if _PLAIN_NAME.fullmatch(name) else "`{}`".format(name.replace("`", "``"))


def decimal_of(type: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None of another type."""
    match = _DECIMAL.fullmatch(type)
    return (int(match[1]), int(match[2] or 0)) if match else None


@lru_cache(maxsize=4096)
def element_of(type: str) -> str | None:
    """The type of an array's elements; None of another type."""
    return type[len("array<") : -1] if type.startswith("array<") else None


@lru_cache(maxsize=4096)
def entry_of(type: str) -> tuple[str, str] | None:
    """The types of a map's keys and values; None of another type."""
    if not type.startswith("map<"):
        return None
    key, value = split_at_commas(type[len("map<") : -1])
    return key, value


@lru_cache(maxsize=4096)
def fields_of(type: str) -> tuple[tuple[str, str], ...] | None:
    """The names and types of a struct's fields; None of another type."""
    if not type.startswith("struct<"):
        return None
    return tuple(_field(part, type) for part in split_at_commas(type[len("struct<") : -1]))


def is_nested(type: str) -> bool:
    """Whether values of the type hold other values."""
    return type.startswith(("array<", "map<", "struct<"))


def field_names(type: str) -> tuple[str, ...]:
    """The names of all fields of the structs in a type, at any depth."""
    own = [name for name, _ in fields_of(type) or ()]
    return (*own, *(name for inner in inner_types(type) for name in field_names(inner)))


def atomic_types(type: str) -> frozenset[str]:
    """The types that are no containers within a type; of an atomic one itself."""
    return frozenset().union(*map(atomic_types, inner_types(type))) if is_nested(type) else frozenset((type,))


def inner_types(type: str) -> tuple[str, ...]:
    """The types that values of a nested type hold; none of an atomic type."""
    if element := element_of(type):
        return (element,)
    return entry_of(type) or tuple(inner for _, inner in fields_of(type) or ())


def key_complaint(name: str, type: str) -> str | None:
    """Why a column of the type cannot be in a key; None if it can."""
    if not has_map(type):
        return None
    verb = "is" if type.startswith("map<") else "holds"
    return (
        f"the column {name!r} is {type}, which {verb} a map, and a map cannot be in a key, because maps have no order and no equality; "
        "expected a column without maps, such as an array of the map's entries, as map_entries gives it"
    )


def has_map(type: str) -> bool:
    """Whether the type is a map or holds one; such values have no order and no equality."""
    return type.startswith("map<") or any(map(has_map, inner_types(type)))


@lru_cache(maxsize=4096)
def to_arrow(type_name: str) -> pa.DataType:
    """The Arrow type in which values of a Spark type are kept; SchemaError if there is no such type."""
    if decimal := decimal_of(type_name):
        return pa.decimal128(*decimal)
    if element := element_of(type_name):
        return pa.list_(to_arrow(element))
    if entry := entry_of(type_name):
        return pa.map_(to_arrow("string" if entry[0] == "void" else entry[0]), to_arrow(entry[1]))  # without type: without keys
    if fields := fields_of(type_name):
        return pa.struct([pa.field(name, to_arrow(type)) for name, type in fields])
    if type_name in PASSING_TYPES:
        return PASSING_TYPES[type_name]
    if type_name not in ARROW_TYPES:
        raise _unknown_type(type_name)
    return ARROW_TYPES[type_name]


_WIDENED: Mapping[pa.DataType, str] = {
    pa.uint8(): "smallint", pa.uint16(): "int", pa.uint32(): "bigint", pa.float16(): "float", pa.date64(): "date",
}  # fmt: skip
_NAMES: Mapping[pa.DataType, str] = {**_WIDENED, **{arrow: name for name, arrow in ARROW_TYPES.items()}}


def from_arrow(data_type: pa.DataType) -> str:
    """The Spark type that holds every value of an Arrow type; SchemaError if there is none."""
    if (name := _NAMES.get(data_type)) is not None:
        return name
    if pa.types.is_dictionary(data_type):
        return from_arrow(data_type.value_type)
    if pa.types.is_decimal(data_type):
        return normalise_type(f"decimal({data_type.precision},{data_type.scale})")
    if pa.types.is_timestamp(data_type):
        return "timestamp" if data_type.tz else "timestamp_ntz"
    if pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return "string"
    if pa.types.is_large_binary(data_type) or pa.types.is_fixed_size_binary(data_type):
        return "binary"
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return array_of(from_arrow(data_type.value_type))
    if pa.types.is_map(data_type):
        return map_of(from_arrow(data_type.key_type), from_arrow(data_type.item_type))
    if pa.types.is_struct(data_type):
        return struct_of((field.name, from_arrow(field.type)) for field in data_type)
    raise SchemaError(
        f"a column cannot hold Arrow's {data_type}; expected a type such as {', '.join(ARROW_TYPES)}, or lists, maps and structs of them"
    )
