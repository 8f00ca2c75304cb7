"""Decimals cut off and rounded are those of Python, whatever words of 32 bits their numbers fill."""

from __future__ import annotations

import random
from decimal import ROUND_DOWN, Context, Decimal

import pyarrow as pa
import pytest

from streamkit.decimals import ROUND_OF_ARROW, cut_off, decimals_of_numbers, rounded

PYTHON = Context(prec=160)


def numbers(chance, precision, scale):
    """Numbers near powers of two and ten, with parts behind the point that are near 0, a half and 1."""
    found = []
    for _ in range(60):
        whole = chance.choice((0, 2**32, 2**33, 2**63, 2**64, 2**96, 10 ** chance.randrange(20), 5 * 10 ** chance.randrange(19)))
        half = 5 * 10**scale // 10
        part = chance.choice((0, 1, 10**scale - 1, half, half + 1, half - 1, chance.randrange(10**scale)))
        unscaled = (whole + chance.choice((-1, 0, 1))) * 10**scale + part
        if abs(unscaled) < 10**precision:
            found.append(Decimal(chance.choice((1, -1)) * unscaled).scaleb(-scale, PYTHON))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_rounded(seed):
    """Every mode, to digits behind and before the point; a number that has no more digits comes as it is, by a checked cast too."""
    chance = random.Random(seed)
    precision = chance.choice((38, 38, 30, 20))
    scale = chance.randrange(precision + 1)
    values = numbers(chance, precision, scale)
    given = pa.array(values, pa.decimal128(precision, scale))
    for digits in (0, scale, chance.randrange(scale + 1), chance.randrange(-39, scale + 1)):
        unit = Decimal(1).scaleb(-digits)
        for mode, of_python in ROUND_OF_ARROW.items():
            assert rounded(given, digits, mode).to_pylist() == [one.quantize(unit, of_python, PYTHON) for one in values]
        cut = [one.quantize(unit, ROUND_DOWN, PYTHON) for one in values]
        assert cut_off(given, digits).to_pylist() == cut
        if digits >= 0:
            exact = decimals_of_numbers(pa.array(cut, given.type), pa.decimal128(38, digits))
            assert exact.to_pylist() == cut


def test_a_scalar():
    """A constant is rounded like a column, and null stays null."""
    one = pa.scalar(Decimal("4294967295.999999999999999999"), pa.decimal128(38, 18))
    assert rounded(one, 0, "down").as_py() == 4294967295
    assert rounded(one, -3, "up").as_py() == 4294968000
    assert rounded(pa.scalar(None, one.type), 1, "half_to_even").as_py() is None


def test_digits_that_would_be_lost():
    """A checked cast refuses a number with more digits than the type has, however many go."""
    given = pa.array([Decimal("4294967295.000000000000000001")], pa.decimal128(38, 18))
    with pytest.raises(pa.ArrowInvalid, match="data loss"):
        decimals_of_numbers(given, pa.decimal128(38, 0))
