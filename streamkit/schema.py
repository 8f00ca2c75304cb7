"""
Schemas: flat rows of named columns with Spark SQL types.

Types are Spark's simple names, kept as text: boolean, tinyint, smallint, int, bigint, float, double, string, binary, date,
timestamp, timestamp_ntz, decimal(p,s). `to_arrow` is the only place that knows how each is laid out in Arrow.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from streamkit.errors import SchemaError
from streamkit.names import RESERVED_COLUMNS, character_name

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
SYNONYMS = {
    "bool": "boolean", "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint",
    "real": "float", "timestamp_ltz": "timestamp", "decimal": "decimal(10,0)", "numeric": "decimal(10,0)", "dec": "decimal(10,0)",
}  # fmt: skip
_DECIMAL = re.compile(r"(?:decimal|numeric|dec)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_PART = re.compile(r"((?:`(?:[^`]|``)*`|\([^)]*\)|[^,])*),")  # names in backticks and parentheses may hold commas
_NESTED = re.compile(r"\b(map|array|struct)\s*<", re.IGNORECASE)
_TYPES = f"{', '.join(ARROW_TYPES)}, or decimal(p,s) with p from 1 to 38 and s from 0 to p"
_EMPTY = 'the schema is empty; expected columns such as "user string, amount double"'
_UNWRITABLE = ("Cc", "Cs")  # control characters, halves of surrogate pairs
_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_][\w$]*))\s*:?\s+(.+?)\s*(not\s+null)?\s*", re.IGNORECASE | re.DOTALL)


def normalise_type(text: str) -> str:
    """Spark's simple name of a type, from any of its spellings; SchemaError if a flat row cannot hold it."""
    if not isinstance(text, str):
        raise _unknown_type(text)
    name = " ".join(text.lower().split())
    name = SYNONYMS.get(name, name)
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return f"decimal({precision},{scale})"
    elif name in ARROW_TYPES:
        return name
    raise _unknown_type(text)


def _unknown_type(text: object) -> SchemaError:
    return SchemaError(f"the type {text!r} cannot be a column's; {_nested(text)}expected one of {_TYPES}")


def _nested(text: object) -> str:
    return "nested types (map, array, struct) are not supported; " if isinstance(text, str) and _NESTED.search(text) else ""


def to_arrow(type_name: str) -> pa.DataType:
    """The Arrow type in which columns of a Spark type are kept; SchemaError if there is no such type."""
    if match := _DECIMAL.fullmatch(type_name):
        return pa.decimal128(int(match[1]), int(match[2] or 0))
    if type_name not in ARROW_TYPES:
        raise _unknown_type(type_name)
    return ARROW_TYPES[type_name]


def from_arrow(data_type: pa.DataType) -> str:
    """The Spark type that holds every value of an Arrow type; SchemaError if a flat row cannot hold it."""
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
    widened = {pa.uint8(): "smallint", pa.uint16(): "int", pa.uint32(): "bigint", pa.float16(): "float", pa.date64(): "date"}
    for arrow, name in [*((arrow, name) for name, arrow in ARROW_TYPES.items()), *widened.items()]:
        if arrow == data_type:
            return name
    raise SchemaError(f"a column cannot hold Arrow's {data_type}; expected a flat type such as {', '.join(ARROW_TYPES)}")


@dataclass(frozen=True)
class Column:
    """A column of a row: its name, its Spark type, and whether it may be null."""

    name: str
    type: str
    nullable: bool = True

    @property
    def arrow(self) -> pa.Field:
        return pa.field(self.name, to_arrow(self.type), self.nullable)


