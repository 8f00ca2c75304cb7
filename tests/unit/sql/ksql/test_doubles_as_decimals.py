"""A double as a decimal is its exact number, rounded half up to as many digits as the type has, then to its scale, as Java does it."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamkit.expressions.core.failing_rows import FailingRowsError
from streamkit.expressions.ksql.casts import convert
from tests.kit.sampling import examples

NUMBERS = st.one_of(
    st.floats(-1e6, 1e6),
    st.integers(-(10**6), 10**6).map(lambda number: number / 1000),
    st.integers(0, 999).map(lambda number: number + 0.495),
    st.integers(-(2**70), 2**70).map(float),
    st.floats(allow_nan=False, allow_infinity=False),
)
TYPES = st.integers(1, 38).flatmap(lambda precision: st.tuples(st.just(precision), st.integers(0, precision)))


def half_up(number: Fraction, scale: int) -> Fraction:
    unit = Fraction(10) ** -scale
    return math.floor(abs(number) / unit + Fraction(1, 2)) * unit * (1 if number >= 0 else -1)


def expected(number: float, precision: int, scale: int) -> Fraction | None:
    """What Java makes of it; None if that does not fit."""
    exact = Fraction(number)
    if exact:
        digits_before = math.floor(math.log10(abs(exact))) + 1 if abs(exact) < 10**300 else 301
        while abs(exact) >= Fraction(10) ** digits_before:
            digits_before += 1
        while abs(exact) < Fraction(10) ** (digits_before - 1):
            digits_before -= 1
        exact = half_up(exact, precision - digits_before)
    found = half_up(exact, scale)
    return found if abs(found) < Fraction(10) ** (precision - scale) else None


@examples(600)
@given(st.lists(NUMBERS, min_size=1, max_size=4), TYPES)
@example([1.005, 0.1], (3, 2))
@example([0.449, 0.4449, -0.45], (2, 1))
@example([0.0, -0.0, 5e-324], (38, 38))
@example([1e308, 1.5], (10, 2))
@pytest.mark.filterwarnings("error::RuntimeWarning")  # those of numpy, and not of garbage of the tests before
def test_a_cast_is_that_of_java(numbers: list[float], digits: tuple[int, int]) -> None:
    """One by one and side by side; a number that does not fit fails in its row alone, and numpy has nothing to say of it."""
    type = "decimal({},{})".format(*digits)
    wanted = [expected(number, *digits) for number in numbers]
    try:
        found = convert(pa.array(numbers), "double", type).to_pylist()
    except FailingRowsError as error:
        assert [one is None for one in wanted] == pa.array(error.rows).to_pylist()
        return
    assert None not in wanted
    assert [Fraction(one) for one in found] == wanted
    assert all(isinstance(one, Decimal) and one.as_tuple().exponent == -digits[1] for one in found)
