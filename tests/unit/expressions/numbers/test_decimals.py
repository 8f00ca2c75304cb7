"""Decimals are divided and rounded exactly, also by numbers of more than one word, at which Arrow's own division is wrong."""

from __future__ import annotations

import decimal
import operator as operations
import random
from decimal import Decimal

import pytest

from tests.kit.sampling import TAKES_ALL
from tests.unit.expressions.values import values_of

CHANCE = random.Random(8)
COUNT = 20_000 if TAKES_ALL else 2_000
MODES = {
    "round": decimal.ROUND_HALF_UP, "bround": decimal.ROUND_HALF_EVEN, "ceil": decimal.ROUND_CEILING, "floor": decimal.ROUND_FLOOR,
}  # fmt: skip


def number(digits: int, scale: int) -> Decimal:
    """A decimal of at most so many digits: nines, a digit and zeros, beside a power of two, or any."""
    kinds = (
        10**digits - CHANCE.randint(1, 100), CHANCE.randint(1, 9) * 10 ** (digits - 1), 2 ** CHANCE.randint(1, 100) - CHANCE.randint(0, 2),
        CHANCE.randrange(10**digits),
    )  # fmt: skip
    return Decimal((CHANCE.randint(0, 1), tuple(map(int, str(CHANCE.choice(kinds) % 10**digits))), -scale))


@pytest.mark.parametrize(("left", "right"), [((31, 0), (27, 27)), ((37, 3), (28, 0)), ((18, 2), (12, 2)), ((38, 18), (38, 0))])
def test_quotients_are_exact(left, right):
    """A quotient is Python's, rounded half up."""
    dividends, divisors = ([number(p, s) for _ in range(COUNT)] for p, s in (left, right))
    dividends[0], divisors[0] = (
        Decimal(2**81).scaleb(-left[1]) % 10 ** (left[0] - left[1]),
        Decimal(5).scaleb(right[0] - 1 - right[1]),
    )
    found = values_of("try_divide(a, b)", f"a decimal{left}, b decimal{right}", [dividends, divisors])
    (scale,) = {-one.as_tuple().exponent for one in found if isinstance(one, Decimal)}  # type: ignore[operator]
    with decimal.localcontext(prec=200):
        unit = Decimal(1).scaleb(-scale)
        wanted = [a and (a / b).quantize(unit, decimal.ROUND_HALF_UP) if b else None for a, b in zip(dividends, divisors)]
    fitting = [(one, other) for one, other in zip(found, wanted) if other is None or len(other.as_tuple().digits) <= 38]
    assert len(fitting) > COUNT // 4
    assert [one for one, _ in fitting] == [other for _, other in fitting]


@pytest.mark.parametrize("operator", ["+", "-", "*"])
@pytest.mark.parametrize(
    ("left", "right"), [((35, 14), (30, 30)), ((38, 37), (38, 37)), ((38, 38), (38, 0)), ((10, 10), (30, 2)), ((1, 1), (37, 37))]
)
def test_sums_and_products_are_exact(operator, left, right):
    """A sum or product is Python's, rounded half up once; null if it does not fit."""
    ones, others = ([number(p, s) for _ in range(COUNT)] for p, s in (left, right))
    name, compute = {
        "+": ("try_add", operations.add),
        "-": ("try_subtract", operations.sub),
        "*": ("try_multiply", operations.mul),
    }[operator]
    found = values_of(f"{name}(a, b)", f"a decimal{left}, b decimal{right}", [ones, others])
    (scale,) = {-one.as_tuple().exponent for one in found if isinstance(one, Decimal)}  # type: ignore[operator]
    with decimal.localcontext(prec=200):
        wanted = [compute(*both).quantize(Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP) for both in zip(ones, others)]
    assert found == [one if len(one.as_tuple().digits) <= 38 else None for one in wanted]


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("places", [-25, -3, 0, 2, 19])
def test_decimals_are_rounded_exactly(name, places):
    """Rounding by any number of digits is Python's."""
    numbers = [number(36, 33) for _ in range(COUNT)]
    ties = [number(places + 2, places + 1) for _ in range(COUNT)] if places > 0 else []
    numbers += [one + Decimal((sign, (1,), -33)) for one in ties for sign in (0, 1)] + ties
    found = values_of(f"{name}(n, {places})", "n decimal(36,33)", [numbers])
    with decimal.localcontext(prec=200):
        assert found == [one.quantize(Decimal(1).scaleb(-places), MODES[name]) for one in numbers]


def test_casts_cut_off_exactly():
    """A cast to an integer, or a time, cuts off the digits behind the point."""
    numbers = [number(30, 18) for _ in range(COUNT)]
    with decimal.localcontext(prec=200):
        micros = [int(one * 10**6) for one in numbers]
    assert values_of("CAST(n AS BIGINT)", "n decimal(30,18)", [numbers]) == [int(one) for one in numbers]
    assert values_of("unix_micros(CAST(n AS TIMESTAMP))", "n decimal(30,18)", [numbers]) == micros
