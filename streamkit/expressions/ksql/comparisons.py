"""Comparisons, which are never null: a comparison with null is false."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import has_map, is_nested
from streamkit.expressions.core.elements import (
    Elements,
    booleans,
    structs_of,
    validity,
)
from streamkit.expressions.core.operation import (
    Datum,
    Invocation,
    counted,
    never_null,
    operation,
)
from streamkit.expressions.core.ordering import groups
from streamkit.expressions.core.rows import broadcast
from streamkit.expressions.ksql.operators import apart, as_type, operator
from streamkit.expressions.ksql.signature import DIGITS_MAX, needs_more_digits, wider
from streamkit.plan.expression import TypedExpression
from streamkit.plan.expression_text import OF_KSQL

_TIMES = ("date", "timestamp", "time")
EVERY_DECIMAL = pa.decimal256(2 * DIGITS_MAX, DIGITS_MAX)  # holds the values of all decimals and integers

COMPARISONS: dict[str, Callable[[Datum, Datum], Datum]] = {
    "eq": pc.equal, "ne": pc.not_equal, "lt": pc.less, "le": pc.less_equal, "gt": pc.greater, "ge": pc.greater_equal,
}  # fmt: skip


def _compared(call: Invocation) -> tuple[TypedExpression, TypedExpression]:
    """Two values that can be compared, as one type. Decimals that no type holds both stay as they are."""
    left, right = counted(call, 2)
    if "void" in (left.type, right.type):
        raise apart(call, left, right, "nothing is compared with NULL; expected IS NULL or IS NOT NULL")
    if needs_more_digits((left.type, right.type)):
        return left, right
    common = _compared_type(left.type, right.type)
    if common is None:
        raise apart(call, left, right)
    return _as_compared(call, left, right, common), _as_compared(call, right, left, common)


def _compared_type(left: str, right: str) -> str | None:
    """The type as which values of two types are compared: a text beside a time is a time. None if they cannot be."""
    if (common := wider(left, right)) is not None:
        return common
    for one, other in ((left, right), (right, left)):
        if one == "string" and other in _TIMES:
            return other
    return "timestamp" if {left, right} == {"date", "timestamp"} else None


def _as_compared(call: Invocation, value: TypedExpression, other: TypedExpression, type: str) -> TypedExpression:
    """A value as the type of a comparison; beside a null nobody reads a text, so one that is no time fails where the other is there alone."""
    found = as_type(call, value, type)
    if value.type != "string" or type == "string" or "literal" in (value.name, other.name):
        return found
    return call.of("when", call.of("isnotnull", other), found)


def _comparison(name: str) -> None:
    def rule(call: Invocation) -> TypedExpression:
        left, right = _compared(call)
        if name not in ("eq", "ne") and (is_nested(left.type) or left.type == "boolean"):
            raise apart(call, left, right, "they have no order")
        return TypedExpression(OF_KSQL + name, "boolean", (left, right))

    def compute(expression: TypedExpression, left: Datum, right: Datum) -> Datum:
        """False where one side is null."""
        one, other = expression.arguments
        if one.type != other.type:
            left, right = left.cast(EVERY_DECIMAL), right.cast(EVERY_DECIMAL)
        found = same_values(left, right, name == "ne") if pa.types.is_nested(left.type) else COMPARISONS[name](left, right)
        return pc.fill_null(found, False)

    operator(name)(rule)
    operation(OF_KSQL + name, strict=False, nullable=never_null)(compute)


for _name in COMPARISONS:
    _comparison(_name)


def same_values(left: Datum, right: Datum, is_inverted: bool = False) -> Datum:
    """Where arrays, maps or structs are equal, or where they are not; null where one of them is."""
    counts = [len(one) for one in (left, right) if isinstance(one, pa.Array)]
    one, other = (without_maps(broadcast(side, counts[0] if counts else 1)) for side in (left, right))
    mine, theirs = np.split(groups(pa.concat_arrays([one, other])), 2)
    found = booleans((mine != theirs) if is_inverted else (mine == theirs), validity(one) & validity(other))
    return found if counts else found[0]


def without_maps(values: pa.Array) -> pa.Array:
    """Values with their maps, at any depth, as arrays of entries in the order of the keys."""
    if pa.types.is_map(values.type):
        elements = Elements.of(values)
        keys, items = without_maps(elements.keys), without_maps(elements.items)
        order = pa.array(np.lexsort((groups(keys), elements.parents)))
        entries = structs_of([("key", keys.take(order)), ("value", items.take(order))])
        return elements.with_values(entries).as_arrays()
    if pa.types.is_list(values.type):
        elements = Elements.of(values)
        return elements.with_values(without_maps(elements.values)).as_arrays()
    if pa.types.is_struct(values.type):
        parts = [(field.name, without_maps(pc.struct_field(values, [place]))) for place, field in enumerate(values.type)]
        return structs_of(parts, validity(values))
    return values


@operator("eq_null_safe")
def _same_rule(call: Invocation) -> TypedExpression:
    """Null is equal to null and nothing else."""
    left, right = _compared(call)
    if left.type == right.type and not has_map(left.type) and (left, right) == call.values:
        return call.of("eq_null_safe", left, right)
    are_null = call.of("and", *(call.of("isnull", one) for one in call.values))
    return call.of("or", are_null, call.of("ksql_eq", *call.values))