@dataclass(frozen=True)
class Schema:
    """The columns of a row, in order; names differ, also when their case is ignored, as Spark has it."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        seen: dict[str, str] = {}
        for column in self.columns:
            if not isinstance(column, Column) or not isinstance(column.name, str):
                raise SchemaError(f'found {column!r} as a column; expected one such as Column("user", "string")')
            if column.name.lower() in seen:
                raise SchemaError(
                    f"the columns {seen[column.name.lower()]!r} and {column.name!r} have the same name; expected distinct names"
                )
            seen[column.name.lower()] = column.name

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        return any(column.name == name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def __str__(self) -> str:
        return ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def arrow_types(self) -> dict[str, pa.DataType]:
        """The Arrow type of each column, by its name."""
        return {column.name: to_arrow(column.type) for column in self.columns}

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema([column.arrow for column in self.columns])

    def select(self, names: Iterable[str]) -> Schema:
        """The columns named, in the order named."""
        return Schema(tuple(self[name] for name in names))

    def ddl(self) -> str:
        """The schema as Spark SQL would declare it; `parse` and `from_ddl` are its inverses."""
        return ", ".join(f"`{c.name.replace('`', '``')}` {c.type}{'' if c.nullable else ' NOT NULL'}" for c in self.columns)

    @classmethod
    def parse(cls, text: str | Schema | pa.Schema) -> Schema:
        """Read "user string, amount double NOT NULL"; also takes an Arrow schema. SchemaError says what is wrong."""
        if isinstance(text, Schema):
            return text
        if isinstance(text, pa.Schema):
            return cls(tuple(Column(field.name, from_arrow(field.type), field.nullable) for field in text))
        return cls(tuple(replace(column, type=normalise_type(column.type)) for column in _columns(text)))

    @classmethod
    def from_ddl(cls, text: str) -> Schema:
        """The schema that `ddl` has written, unchecked: it may lack columns, or have types that do not exist."""
        return cls(_columns(text) if text else ())


def check_user_schema(schema: Schema) -> Schema:
    """
    The schema in canonical form, which can be written down and read again; SchemaError if it cannot.

    It has columns, of types that there are, under names that are printable and not StreamKit's own, in any case.
    """
    checked = Schema(tuple(Column(column.name, normalise_type(column.type), bool(column.nullable)) for column in schema))
    if not checked.columns:
        raise SchemaError(_EMPTY)
    for column in checked:
        _check_characters(column.name)
        if column.type == "void" and not column.nullable:
            raise SchemaError(f"the column {column.name!r} is void and NOT NULL, which no value can be; expected another type")
        if column.name.lower() in RESERVED_COLUMNS:
            raise SchemaError(
                f"the column name {column.name!r} is StreamKit's own; expected none of {', '.join(sorted(RESERVED_COLUMNS))}"
            )
    return checked


def _check_characters(name: str) -> None:
    if not name:
        raise SchemaError("a column has an empty name; expected at least one character")
    for character in name:
        if unicodedata.category(character) in _UNWRITABLE:
            raise SchemaError(f"the column name {name!a} has {character_name(character)}; expected printable characters")


def _columns(text: str) -> tuple[Column, ...]:
    return tuple(_parse_column(part, text) for part in _split(text))


def _advice(part: str, text: str) -> str:
    if nested := _nested(text):
        return f"{nested}expected NAME TYPE [NOT NULL] of the types {_TYPES}"
    hint = "; other names stand in backticks, as in `first name` string" if len(part.split()) > 1 else ""
    return f"expected NAME TYPE [NOT NULL], a name being letters, digits and _{hint}"


def _split(text: str) -> list[str]:
    if not isinstance(text, str):
        raise SchemaError(f'found {text!r} as a schema; expected text such as "user string, amount double", or an Arrow schema')
    if not text.strip():
        raise SchemaError(_EMPTY)
    return [match[1] for match in _PART.finditer(text + ",")]


def _parse_column(part: str, text: str) -> Column:
    match = _COLUMN.fullmatch(part)
    if not match:
        raise SchemaError(f"cannot read {part.strip()!r} in the schema {text!r}; {_advice(part, text)}")
    name = match[1].replace("``", "`") if match[1] else match[2]
    return Column(name, match[3], nullable=match[4] is None)
