"""Structs: their making, and the way into values that hold others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.conditionals import if_else
from streamkit.data_type import array_of, element_of, entry_of, fields_of, struct_of, to_arrow
from streamkit.errors import SchemaError
from streamkit.expressions.core.coercion import implicit_type
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.elements import Elements, on_columns, structs_of, validity
from streamkit.expressions.core.literals import literal
from streamkit.expressions.core.operation import Invocation, RuleError, always_nullable, counted, function, never_null, operation
from streamkit.expressions.core.recording import ColumnArguments, listed, recorded
from streamkit.expressions.core.spark_text import quoted, spark_text, text_of, unseen
from streamkit.expressions.nested.arrays import with_integer
from streamkit.names import meant, spellings
from streamkit.plan.expression import Expression, TypedExpression
from streamkit.recast import recast

__all__ = ["named_struct", "struct"]


def _struct_rule(call: Invocation) -> TypedExpression:
    values = call.values
    if not values or len(values) % 2:
        raise RuleError(f"{call.name}() takes names and values in turn; found {len(values)} arguments")
    for place, name in enumerate(values[0::2]):
        if name.name != "literal" or name.type != "string" or name.value is None:
            raise RuleError(f"named_struct() takes a constant text as argument {2 * place + 1}; found {name.type}")
    return TypedExpression("struct", _struct_type([str(name.value) for name in values[0::2]], values[1::2]), values[1::2])


def _struct_type(names: list[str], values: tuple[TypedExpression, ...]) -> str:
    try:
        return struct_of(zip(names, (value.type for value in values)))
    except SchemaError as error:
        raise RuleError(str(error)) from None


def named_struct(*columns: Column | str) -> Column:
    """A struct from names, which are constants, and values in turn."""
    return recorded("named_struct", *columns)


function("named_struct")(_struct_rule)


def struct(*columns: ColumnArguments) -> Column:
    """A struct of the values, with the names of the columns; other values are named col1, col2 … by their position."""
    return recorded("struct", *listed(columns))


@operation("struct", strict=False, nullable=never_null)
@on_columns
def _struct(expression: TypedExpression, *values: pa.Array) -> pa.Array:
    return structs_of([(field.name, recast(value, field.type)) for field, value in zip(to_arrow(expression.type), values)])


def place_of(type: str, name: str) -> int:
    """The place of a struct's field of that name, else in any case; RuleError if there is none, or several differ in case only."""
    names = [field for field, _ in fields_of(type) or ()]
    found = spellings(name, names)
    if not found:
        raise RuleError(f"{type} has no field {name!r}{meant(name, names)}; its fields are {', '.join(names)}")
    if len(found) > 1:
        raise RuleError(
            f"{name!r} may be any of the fields {', '.join(found)} of {type}, which differ in case only; expected one of these spellings"
        )
    return names.index(found[0])


@function("get_field")
def _field_rule(call: Invocation) -> TypedExpression:
    """A field of a struct, of each struct of an array, or the value that a map has for the name."""
    value, name = counted(call, 2)
    if fields := fields_of(value.type):
        place = place_of(value.type, str(name.value))
        return TypedExpression("field", fields[place][1], (value,), fields[place][0])
    element = element_of(value.type)
    if element and (fields := fields_of(element)):
        place = place_of(element, str(name.value))
        return TypedExpression("array_field", array_of(fields[place][1]), (value,), fields[place][0])
    if entry_of(value.type):
        return call.of("get_item", value, name)
    raise RuleError(f"{value.type} has no fields; found {name.value!r} after it")


@spark_text("get_field")
def _field_text(arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"{texts[0]}.{quoted(text_of(arguments[1]))}" if len(texts) == 2 else None


@function("get_item")
def _item_rule(call: Invocation) -> TypedExpression:
    """An element by its index from 0, the value of a key, or a field by its name."""
    value, key = counted(call, 2)
    if element := element_of(value.type):
        if key.name == "literal" and key.type == "string" and fields_of(element):
            return call.of("get_field", value, key)
        return TypedExpression("array_item", element, (value, with_integer(call, 1)))
    if entry := entry_of(value.type):
        type = implicit_type(key.type, entry[0])
        if type is None:
            raise RuleError(f"[] takes a key of the map, which is {entry[0]}; found {key.type}")
        return call.of("map_item", value, call.cast(key, type))
    if fields_of(value.type) and key.name == "literal" and key.type == "string":
        return call.of("get_field", value, key)
    raise RuleError(f"[] takes an element of an array or the value of a key of a map; found {value.type} and {key.type}")


@spark_text("get_item")
def _item_text(_arguments: Sequence[Expression], texts: Sequence[str]) -> str | None:
    return f"{texts[0]}[{texts[1]}]" if len(texts) == 2 else None


def _index(expression: TypedExpression, type: str) -> int:
    return place_of(type, str(expression.value))


@operation("field", nullable=always_nullable)
@on_columns
def _field(expression: TypedExpression, values: pa.Array) -> pa.Array:
    return pc.struct_field(values, [_index(expression, expression.arguments[0].type)])


@operation("array_field")
@on_columns
def _array_field(expression: TypedExpression, values: pa.Array) -> pa.Array:
    elements = Elements.of(values)
    place = _index(expression, element_of(expression.arguments[0].type) or "")
    return elements.with_values(pc.struct_field(elements.values, [place])).as_arrays()


@function("with_field")
def _with_field_rule(call: Invocation) -> TypedExpression:
    """A struct with one field more, or another value for a field that it has."""
    struct, name, value = counted(call, 3)
    fields = fields_of(struct.type)
    if fields is None:
        raise RuleError(f"withField() takes a struct; found {struct.type}")
    wanted = str(name.value)
    parts = {field: call.of("get_field", struct, literal(field, "string")) for field, _ in fields}
    known = next(iter(spellings(wanted, parts)), None)
    if known is not None:
        parts = {wanted if field == known else field: value if field == known else part for field, part in parts.items()}
    else:
        parts[wanted] = value
    return _rebuilt(call, struct, parts)


@function("drop_fields")
def _drop_fields_rule(call: Invocation) -> TypedExpression:
    """A struct without some of its fields."""
    if not call.values:
        raise RuleError("dropFields() takes a struct and the names of fields; found nothing")
    struct, *names = call.values
    fields = fields_of(struct.type)
    if fields is None:
        raise RuleError(f"dropFields() takes a struct; found {struct.type}")
    unwanted = {field for name in names for field in spellings(str(name.value), (field for field, _ in fields))}
    parts = {field: call.of("get_field", struct, literal(field, "string")) for field, _ in fields if field not in unwanted}
    if not parts:
        raise RuleError("dropFields() would drop all fields; expected at least one to stay")
    return _rebuilt(call, struct, parts)


spark_text("with_field", "drop_fields")(unseen)  # methods of a column


def _rebuilt(call: Invocation, struct: TypedExpression, parts: dict[str, TypedExpression]) -> TypedExpression:
    values = tuple(parts.values())
    rebuilt = call.build(TypedExpression("struct", _struct_type(list(parts), values), values))
    return TypedExpression("where_valid", rebuilt.type, (rebuilt, struct))


@operation("where_valid", strict=False, nullable=lambda _, nullable: nullable[1])
@on_columns
def _where_valid(_: TypedExpression, values: pa.Array, condition: pa.Array) -> pa.Array:
    """The values, null where the other is."""
    valid = validity(condition)
    return values if np.all(valid) else if_else(pa.array(valid), values, pa.scalar(None, values.type))
