"""Arrays, maps and structs by their brackets: how they are made, and the way into them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streamkit.data_type import element_of, entry_of, fields_of, has_map, map_of, to_arrow
from streamkit.expressions.core.elements import (
    Elements,
    as_numbers,
    interleaved,
    on_columns,
    structs_of,
    validity,
)
from streamkit.expressions.core.failing_rows import check_rows
from streamkit.expressions.core.operation import (
    Invocation,
    RuleError,
    always,
    always_nullable,
    counted,
    never_null,
    operation,
)
from streamkit.expressions.ksql.java_maps import buckets_of, in_buckets, latest_entries
from streamkit.expressions.ksql.operators import as_type, listed_as_one_type, operator
from streamkit.expressions.ksql.signature import ksql_type, wider
from streamkit.expressions.nested.arrays import picked
from streamkit.names import meant
from streamkit.plan.expression import TypedExpression
from streamkit.recast import recast


@operator("get_field")
def _field_rule(call: Invocation) -> TypedExpression:
    """The field of a struct."""
    value, name = counted(call, 2)
    fields = fields_of(value.type)
    if fields is None:
        raise RuleError(f"-> takes a STRUCT; found {ksql_type(value.type)}")
    if str(name.value) not in dict(fields):
        names = [field for field, _ in fields]
        raise RuleError(f"the struct has no field {name.value}{meant(str(name.value), names)}; its fields are {', '.join(names)}")
    return call.of("get_field", value, name)


@operator("get_item")
def _item_rule(call: Invocation) -> TypedExpression:
    """An element by its place from 1, or from the end below 0; the value of a key. Null if there is none."""
    value, key = counted(call, 2)
    if element := element_of(value.type):
        if key.type not in ("int", "bigint", "void"):
            raise RuleError(f"[] takes an INTEGER as the place in an array; found {ksql_type(key.type)}")
        return TypedExpression("ksql_element", element, (value, as_type(call, key, "int")))
    if entry := entry_of(value.type):
        if wider(entry[0], key.type) != entry[0]:
            raise RuleError(f"[] takes a key of the map, {ksql_type(entry[0])}; found {ksql_type(key.type)}")
        return call.of("element_at", value, as_type(call, key, entry[0]))
    raise RuleError(f"[] takes an ARRAY or a MAP; found {ksql_type(value.type)}")


@operation(
    "ksql_element",
    strict=False,
    fails=lambda expression: expression.arguments[1].name != "literal" or expression.arguments[1].value is None,
    nullable=always_nullable,
    looks_in_order=(0, 1),
)
@on_columns
def _element(_: TypedExpression, values: pa.Array, index: pa.Array) -> pa.Array:
    """Of a null array nobody looks at the place; of another one a null place fails."""
    elements = Elements.of(values)
    check_rows(elements.valid & ~validity(index), "the place in an array is null")
    numbers = as_numbers(index)
    places = np.where(numbers > 0, numbers - 1, numbers + elements.lengths)
    inside = (places >= 0) & (places < elements.lengths) & validity(index) & (numbers != 0)
    return picked(elements, np.where(inside, places, 0), inside)


@operator("array")
def _array_rule(call: Invocation) -> TypedExpression:
    if not call.arguments:
        raise RuleError(
            "ARRAY[] has no elements, so its type is not known; expected at least one, as in ARRAY[CAST(NULL AS INT)]"
        )
    _check_not_all_null("ARRAY[…]", "elements", "ARRAY[CAST(NULL AS INT)]", call.values)
    return call.of("array", *listed_as_one_type(call, call.values))


def _check_not_all_null(what: str, parts: str, example: str, values: Sequence[TypedExpression]) -> None:
    """RuleError if all values are NULL, since then their type is not known."""
    if all(value.type == "void" for value in values):
        raise RuleError(f"the {parts} of {what} are all NULL, so their type is not known; expected a CAST, as in {example}")


@operator("map")
def _map_rule(call: Invocation) -> TypedExpression:
    values = call.values
    if not values:
        raise RuleError("MAP() has no entries, so its type is not known; expected at least one, as in MAP('a' := 1)")
    keys, items = (listed_as_one_type(call, values[start::2]) for start in (0, 1))
    if has_map(keys[0].type) or keys[0].type == "void":
        raise RuleError(f"the keys of MAP are {ksql_type(keys[0].type)}; expected keys that are no maps and not null")
    _check_not_all_null("MAP(…)", "values", "MAP('a' := CAST(NULL AS INT))", items)
    pairs = tuple(part for pair in zip(keys, items) for part in pair)
    return TypedExpression("ksql_map", map_of(keys[0].type, items[0].type), pairs)


@operation("ksql_map", strict=False, fails=always, nullable=never_null)
@on_columns
def _map(expression: TypedExpression, *values: pa.Array) -> pa.Array:
    """Of entries with one key the last one stays; a null key fails. Java makes the map for as many entries as are written."""
    key, item = (to_arrow(type) for type in entry_of(expression.type) or ("void", "void"))
    keys = interleaved([recast(value, key) for value in values[0::2]])
    items = interleaved([recast(value, item) for value in values[1::2]])
    found = latest_entries(keys.with_values(structs_of([("key", keys.values), ("value", items.values)])))
    return in_buckets(found, buckets_of(found.lengths, len(values) // 2)).as_maps()
