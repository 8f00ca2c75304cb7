"""A column of a table that takes values of a topic: how they are written to it, and what says that one would not be the same there."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from streamkit.connectors.postgres.table_name import quoted_name
from streamkit.connectors.postgres.target_text import difference_in_array, difference_of_row, difference_of_text, negative_zero
from streamkit.data_type import inner_types, is_nested
from streamkit.schema import SchemaColumn

TYPES = {
    "boolean": "boolean", "tinyint": "smallint", "smallint": "smallint", "int": "integer", "bigint": "bigint", "float": "real",
    "double": "double precision", "string": "text", "binary": "bytea", "date": "date", "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp", "void": "text",
}  # fmt: skip
_INTEGERS = ("smallint", "integer", "bigint")
_FLOATS = ("real", "double precision")
_LONG = {"timestamptz": "timestamp with time zone", "timestamp": "timestamp without time zone"}  # as the catalog has them
_PLAIN = ("text", "character varying", "name", '"char"')  # types of texts for which other texts are other values
_SINGLE = (*_INTEGERS, *_FLOATS, "numeric", "oid", "boolean", "bytea", "date", *_LONG.values())  # one value has one spelling
_ALIKE = (*_PLAIN, *_INTEGERS, "uuid", "oid", "boolean", "bytea", "date", *_LONG.values())  # what is one value looks the same
_WHOLE_NUMBER = r"^(0|-?[1-9][0-9]*)$"
_ORDINARY = {  # by type: texts of this shape differ only if their values differ
    "uuid": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    "date": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "character": r"[^ ]$",
    **dict.fromkeys((*_INTEGERS, "numeric"), _WHOLE_NUMBER),
}
_CUT = ("character varying", "name", '"char"')  # types of texts that cut them without an error


def type_of(column: SchemaColumn) -> str:
    """PostgreSQL's type for a column: nested values are `jsonb`."""
    if is_nested(column.type):
        return "jsonb"
    return TYPES.get(column.type) or column.type.replace("decimal", "numeric")


