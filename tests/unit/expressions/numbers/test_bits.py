"""Bits: shifts take the number of places modulo the width, and a negative number is two's complement."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.sampling import examples
from tests.unit.expressions.values import values_of

LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)


def signed(number: int, bits: int) -> int:
    """The number of these bits."""
    low = number % (1 << bits)
    return low - (1 << bits) if low >> (bits - 1) else low


@examples(60)
@given(st.lists(st.tuples(LONGS, LONGS), min_size=1, max_size=10))
def test_operators_on_longs(pairs):
    """and, or, exclusive or and not are Python's; bit_count counts the ones of 64 bits."""
    columns = [[one for one, _ in pairs], [other for _, other in pairs]]
    schema = "a bigint, b bigint"
    assert values_of("a & b", schema, columns) == [one & other for one, other in pairs]
    assert values_of("a | b", schema, columns) == [one | other for one, other in pairs]
    assert values_of("a ^ b", schema, columns) == [one ^ other for one, other in pairs]
    assert values_of("~a", schema, columns) == [~one for one, _ in pairs]
    assert values_of("bit_count(a)", schema, columns) == [(one % 2**64).bit_count() for one, _ in pairs]


@examples(60)
@given(st.lists(st.tuples(INTS, st.integers(-40, 100)), min_size=1, max_size=10))
def test_shifts(pairs):
    """Of an int by n places is by n modulo 32; what falls out is lost, the unsigned shift fills up with zeros."""
    columns = [[one for one, _ in pairs], [places for _, places in pairs]]
    schema = "a int, n int"
    assert values_of("shiftleft(a, n)", schema, columns) == [signed(one << places % 32, 32) for one, places in pairs]
    assert values_of("shiftright(a, n)", schema, columns) == [one >> places % 32 for one, places in pairs]
    unsigned = [signed((one % 2**32) >> places % 32, 32) for one, places in pairs]
    assert values_of("shiftrightunsigned(a, n)", schema, columns) == unsigned


def test_nulls_and_single_bits():
    """Null stays null; bit_get reads one bit, counted from the lowest."""
    assert values_of("a & 6", "a int", [[5, None]]) == [4, None]
    assert values_of("bit_get(a, 2)", "a int", [[4, 3, None, -1]]) == [1, 0, None, 1]
