"""Rounding is that of decimal numbers: half up for round, half to even for bround, of the digits that a double shows."""

from __future__ import annotations

import decimal
from decimal import Decimal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from streamkit.errors import EvaluationError
from tests.kit.sampling import examples
from tests.unit.expressions.values import value_of, values_of

MODES = {"round": decimal.ROUND_HALF_UP, "bround": decimal.ROUND_HALF_EVEN}


def rounded(number: float, places: int, mode: str) -> float:
    with decimal.localcontext(prec=700):
        return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), mode))


@examples(200)
@given(
    st.lists(st.floats(-1e18, 1e18) | st.integers(-10_000, 10_000).map(lambda n: n / 8), min_size=1, max_size=20),
    st.integers(-4, 10),
)
@example([0.125, 2.5, 3.5, -2.5, 1.005, 2.675, 1.115], 2)
@example([2.5, 3.5, -0.5, 0.5, 1.5], 0)
def test_doubles_round_as_decimals(numbers, places):
    """Round and bround of any doubles give what decimal arithmetic on their shortest texts gives."""
    assume(all(number == 0 or abs(number) > 1e-300 for number in numbers))
    for name, mode in MODES.items():
        found = values_of(f"{name}(n, {places})", "n double", [numbers])
        assert found == [rounded(number, places, mode) for number in numbers]


@examples(80)
@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20), st.integers(-9, -1))
def test_integers_round_to_tens(numbers, places):
    """A negative number of places rounds integers to tens, hundreds and so on."""
    for name, mode in MODES.items():
        found = values_of(f"{name}(n, {places})", "n bigint", [numbers])
        assert found == [int(Decimal(number).quantize(Decimal(1).scaleb(-places), mode)) for number in numbers]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("round(2.5)", Decimal(3)),
        ("bround(2.5)", Decimal(2)),
        ("round(-2.5)", Decimal(-3)),
        ("round(1.245, 2)", Decimal("1.25")),
        ("bround(1.245, 2)", Decimal("1.24")),
        ("ceil(1.1D)", 2),
        ("floor(-1.1D)", -2),
        ("ceil(1.21, 1)", Decimal("1.3")),
        ("round(CAST('NaN' AS DOUBLE)) = CAST('NaN' AS DOUBLE)", True),
        ("round(CAST(NULL AS DOUBLE), 1)", None),
    ],
)
def test_constants(text, value):
    """Ties, signs, NaN and null."""
    assert value_of(text) == value


def test_rounding_up_out_of_the_type_fails():
    """An integer that its type cannot hold any more is an error, not another number."""
    with pytest.raises(EvaluationError):
        values_of("round(n, -1)", "n int", [[2**31 - 1]])
