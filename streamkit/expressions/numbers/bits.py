"""The bits of integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamkit.data_type import INTEGERS
from streamkit.expressions.core.coercion import cast_to
from streamkit.expressions.core.column import Column
from streamkit.expressions.core.numbers import promoted, values_of, with_validity
from streamkit.expressions.core.operation import Datum, Invocation, RuleError, always, fitted, operation, same_as
from streamkit.expressions.core.recording import constant, recorded
from streamkit.plan.expression import TypedExpression

__all__ = [
    "bit_count",
    "bit_get",
    "bitwiseNOT",
    "bitwise_not",
    "getbit",
    "shiftLeft",
    "shiftRight",
    "shiftRightUnsigned",
    "shiftleft",
    "shiftright",
    "shiftrightunsigned",
]


def _bitwise_rule(call: Invocation) -> TypedExpression:
    """Two integers, as the wider of their types."""
    left, right = promoted(call)
    if left.type == right.type == "void":
        left, right = cast_to(left, "int"), cast_to(right, "int")
    if left.type != right.type or left.type not in INTEGERS:
        raise RuleError(f"the operands must be integers; found {call.types[0]} and {call.types[1]}")
    return TypedExpression(call.name, left.type, (left, right))


@operation("bitwise_and", rule=_bitwise_rule)
def _and(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    return pc.bit_wise_and(left, right)


@operation("bitwise_or", rule=_bitwise_rule)
def _or(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    return pc.bit_wise_or(left, right)


@operation("bitwise_xor", rule=_bitwise_rule)
def _xor(_: TypedExpression, left: Datum, right: Datum) -> Datum:
    return pc.bit_wise_xor(left, right)


def bitwise_not(column: Column | str) -> Column:
    """The integer with every bit inverted."""
    return recorded("bitwise_not", column)


bitwiseNOT = bitwise_not


@operation("bitwise_not", takes="integral", gives=same_as(0))
def _not(_: TypedExpression, value: Datum) -> Datum:
    return pc.bit_wise_not(value)


def _shift(shifted: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[[TypedExpression, Datum, Datum], Datum]:
    """The kernel of a shift; of the distance only as many low bits count as tell the bits of the value apart, as in Java."""

    def kernel(expression: TypedExpression, value: Datum, distance: Datum) -> Datum:
        numbers, places = values_of(value), values_of(distance)
        found = shifted(numbers, (places & (numbers.dtype.itemsize * 8 - 1)).astype(numbers.dtype))
        if isinstance(value, pa.Scalar) and isinstance(distance, pa.Scalar):
            return pa.scalar(found[0], value.type)
        return with_validity(found, value.type, pc.and_(pc.is_valid(value), pc.is_valid(distance)))

    return kernel


def _unsigned_right(numbers: np.ndarray, places: np.ndarray) -> np.ndarray:
    unsigned = np.dtype(f"u{numbers.dtype.itemsize}")
    return np.asarray((numbers.view(unsigned) >> places.view(unsigned)).view(numbers.dtype))


def shiftleft(column: Column | str, bits: int) -> Column:
    """The integer with its bits moved to the left."""
    return recorded("shiftleft", column, constant(bits))


shiftLeft = shiftleft


operation("shiftleft", takes="int|bigint, int", gives=same_as(0))(_shift(np.left_shift))


def shiftright(column: Column | str, bits: int) -> Column:
    """The integer with its bits moved to the right; the sign stays."""
    return recorded("shiftright", column, constant(bits))


shiftRight = shiftright


operation("shiftright", takes="int|bigint, int", gives=same_as(0))(_shift(np.right_shift))


def shiftrightunsigned(column: Column | str, bits: int) -> Column:
    """The integer with its bits moved to the right; zeros fill the left."""
    return recorded("shiftrightunsigned", column, constant(bits))


shiftRightUnsigned = shiftrightunsigned


operation("shiftrightunsigned", takes="int|bigint, int", gives=same_as(0))(_shift(_unsigned_right))


def _count_rule(call: Invocation) -> TypedExpression:
    (value,) = fitted(call, "=integral|boolean")
    return TypedExpression("bit_count", "int", (call.cast(value, "bigint") if value.type != "bigint" else value,))


def bit_count(column: Column | str) -> Column:
    """How many bits are set."""
    return recorded("bit_count", column)


@operation("bit_count", rule=_count_rule)
def _count(_: TypedExpression, value: Datum) -> Datum:
    """How many bits are set; of a negative number all 64 count."""
    found = np.bitwise_count(values_of(value).view(np.uint64)).astype(np.int32)
    if isinstance(value, pa.Scalar):
        return pa.scalar(int(found[0]), pa.int32())
    return with_validity(found, pa.int32(), value.is_valid())


def getbit(column: Column | str, place: Column | str | int) -> Column:
    """The bit at a position, counted from 0 at the right."""
    return recorded("getbit", column, place)


bit_get = getbit


@operation("getbit", takes="integral, int", gives="tinyint", functions=("bit_get",), fails=always)
def _getbit(expression: TypedExpression, value: Datum, place: Datum) -> Datum:
    """The bit at a place, from the right; a place beyond the bits of the value raises."""
    numbers, places = np.broadcast_arrays(values_of(value), values_of(place))
    valid = pc.and_(pc.is_valid(value), pc.is_valid(place))
    bits = numbers.dtype.itemsize * 8
    outside = pa.array((places < 0) | (places >= bits))
    if pc.any(pc.and_(valid, outside if isinstance(valid, pa.Array) else outside[0])).as_py():
        raise pa.ArrowInvalid(f"a bit's place must be 0 to {bits - 1}")
    found = ((numbers >> np.clip(places, 0, bits - 1).astype(numbers.dtype)) & 1).astype(np.int8)
    if isinstance(value, pa.Scalar) and isinstance(place, pa.Scalar):
        return pa.scalar(int(found[0]), pa.int8())
    return with_validity(found, pa.int8(), valid)