@dataclass(frozen=True)
class TargetColumn:
    """
    A column of a table: its type as it is declared, such as `numeric(6,2)`, and without the modifier, as `numeric`.

    `is_text` types take any text. Of a domain, `kind` and `modified` are those of what it is made of; so of a domain's array.
    """

    name: str
    type: str
    kind: str
    modified: str
    is_text: bool
    is_needed: bool
    made_by: str | None = None  # what makes its values in place of those who write, such as a generated column
    is_row: bool = False  # a composite type: each of its fields may be rounded or cut

    def cast_from(self, column: SchemaColumn) -> tuple[str, str] | None:
        """The types between which PostgreSQL must have an implicit conversion, and its inverse; None where it needs none."""
        given = _kind(type_of(column))
        return None if given in ("text", self.kind) or self.is_text or self._is_array_of(column) else (given, self.kind)

    def value(self, column: SchemaColumn) -> str:
        """The expression that makes the column's value of a staged one."""
        name = quoted_name(column.name)
        if self._is_array_of(column):
            return f"{_items(name)}::{self.type}"
        if is_nested(column.type):
            return f"{name}::jsonb"
        given = type_of(column)
        if given == "text" and not self.is_text:
            return f"{name}::{self.type}"
        return f"{name}::text::{self.type}" if given in _FLOATS and self.kind == "numeric" else name

    def compared_value(self, column: SchemaColumn) -> str:
        """The expression that finds the column's value of a staged one among those of the table, as the table's own index does."""
        if not self.is_text:
            return self.value(column)
        name = quoted_name(column.name)
        text = name if type_of(column) == "text" else f"{name}::text"
        if self.kind in _PLAIN:
            return text
        return f"{text}::{'bpchar' if self.kind == 'character' else self.kind}"  # which cuts nothing

    def tells_apart(self, column: SchemaColumn) -> bool:
        """Whether two values of the topic are surely one here only if they are one there, unlike two texts of one `uuid`."""
        given = type_of(column)
        if given in _FLOATS or is_nested(column.type):  # 0 and -0 are one, and so may two numbers be in a numeric(p,s)
            return False
        return self.kind in _PLAIN if given == "text" or self.is_text else self.kind in _SINGLE

    def may_join(self, column: SchemaColumn) -> bool:
        """Whether two keys of the log may be one here: keys that lie in different partitions. The log takes 0 and -0 for one, too."""
        if type_of(column) in _FLOATS:
            return self.kind == "numeric" and self.modified != self.kind
        return not self.tells_apart(column)

    @property
    def looks_alike(self) -> bool:
        """Whether values that are one are the same in all, unlike `1` and `1.0` in a `numeric`."""
        return self.kind in _ALIKE

    def is_ordinary(self, column: SchemaColumn, values: pa.ChunkedArray) -> bool:
        """Whether all texts are spelled in the way in which no two of them are one value."""
        if type_of(column) != "text" or self.kind not in _ORDINARY:
            return False
        return bool(pc.all(pc.match_substring_regex(values, _ORDINARY[self.kind]), min_count=0).as_py())

    def difference(self, column: SchemaColumn) -> str | None:
        """The condition under which a staged value would be another one in the table; None where that cannot be."""
        name, given = quoted_name(column.name), type_of(column)
        if self._is_array_of(column):
            return self._difference_of_array(_items(name), inner_types(column.type)[0])
        if is_nested(column.type):
            return negative_zero(name) if any(number in column.type for number in ("float", "double")) else None
        if self._takes_all(given):
            return None
        if given == "text":
            return self._difference_of_text(name)
        if given in _FLOATS and self.kind == "numeric":  # which has 15 digits of a double unless it is made of the text
            kept = f"{name}::text::{self.modified}"
            return f"({name}::text::numeric IS DISTINCT FROM {kept} AND {name}::numeric IS DISTINCT FROM {kept})"
        if given in _INTEGERS and (self.kind == "oid" or self.kind.startswith("reg")):
            return f"{name} < 0"  # which is another one there, and the same again on the way back
        return f"{name} IS DISTINCT FROM {name}::{self.modified}::{given}"

    def _is_array_of(self, column: SchemaColumn) -> bool:
        """Whether this is an array, and the values are arrays of what JSON has as PostgreSQL reads it."""
        inner = inner_types(column.type) if column.type.startswith("array<") else ()
        return self.kind.endswith("[]") and bool(inner) and not is_nested(inner[0]) and inner[0] != "binary"

    def _difference_of_text(self, name: str) -> str | None:
        if self.is_text and (self.kind not in _CUT or self.modified == "character varying"):
            return None
        if self.is_row:
            return difference_of_row(name, self.kind)
        return difference_of_text(name, self.kind, self.modified)

    def _difference_of_array(self, items: str, inner: str) -> str | None:
        if inner not in ("float", "double"):
            return difference_in_array(items, self.kind, self.modified)
        if (inner, self.kind) == ("double", "real[]"):
            return f"{items}::double precision[] IS DISTINCT FROM {items}::real[]::double precision[]"
        return None if self.modified == self.kind else f"{items}::{self.kind} IS DISTINCT FROM {items}::{self.modified}"

    def _takes_all(self, given: str) -> bool:
        """Whether a value of that type is the same here, or an error of PostgreSQL's."""
        has_modifier = self.modified != self.kind
        if given != "text" and self.is_text:
            return True
        if _kind(given) == self.kind:
            return not has_modifier or (self.kind == "numeric" and _scale(given) <= _scale(self.modified))
        if given in _INTEGERS:
            return self.kind in _INTEGERS or (self.kind == "numeric" and _scale(self.modified) >= 0) or (given, self.kind) in (
                ("smallint", "real"), ("smallint", "double precision"), ("integer", "double precision"),
            )  # fmt: skip
        return (given, self.kind) == ("real", "double precision") or (
            given in _FLOATS and self.kind == "numeric" and not has_modifier
        )


def _items(name: str) -> str:
    """The items of a list in JSON, as an array of texts."""
    items = (
        f"ARRAY(SELECT item FROM jsonb_array_elements_text({name}::jsonb) WITH ORDINALITY AS items(item, place) ORDER BY place)"
    )
    return f"(CASE WHEN {name} IS NOT NULL THEN {items} END)"


def _kind(type: str) -> str:
    return _LONG.get(type) or type.partition("(")[0]


def _scale(numeric: str) -> int:
    """How many digits stand behind the point; all that there are where the type says none."""
    _, _, arguments = numeric.rstrip(")").partition("(")
    return int(arguments.partition(",")[2] or 0) if arguments else 1 << 14
