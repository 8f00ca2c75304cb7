"""
The shape of a constant: its expression without the numbers and texts.

Constants of one shape are one expression over columns, so that many rows of VALUES are computed as one batch.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from streamkit.data_type import to_arrow
from streamkit.decimals import decimals_of_python
from streamkit.expressions.analysis.analysis import constant
from streamkit.plan.expression import Alias, Call, Cast, Expression, Literal, Reference

COLLECTIONS = ("array", "map")  # whose members become one type if they have several
INT = range(-(2**31), 2**31)
Shape = tuple[Any, ...]


@dataclass(frozen=True)
class ConstantBatch:
    """Constants of one shape: the expression that all of them are, the types of its columns, and a row of values for each constant."""

    expression: Expression
    types: dict[str, str]
    rows: pa.RecordBatch

    @classmethod
    def of(cls, constants: Sequence[Expression]) -> ConstantBatch:
        """The batch of constants that have one shape, which is not None."""
        first = list(_values(constants[0]))
        names = [f"value_{place}" for place in range(len(first))]
        types = {name: constant(value).type for name, value in zip(names, first, strict=True)}
        given = zip(*map(_values, constants), strict=True)
        arrays = [_array(values, type) for values, type in zip(given, types.values(), strict=True)]
        if not names:  # a batch has the rows of its columns
            names, types, arrays = ["unread"], {"unread": "int"}, [pa.array([0] * len(constants), pa.int32())]
        return cls(_template(constants[0], iter(names)), types, pa.record_batch(arrays, names=names))


def shape_of(expression: Expression) -> Shape | None:
    """The shape of a constant; None for one that has to be computed alone."""
    match expression:
        case Literal(None):
            return (None,)
        case Literal(value):
            return _type_of(value)
        case Alias(inner, name):
            inside = shape_of(inner)
            return inside and ("alias", name, inside)
        case Cast(inner, type) if expression.__class__ is Cast:
            inside = shape_of(inner)
            return inside and ("cast", type, inside)
        case Call("struct", arguments):
            fields = tuple(map(shape_of, arguments))
            return None if None in fields else ("struct", *fields)
        case Call(name, arguments) if name in COLLECTIONS and arguments:
            members = tuple(map(shape_of, arguments))
            step = 2 if name == "map" else 1
            is_even = len(members) % step == 0 and all(one == members[place % step] for place, one in enumerate(members))
            return (name, *members) if is_even and None not in members and (None,) not in members else None
    return None


def _type_of(value: Any) -> Shape | None:
    """What decides the type of a number or text."""
    if value.__class__ is int:
        return (int, value in INT)
    if value.__class__ is decimal.Decimal:
        _sign, digits, exponent = value.as_tuple()
        return (decimal.Decimal, len(digits), exponent)
    return (value.__class__,) if value.__class__ in (bool, float, str) else None


def _values(expression: Expression) -> Iterator[Any]:
    """The numbers and texts of a constant that has a shape."""
    match expression:
        case Literal(value):
            if value is not None:
                yield value
        case Alias(inner, _) | Cast(inner, _):
            yield from _values(inner)
        case Call(_, arguments):
            for one in arguments:
                yield from _values(one)


def _template(expression: Expression, names: Iterator[str]) -> Expression:
    """The constant with columns in place of its numbers and texts."""
    match expression:
        case Literal(value) if value is not None:
            return Reference(next(names))
        case Alias(inner, name):
            return Alias(_template(inner, names), name)
        case Cast(inner, type):
            return Cast(_template(inner, names), type)
        case Call(function, arguments):
            return Call(function, tuple(_template(one, names) for one in arguments))
    return expression


def _array(values: Sequence[Any], type: str) -> pa.Array:
    return decimals_of_python(values, to_arrow(type)) if type.startswith("decimal") else pa.array(values, to_arrow(type))
