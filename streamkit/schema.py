"""Schemas: rows of named columns, each of a type as `data_type` spells it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from streamkit.data_type import TYPES_TEXT, apart_in_any_case, field_names, from_arrow, normalise_type, split_at_commas, to_arrow
from streamkit.errors import SchemaError
from streamkit.names import RESERVED_COLUMNS, character_name

_EMPTY = 'the schema is empty; expected columns such as "user string, amount double"'
_UNWRITABLE = ("Cc", "Cs")  # control characters, halves of surrogate pairs
_COLUMN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_][\w$]*))\s*:?\s+(.+?)\s*(not\s+null)?\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, repr=False)
class SchemaColumn:
    """A column of a row: its name, its Spark type, and whether it may be null."""

    name: str
    type: str
    nullable: bool = True

    def __repr__(self) -> str:
        """Names of stores hash this text (`plan.node.structure_hash`), so it must stay as it is."""
        return f"Column(name={self.name!r}, type={self.type!r}, nullable={self.nullable!r})"

    @property
    def arrow(self) -> pa.Field:
        return pa.field(self.name, to_arrow(self.type), self.nullable)


@dataclass(frozen=True)
class Schema:
    """The columns of a row, in order; no two have the same name, and SQL of ksqlDB makes some that differ in case only."""

    columns: tuple[SchemaColumn, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for column in self.columns:
            if not isinstance(column, SchemaColumn) or not isinstance(column.name, str):
                raise SchemaError(f'found {column!r} as a column; expected one such as SchemaColumn("user", "string")')
            if column.name in seen:
                raise _same_name(column.name, column.name)
            seen.add(column.name)

    def __iter__(self) -> Iterator[SchemaColumn]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._by_name

    def __getitem__(self, name: str) -> SchemaColumn:
        return self._by_name[name]

    def __str__(self) -> str:
        return ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def _by_name(self) -> dict[str, SchemaColumn]:
        """The columns by their names, since an expression of thousands of parts asks for one at each of them."""
        return {column.name: column for column in self.columns}

    @cached_property
    def _by_lower_name(self) -> dict[str, tuple[SchemaColumn, ...]]:
        found: dict[str, tuple[SchemaColumn, ...]] = {}
        for column in self.columns:
            found[column.name.lower()] = (*found.get(column.name.lower(), ()), column)
        return found

    def spelt(self, name: str) -> tuple[SchemaColumn, ...]:
        """The column of that name, or else all whose names differ from it in case alone."""
        exact = self._by_name.get(name)
        return self._by_lower_name.get(name.lower(), ()) if exact is None else (exact,)

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
    def parse(cls, text: str | Schema | pa.Schema, *, keeps_case: bool = False) -> Schema:
        """
        Read "user string, amount double NOT NULL", or an Arrow schema. SchemaError says what is wrong.

        Names differ in any case, as Spark has it, unless it `keeps_case`.
        """
        if isinstance(text, Schema):
            return text
        if isinstance(text, pa.Schema):
            found = cls.from_arrow(text)
        else:
            found = cls(tuple(replace(column, type=normalise_type(column.type)) for column in _columns(text)))
        if keeps_case:
            return found
        for column in found:
            apart_in_any_case(column.type)
        return check_apart_in_any_case(found)

    @classmethod
    def from_arrow(cls, schema: pa.Schema) -> Schema:
        """The columns of rows that exist, whose names may differ in case only."""
        return cls(tuple(SchemaColumn(field.name, from_arrow(field.type), field.nullable) for field in schema))

    @classmethod
    def from_ddl(cls, text: str) -> Schema:
        """The schema that `ddl` has written, unchecked: it may lack columns, or have types that do not exist."""
        return cls(_columns(text) if text else ())


def check_apart_in_any_case(schema: Schema) -> Schema:
    """The schema; SchemaError if two names differ in case only, which Spark cannot tell apart."""
    seen: dict[str, str] = {}
    for name in schema.names:
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise _same_name(other, name)
    return schema


def _same_name(one: str, other: str) -> SchemaError:
    why = "" if one == other else ", since case does not count"
    return SchemaError(f"the columns {one!r} and {other!r} have the same name{why}; expected distinct names")


def check_user_schema(schema: Schema) -> Schema:
    """
    The schema in canonical form, which can be written down and read again; SchemaError if it cannot.

    It has columns, of types that there are, under names that are printable and not StreamKit's own, in any case.
    """
    checked = Schema(tuple(SchemaColumn(column.name, normalise_type(column.type), bool(column.nullable)) for column in schema))
    if not checked.columns:
        raise SchemaError(_EMPTY)
    for column in checked:
        _check_characters(column.name)
        for name in field_names(column.type):
            _check_characters(name, f"field name {name!a} in the column {column.name!r}")
        if column.type == "void" and not column.nullable:
            raise SchemaError(f"the column {column.name!r} is void and NOT NULL, which no value can be; expected another type")
        if column.name.lower() in RESERVED_COLUMNS:
            raise SchemaError(
                f"the column name {column.name!r} is StreamKit's own; expected none of {', '.join(sorted(RESERVED_COLUMNS))}"
            )
    return checked


def _check_characters(name: str, what: str = "") -> None:
    if not name:
        raise SchemaError("a column has an empty name; expected at least one character")
    for character in name:
        if unicodedata.category(character) in _UNWRITABLE:
            raise SchemaError(
                f"the {what or f'column name {name!a}'} has {character_name(character)}; expected printable characters"
            )


def _columns(text: str) -> tuple[SchemaColumn, ...]:
    return tuple(_parse_column(part, text) for part in _split(text))


def _advice(part: str) -> str:
    hint = "; other names stand in backticks, as in `first name` string" if len(part.split()) > 1 else ""
    return f"expected NAME TYPE [NOT NULL], a name being letters, digits and _, a type one of {TYPES_TEXT}{hint}"


def _split(text: str) -> list[str]:
    if not isinstance(text, str):
        raise SchemaError(f'found {text!r} as a schema; expected text such as "user string, amount double", or an Arrow schema')
    if not text.strip():
        raise SchemaError(_EMPTY)
    return split_at_commas(text)


def _parse_column(part: str, text: str) -> SchemaColumn:
    match = _COLUMN.fullmatch(part)
    if not match:
        raise SchemaError(f"cannot read {part.strip()!r} in the schema {text!r}; {_advice(part)}")
    name = match[1].replace("``", "`") if match[1] else match[2]
    return SchemaColumn(name, match[3], nullable=match[4] is None)
